"""Clusters by name, with a number before it or not: ``load_cluster("16x-dgx-a100")``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import Problem, SpecError, brief, nearest
from accelsim.spec.cluster import ClusterSpec, Devices, Node
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import kind_of, load_chip, read_part

FOLDER = "clusters"
COUNTED = re.compile(r"([1-9]\d{0,6})x-(.+)")
"""A number before a name: '16x-dgx-a100'."""


class Named(NamedTuple):
    """What a name means: the file, and how many of what it counts are asked for, or None."""

    file: Path
    many: int | None


def clusters() -> list[str]:
    """Names of all clusters, sorted."""
    return list(where.names(FOLDER))


def is_cluster(name: str | Path) -> bool:
    """Whether a name (with a number before it or not) or the path of a YAML file is that of a cluster."""
    text = str(name)
    if _is_path(text):
        file = where.find(str(Path(text).absolute()))
        return file is not None and kind_of(file) == FOLDER
    return _named(text) is not None


def load_cluster(name_or_path: str | Path, overrides: Sequence[str] = ()) -> ClusterSpec:
    """The cluster of a name ('dgx-a100', '16x-dgx-a100') or YAML file, with ``path.to.field=value`` overrides.

    A number before the name is that of its nodes, or of its devices where ``counts`` says so (a torus then gets
    dimensions to match); of a name that begins with a number ('4x-edu') another number takes its place. ``nodes=16``
    is the number of the only kind of nodes. Raises SpecError with all problems at once, with file, line and column.
    """
    named = resolve_cluster(name_or_path)
    asked = [] if named.many is None else list(_counted(named.file, named.many))
    made, problems = read_part(named.file, ClusterSpec, [*asked, *overrides])
    if problems or made is None:
        raise SpecError(problems)
    return made if named.many is None else made.model_copy(update={"name": str(name_or_path)})


def load_devices(name_or_path: str | Path, overrides: Sequence[str] = ()) -> ClusterSpec:
    """The cluster of a name; of a chip's name or file a cluster that is this one device, with overrides of the chip.

    Raises SpecError as ``load_cluster`` and ``load_chip``.
    """
    if is_cluster(name_or_path):
        return load_cluster(name_or_path, overrides)
    if not _is_path(text := str(name_or_path)) and not _is_chip(text):
        both = [*clusters(), *where.names("chips")]
        expected = "a cluster (see 'accelsim clusters') or a chip (see 'accelsim chips')"
        raise SpecError(Problem(f"no cluster or chip {brief(text)}", "", expected, nearest(text, both)))
    chip = load_chip(name_or_path, overrides)
    one = Devices(chip=str(where.resolve(name_or_path)), settings=list(overrides))
    return ClusterSpec(
        name=chip.name, title=chip.title, nodes={"node": Node(devices={"chip": one})},
        source=chip.source, as_of=chip.as_of,
    )  # fmt: skip


def _is_chip(name: str) -> bool:
    try:
        where.resolve(name)
    except SpecError:
        return False
    return True


def resolve_cluster(name_or_path: str | Path) -> Named:
    """The file of a cluster and the number that is asked for; SpecError with the nearest name when there is none."""
    text = str(name_or_path)
    if _is_path(text):
        file = where.find(str(Path(text).absolute()))
        if file is None:
            raise SpecError(
                Problem(f"no spec file {brief(text)}", expected="a cluster's name or the path of a YAML file")
            )
        return Named(file, None)
    named = _named(text)
    if named is None:
        known = clusters()
        expected = f"one of {', '.join(known)}, with a number before it ('16x-dgx-a100') or without"
        raise SpecError(Problem(f"no cluster {brief(text)}", "", expected, nearest(text, known)))
    return named


def _is_path(text: str) -> bool:
    return Path(text).suffix in where.SUFFIXES or os.sep in text


def _named(text: str) -> Named | None:
    """A name as it is, or behind a number; or None."""
    known = where.names(FOLDER)
    if text in known:
        return Named(known[text], None)
    found = COUNTED.fullmatch(text)
    if found is None:
        return None
    count, name = int(found[1]), found[2]
    if name in known:
        return Named(known[name], count)
    alike = [each for each in known if (begun := COUNTED.fullmatch(each)) and begun[2] == name]
    return Named(known[alike[0]], count) if len(alike) == 1 else None


def _counted(file: Path, count: int) -> Iterator[str]:
    """Overrides that make the only kind of nodes, or of devices in them, so many."""
    made, _ = read_part(file, ClusterSpec)
    if made is None:
        return
    kinds = list(made.nodes) if "nodes" in made.__dict__ else []
    if len(kinds) != 1:
        what = f"{count}x: the cluster has {len(kinds)} kinds of nodes"
        raise SpecError(Problem(what, str(file), "--set NODE.count=..., for each of them"))
    if made.counts == "nodes":
        yield f"nodes.{kinds[0]}.count={count}"
        return
    node = made.nodes[kinds[0]]
    if len(node.devices) != 1:
        what = f"{count}x: its node has {len(node.devices)} kinds of devices"
        raise SpecError(Problem(what, str(file), "--set DEVICE.count=..., for each of them"))
    yield f"nodes.{kinds[0]}.devices.{next(iter(node.devices))}.count={count}"
    for name, fabric in node.fabrics.items():
        if fabric.dims is not None:
            dims = json.dumps(balanced(count, len(fabric.dims)))
            yield f"nodes.{kinds[0]}.fabrics.{name}.dims={dims}"


def balanced(count: int, dimensions: int) -> list[int]:
    """The grid of so many places whose longest side is shortest, then the next; sides ascend: 2 x 2 x 4 of 16."""
    if dimensions == 1:
        return [count]
    found = [
        sorted([side, *balanced(count // side, dimensions - 1)])
        for side in range(1, count + 1)
        if count % side == 0 and side**dimensions <= count
    ]
    return min(found, key=lambda sides: (sides[::-1], prod(sides)))
