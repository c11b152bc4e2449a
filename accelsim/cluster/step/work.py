"""Training cut by a plan: what a device computes, sends, keeps and learns of each piece of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from accelsim.cluster.plan.plan import RECOMPUTE, Plan, Recompute
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.costs import Cost, Costs, PassCosts
from accelsim.cluster.step.segments import Split, block, edge
from accelsim.cluster.step.tensor import LONG_B, SHORT_B, Calls, calls_of
from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph


@dataclass(frozen=True)
class Piece:
    """One of ``plan.stages`` pieces of a model, for one microbatch on one device of its tensor-parallel group.

    ``costs``: its passes. ``calls``: collectives of the tensor-parallel group in the forward pass, again in
    recomputation, in the backward pass. ``result_B``: what goes to the next piece, whole. ``parameters``: of this
    device before ZeRO, by layer in the order of the forward pass. ``stash_B``: kept from the forward to the backward
    pass. ``working_B``: needed beside it while a pass runs. ``offloaded_B``: kept in the memory of the host.
    """

    costs: PassCosts
    calls: tuple[Calls, Calls, Calls]
    result_B: int
    parameters: tuple[int, ...]
    stash_B: int
    working_B: int
    offloaded_B: int = 0


class Graphs(NamedTuple):
    """Graphs that a device runs of a piece for one microbatch, in order: forward pass, recomputation, backward pass,
    and gradients of weights where they are apart."""

    forward: tuple[Graph, ...]
    again: tuple[Graph, ...] = ()
    backward: tuple[Graph, ...] = ()
    weights: tuple[Graph, ...] = ()


class Work(Protocol):
    """A model to train with a batch; ``samples`` of a microbatch, each of ``sample_tokens`` (0: no tokens)."""

    @property
    def name(self) -> str:
        """Name for tables."""

    @property
    def unit(self) -> str:
        """Name of a sample, such as 'sequences'."""

    @property
    def sample_tokens(self) -> int:
        """Tokens of a sample, 0 where it has none."""

    def sample_flops(self) -> int:
        """Return the floating-point operations of a forward and a backward pass of one sample, without
        recomputation."""

    def piece(self, index: int, plan: Plan, samples: int, costs: Costs) -> Piece:
        """Return a piece of the model for microbatches of ``samples``."""

    def graphs(self, index: int, plan: Plan, samples: int, costs: Costs) -> Graphs:
        """Return the graphs whose cost ``piece`` reports, for one device without tensor parallelism."""

    def shared_B(self, plan: Plan) -> int:
        """Return the bytes of gradients that the first and the last piece share, on each device; 0 for none."""

    def widths(self) -> dict[str, int]:
        """Return the sizes that tensor parallelism divides, by name; {} where it cannot."""

    def depth(self) -> int:
        """Return the number of layers that a pipeline may cut between."""


UNITS = 2
"""Units of layers that a device holds whole at a time, one at work and the next: weights (ZeRO 3) and gradients
(ZeRO 2 and 3), activations that wait in the memory of the host."""
UNIT_B = 25 * 2**20
"""Bytes of weights from which on the layers that ZeRO gathers and scatters together are a unit: a block of a large
model, several layers of a small one."""


def units_of(parameters: Sequence[int]) -> list[int]:
    """Return the parameters of each unit of layers, in their order."""
    found, held = [], 0
    for count in parameters:
        held += count
        if SHORT_B * held >= UNIT_B:
            found.append(held)
            held = 0
    return [*found, *([held] if held else [])]


def recomputes(work: Work, flash: bool) -> tuple[Recompute, ...]:
    """Return the kinds of recomputation, least first. Only decoders have selective recomputation, and ``flash``
    attention repeats that part in any case."""
    return RECOMPUTE if work.sample_tokens and not flash else (RECOMPUTE[0], RECOMPUTE[-1])


@dataclass(frozen=True)
class DecoderWork:
    """A decoder as work. Pieces have equal numbers of blocks (if the layers do not divide, later ones have one more);
    the first has the embedding, the last the output projection and the loss too."""

    model: Transformer
    known: dict[object, Piece] = field(default_factory=dict, compare=False, repr=False)
    unit: str = "sequences"

    @property
    def name(self) -> str:
        """Name for tables."""
        return self.model.name

    @property
    def sample_tokens(self) -> int:
        """Tokens of a sequence."""
        return self.model.seq

    def sample_flops(self) -> int:
        """See ``Transformer.sequence_flops``."""
        return self.model.sequence_flops

    def widths(self) -> dict[str, int]:
        """Return heads and the feed-forward width."""
        return {"heads": self.model.heads, "ffn": self.model.ffn}

    def depth(self) -> int:
        """Return the number of blocks."""
        return self.model.layers

    def shared_B(self, plan: Plan) -> int:
        """Return the bytes of the embedding, if it is also the output projection of another device."""
        return SHORT_B * self.model.vocab * self.model.hidden // plan.tp if self.model.tied and plan.pp > 1 else 0

    def piece(self, index: int, plan: Plan, samples: int, costs: Costs) -> Piece:
        """See ``Work``."""
        ends, blocks = (index == 0, index == plan.stages - 1), self._blocks(index, plan)
        apart = schedule(plan.schedule).splits
        key = (costs, blocks, ends, plan.tp, plan.sp, plan.recompute, samples, apart)
        if key not in self.known:
            split = Split(self.model, samples, plan.tp, plan.sp, costs.flash)
            self.known[key] = self._piece(split, plan, blocks, ends, costs)
        return self.known[key]

    def _blocks(self, index: int, plan: Plan) -> int:
        layers = self.model.layers
        return layers * (index + 1) // plan.stages - layers * index // plan.stages

    def graphs(self, index: int, plan: Plan, samples: int, costs: Costs) -> Graphs:
        """Return graphs as ``Work`` says. Gradients of weights are never apart: their costs are a difference."""
        split = Split(self.model, samples, flash=costs.flash)
        middle = block(split) * self._blocks(index, plan)
        first = edge(split, "embedding") if index == 0 else ()
        last = edge(split, "head") if index == plan.stages - 1 else ()
        pieces = [each for each in (*first, *middle, *last) for _ in range(each.times)]
        again = [each for each in middle for _ in range(each.times) if plan.recompute == "full" or each.core]
        made = {id(each): costs.passes(each) for each in pieces}
        return Graphs(
            tuple(made[id(each)].forward for each in pieces),
            tuple(made[id(each)].forward for each in again) if plan.recompute != "none" else (),
            tuple(made[id(each)].backward for each in reversed(pieces)),
        )

    def _piece(self, split: Split, plan: Plan, blocks: int, ends: tuple[bool, bool], costs: Costs) -> Piece:
        apart = schedule(plan.schedule).splits
        block = costs.block(split, apart)
        total, again = block * blocks, Cost()
        if plan.recompute != "none":
            again = (block.forward if plan.recompute == "full" else block.core) * blocks
        for there, name in zip(ends, ("embedding", "head"), strict=True):
            total += costs.edge(split, name, apart) if there else PassCosts()
        x_B = SHORT_B * split.batch * self.model.seq * self.model.hidden
        kept_B, working = stash_B(split, plan.recompute), working_B(split, plan.recompute, ends[1])
        away = costs.setting.offload
        calls, learnt = calls_of(split, plan, blocks, ends, costs), self._parameters(split.tp, blocks, ends)
        stash = (0 if away else blocks * kept_B, working + UNITS * kept_B * away, blocks * kept_B * away)
        return Piece(total._replace(again=again), calls, x_B, learnt, *stash)

    def _parameters(self, tp: int, blocks: int, ends: tuple[bool, bool]) -> tuple[int, ...]:
        model = self.model
        whole = model.hidden * ((2 if model.gated else 4) + (2 if model.bias else 0))
        layer = (model.layer_parameters - whole) // tp + whole
        found = [layer] * blocks
        if ends[0]:
            found = [model.vocab * model.hidden // tp + model.positions * model.hidden, *found]
        if ends[1]:
            own = model.vocab * model.hidden // tp if not model.tied or not ends[0] else 0
            found.append(own + model.hidden * (1 if model.gated else 2))
        return tuple(found)


def stash_B(split: Split, recompute: Recompute) -> int:
    """Return the bytes that a block keeps of a microbatch for its backward pass, on each device, in formats of 16 bits
    (Korthikanti et al., arXiv 2205.05198, section 4.1, with the sizes of this block).

    Inputs of both norms and of the products after them, and masks of dropout, lie whole on all devices unless ``sp``
    cuts them; queries, keys, values, what the heads have gathered and the inner activations of the feed-forward part
    (gated: both factors and their product) are cut. Plain attention keeps the softmax and, with dropout, its mask and
    result; FlashAttention the logarithm of each row's sum in 32 bits.
    """
    model, tokens = split.model, split.batch * split.model.seq
    if recompute == "full":
        return SHORT_B * tokens * model.hidden
    between = tokens * model.hidden * (4 * SHORT_B + 2 * model.dropout)
    heads = model.heads * model.head_dim + 2 * max(split.tp, model.kv_heads) * model.head_dim
    inner = (3 if model.gated else 2) * model.ffn
    inside = SHORT_B * tokens * (heads + model.hidden + inner)
    core = 0
    if split.flash:
        core = LONG_B * tokens * model.heads
    elif recompute == "none":
        core = tokens * model.seq * model.heads * (2 * SHORT_B + 1 if model.dropout else SHORT_B)
    return -(-between // (split.tp if split.sp else 1)) - (-(inside + core) // split.tp)


def working_B(split: Split, recompute: Recompute, last: bool) -> int:
    """Return the bytes needed beside stashes: a recomputed block, and on the last piece the scores of the vocabulary in
    FP32 with their gradient."""
    again = 0 if recompute == "none" else stash_B(split, "none") - stash_B(split, recompute)
    logits = split.batch * split.model.seq * split.model.vocab // split.tp
    return again + (logits * (LONG_B + SHORT_B) if last else 0)
