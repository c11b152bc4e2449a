"""Reference outputs of Timeloop as nests, mappings and words, read from ``../shared/data/measured``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.counts import Counts, counts
from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping, Store
from accelsim.mapping.rules import Rules
from accelsim.workload.nest import Form, LoopNest, Operand

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured" / "timeloop_reference"
DENSE = (
    "designs__eyeriss_like", "designs__simba_like", "designs__simple_output_stationary",
    "designs__simple_weight_stationary", "designs__sparse_tensor_core_like",
    "designs__sparseloop__01.2.1-DUDU-dot-product",
    "ispass20__timeloop+accelergy__fpmac", "ispass20__timeloop+accelergy__intmac",
    "ispass20__timeloop__00-model-conv1d-1level", "ispass20__timeloop__01-model-conv1d-2level__os",
    "ispass20__timeloop__01-model-conv1d-2level__ws", "ispass20__timeloop__02-model-conv1d+oc-2level__no-tiling",
    "ispass20__timeloop__02-model-conv1d+oc-2level__tiling", "ispass20__timeloop__03-model-conv1d+oc-3level__bypass",
    "ispass20__timeloop__03-model-conv1d+oc-3level__no-bypass",
    "ispass20__timeloop__04-model-conv1d+oc-3levelspatial__cp",
    "ispass20__timeloop__04-model-conv1d+oc-3levelspatial__kp",
    "ispass20__timeloop__05-mapper-conv1d+oc-3level__baked",
    "ispass20__timeloop__05-mapper-conv1d+oc-3level__freebypass",
    "ispass20__timeloop__05-mapper-conv1d+oc-3level__null", "ispass20__timeloop__06-mapper-convlayer-eyeriss",
    "tutorial_exercises__02_interface_and_design_space_exploration_2024__outputs",
)  # fmt: skip
"""Those without sparsity: the other outputs count what gating, skipping and compression leave."""
COLUMNS = {"reads": "reads", "fills": "from_outer", "updates": "from_inner"}


class Row(NamedTuple):
    """Words of one data space at one level, all instances: theirs and ours, and the energy that they give."""

    level: str
    space: str
    column: str
    theirs: int
    ours: int


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return data


def nest(problem: dict[str, Any]) -> LoopNest:
    """The problem; coefficients are entries of its instance too."""
    sizes = problem["instance"]
    operands = []
    for space in problem["data_spaces"]:
        dims = {}
        for index, side in enumerate(space["projection"]):
            terms = tuple((term[0], sizes[term[1]] if len(term) > 1 else 1) for term in side)
            dims[str(index)] = Form(terms)
        operands.append(Operand(space["name"], dims, "writes" if space["read_write"] else "reads"))
    axes = dict.fromkeys(axis for operand in operands for axis in operand.axes)
    return LoopNest({axis: sizes[axis] for axis in axes}, tuple(operands))


def mapping(data: dict[str, Any]) -> Mapping:
    """Each entry is a level; the spatial ones are levels that keep nothing."""
    parts = []
    for entry in data["mapping_outer_to_inner"]:
        assert all(loop["residual"] is None for loop in entry["loops"])
        temporal = tuple((loop["dim"], loop["bound"]) for loop in entry["loops"] if not loop["spatial"])
        spatial = {
            loop["dim"]: (loop["spatial"], loop["bound"]) for loop in entry["loops"] if loop["spatial"]
        }
        assert len(spatial) + len(temporal) == len(entry["loops"])
        parts.append(LevelMap(entry["level"], temporal, spatial, dict.fromkeys(entry["tile_words"], 1)))
    return Mapping(tuple(parts))


def engine(data: dict[str, Any], pinned: Mapping) -> Hierarchy:
    """Levels with capacities in words, where they are given; fan-outs as large as the mapping uses."""
    sizes = {level["name"]: level["specs"].get("Size") for level in data["levels"]}
    stores = tuple(
        Store(part.level, sizes.get(part.level), {"X": 1 << 20, "Y": 1 << 20}) for part in pinned.levels
    )
    return Hierarchy(stores, {space["name"]: 1 for space in data["problem"]["data_spaces"]})


def counted(data: dict[str, Any], rules: Rules) -> Counts:
    problem, pinned = nest(data["problem"]), mapping(data)
    return counts(problem, Mappings.of(Frame.of(problem, engine(data, pinned)), [pinned]), rules)


def rows(data: dict[str, Any], rules: Rules) -> list[Row]:
    """Every figure of reads, fills and updates."""
    found = counted(data, rules)
    names = [operand.name for operand in nest(data["problem"]).operands]
    levels = [part.level for part in mapping(data).levels]
    result = []
    for level in data["levels"]:
        for space, facts in level["dataspaces"].items():
            for column, ours in COLUMNS.items():
                theirs = facts[f"Scalar {column} (per-instance)"] * facts["Utilized instances (max)"]
                words = int(getattr(found, ours)[0, levels.index(level["name"]), names.index(space)])
                result.append(Row(level["name"], space, column, theirs, words))
    return result
