"""Bounds: what a candidate takes at least, by its peak and its bandwidths, and what it must hold. Nothing is simulated.

A bound is never above the simulated figure, so that what it drops cannot win. Rules of batches, which are measured,
raise the bounds of other batches of a chip that was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import NamedTuple

from accelsim.account.energy import engine_prices, left_W, static_power_W
from accelsim.account.price import DAY_S
from accelsim.cluster.step.memory import capacity_B
from accelsim.compiler.numbers.formats import is_integer
from accelsim.explore.choose.candidates import Candidate, forget, peak, spec_of
from accelsim.explore.choose.question import GENERATION, RUN, Question
from accelsim.formats import table
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.workload.nodes import node_work
from accelsim.workload.sources.load import generation_of, load_model


class Work(NamedTuple):
    """Work of a task whatever runs it: operations of a sample (of a step: forward and backward), learnt numbers that a
    pass reads, and of a generation the operations of its prompt, keys and values by token, prompt and new tokens."""

    flops: float
    weights: float
    prompt_flops: float = 0.0
    cached: float = 0.0
    prompt: int = 0
    new: int = 0


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


@cache
def work_of(model: str, train: bool) -> Work:
    """Return the work of a model. Raises ModelError and UsageError."""
    from accelsim.cluster.step.transformer import transformer_of

    asked = generation_of(model)
    sizes = transformer_of(*(asked[:2] if asked else (model,)))
    if sizes is not None and train:
        masked = 6 * sizes.layers * sizes.seq**2 * sizes.hidden  # half of attention, which a causal kernel leaves out
        return Work(sizes.sequence_flops - masked, sizes.parameters)
    if sizes is not None and asked is not None:
        prompt, new = asked[2:]
        learnt = sizes.layers * sizes.layer_parameters
        matrices = learnt - sizes.layers * 13 * sizes.hidden
        cached = 2 * sizes.layers * sizes.kv_heads * sizes.head_dim
        return Work(2 * matrices, learnt, 2 * matrices * prompt, cached, prompt, new)
    graph = load_model(model, batch=1, data=False)
    flops = 2 * sum(node_work(graph, node).macs for node in graph.nodes)
    learnt = sum(prod(each.shape) for each in graph.constants() if len(each.shape) > 1)
    return Work(3 * flops if train else flops, learnt)


def forget_all() -> None:
    """Forget models, chips and clusters, whose files may change between questions."""
    forget()
    work_of.cache_clear()
    _mac_J.cache_clear()


def element_B(dtype: str) -> float:
    """Return the bytes of an element of the weights in a format."""
    return table.get(dtype.rpartition("x")[2] or dtype).bits / 8


def bound_of(question: Question, candidate: Candidate) -> Bound:
    """Return what a candidate takes at least."""
    work, chip = work_of(question.model, question.train), spec_of(candidate.chip)
    rate = peak(candidate.chip, candidate.dtype) * candidate.count
    room, watts = room_B(chip), sum(static_power_W(chip).values()) * candidate.count
    joules = work.flops / 2 * _mac_J(candidate.chip, candidate.dtype, Path(question.model).is_file())
    most_W = left_W(chip) * candidate.count  # a board that would draw more draws less for each operation
    held = work.weights * element_B(candidate.dtype)
    wide = candidate.count * bandwidth_Bps(chip)
    if question.task != GENERATION:
        seconds = max(work.flops * candidate.batch / rate, held / wide if question.task == RUN else 0.0)
        joules = min(joules, most_W * seconds / candidate.batch)
        return Bound(_least(question, candidate, seconds, watts, joules), _share(candidate, held), room)
    first = max(work.prompt_flops * candidate.batch / rate, held / wide)
    each = max(work.flops * candidate.batch / rate, held / wide)
    seconds = first + (work.new - 1) * each
    joules = min(joules * (work.prompt + work.new - 1), most_W * seconds / candidate.batch)
    least = _least(question, candidate, seconds, watts, joules) | {"ttft_s": first}
    least |= {"tpot_s": each, "tokens_per_s": candidate.batch / each} if work.new > 1 else {}
    kept = work.cached * element_B(candidate.dtype) * (work.prompt + work.new) * candidate.batch
    return Bound(least, (held + kept) / candidate.count, room)


def _share(candidate: Candidate, held: float) -> float:
    """Bytes of weights on a device of a plan; all of them without one."""
    parts = dict(part.split("=") for part in candidate.plan.split(",") if "=" in part)
    return held / (int(parts.get("tp", 1)) * int(parts.get("pp", 1)))


def room_B(chip: Chip) -> float:
    """Return the bytes that a chip can hold; of its host where that alone computes."""
    if multiplier(chip) is None and chip.host is not None:
        return float(chip.host.memory.capacity)
    return capacity_B(chip)


@cache
def _mac_J(chip: str, dtype: str, foreign: bool) -> float:
    """Return the energy of a multiply-accumulate in a format, with what a GPU draws around it; without that in integers
    for ``foreign`` models, files whose operands may be unsigned."""
    prices: dict[str, list[float]] = {}
    for (_, action), price in engine_prices(spec_of(chip)).items():
        prices.setdefault(str(action), []).append(price.energy_J)
    around = 0.0 if foreign and is_integer(dtype) else min(prices.get(f"around.{dtype}", [0.0]))
    return min(prices.get(f"mac.{dtype}", [0.0])) + around


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
    from accelsim.cluster.step.transformer import transformer_of

    sizes = transformer_of(model)
    assert sizes is not None  # tokens are of a language model
    return sizes.seq


def bandwidth_Bps(chip: Chip) -> float:
    """Return the highest rate of a memory of the chip that holds weights."""
    rates = [float(each.rate_Bps) for each in chip.memories.values() if each.link is None]
    return max(rates, default=float("inf"))


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
