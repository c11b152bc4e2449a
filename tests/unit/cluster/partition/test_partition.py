"""Partitions of small models against all there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

from accelsim.cluster.partition.assign import read_profile
from accelsim.cluster.partition.pipedream import Rules, optimise
from accelsim.cluster.partition.states import ProfiledLayer, chain_states, graph_states
from accelsim.cluster.plan.objective import balanced_blocks
from accelsim.errors import UsageError


def blocks(count: int, stages: int) -> Iterator[list[tuple[int, int]]]:
    for cuts in combinations(range(1, count), stages - 1):
        ends = [*cuts, count]
        yield list(zip([0, *ends], ends, strict=False))


def layers(rng: np.random.Generator, count: int) -> list[ProfiledLayer]:
    return [
        ProfiledLayer(f"layer{i}", *(float(one) for one in rng.integers(1, 40, 3) * (1, 10, 10))) for i in range(count)
    ]


def test_balanced_blocks_are_the_best_of_all() -> None:
    rng = np.random.default_rng(41)
    for _ in range(60):
        count = int(rng.integers(1, 10))
        stages = int(rng.integers(1, count + 1))
        times = [int(time) for time in rng.integers(0, 12, count)]
        found = balanced_blocks(times, stages)

        def rank(cut: list[tuple[int, int]], times: list[int] = times) -> tuple[int, int]:
            sums = [sum(times[start:end]) for start, end in cut]
            return max(sums), sum(each**2 for each in sums)

        assert rank(list(found)) == min(rank(cut) for cut in blocks(count, stages))


def test_balanced_blocks_by_example() -> None:
    assert balanced_blocks([1, 2, 3, 4, 5, 6], 2) == ((0, 4), (4, 6))
    assert balanced_blocks([1] * 96, 8) == tuple((12 * i, 12 * i + 12) for i in range(8))
    assert balanced_blocks([0.5, 0.25, 0.25], 2) == ((0, 1), (1, 3))
    with pytest.raises(UsageError) as caught:
        balanced_blocks([1, -2], 3)
    assert [str(problem) for problem in caught.value.problems] == [
        "stages: 2 layers on 3 stages; expected 1 to 2",
        "times: a time below 0; expected times of layers from 0",
    ]


def slowest(chosen: list[ProfiledLayer], cut: list[tuple[int, int]], replicas: tuple[int, ...], rate: float) -> float:
    """The objective of PipeDream, written out."""
    times = []
    for (start, end), m in zip(cut, replicas, strict=True):
        compute = sum(layer.compute_s for layer in chosen[start:end])
        weights = sum(layer.parameter_B for layer in chosen[start:end])
        times.append((compute + 4 * (m - 1) * weights / (rate * m)) / m)
        if start:
            times.append(2 * chosen[start - 1].output_B / (rate * m))
            if end < len(chosen):
                times.append(2 * chosen[end - 1].output_B / (rate * m))
    return max(times)


def test_optimiser_is_the_best_of_all_partitions_of_a_chain() -> None:
    rng = np.random.default_rng(42)
    for _ in range(30):
        chosen, machines, rate = (
            layers(rng, int(rng.integers(1, 7))),
            int(rng.integers(1, 6)),
            float(rng.integers(2, 40)),
        )
        every = [
            slowest(chosen, cut, replicas, rate)
            for stages in range(1, min(len(chosen), machines) + 1)
            for cut in blocks(len(chosen), stages)
            for replicas in product(range(1, machines + 1), repeat=stages)
            if sum(replicas) == machines
        ]
        found = optimise(chain_states(chosen), [machines], [rate])
        assert found.time_s == pytest.approx(min(every), rel=1e-12, abs=0)
        cut = [(stage.start, stage.end) for stage in found.stages]
        replicas = tuple(stage.replicas for stage in found.stages)
        assert slowest(chosen, cut, replicas, rate) == pytest.approx(found.time_s, rel=1e-12, abs=0)
        assert found.levels[0].unused == (0,)


def test_two_levels_of_one_machine_are_one_level() -> None:
    states = chain_states(layers(np.random.default_rng(43), 8))
    flat = optimise(states, [4], [20.0])
    for machines, rates in (([4, 1], [20.0, 3.0]), ([1, 4], [3.0, 20.0])):
        found = optimise(states, machines, rates)
        assert found.time_s == pytest.approx(flat.time_s)
        assert found.data_parallel_s == pytest.approx(flat.data_parallel_s)


def test_memory_and_straight_pipelines() -> None:
    chosen = [ProfiledLayer(f"layer{i}", 10.0, 4.0, 100.0) for i in range(4)]
    states = chain_states(chosen)
    assert [stage.replicas for stage in optimise(states, [4], [1.0], Rules(straight=True)).stages] == [1] * 4
    assert optimise(states, [2], [1e9]).time_s == pytest.approx(20.0)
    fewer = optimise(states, [8], [1.0], Rules(fewer=True))
    assert fewer.levels[0].unused == (4,)
    with pytest.raises(UsageError, match="no partition fits into the memory of the machines"):
        optimise(states, [4], [1.0], Rules(straight=True, memory_B=1.0))


def test_bad_clusters_are_refused_all_at_once() -> None:
    states = chain_states([ProfiledLayer("one", 1.0, 1.0, 1.0)])
    with pytest.raises(UsageError) as caught:
        optimise(states, [0, 2], [0.0])
    assert [problem.where for problem in caught.value.problems] == ["bandwidths_Bps", "machines", "bandwidths_Bps"]


def test_prefixes_of_a_graph_with_two_branches() -> None:
    """0 feeds 1 and 2, both feed 3: five prefixes; while 2 is open, the output of 0 crosses too."""
    chosen = [ProfiledLayer(str(i), float(10**i), float(10**i), 0.0) for i in range(4)]
    states = graph_states(chosen, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert sorted(states.compute_s) == [1, 11, 101, 111, 1111]
    crossing = dict(zip(states.compute_s, states.output_B, strict=True))
    assert crossing == {1: 1, 11: 11, 101: 101, 111: 111, 1111: 1000}
    one, other = (list(states.compute_s).index(sum_s) for sum_s in (11, 101))
    assert not states.before[one, other]
    assert not states.before[other, one]
    assert states.before[0].sum() == 4
    with pytest.raises(UsageError, match="in a circle"):
        graph_states(chosen, [(0, 1), (1, 0)])
    with pytest.raises(UsageError, match="no layers"):
        graph_states([], [])


PROFILE = """\
node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=8.0, parameter_size=0.000
node2 -- Linear(in_features=2, out_features=2) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=[4.0; 5.0], parameter_size=16.000
node3 -- __getitem__(1) -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=8.0, parameter_size=0.000
node4 -- ReLU -- forward_compute_time=0.500, backward_compute_time=0.000, activation_size=4.0, parameter_size=0.000 -- stage_id=1
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
"""


def test_profile_as_text() -> None:
    """Inputs and results that nobody uses are left out."""
    states = read_profile(PROFILE)
    assert states.compute_s.tolist() == [0.003, 0.0035]
    assert states.output_B.tolist() == [9.0, 4.0]
    assert states.parameter_B.tolist() == [16.0, 16.0]


def test_wrong_lines_of_a_profile_are_told_all_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        read_profile("nonsense\n\tnode1 -- node2\n", "some.txt")
    assert [str(problem) for problem in caught.value.problems] == [
        "some.txt:1: not a line of a profile; expected 'name -- layer -- forward_compute_time=.., "
        "backward_compute_time=.., activation_size=.., parameter_size=..', or an edge, '<tab>name -- name'",
        "some.txt:2: unknown layer 'node1'; expected a layer that stands above",
        "some.txt:2: unknown layer 'node2'; expected a layer that stands above",
    ]
