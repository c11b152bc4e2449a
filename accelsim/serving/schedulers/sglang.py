"""SGLang: prompts first, as many as tokens to come leave room for; where that was too many, some are retracted."""

from __future__ import annotations

from accelsim.serving.blocks import Pool
from accelsim.serving.caches import Radix
from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Chunks, Scheduler

CLIPPED = 4096
"""Tokens to come of a request that admission counts at most."""
FIRST, LAST, DECAY = 0.7, 0.14, 600
"""Share of the tokens to come that admission counts at first; the factor that it falls by, over so many steps."""
AHEAD = 20
"""Steps of decoding for which retraction leaves room."""


class Sglang(Scheduler):
    """The scheduler of SGLang (managers/schedule_policy.py, schedule_batch.py), with blocks of one token.

    ``chunk``: tokens of prompts in a step; ``budget``: tokens of prompts beyond which nobody joins such a step;
    ``most``: requests that run at one time; ``conservative``: factor on the share of tokens to come for which admission
    leaves room; ``mixed``: who decodes joins steps of prompts; ``cache``: shared prefixes are kept.
    """

    LARGEST = "chunk"
    PAGE = 1
    CACHE = Radix

    def __init__(
        self, pool: Pool, chunk: int = 8192, budget: int = 16384, most: int = 2048, conservative: float = 1.0,
        mixed: bool = False, cache: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(pool)
        self.chunk, self.budget, self.most, self.mixed = chunk, budget, most, mixed
        self.cache = cache
        self.share = self._first = min(1.0, FIRST * conservative)

    def plan(self) -> Batch | None:
        """Return the next step: prompts, while some are admitted; else a token of each request."""
        chunks: Chunks = {}
        decoding = self.decoding
        self._prompts(chunks, decoding.tokens if self.mixed else 0)
        if chunks:
            begun = sum(each.total - each.computed - chunks.get(each, 0) for each in self.entering)
            if not self.mixed or decoding.needed + begun > self.pool.free:
                return Batch(tuple(chunks.items()))
        elif not decoding.count:
            return None
        elif decoding.needed > self.pool.free:
            return self._retract()
        else:
            self._trust()
        decoding.hold()
        return Batch(tuple(chunks.items()), decoding.count, decoding.context, width=decoding.width)

    def skip(self, steps: int, now_s: float) -> None:
        """Go on by steps that are alike, and plan the next."""
        super().skip(steps, now_s)
        for _ in range(steps):
            self._trust()

    def _trust(self) -> None:
        """Count fewer tokens to come, as nobody is retracted."""
        self.share = max(self.share - self._first * (1 - LAST) / DECAY, self._first * LAST)

    def _prompts(self, chunks: Chunks, taken: int) -> None:
        """Continue the prompt that has begun, then admit who waits, in order, beside ``taken`` other tokens."""
        left, budget, room = self.chunk - taken, self.budget - taken, float(self.pool.free)
        for sequence in self.entering:
            self._take(chunks, sequence, min(sequence.total - sequence.computed, max(1, left)))
            left, budget = left - chunks[sequence], budget - chunks[sequence]
        if self.waiting:
            room -= sum(self._to_come(each) for each in self.running)
        while self._waits() and left > 0 and len(self.running) < self.most:
            sequence = self.waiting[0]
            tokens = sequence.total - self.pool.hits(sequence)
            more = tokens + min(sequence.left, CLIPPED) + self.pool.woken(sequence)
            if self.running and (more >= room or (chunks and tokens >= budget)):
                break
            self._take(chunks, self._enter(), min(tokens, left))
            left, budget, room = left - chunks[sequence], budget - chunks[sequence], room - more

    def _to_come(self, sequence: Sequence) -> float:
        """Return the tokens for which a sequence that runs will need room, as far as admission counts them."""
        done = self.decoding.now - sequence.since if sequence.since >= 0 else 0
        rest = sequence.total - sequence.computed if sequence in self.entering else 0
        return rest + min(sequence.left - done, CLIPPED) * self.share

    def _retract(self) -> Batch:
        """Take the blocks of those that have the fewest tokens, until there is room for some steps of the others."""
        self._halted()
        order = sorted(self.running, key=lambda each: (-each.generated, each.request.prompt))
        retracted = list[Sequence]()
        while len(order) > 1 and (not retracted or self.pool.free < AHEAD * len(order)):
            retracted.append(order.pop())
            self._preempt(retracted[-1])
        chunks: Chunks = {}
        self._in_turn(chunks, order, len(order))
        ahead = sum(each.generated + AHEAD for each in order)
        self.share = min(1.0, ahead / sum(each.request.output for each in order))
        return Batch(tuple(chunks.items()), preempted=tuple(retracted))

    def _preempt(self, sequence: Sequence) -> None:
        super()._preempt(sequence)
        self.waiting.rotate(-1)
