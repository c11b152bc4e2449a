"""Words, steps and energies against Timeloop, with its mapping pinned and its rules named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelsim.mapping.levels import Mapping, refusals
from accelsim.mapping.rules import TIMELOOP, TIMELOOP_LATCHED, Rules
from tests.helpers import timeloop_reference as reference

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "mapping" / "timeloop_resnet18.json"
measured = pytest.mark.skipif(
    not reference.FOLDER.exists(), reason="no ../shared/data/measured/timeloop_reference"
)
BOUND_BY_BANDWIDTH = {"designs__sparse_tensor_core_like": (1, 3)}
"""(our steps, their cycles): memories that are slower than the units are no part of the counts."""


def rules_of(name: str) -> Rules:
    """In the 2024 exercise a fan-out stands between the buffer and the units, which hold what does not change."""
    return TIMELOOP_LATCHED if name.startswith("tutorial") else TIMELOOP


def resnet18() -> list[dict[str, Any]]:
    """Our own runs; their problems have a short form: the Eyeriss-like problem with sizes and a stride."""
    layers: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    spaces = [
        {"name": "Weights", "projection": [[["C"]], [["M"]], [["R"]], [["S"]]], "read_write": False},
        {"name": "Inputs", "read_write": False,
         "projection": [[["N"]], [["C"]], [["R"], ["P", "stride"]], [["S"], ["Q", "stride"]]]},
        {"name": "Outputs", "projection": [[["N"]], [["M"]], [["Q"]], [["P"]]], "read_write": True},
    ]  # fmt: skip
    for layer in layers:
        layer["problem"] = {"instance": layer["problem"], "data_spaces": spaces}
    return layers


@measured
@pytest.mark.parametrize("name", reference.DENSE)
def test_reference_outputs(name: str) -> None:
    data, rules = reference.load(name), rules_of(name)
    pinned = reference.mapping(data)
    assert not refusals(reference.nest(data["problem"]), reference.engine(data, pinned), pinned)
    for row in reference.rows(data, rules):
        assert row.ours == row.theirs, row
    steps = int(reference.counted(data, rules).steps[0])
    assert (steps, data["Cycles"]) == BOUND_BY_BANDWIDTH.get(name, (data["Cycles"], data["Cycles"]))


@measured
@pytest.mark.parametrize("name", reference.DENSE)
def test_energies_are_words_times_what_each_costs(name: str) -> None:
    data = reference.load(name)
    words: dict[tuple[str, str], int] = {}
    for row in reference.rows(data, rules_of(name)):
        words[row.level, row.space] = words.get((row.level, row.space), 0) + row.ours
    for level in data["levels"]:
        for space, facts in level["dataspaces"].items():
            each, theirs = facts["Energy (per-scalar-access)"], facts["Energy (total)"]
            if each is None or theirs is None:
                continue
            count = words[level["name"], space]
            assert abs(count * each - theirs) <= 0.0051 * count + 0.01 * facts["Utilized instances (max)"]


@measured
def test_how_many_figures_are_equal() -> None:
    rows = [row for name in reference.DENSE for row in reference.rows(reference.load(name), rules_of(name))]
    assert len(rows) == sum(row.ours == row.theirs for row in rows) == 465


def test_resnet18_on_an_eyeriss_like_array() -> None:
    bound: dict[str, float] = {}
    total = 0
    for layer in resnet18():
        rows = reference.rows(layer, TIMELOOP)
        assert all(row.ours == row.theirs for row in rows), layer["layer"]
        total += len(rows)
        bound[layer["layer"]] = layer["cycles"] - int(reference.counted(layer, TIMELOOP).steps[0])
    assert total == 288
    assert sorted(bound.values())[-2:] == [218_848, 359_296], "two layers wait for the shared buffer"
    assert sum(late > 0 for late in bound.values()) == 2


def test_without_the_rule_of_the_interval_four_layers_read_less() -> None:
    """Stride 2 under a filter of one: elements between those that are touched are none."""
    rules = Rules(halo="innermost", refill="all", drained=False)
    less = [
        layer["layer"]
        for layer in resnet18()
        if any(row.ours < row.theirs for row in reference.rows(layer, rules))
    ]
    assert len(less) == 4


def test_a_mapping_as_text_and_back() -> None:
    for layer in resnet18():
        pinned = reference.mapping(layer)
        assert Mapping.from_dict(json.loads(json.dumps(pinned.as_dict()))) == pinned
