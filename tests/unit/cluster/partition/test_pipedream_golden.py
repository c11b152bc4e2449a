"""PipeDream's own optimiser on its own profiles: every predicted speed-up, every partition."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.cluster.partition.assign import read_profile
from accelsim.cluster.partition.pipedream import Level, Rules, StagePart, optimise, read_off, solve_levels
from accelsim.cluster.partition.states import States
from accelsim.errors import UsageError
from tests.validation.measured import ABSENT, folder

GOLDEN = Path(__file__).parents[3] / "golden" / "training" / "pipedream_golden.json"
RUNS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["runs"]
MODELS = sorted({run["model"] for run in RUNS})
PROFILES = (folder() or Path("nowhere")) / "pipedream_profiles"

pytestmark = pytest.mark.skipif(not PROFILES.is_dir(), reason=ABSENT)

EQUAL = {
    "alexnet": 12,
    "gnmt": 1,
    "gnmt_large": 0,
    "resnet18": 11,
    "resnet50": 15,
    "resnext50": 14,
    "squeezenet1_0": 25,
    "vgg16": 19,
}
"""Runs whose partition is ours to the last cut; in the others several are equally fast."""


@cache
def states(model: str) -> States:
    return read_profile((PROFILES / f"{model}.graph.txt").read_text(), model)


def rules(run: dict[str, Any]) -> Rules:
    flags = run["flags"]
    return Rules(
        straight="--straight_pipeline" in flags,
        memory_B=16e9 if "--use_memory_constraint" in flags else None,
        fewer="--use_fewer_machines" in flags,
        transfers=run["transfers_considered"],
    )


def place(found: States, end: int, compute_s: float) -> int:
    """Our number of the prefix ``end`` with this much compute: parallel branches may be numbered in another order."""
    if abs(found.compute_s[end - 1] - compute_s) < 1e-9:
        return end
    (same,) = np.flatnonzero(np.abs(found.compute_s - compute_s) < 1e-9)
    return int(same) + 1


def cuts(stages: tuple[StagePart, ...]) -> list[tuple[int, int, int]]:
    return [(stage.start, stage.end, stage.replicas) for stage in stages]


def time_of(level: Level, start: int, stages: list[tuple[int, int]]) -> float:
    """Time of given stages, (last state, replicas) each: what the optimiser would say of them."""
    (last, total), *rest = stages
    time_s = float(level.whole[start, last, total - 1])
    for end, count in rest:
        total += count
        pair = np.flatnonzero((level.pair_total == total - 1) & (level.pair_used == count))
        time_s = max(time_s, float(level.last_stage(end, np.array([last]))[0, pair[0]]))
        last = end
    return time_s


def is_optimal(level: Level, start: int, stages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The spans of given stages of a level, whose time is the least that there is."""
    found, reached, ends = level.states, 0.0, []
    if start:
        reached = float(found.compute_s[start - 1])
    for stage in stages:
        reached += stage["compute_s"]
        ends.append(place(found, stage["end"], reached))
    value = time_of(level, start, [(end - 1, each["replicas"]) for end, each in zip(ends, stages, strict=True)])
    row = level.starts.tolist().index(start)
    assert value == pytest.approx(level.best[row, ends[-1] - 1, -1], rel=1e-12, abs=0)
    return list(zip([start, *ends], ends, strict=False))


@pytest.mark.parametrize("model", MODELS)
def test_speedups_and_partitions_are_those_of_pipedream(model: str) -> None:
    """Speed-ups to 1e-12; its partition has the least time there is (of equally fast ones it names any)."""
    equal = 0
    for run in (run for run in RUNS if run["model"] == model):
        machines, rates = run["machines"], run["bandwidths_Bps"]
        levels = solve_levels(states(model), machines, rates, rules(run))
        found = read_off(levels)
        assert found.speedup == pytest.approx(run["speedup_vs_single"], rel=1e-12, abs=0), run
        assert found.single_s / found.data_parallel_s == pytest.approx(run["dp_speedup_vs_single"], rel=1e-12, abs=0), (
            run
        )
        assert found.speedup_over_data_parallel == pytest.approx(run["speedup_vs_dp"], rel=1e-12, abs=0), run
        spans = [(0, len(states(model)))]
        for given in run["levels"]:
            below, stages = [], list(given["stages"])
            for (start, end), unused in zip(spans, given["budget_unused"], strict=True):
                mine = []
                while sum(stage["replicas"] for stage in mine) + unused < machines[given["level"] - 1]:
                    mine.append(stages.pop(0))
                below += is_optimal(levels[given["level"] - 1], start, mine)
                assert below[-1][1] == end
            assert not stages
            spans = below
        equal += [cuts(level.stages) for level in found.levels] == [
            [(one["start"], one["end"], one["replicas"]) for one in level["stages"]] for level in run["levels"]
        ]
    assert equal == EQUAL[model]


def test_published_splits() -> None:
    """VGG-16 on 16 machines at 25 Gbit/s: 15 replicas of the convolutions, one of the rest (SOSP 2019, table 1)."""
    found = optimise(states("vgg16"), [16], [3.125e9])
    assert [stage.replicas for stage in found.stages] == [15, 1]
    assert found.speedup == pytest.approx(14.77, abs=0.005)


def test_graphs_with_too_many_cuts_are_refused() -> None:
    with pytest.raises(UsageError, match="too many ways to cut the graph"):
        states("inception_v3")
