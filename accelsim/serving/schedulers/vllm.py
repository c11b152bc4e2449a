"""vLLM v1: no phases; in each step every running request computes what it lacks, as far as a budget of tokens goes."""

from __future__ import annotations

from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler, tokens_of


class Vllm(Scheduler):
    """The scheduler of vLLM v1 (vllm/v1/core/sched/scheduler.py): paged blocks, chunked prefill, preemption by
    recomputation.

    ``budget``: tokens of a step; ``most``: requests that run at one time; ``reserve``: a request is admitted only when
    there are blocks for all of its tokens so far; ``watermark``: share of the blocks that admission leaves free while
    others run.
    """

    def __init__(
        self, pool: Pool, budget: int = 8192, most: int = 256, reserve: bool = True, watermark: float = 0.0
    ) -> None:
        super().__init__(pool)
        self.budget, self.most, self.reserve = budget, most, reserve
        self._kept = int(watermark * pool.size)

    def plan(self) -> Batch | None:
        """Return the next step: first who runs, in order, then, unless somebody was preempted, who waits."""
        chunks: dict[Sequence, int] = {}
        preempted: list[Sequence] = []
        decoding, wanted = self.decoding, [(each, each.total - each.computed) for each in self.entering]
        blocks = decoding.needed + sum(self.pool.of(each.computed + n) - each.blocks for each, n in wanted)
        if decoding.count + tokens_of(wanted) <= self.budget and blocks <= self.pool.free:
            decoding.hold()
            for sequence, tokens in wanted:
                self._take(chunks, sequence, tokens)
        else:
            preempted = self._one_by_one(chunks)
        if not preempted:
            self._admit(chunks)
        if not chunks and not decoding.count:
            return None
        return Batch(tuple(chunks.items()), decoding.count, decoding.context, tuple(preempted))

    def _take(self, chunks: dict[Sequence, int], sequence: Sequence, tokens: int) -> None:
        self.pool.hold(sequence, sequence.computed + tokens)
        chunks[sequence] = tokens

    def _one_by_one(self, chunks: dict[Sequence, int]) -> list[Sequence]:
        """Schedule who runs in order where tokens or blocks do not suffice for all: the last loses its blocks to those
        before it. Return who did."""
        self._halted()
        preempted, left = list[Sequence](), self.budget
        for sequence in [*self.running]:
            tokens = min(sequence.total - sequence.computed, left)
            if sequence not in self.running or not tokens:
                continue
            while sequence in self.running and not self.pool.fits(sequence, sequence.computed + tokens):
                last = next(reversed(self.running))
                left += chunks.pop(last, 0)
                self._preempt(last)
                preempted.append(last)
            if sequence not in self.running:
                break
            self._take(chunks, sequence, tokens)
            left -= tokens
        return preempted

    def _admit(self, chunks: dict[Sequence, int]) -> None:
        left = self.budget - self.decoding.count - tokens_of(chunks.items())
        while self.waiting and left > 0 and len(self.running) < self.most:
            sequence = self.waiting[0]
            tokens = min(sequence.total - sequence.computed, left)
            whole = sequence.total if self.reserve else sequence.computed + tokens
            if not self.pool.fits(sequence, whole, self._kept if self.running else 0):
                break
            self._take(chunks, self._admitted(), tokens)
            left -= tokens
