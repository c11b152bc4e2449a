"""vLLM v1: no phases; in each step every running request computes what it lacks, as far as a budget of tokens goes."""

from __future__ import annotations

from accelsim.serving.blocks import Pool
from accelsim.serving.caches import HashBlocks
from accelsim.serving.schedulers.base import Batch, Chunks, Scheduler, tokens_of


class Vllm(Scheduler):
    """The scheduler of vLLM v1 (vllm/v1/core/sched/scheduler.py): paged blocks, chunked prefill, preemption by
    recomputation.

    ``budget``: tokens of a step; ``most``: requests that run at one time; ``chunk``: tokens of one prompt in a step (0:
    as many as the budget allows); ``reserve``: a request is admitted only when there are blocks for all of its tokens
    so far; ``watermark``: share of the blocks that admission leaves free while others run; ``cache``: blocks of shared
    prefixes are kept; ``hybrid``: layers with a window give back the blocks before it.
    """

    CACHE = HashBlocks

    def __init__(
        self, pool: Pool, budget: int = 8192, most: int = 256, chunk: int = 0, reserve: bool = True,
        watermark: float = 0.0, cache: bool = True, hybrid: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(pool)
        self.budget, self.most, self.chunk, self.reserve = budget, most, chunk, reserve
        self.cache, self.hybrid, self._kept = cache, hybrid, int(watermark * pool.size)

    @property
    def shut(self) -> bool:
        """Return whether nobody who waits can be admitted before another request leaves: free blocks become fewer. So
        do kept ones, and then a request may need fewer without ``reserve``."""
        return super().shut or self.reserve or type(self.pool) is Pool

    def plan(self) -> Batch | None:
        """Return the next step: first who runs, in order, then, unless somebody was preempted, who waits."""
        chunks: Chunks = {}
        preempted, decoding, chunk = [], self.decoding, self.chunk or self.budget
        alone = decoding.count and not self.waiting and not self.entering  # the same as below, in less time
        if alone and decoding.tokens <= self.budget and decoding.needed <= self.pool.free:
            decoding.hold()
            return Batch((), decoding.count, decoding.context, width=decoding.width)
        wanted = [(each, min(each.total - each.computed, chunk)) for each in self.entering]
        blocks = decoding.needed + sum(self.pool.lacks(each, each.computed + n) for each, n in wanted)
        if decoding.tokens + tokens_of(wanted) <= self.budget and blocks <= self.pool.free:
            decoding.hold()
            for sequence, tokens in wanted:
                self._take(chunks, sequence, tokens)
        else:
            self._halted()
            preempted = self._in_turn(chunks, self.running, self.budget, chunk)
        if not preempted:
            self._fill(chunks, chunk)
        if not chunks and not decoding.count:
            return None
        return Batch(tuple(chunks.items()), decoding.count, decoding.context, tuple(preempted), width=decoding.width)

    def _fill(self, chunks: Chunks, chunk: int) -> None:
        """Admit who waits, in order, while there is room."""
        left = self.budget - self.decoding.tokens - tokens_of(chunks.items())
        while self._waits() and left > 0 and len(self.running) < self.most:
            sequence = self.waiting[0]
            hits = self.pool.hits(sequence)
            tokens = min(sequence.total - hits, chunk, left)
            whole = sequence.total if self.reserve else hits + tokens
            computed = max(hits, whole - chunk)
            if not self.pool.fits(sequence, whole, self._kept if self.running else 0, computed):
                break
            self._take(chunks, self._enter(), tokens)
            left -= tokens
