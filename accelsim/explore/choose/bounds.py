"""Bounds: what a candidate takes at least, by its products and what it reads, and what it must hold. Nothing is
simulated.

A bound is never above the simulated figure, so that what it drops cannot win. Rules of batches, which are measured,
raise the bounds of other batches of a chip that was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from accelsim.account.energy import static_power_W
from accelsim.account.price import DAY_S
from accelsim.explore.choose.candidates import Candidate, peak, spec_of
from accelsim.explore.choose.question import GENERATION, RUN, SERVICE, Question
from accelsim.explore.choose.services import least_of as service_least
from accelsim.explore.choose.services import load_of
from accelsim.explore.choose.work import passes_of, sizes_of, work_of
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip


class Bound(NamedTuple):
    """Least figures of a candidate by their keys, and the bytes that a device must hold of those that it has room
    for."""

    least: Mapping[str, float]
    needed_B: float
    room_B: float

    @property
    def fits(self) -> bool:
        """Return whether the device can hold it."""
        return self.needed_B <= self.room_B


class Rule(NamedTuple):
    """Growth of a figure with the batch, of one chip in one format. It takes at least ``between`` of the straight line
    from a smaller batch (or from nothing) to a larger one, ``near`` where that is at most twice as large. Each sample
    after two batches adds at least ``beyond`` of what a sample added between them. Figures never fall as a batch
    grows."""

    near: float
    between: float
    beyond: float


RULES = {
    RUN: {"latency_s": Rule(0.85, 0.7, 0.65), "energy_J": Rule(0.75, 0.6, 0.5)},
    GENERATION: {
        "latency_s": Rule(0.9, 0.85, 0.45), "ttft_s": Rule(0.9, 0.85, 0.7), "tpot_s": Rule(0.85, 0.8, 0.0),
        "energy_J": Rule(0.9, 0.85, 0.6),
    },
}  # fmt: skip
"""Figures of a task by their rules. They were measured on chips for rent (``docs/choose-hardware.md``)."""
OTHERS = RULES | {RUN: {"latency_s": Rule(0.75, 0.65, 0.85), "energy_J": Rule(0.7, 0.6, 0.5)}}
"""Rules of chips that are no GPUs, by task and figure."""


def bound_of(question: Question, candidate: Candidate) -> Bound:
    """Return what a candidate takes at least. What this takes is loaded then: most questions find bounds in a cache."""
    from accelsim.explore.choose.passing import drawn, element_B, least_of_pass
    from accelsim.explore.choose.stepping import least_of_step

    if question.task == SERVICE:
        return _served(question, candidate)
    work, chip = work_of(question.model, question.train), spec_of(candidate.chip)
    room, watts = room_B(chip), sum(static_power_W(chip).values()) * candidate.count
    held = work.weights * element_B(candidate.dtype)
    if question.train:
        seconds = work.flops * candidate.batch / (peak(candidate.chip, candidate.dtype) * candidate.count)
        joules = work.flops / 2 * drawn(candidate.chip, candidate.dtype, Path(question.model).is_file()).mac_J
        if (sizes := sizes_of(question.model)) is not None:
            seconds, joules = map(max, (seconds, joules), least_of_step(sizes, candidate))
        return Bound(_least(question, candidate, seconds, watts, joules), _share(candidate, held), room)
    passes = [
        (each.times, least_of_pass(question, candidate, each)) for each in passes_of(question.model, candidate.batch)
    ]
    seconds, joules = (sum(times * each[figure] for times, each in passes) for figure in (0, 1))
    least = _least(question, candidate, seconds, watts, joules / candidate.batch)
    if question.task != GENERATION:
        return Bound(least, _share(candidate, held), room)
    (_, first), (_, each) = passes
    least |= {"ttft_s": first.seconds}
    least |= {"tpot_s": each.seconds, "tokens_per_s": candidate.batch / each.seconds} if work.new > 1 else {}
    kept = work.cached * element_B(candidate.dtype) * (work.prompt + work.new) * candidate.batch
    return Bound(least, (held + kept) / candidate.count, room)


def _served(question: Question, candidate: Candidate) -> Bound:
    """Return what a service takes at least: replicas, times, and the energy of a request with that of idle time."""
    from accelsim.explore.choose.passing import bandwidth_Bps, element_B

    load, sizes, chip = load_of(question), sizes_of(question.model), spec_of(candidate.chip)
    assert sizes is not None  # it generates
    flops = peak(candidate.chip, candidate.dtype) * candidate.count
    read_Bps = bandwidth_Bps(chip) * candidate.count
    least = service_least(load, sizes, flops, read_Bps, element_B(candidate.dtype))
    static_W = least["replicas"] * candidate.count * sum(static_power_W(chip).values())
    least |= {"energy_per_sample_J": static_W * load.requests[-1].arrival_s / len(load.requests)}
    return Bound(least, sizes.counts.learnt * element_B(candidate.dtype) / candidate.count, room_B(chip))


def _share(candidate: Candidate, held: float) -> float:
    """Bytes of weights on a device of a plan; all of them without one."""
    parts = dict(part.split("=") for part in candidate.plan.split(",") if "=" in part)
    return held / (int(parts.get("tp", 1)) * int(parts.get("pp", 1)))


def room_B(chip: Chip) -> float:
    """Return the bytes that a chip can hold; of its host where that alone computes."""
    from accelsim.cluster.step.memory import capacity_B

    if multiplier(chip) is None and chip.host is not None:
        return float(chip.host.memory.capacity)
    return capacity_B(chip)


def _least(question: Question, candidate: Candidate, seconds: float, watts: float, joules: float) -> dict[str, float]:
    """Figures that follow from the least time: rates are the highest, others the lowest."""
    least = {
        "latency_s": seconds,
        "throughput_per_s": candidate.batch / seconds,
        "energy_per_sample_J": watts * seconds / candidate.batch + joules,
    }
    if question.train and question.tokens:
        whole = question.tokens / (candidate.batch * _tokens(question.model)) * seconds
        least |= {"training_s": whole, "days": whole / DAY_S}
    return least


def _tokens(model: str) -> int:
    sizes = sizes_of(model)
    assert sizes is not None  # tokens are of a language model
    return sizes.seq


def least_of(rule: Rule, runs: Sequence[tuple[int, float]], batch: int) -> float:
    """Return the least figure of a batch by a rule and ``runs``: other batches with their figures, in order."""
    below = [run for run in runs if run[0] < batch]
    found = [own for _, own in below]
    for (small, low), (large, high) in product([(0, 0.0), *below], runs[len(below) :]):
        share = rule.near if large <= 2 * batch else rule.between
        found.append(share * (low + (high - low) * (batch - small) / (large - small)))
    for (small, low), (large, high) in combinations(below, 2):
        found.append(high + rule.beyond * (high - low) * (batch - large) / (large - small))
    return max(found)
