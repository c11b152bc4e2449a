"""PipeDream's optimiser: which layers make a stage, and on how many machines each stage is replicated.

A dynamic programme over prefixes of the model and numbers of machines (Narayanan et al., PipeDream, SOSP 2019, section
3.1). A stage of m machines takes [T + 4(m - 1)|w| / (B m)] / m per minibatch, T its compute and |w| the bytes of its
parameters; a boundary 2|a| / (B m), m the replicas after it. The slowest of all binds. The factor 4, where a ring
moves 2, counts sending and receiving on one link. No latency, no overlap, no bubble. Of partitions that are as fast
the one whose last stage begins earliest is taken, then the one with fewest replicas of it, then the same before it.

Clusters of several levels: machines of a level are whole solved groups of the level below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.cluster.partition.states import States
from accelsim.errors import Gather, UsageError
from accelsim.types import Bools, Floats, Ints


@dataclass(frozen=True)
class StagePart:
    """A stage: states ``start`` to ``end`` - 1 on ``replicas`` machines of its level, with the compute of one minibatch
    on one device."""

    start: int
    end: int
    compute_s: float
    replicas: int


@dataclass(frozen=True)
class LevelPartition:
    """Stages of one level, grouped by the stage of the level above, and the machines left over in each group."""

    level: int
    stages: tuple[StagePart, ...]
    unused: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """A partition by the optimiser: ``levels`` from the outermost in; seconds per minibatch, by its own model.

    ``time_s`` of the pipeline, ``single_s`` of one device, ``data_parallel_s`` of all devices with whole replicas.
    """

    levels: tuple[LevelPartition, ...]
    time_s: float
    single_s: float
    data_parallel_s: float

    @property
    def stages(self) -> tuple[StagePart, ...]:
        """Stages of the innermost level."""
        return self.levels[-1].stages

    @property
    def speedup(self) -> float:
        """Speedup over one device."""
        return self.single_s / self.time_s

    @property
    def speedup_over_data_parallel(self) -> float:
        """Speedup of the pipeline over data parallelism."""
        return self.data_parallel_s / self.time_s


@dataclass(frozen=True)
class Rules:
    """Rules of the optimiser. ``straight``: no replicas; ``memory_B``: of a machine, for weights and stashes of all
    minibatches in flight; ``least``: minibatches in flight for which each stage has room (PipeDream asks for none in
    the last one); ``fewer``: leave machines unused where they do not help; ``transfers``: boundaries take time."""

    straight: bool = False
    memory_B: float | None = None
    least: int = 0
    fewer: bool = False
    transfers: bool = True


def optimise(
    states: States, machines: Sequence[int], bandwidths_Bps: Sequence[float], rules: Rules | None = None
) -> Partition:
    """Return the best partition. ``machines`` and bandwidths are by level, the innermost first.

    UsageError: levels that do not fit together, numbers below 1, or a model that does not fit into the memory.
    """
    _check(machines, bandwidths_Bps)
    return read_off(solve_levels(states, machines, bandwidths_Bps, rules or Rules()))


def read_off(levels: Sequence[Level]) -> Partition:
    """Return the best partition of solved levels. Raises UsageError if the model does not fit into the memory."""
    outermost, states = levels[-1], levels[-1].states
    time_s = float(outermost.best[0, -1, -1])
    if not np.isfinite(time_s):
        expected = "more machines, or more memory"
        raise UsageError("no partition fits into the memory of the machines", "memory_B", expected)
    found, spans = [], [(0, len(states))]
    for number in range(len(levels), 0, -1):
        level = levels[number - 1]
        parts = [level.backtrack(start, end) for start, end in spans]
        stages = tuple(stage for part in parts for stage in part)
        unused = tuple(level.machines - sum(stage.replicas for stage in part) for part in parts)
        found.append(LevelPartition(number, stages, unused))
        spans = [(stage.start, stage.end) for stage in stages]
    single_s = float(states.compute_s[-1])
    machines, rates = [level.machines for level in levels], [level.rate for level in levels]
    return Partition(tuple(found), time_s, single_s, data_parallel_s(states, machines, rates))


def _check(machines: Sequence[int], bandwidths_Bps: Sequence[float]) -> None:
    gather, rates = Gather(), f"{list(bandwidths_Bps)}"
    expected = f"{len(machines) or 'at least 1'}, one per level"
    apart = not machines or len(machines) != len(bandwidths_Bps)
    gather.refuse(apart, f"{len(bandwidths_Bps)} bandwidths", "bandwidths_Bps", expected)
    few = any(count < 1 for count in machines)
    gather.refuse(few, f"{list(machines)}", "machines", "whole numbers from 1")
    slow = any(rate <= 0 for rate in bandwidths_Bps)
    gather.refuse(slow, rates, "bandwidths_Bps", "bytes per second above 0")
    gather.done()


def data_parallel_s(states: States, machines: Sequence[int], bandwidths_Bps: Sequence[float]) -> float:
    """Return the seconds per minibatch with the whole model on every device."""
    time_s, within = float(states.compute_s[-1]), 1
    for count, rate in zip(machines, bandwidths_Bps, strict=True):
        shared = 4 * (count - 1) * float(states.parameter_B[-1]) / (rate * count) / within
        time_s, within = (time_s + shared) / count, count
    return time_s


def solve_levels(states: States, machines: Sequence[int], bandwidths_Bps: Sequence[float], rules: Rules) -> list[Level]:
    """Solve the tables of each level: for every first state, but in the outermost level for the first alone."""
    compute_s, within, levels = states.between(states.compute_s, np.inf), 1, []
    for number, (count, rate) in enumerate(zip(machines, bandwidths_Bps, strict=True), 1):
        starts = np.arange(1 if number == len(machines) else len(states))
        level = Level(states, compute_s, count, rate, within, rules, starts)
        levels.append(level)
        compute_s, within = level.best[:, :, -1], count
    return levels


class Level:
    """One level: ``best[i, j, m]``, the least time of states i to j on m + 1 machines, inf where there is none."""

    def __init__(
        self, states: States, compute_s: Floats, machines: int, rate: float, within: int, rules: Rules, starts: Ints
    ) -> None:
        self.states, self.compute_s, self.machines, self.rules = states, compute_s, machines, rules
        self.rate, self.within, self.starts = rate, within, starts
        self.parameter_B = states.between(states.parameter_B, 0.0)
        if rules.memory_B is not None:
            self.held_B = self.parameter_B + states.between(states.activation_B, 0.0)
        self.counts = np.arange(1, machines + 1)
        most = 1 if rules.straight else machines
        pairs = [(m, used) for m in range(1, machines) for used in range(1, min(m, most) + 1)]
        self.pair_total, self.pair_used = np.array(pairs, np.int64).reshape(-1, 2).T
        self.group = np.searchsorted(self.pair_total, np.arange(1, machines))
        self.whole = self._whole()
        self.best = self._solve()

    def _whole(self) -> Floats:
        """[i, j, m]: states i to j as one stage on m + 1 machines."""
        counts, compute = self.counts, self.compute_s[self.starts][:, :, None]
        shared = 4 * (counts - 1) * self.parameter_B[self.starts][:, :, None] / (self.rate * counts) / self.within
        time_s: Floats = (compute + shared) / counts
        if self.rules.memory_B is not None:
            flying = np.maximum(self.rules.least, np.ceil((self.machines - counts) / counts))
            time_s[flying * self.held_B[self.starts][:, :, None] > self.rules.memory_B] = np.inf
        if self.rules.straight:
            time_s[:, :, 1:] = np.inf
        return time_s

    def last_stage(self, j: int, ks: Ints) -> Floats:
        """Return [k, pair]: the slowest of the stage after state k up to j, and of the boundaries at its ends."""
        counts = self.counts
        shared = 4 * (counts - 1) * self.parameter_B[ks + 1, j][:, None] / (self.rate * counts)
        time_s = (self.compute_s[ks + 1, j][:, None] + shared) / counts
        if self.rules.transfers:
            output_B = self.states.output_B
            np.maximum(time_s, 2.0 * output_B[ks][:, None] / (self.rate * counts), out=time_s)
            if j < len(self.states) - 1:
                np.maximum(time_s, 2.0 * output_B[j] / (self.rate * counts), out=time_s)
        paired: Floats = time_s[:, self.pair_used - 1]
        if self.rules.memory_B is not None:
            behind = np.ceil((self.machines - (self.pair_total + 1)) / self.pair_used)
            flying = np.maximum(self.rules.least, behind)
            paired[flying * self.held_B[ks + 1, j][:, None] > self.rules.memory_B] = np.inf
        return paired

    def _candidates(self, best: Floats, rows: Ints, j: int, ks: Ints) -> Floats:
        """[start, k, pair]: time of the best partition up to k and one more stage up to j."""
        left = best[rows[:, None], ks[None, :]]
        if len(rows) > 1 or self.starts[rows[0]]:
            left = np.where(self._taken(self.starts[rows], ks)[:, :, None], np.inf, left)
        found: Floats = np.maximum(left[:, :, self.pair_total - self.pair_used], self.last_stage(j, ks)[None])
        return found

    def _taken(self, starts: Ints, ks: Ints) -> Bools:
        found: Bools = self.states.before[np.ix_(ks, np.maximum(starts - 1, 0))].T.copy()
        found[starts == 0] = False
        return found

    def _solve(self) -> Floats:
        best = self.whole.copy()
        rows = np.arange(len(self.starts))
        for j in range(len(self.states)):
            ks = np.flatnonzero(self.states.before[:, j])
            if len(ks) and len(self.pair_used):
                active = rows[self.starts[rows] < j]
                least = self._candidates(best, active, j, ks).min(axis=1)
                least = np.minimum.reduceat(least, self.group, axis=1)
                best[active, j, 1:] = np.minimum(best[active, j, 1:], least)
            if self.rules.fewer:
                np.minimum.accumulate(best[:, j], axis=-1, out=best[:, j])
        return best

    def backtrack(self, start: int, end: int) -> list[StagePart]:
        """Return the stages with the best time of states ``start`` to ``end`` - 1 on all machines of the level."""
        found, last, m = [], end - 1, self.machines - 1
        while True:
            if (
                self.rules.fewer
                and m
                and self.best[start, last, m] == self.best[start, last, m - 1] < self.whole[start, last, m]
            ):
                m -= 1
                continue
            if self.best[start, last, m] >= self.whole[start, last, m]:
                found.append(self._stage(start, last + 1, m + 1))
                return found[::-1]
            ks = np.flatnonzero(self.states.before[:, last])
            candidates = self._candidates(self.best, np.array([start]), last, ks)[0]
            candidates[:, self.pair_total != m] = np.inf
            k, pair = np.unravel_index(int(np.argmin(candidates)), candidates.shape)
            used = int(self.pair_used[pair])
            found.append(self._stage(int(ks[k]) + 1, last + 1, used))
            last, m = int(ks[k]), m - used

    def _stage(self, start: int, end: int, replicas: int) -> StagePart:
        sums = self.states.compute_s
        return StagePart(start, end, float(sums[end - 1] - (sums[start - 1] if start else 0.0)), replicas)
