"""The policies of fusion, by name: whatever module of this package has a ``POLICY``, in the order of their rank."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from accelsim.cluster import buckets
from accelsim.cluster.buckets.base import Policy
from accelsim.errors import known

_NOT = {"registry", "overlap", "tune"}
"""Modules that import this one."""


def _found() -> dict[str, Policy]:
    names = sorted(entry.name for entry in iter_modules(buckets.__path__) if entry.name not in _NOT)
    modules = [import_module(f"{buckets.__name__}.{name}") for name in names]
    found = [module.POLICY for module in modules if hasattr(module, "POLICY")]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: (entry.rank, entry.name))}


POLICIES: dict[str, Policy] = _found()
"""Name -> policy."""


def policy(name: str) -> Policy:
    """The policy of a name; UsageError with the nearest one."""
    return POLICIES[known("fusion policy", name, POLICIES)]
