"""Collectives of a tensor-parallel group in the passes of a decoder, and the products that may hide them.

With sequence parallelism each product of a block has a collective before or after it (Korthikanti et al., arXiv
2205.05198). Megatron-LM's ``--tp-comm-overlap`` (Transformer Engine's userbuffers) overlaps them in two manners:

* In chunks, one for each device of the group: a product whose operand is gathered starts with the part that is there; a
  product whose result is scattered sends each part as soon as it is done. So in the forward pass, and in the backward
  pass for the gathered gradients of 'out' and 'down'.
* In bulk, beside a product that needs nothing of it: inputs of 'qkv' and 'up' are gathered again beside the gradient
  of their activations; that gradient is scattered beside the gradient of their weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.costs import Costs
from accelsim.cluster.step.segments import Split, products

SHORT_B, LONG_B = 2, 4
"""Bytes of a number in 16 and in 32 bits."""


class Call(NamedTuple):
    """Collectives of a tensor-parallel group for one microbatch: ``times`` of ``kind`` on ``nbytes``.

    ``product_fs``: time of the product that each may overlap with, 0 for none; ``chunks``, ``chunk_fs``: parts of that
    product that start as their operands arrive, or leave as they are done, and the time of one.
    """

    kind: str
    nbytes: int
    times: int = 1
    product_fs: int = 0
    chunks: int = 1
    chunk_fs: int = 0

    def exposed_fs(self, alone_fs: int) -> int:
        """Return by how much a collective of ``alone_fs`` makes its product longer: at most its own time, which it
        takes where overlapping does not pay.

        In chunks it is a pipeline of two stages: chunk k needs transfer k, and the first none (or the last transfer
        follows the last chunk).
        """
        if not self.product_fs:
            return alone_fs
        together = max(self.product_fs, alone_fs)
        if self.chunks > 1:
            sent_fs = -(-alone_fs // (self.chunks - 1))
            together = self.chunk_fs + (self.chunks - 1) * max(self.chunk_fs, sent_fs)
        return max(0, min(alone_fs, together - self.product_fs))


Calls = tuple[Call, ...]


def calls_of(
    split: Split, plan: Plan, blocks: int, ends: tuple[bool, bool], costs: Costs
) -> tuple[Calls, Calls, Calls]:
    """Return the collectives of a piece in the forward pass, again in recomputation, in the backward pass.

    Two all-reduces of a block in each pass (as many all-gathers and reduce-scatters with sequence parallelism, and two
    all-gathers more for the gradients of weights); the embedding (``ends``: whether it is there, and the output
    projection), and the input of the output projection; sums of the loss over the parts of the vocabulary.
    """
    if split.tp == 1:
        return (), (), ()
    first, last = ends
    x_B = SHORT_B * split.batch * split.model.seq * split.model.hidden
    pairs = ("all_gather", "reduce_scatter") if split.sp else ("all_reduce",)
    through = tuple(Call(kind, x_B, 2 * blocks) for kind in pairs)
    back = (*through, *([Call("all_gather", x_B, 2 * blocks)] if split.sp else []))
    if split.sp and costs.setting.overlap_tensor:
        through, back = (
            tuple(each._replace(nbytes=x_B, times=blocks) for each in one) for one in overlapping(split, costs)
        )
    forward = (*through, *([Call(pairs[-1], x_B)] if first else []))
    backward = (*back, *([Call(pairs[0], x_B)] if first and split.sp else []))
    if last:
        scores = Call("all_reduce", LONG_B * split.batch * split.model.seq, 3)
        forward = (*forward, scores, *([Call("all_gather", x_B)] if split.sp else []))
        backward = (*backward, Call(pairs[-1], x_B))
    return forward, through if plan.recompute == "full" else (), backward


COLUMNS, ROWS = ("qkv", "up"), ("out", "down")
"""Products whose operand is gathered, and whose result is scattered."""


def overlapping(split: Split, costs: Costs) -> tuple[list[Call], list[Call]]:
    """Return the collectives of one block in the forward and in the backward pass with their products."""
    whole, part = (
        {name: costs.piece(segment, apart=True) for name, segment in products(each).items()}
        for each in (split, replace(split, part=split.tp))
    )

    def chunked(kind: str, name: str, which: str) -> Call:
        product_fs, chunk_fs = (getattr(each[name], which).time_fs for each in (whole, part))
        return Call(kind, 0, 1, product_fs, split.tp, chunk_fs)

    def bulk(kind: str, name: str, which: str) -> Call:
        return Call(kind, 0, 1, getattr(whole[name], which).time_fs)

    forward = [chunked("all_gather", name, "forward") for name in COLUMNS]
    forward += [chunked("reduce_scatter", name, "forward") for name in ROWS]
    backward = [chunked("all_gather", name, "inputs") for name in ROWS]
    backward += [bulk("all_gather", name, "inputs") for name in COLUMNS]
    backward += [bulk("reduce_scatter", name, "weights") for name in COLUMNS]
    return forward, backward
