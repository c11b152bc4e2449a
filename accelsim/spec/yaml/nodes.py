"""YAML text -> nodes. What is nested too deep is refused before PyYAML, which recurses, meets it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEEPEST = 30
"""Blocks that may lie inside each other in one file."""
OWN_LIMIT = "maximum nesting depth"
"""What PyYAML says since 6.0.4 of far more blocks, before it tells of the first one."""


@lru_cache(maxsize=256)  # one file is part of many chips, and is asked for its kind before it is read
def compose(text: str, loader: Any = LOADER) -> yaml.Node | None:
    """The nodes of a YAML document, None of an empty one. Raises yaml.YAMLError, also beyond ``DEEPEST``.

    Nobody may change the nodes.
    """
    depth = 0
    event: Any  # the stubs of PyYAML know two kinds of marks
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _too_deep(event.start_mark)
    except yaml.MarkedYAMLError as error:
        if OWN_LIMIT in str(error.problem):
            raise _too_deep(error.problem_mark) from None
        raise
    return yaml.compose(text, Loader=loader)


def _too_deep(where: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=f"more than {DEEPEST} blocks inside each other", problem_mark=where)
