"""The shapes, by name: whatever module of this package has a ``NAME`` and a ``build``."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from accelsim.cluster import shapes
from accelsim.cluster.shapes.draft import Shape

OTHERS = {"building", "draft", "facts", "registry", "routes"}
"""Modules of the package that are no shapes."""


def _found() -> dict[str, Shape]:
    names = sorted(entry.name for entry in iter_modules(shapes.__path__) if entry.name not in OTHERS)
    modules = [import_module(f"{shapes.__name__}.{name}") for name in names]
    return {module.NAME: cast(Shape, module) for module in modules}


SHAPES: dict[str, Shape] = _found()
"""Name as in specs (the keys of ``accelsim.spec.cluster.SHAPES``) -> the module that builds it."""
