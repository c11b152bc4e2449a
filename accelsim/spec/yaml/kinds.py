"""Kinds of spec files, and which one a file is."""

from __future__ import annotations

from pathlib import Path

import yaml

from accelsim.spec.base import Model
from accelsim.spec.chip import Chip, Processor
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.collectives import Collectives
from accelsim.spec.derived_energy import Arithmetic
from accelsim.spec.dram import Dram
from accelsim.spec.energy import EnergyTable
from accelsim.spec.gpu_power import GpuPower
from accelsim.spec.intervals import Intervals
from accelsim.spec.link import Link
from accelsim.spec.memory import Memory
from accelsim.spec.network import Noc
from accelsim.spec.serving import Serving
from accelsim.spec.site import Site
from accelsim.spec.yaml import where

KINDS: dict[str, type[Model]] = {
    "chips": Chip,
    "memories": Memory,
    "dram": Dram,
    "links": Link,
    "energy": EnergyTable,
    "arithmetic": Arithmetic,
    "processors": Processor,
    "networks": Noc,
    "clusters": ClusterSpec,
    "collectives": Collectives,
    "sites": Site,
    "intervals": Intervals,
    "power": GpuPower,
    "serving": Serving,
}
"""Kinds of spec files: the folder that they are in and what they hold."""
ONE = {
    "chips": "a chip",
    "memories": "a memory",
    "dram": "a DRAM",
    "links": "a link",
    "energy": "an energy table",
    "arithmetic": "a table of arithmetic",
    "processors": "a processor",
    "networks": "a network",
    "clusters": "a cluster",
    "collectives": "a communication library",
    "sites": "a site",
    "intervals": "a table of intervals",
    "power": "a table of what GPUs draw",
    "serving": "a serving stack on a GPU",
}
"""Kind -> what one file of it is called."""


def kind_by_place(file: Path) -> str:
    """The kind that a file's folder says: the one below hwspecs that it is in, else its own folder's name; or ''."""
    path = file.resolve()
    roots = [root.parts for root in map(Path.resolve, where.roots())]
    below = [path.parts[len(root)] for root in roots if path.parts[: len(root)] == root != path.parts]
    return next((folder for folder in (*below, path.parent.name) if folder in KINDS), "")


def kind_by_keys(keys: set[str]) -> str:
    """The kind whose fields fit best to the keys of a file."""
    return max(KINDS, key=lambda kind: len(keys & set(KINDS[kind].model_fields)))


def kind_of_nodes(file: Path, node: yaml.Node | None) -> str:
    """The kind of a file with these nodes: by its place, else by its keys; '' where neither says anything."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    keys = {str(key.value) for key, _ in pairs if isinstance(key, yaml.ScalarNode)}
    named = set().union(*(set(model.model_fields) for model in KINDS.values())) - set(Model.model_fields)
    return kind_by_place(file) or (kind_by_keys(keys) if keys & named else "")
