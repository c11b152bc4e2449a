"""Parts that all schedulers of language models share: the work of a step, sequences that decode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Hashable, Iterable
from itertools import accumulate
from typing import ClassVar, NamedTuple

from accelsim.serving.blocks import TOKENS, Pool
from accelsim.serving.requests import NEVER, Sequence
from accelsim.serving.slots import Adapted, Slots


class Batch(NamedTuple):
    """Work of one step: ``chunks`` are sequences and how many of their tokens are computed; ``decoding`` more compute
    ``width`` tokens each, and have ``context`` tokens in the cache in all. ``preempted``: who lost their blocks before
    it; ``moved``: blocks that go to the host's memory before it, or come back; ``adapted``: what adapters do in it.
    """

    chunks: tuple[tuple[Sequence, int], ...]
    decoding: int = 0
    context: int = 0
    preempted: tuple[Sequence, ...] = ()
    moved: int = 0
    width: int = 1
    adapted: Adapted = Adapted()

    @property
    def tokens(self) -> int:
        """Tokens that are computed."""
        return self.decoding * self.width + sum(tokens for _, tokens in self.chunks)

    @property
    def mix(self) -> Hashable:
        """All on which the cost of a step without chunks depends, beside the mean of the tokens in the cache."""
        return (self.decoding, self.adapted) if self.adapted.tokens else self.decoding


Chunks = dict[Sequence, int]
"""Sequences, and how many of their tokens the next step computes."""


class Decoding:
    """Sequences that compute one token in every step. What all of them take and hold follows from counts, so that a
    step costs the same for any number of them.

    ``count`` sequences with ``context`` computed tokens. In step ``now`` a sequence needs a new block if its computed
    tokens fill those that it has: sequences are counted by the step, modulo the tokens of a block, in which they do.
    Those longer than a window are counted likewise by the step after which they give a block back.
    ``dates``: how many of them got their last token at a time (s). ``width``: tokens that a sequence computes in a
    step; ``more``: how many of all it keeps in the next one, beyond one each.
    """

    width, more = 1, 0

    def __init__(self, pool: Pool) -> None:
        self._pool, self.count, self.context, self.now = pool, 0, 0, 0
        self.dates = dict[float, int]()
        self._end_s = NEVER
        self._filling, self._sliding = [0] * pool.tokens, [0] * pool.tokens
        self._longer: dict[int, list[Sequence]] = {}
        self._ending: dict[int, list[Sequence]] = {}

    @property
    def tokens(self) -> int:
        """Tokens that the next step computes."""
        return self.count * self.width

    @property
    def needed(self) -> int:
        """Blocks that the next step takes."""
        return self._pool.groups.number * self._filling[self.now % self._pool.tokens]

    def join(self, sequence: Sequence) -> None:
        """From the next step on a sequence decodes; all its tokens but the last one are computed."""
        sequence.since = self.now
        self.count += 1
        self.context += sequence.computed
        self._filling[(self.now - sequence.computed) % self._pool.tokens] += 1
        self._slide(sequence, 1)
        self._ending.setdefault(self.now + sequence.left, []).append(sequence)
        self.dates[sequence.last_s] = self.dates.get(sequence.last_s, 0) + 1

    def leave(self, sequence: Sequence) -> None:
        """A sequence decodes no more; how far it came is in it."""
        if sequence.since < self.now:
            sequence.last_s = self._end_s
        self.dates[sequence.last_s] -= 1
        self._ending[sequence.since + sequence.left].remove(sequence)
        self._out(sequence, self.now - sequence.since)

    def hold(self) -> None:
        """Take the blocks of the next step."""
        self._pool.take(self.needed)

    def taken(self, steps: int) -> list[int]:
        """Return the blocks that so many steps after the planned one take, from the first of them to each."""
        tokens, turned = self._pool.tokens, (self.now + 1) % self._pool.tokens
        around = self._filling[turned:] + self._filling[:turned]
        number = self._pool.groups.number
        return [number * each for each in accumulate((around * -(-steps // tokens))[:steps])]

    def alike(self, free: int) -> int:
        """Return how many steps from the planned one on end nobody, if ``free`` blocks are enough for what follows; 0
        where blocks before windows are given back."""
        steps = 0 if self._pool.groups.sliding else min(self._ending, default=0) - self.now - 1
        if steps <= 0 or self._pool.groups.number * self.count * (steps // self._pool.tokens + 1) <= free:
            return max(0, steps)
        return bisect_right(self.taken(steps), free)

    def skip(self, steps: int, now_s: float) -> None:
        """Go on by steps in which nobody ends, the last at ``now_s``, and take the blocks of the next one."""
        self._pool.take(self.taken(steps)[-1])
        self.now += steps
        self.context += steps * self.count
        self._end_s, self.dates = now_s, {now_s: self.count}

    def step(self, now_s: float) -> list[Sequence]:
        """Every sequence has computed a token and got one; return those that got their last, which leave."""
        self.now += 1
        self.context += self.count
        if self._pool.groups.sliding:
            self._pool.take(-self._pool.groups.sliding * self._sliding[self.now % self._pool.tokens])
            self._sliding[self.now % self._pool.tokens] += len(self._longer.pop(self.now, ()))
        ended = self._ending.pop(self.now, [])
        for sequence in ended:
            sequence.last_s = now_s
            self._out(sequence, sequence.left)
        self._end_s, self.dates = now_s, {now_s: self.count}
        return ended

    def _out(self, sequence: Sequence, steps: int) -> None:
        sequence.generated += steps
        sequence.computed += steps
        sequence.passed = max(sequence.passed, self._pool.passed(sequence, sequence.computed))
        sequence.blocks = self._pool.of(sequence.computed, sequence.passed)
        sequence.since = -1
        self.count -= 1
        self.context -= sequence.computed
        self._filling[(self.now - sequence.computed) % self._pool.tokens] -= 1
        self._slide(sequence, -1)

    def _slide(self, sequence: Sequence, count: int) -> None:
        """Count a sequence (1), or no longer (-1), by when it gives blocks back."""
        if not self._pool.groups.sliding:
            return
        begin = self.now + self._pool.slides(sequence) - sequence.computed
        if begin <= self.now:
            self._sliding[begin % self._pool.tokens] += count
        elif count > 0:
            self._longer.setdefault(begin, []).append(sequence)
        else:
            self._longer[begin].remove(sequence)


class Scheduler(ABC):
    """Decides what a replica computes in its next step.

    ``waiting``: sequences that wait to be admitted, in order; ``running``: those that were, in the order in which that
    happened. ``decoding``: those of them that compute one token a step, ``entering``: the others. ``slots``: of
    adapters, None without any.

    Keywords of a scheduler's constructor are the settings that users may give, with their defaults. ``LARGEST`` names
    the one that limits the tokens of a step.
    """

    LARGEST: ClassVar[str] = "budget"
    PAGE: ClassVar[int] = TOKENS
    """Tokens of a block."""
    CACHE: ClassVar[type[Pool]] = Pool
    """Room for keys and values where prompts share prefixes."""

    most: int

    def __init__(self, pool: Pool) -> None:
        self.pool, self.decoding = pool, Decoding(pool)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self.entering: dict[Sequence, None] = {}
        self.prompts_only = False
        self.slots: Slots | None = None
        self._aside = list[Sequence]()

    def add(self, sequence: Sequence) -> None:
        """A request arrives."""
        self.waiting.append(sequence)

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        return len(self.waiting) + len(self.running)

    def begin(self) -> Batch | None:
        """Return ``plan()`` with what adapters do in it. Sequences that wait for a slot keep their places."""
        if self.slots is None:
            return self.plan()
        admitted, loads = self.slots.admitted, self.slots.loads
        batch = self.plan()
        self.waiting.extendleft(reversed(self._aside))
        self._aside.clear()
        if batch is None:
            return None
        tokens, distinct = self._adapted(batch, self.slots)
        found = Adapted(tokens, distinct, self.slots.loads - loads, self.slots.admitted - admitted)
        return batch._replace(adapted=found)

    def _adapted(self, batch: Batch, slots: Slots) -> tuple[int, int]:
        """Return the tokens of a batch that have an adapter, and the distinct adapters of these."""
        chunks = [(each.request.adapter, tokens) for each, tokens in batch.chunks if each.request.adapter]
        tokens, names = sum(tokens for _, tokens in chunks), {name for name, _ in chunks}
        if batch.decoding:
            decoding = slots.used - Counter(each.request.adapter for each in self.entering)
            tokens, names = tokens + batch.width * decoding.total(), names | decoding.keys()
        return tokens, len(names)

    @abstractmethod
    def plan(self) -> Batch | None:
        """Return the work of the next step, whose blocks are held from now on; None where nothing can run."""

    @property
    def shut(self) -> bool:
        """Return whether nobody who waits can be admitted before another request leaves."""
        return not self.waiting or len(self.running) >= self.most

    def alike(self, batch: Batch) -> int:
        """Return how many steps are certain to do what a planned one does, this one included, before a step that does
        it once more, if no request arrives: all of them add a token to the same sequences, and nobody ends."""
        if batch.chunks or batch.preempted or batch.moved or self.entering or not self.shut:
            return 0
        return self.decoding.alike(self.pool.free)

    def skip(self, steps: int, now_s: float) -> None:
        """Go on by steps that are alike, the last of which ends at ``now_s``, and plan the next."""
        self.decoding.skip(steps, now_s)

    def complete(self, batch: Batch, now_s: float) -> list[Sequence]:
        """A step ends: tokens come out, who has all leaves with its blocks; return these. With ``prompts_only`` who has
        its first token leaves too."""
        ended = self.decoding.step(now_s) if batch.decoding else []
        for sequence, tokens in batch.chunks:
            sequence.computed += tokens
            self.pool.store(sequence, sequence.computed)
            self.pool.slide(sequence)
            if sequence.computed == sequence.total:
                sequence.emit(now_s)
                if sequence.left and not self.prompts_only:
                    del self.entering[sequence]
                    self.decoding.join(sequence)
                else:
                    ended.append(sequence)
        for sequence in ended:
            self._end(sequence)
        return ended

    def _take(self, chunks: Chunks, sequence: Sequence, tokens: int) -> None:
        """Compute ``tokens`` of a sequence in the next step."""
        self.pool.hold(sequence, sequence.computed + tokens)
        chunks[sequence] = tokens

    def _waits(self) -> bool:
        """Return whether somebody waits who may be admitted as far as adapters count. Those whose adapters get no slot
        step aside, and those after them overtake (``max_loras`` of vLLM)."""
        while self.slots and self.waiting and not self.slots.admits(self.waiting[0].request.adapter):
            self._aside.append(self.waiting.popleft())
        return bool(self.waiting)

    def _enter(self) -> Sequence:
        """Admit the sequence that waits first."""
        sequence = self.waiting.popleft()
        if self.slots:
            self.slots.enter(sequence.request.adapter)
        self.pool.share(sequence)
        self.pool.slide(sequence)
        self.running[sequence] = self.entering[sequence] = None
        return sequence

    def _in_turn(self, chunks: Chunks, order: Iterable[Sequence], left: int, most: int = 0) -> list[Sequence]:
        """Schedule sequences in order, as far as ``left`` tokens go, ``most`` for each (0: any number). Where blocks do
        not suffice, the last one loses its blocks to those before it. Return who did."""
        queue, preempted = deque(order), list[Sequence]()
        while queue and left > 0:
            sequence = queue.popleft()
            tokens = min(sequence.total - sequence.computed, most or left, left)
            while queue and not self._grows(sequence, tokens):
                preempted.append(queue.pop())
                self._preempt(preempted[-1])
            if not self._grows(sequence, tokens):
                self._preempt(sequence)
                return [*preempted, sequence]
            self._take(chunks, sequence, tokens)
            left -= tokens
        return preempted

    def _grows(self, sequence: Sequence, tokens: int) -> bool:
        """Return whether there are blocks for ``tokens`` more of a sequence that runs."""
        return self.pool.fits(sequence, sequence.computed + tokens)

    def _halted(self) -> None:
        """All that decode are asked one by one in the next step."""
        for sequence in self.running:
            if sequence.since >= 0:
                self.decoding.leave(sequence)
        self.entering = dict(self.running)

    def _end(self, sequence: Sequence) -> None:
        """Take a sequence out of those that run, with its blocks."""
        del self.running[sequence]
        self.entering.pop(sequence, None)
        self.pool.release(sequence)
        if self.slots:
            self.slots.leave(sequence.request.adapter)

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks of an entering sequence, which waits before all others to compute everything once more."""
        self._end(sequence)
        sequence.again += sequence.computed
        sequence.computed = 0
        sequence.preempted += 1
        self.waiting.appendleft(sequence)


def tokens_of(chunks: Iterable[tuple[Sequence, int]]) -> int:
    """Return the tokens of chunks."""
    return sum(tokens for _, tokens in chunks)
