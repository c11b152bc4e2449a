"""Values of ``calibration:`` in their places: over what other files say of a part, under what the chip itself says."""

from __future__ import annotations

from functools import reduce
from typing import Any

from accelsim.spec.yaml import where
from accelsim.spec.yaml.overrides import find
from accelsim.spec.yaml.shape import item
from accelsim.spec.yaml.tree import PathTo, Tree


def put(tree: Tree, model: type[Any]) -> None:
    """Give each field that the calibration of a chip's ``tree`` names its value, in place of a default or of what a
    file of a part states (the memory of any board). What a file of the chip or its user states stays.

    A name of no field is left to the law that knows the constants.
    """
    values = reduce(item, ("calibration", "values"), tree.value)
    for name, text in values.items() if isinstance(values, dict) else ():
        path, _, problem = find(tree.value, model, name)
        block = reduce(item, path[:-1], tree.value)
        if problem is None and path[1:] and isinstance(block, dict) and not _stated(tree, path):
            block[path[-1]] = text
            tree.keys[path] = tree.values[path] = tree.at(("calibration", "values", name))


def _stated(tree: Tree, path: PathTo) -> bool:
    """Whether a file of the chip, or an override, says what stands at ``path``."""
    mark = tree.values.get(path)
    if mark is None:
        return False
    own = {key.file for at, key in tree.keys.items() if len(at) == 1}
    return mark.file in own or not mark.file.endswith(where.SUFFIXES)
