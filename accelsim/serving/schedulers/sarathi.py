"""Sarathi-Serve: decoding never waits; chunks of prompts fill what it leaves of a fixed number of tokens."""

from __future__ import annotations

from accelsim.serving.blocks import Pool
from accelsim.serving.schedulers.base import Batch, Chunks, Scheduler, tokens_of


class Sarathi(Scheduler):
    """The scheduler of Sarathi-Serve (Agrawal et al., OSDI 2024), as in vidur: stall-free batches.

    ``chunk``: tokens of a step, of which each request that decodes takes one; ``most``: requests that run at one time;
    ``watermark``: share of the blocks that admission leaves free while others run. A request is admitted with the
    blocks of its whole prompt.
    """

    LARGEST = "chunk"

    def __init__(self, pool: Pool, chunk: int = 512, most: int = 128, watermark: float = 0.01) -> None:
        super().__init__(pool)
        self.chunk, self.most = chunk, most
        self._kept = int(watermark * pool.size)

    @property
    def shut(self) -> bool:
        """Return whether nobody who waits can be admitted before another request leaves: blocks only become fewer."""
        return True

    def plan(self) -> Batch | None:
        """Return the next step: who decodes, then prompts that have begun, then who waits."""
        chunks: Chunks = {}
        decoding = self.decoding
        if decoding.needed <= self.pool.free:
            decoding.hold()
            preempted = self._in_turn(chunks, self.entering, self.chunk - decoding.tokens)
        else:
            self._halted()
            order = sorted(self.running, key=lambda each: each.total - each.computed > 1)
            tokens = sum(each.total - each.computed == 1 for each in order)
            preempted = self._in_turn(chunks, order, max(self.chunk, tokens))
        if not preempted:
            self._fill(chunks, self.chunk - decoding.tokens - tokens_of(chunks.items()))
        if not chunks and not decoding.count:
            return None
        return Batch(tuple(chunks.items()), decoding.count, decoding.context, tuple(preempted), width=decoding.width)

    def _fill(self, chunks: Chunks, left: int) -> None:
        """Admit who waits, in order, while there is room for its prompt."""
        while self._waits() and left > 0 and len(self.running) < self.most:
            sequence = self.waiting[0]
            if not self.pool.fits(sequence, sequence.total, self._kept if self.running else 0):
                break
            self.pool.hold(self._enter(), sequence.total)
            chunks[sequence] = min(sequence.total - sequence.computed, left)
            left -= chunks[sequence]
