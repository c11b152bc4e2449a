"""Kinds of spec files, and which one a file is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import yaml

from accelsim.spec.base import Model
from accelsim.spec.yaml import where

ROWS = {
    "chips": ("chip", "Chip", "a chip"),
    "memories": ("memory", "Memory", "a memory"),
    "dram": ("dram", "Dram", "a DRAM"),
    "links": ("link", "Link", "a link"),
    "energy": ("energy", "EnergyTable", "an energy table"),
    "arithmetic": ("derived_energy", "Arithmetic", "a table of arithmetic"),
    "processors": ("chip", "Processor", "a processor"),
    "networks": ("network", "Noc", "a network"),
    "clusters": ("cluster", "ClusterSpec", "a cluster"),
    "collectives": ("collectives", "Collectives", "a communication library"),
    "sites": ("site", "Site", "a site"),
    "instances": ("instance", "Provider", "the instances of a provider"),
    "intervals": ("intervals", "Intervals", "a table of intervals"),
    "power": ("gpu_power", "GpuPower", "a table of what GPUs draw"),
    "serving": ("serving", "Serving", "a serving stack on a GPU"),
}
"""Kind of spec files, the folder that they are in -> module and model in ``spec``, and the name of one file."""
ONE = {kind: what for kind, (_, _, what) in ROWS.items()}
"""Kind -> the name of one file."""


class _Kinds(Mapping[str, type[Model]]):
    def __getitem__(self, kind: str) -> type[Model]:
        module, name, _ = ROWS[kind]
        model: type[Model] = getattr(import_module(f"accelsim.spec.{module}"), name)
        return model

    def __contains__(self, kind: object) -> bool:
        return kind in ROWS

    def __iter__(self) -> Iterator[str]:
        return iter(ROWS)

    def __len__(self) -> int:
        return len(ROWS)


KINDS = _Kinds()
"""Kind of spec files -> model of one, imported when it is first asked for."""


def kind_of_model(model: object) -> str:
    """Return the kind of spec files that hold a model, '' for what no file holds alone."""
    place = getattr(model, "__module__", "").removeprefix("accelsim.spec."), getattr(model, "__name__", "")
    return next((kind for kind, row in ROWS.items() if row[:2] == place), "")


def kind_by_place(file: Path) -> str:
    """The kind that a file's folder says: the one below hwspecs that it is in, else its own folder's name; or ''."""
    path = file.resolve()
    roots = [root.parts for root in map(Path.resolve, where.roots())]
    below = [path.parts[len(root)] for root in roots if path.parts[: len(root)] == root != path.parts]
    return next((folder for folder in (*below, path.parent.name) if folder in KINDS), "")


def kind_by_keys(keys: set[str]) -> str:
    """Return the kind of spec file that has most of ``keys`` among its fields."""
    return max(KINDS, key=lambda kind: len(keys & set(KINDS[kind].model_fields)))


def kind_of_nodes(file: Path, node: yaml.Node | None) -> str:
    """The kind of a file with these nodes: by its place, else by its keys; '' where neither says anything."""
    if placed := kind_by_place(file):
        return placed
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    keys = {str(key.value) for key, _ in pairs if isinstance(key, yaml.ScalarNode)}
    named = set().union(*(set(model.model_fields) for model in KINDS.values())) - set(Model.model_fields)
    return kind_by_keys(keys) if keys & named else ""
