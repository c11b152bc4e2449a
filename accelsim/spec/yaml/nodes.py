"""YAML text -> nodes. What is nested too deep is refused before PyYAML, which recurses, meets it."""

from __future__ import annotations

from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEEPEST = 30
"""Blocks that may lie inside each other in one file."""


def compose(text: str, loader: Any = LOADER) -> yaml.Node | None:
    """The nodes of a YAML document, None of an empty one. Raises yaml.YAMLError, also beyond ``DEEPEST``."""
    depth = 0
    event: Any  # the stubs of PyYAML know two kinds of marks
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            what = f"more than {DEEPEST} blocks inside each other"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=event.start_mark)
    return yaml.compose(text, Loader=loader)
