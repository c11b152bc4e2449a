"""vLLM v0: prompts first, alone in their steps; blocks of who must give way are swapped out or computed again."""

from __future__ import annotations

from collections import deque
from typing import Literal

from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Chunks, Scheduler


class VllmV0(Scheduler):
    """The scheduler of vLLM before v1 (Kwon et al., SOSP 2023; vllm/core/scheduler.py of 0.2).

    ``budget``: most tokens of a step of prompts, padded to the longest of them (a prompt alone may have more);
    ``most``: requests that run at one time; ``watermark``: share of the blocks that admission leaves free while others
    run; ``preempt``: the last that runs, when another lacks a block, goes to the host's memory (``swap``) or computes
    everything again (``recompute``).
    """

    def __init__(
        self, pool: Pool, budget: int = 4096, most: int = 128, watermark: float = 0.01,
        preempt: Literal["recompute", "swap"] = "recompute",
    ) -> None:  # fmt: skip
        super().__init__(pool)
        self.budget, self.most, self.preempt = budget, most, preempt
        self.swapped: deque[Sequence] = deque()
        self._kept, self._moved = int(watermark * pool.size), 0

    @property
    def load(self) -> int:
        """Requests that wait, run or are swapped out."""
        return super().load + len(self.swapped)

    @property
    def shut(self) -> bool:
        """Return whether nobody who waits can be admitted before another request leaves: blocks only become fewer."""
        return not self.swapped

    def plan(self) -> Batch | None:
        """Return the next step: all prompts that fit, unless somebody is swapped out; else a token of each request."""
        chunks: Chunks = {}
        if not self.swapped:
            self._prompts(chunks)
        if chunks:
            return Batch(tuple(chunks.items()))
        preempted, self._moved = list[Sequence](), 0
        if self.decoding.needed < self.pool.free or not self.decoding.count:
            self.decoding.hold()
        else:
            self._halted()
            preempted = self._in_turn(chunks, self.running, len(self.running))
        if not preempted:
            self._return(chunks)
        if not chunks and not self.decoding.count:
            return None
        decoding = self.decoding
        return Batch(
            tuple(chunks.items()), decoding.count, decoding.context, tuple(preempted), self._moved, decoding.width
        )

    def alike(self, batch: Batch) -> int:
        """Return how many steps are certain to be alike; one block stays free, see ``_grows``."""
        return min(super().alike(batch), self.decoding.alike(self.pool.free - 1))

    def _prompts(self, chunks: Chunks) -> None:
        longest = 0
        while self._waits() and len(self.running) < self.most:
            sequence = self.waiting[0]
            tokens = sequence.total - sequence.computed
            longest = max(longest, tokens)
            if chunks and longest * (len(chunks) + 1) > self.budget:
                break
            if not self.pool.fits(sequence, sequence.total, self._kept if self.running else 0):
                break
            self._take(chunks, self._enter(), tokens)

    def _grows(self, sequence: Sequence, tokens: int) -> bool:
        """Return whether a block is free, which v0 asks for even where none is needed."""
        return self.pool.free > 0

    def _preempt(self, sequence: Sequence) -> None:
        if self.preempt == "recompute":
            super()._preempt(sequence)
            return
        self._moved += sequence.blocks
        self._end(sequence)
        sequence.preempted += 1
        self.swapped.append(sequence)

    def _return(self, chunks: Chunks) -> None:
        """Bring back who was swapped out, in order, while there is room."""
        while self.swapped and len(self.running) < self.most:
            sequence = self.swapped[0]
            if not self.pool.fits(sequence, sequence.total, self._kept if self.running else 0):
                break
            if self.slots and not self.slots.admits(sequence.request.adapter):
                break
            self._moved += self.pool.of(sequence.computed)
            self.waiting.appendleft(self.swapped.popleft())
            self._take(chunks, self._enter(), 1)
