"""Static batches: a batch is formed of who waits, and runs to its end before the next is."""

from __future__ import annotations

from accelsim.serving.blocks import Pool
from accelsim.serving.schedulers.base import Batch, Chunks, Scheduler


class Static(Scheduler):
    """Batches as before Orca (Yu et al., OSDI 2022): nobody joins one that runs.

    ``most``: requests of a batch; ``budget``: tokens of prompts that a step computes. A batch has room for all tokens
    that its requests will have. Prompts are not padded, and who has all tokens leaves with its blocks.
    """

    def __init__(self, pool: Pool, most: int = 32, budget: int = 8192) -> None:
        super().__init__(pool)
        self.most, self.budget = most, budget

    @property
    def shut(self) -> bool:
        """Return whether nobody who waits can be admitted before another request leaves, and a batch ends."""
        return True

    def plan(self) -> Batch | None:
        """Return the next step: prompts, as far as the budget goes; after the last, a token of each request."""
        if not self.running:
            self._form()
        chunks: Chunks = {}
        self._in_turn(chunks, self.entering, self.budget)
        if chunks:
            return Batch(tuple(chunks.items()))
        if not self.running:
            return None
        self.decoding.hold()
        return Batch((), self.decoding.count, self.decoding.context, width=self.decoding.width)

    def _form(self) -> None:
        free = self.pool.size
        while self._waits() and len(self.running) < self.most:
            free -= self.pool.of(self.waiting[0].total + self.waiting[0].left - 1)
            if free < 0:
                break
            self._enter()
