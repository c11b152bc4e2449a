"""Parts that all schedulers of language models share: the work of a step, sequences that decode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from accelsim.serving.blocks import Pool
from accelsim.serving.requests import NEVER, Sequence


class Batch(NamedTuple):
    """Work of one step: ``chunks`` are sequences and how many of their tokens are computed; ``decoding`` more compute
    one token each, and have ``context`` tokens in the cache in all. ``preempted``: who lost their blocks before it.
    """

    chunks: tuple[tuple[Sequence, int], ...]
    decoding: int = 0
    context: int = 0
    preempted: tuple[Sequence, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens that are computed."""
        return self.decoding + sum(tokens for _, tokens in self.chunks)


class Decoding:
    """Sequences that compute one token in every step. What all of them take and hold follows from counts, so that a
    step costs the same for any number of them.

    ``count`` sequences with ``context`` computed tokens. In step ``now`` a sequence needs a new block if its computed
    tokens fill those that it has: sequences are counted by the step, modulo the tokens of a block, in which they do.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool, self.count, self.context, self.now = pool, 0, 0, 0
        self._filling = [0] * pool.tokens
        self._ending: dict[int, list[Sequence]] = {}

    @property
    def needed(self) -> int:
        """Blocks that the next step takes."""
        return self._filling[self.now % self._pool.tokens]

    def join(self, sequence: Sequence) -> None:
        """From the next step on a sequence decodes; all its tokens but the last one are computed."""
        sequence.since = self.now
        self.count += 1
        self.context += sequence.computed
        self._filling[(self.now - sequence.computed) % self._pool.tokens] += 1
        self._ending.setdefault(self.now + sequence.left, []).append(sequence)

    def leave(self, sequence: Sequence) -> None:
        """A sequence decodes no more; how far it came is in it, but not when its last token came (``last_s``)."""
        sequence.last_s = NEVER
        self._ending[sequence.since + sequence.left].remove(sequence)
        self._out(sequence, self.now - sequence.since)

    def hold(self) -> None:
        """Take the blocks of the next step."""
        self._pool.free -= self.needed

    def step(self) -> list[Sequence]:
        """Every sequence has computed a token and got one; return those that got their last, which leave."""
        self.now += 1
        self.context += self.count
        ended = self._ending.pop(self.now, [])
        for sequence in ended:
            self._out(sequence, sequence.left)
        return ended

    def _out(self, sequence: Sequence, steps: int) -> None:
        sequence.generated += steps
        sequence.computed += steps
        sequence.blocks = self._pool.of(sequence.computed)
        sequence.since = -1
        self.count -= 1
        self.context -= sequence.computed
        self._filling[(self.now - sequence.computed) % self._pool.tokens] -= 1


class Scheduler(ABC):
    """Decides what a replica computes in its next step.

    ``waiting``: sequences that wait to be admitted, in order; ``running``: those that were, in the order in which that
    happened. ``decoding``: those of them that compute one token a step, ``entering``: the others.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool, self.decoding = pool, Decoding(pool)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self.entering: dict[Sequence, None] = {}

    def add(self, sequence: Sequence) -> None:
        """A request arrives."""
        self.waiting.append(sequence)

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        return len(self.waiting) + len(self.running)

    @abstractmethod
    def plan(self) -> Batch | None:
        """Return the work of the next step, whose blocks are held from now on; None where nothing can run."""

    def complete(self, batch: Batch, now_s: float) -> list[Sequence]:
        """A step ends: tokens come out, who has all leaves with its blocks; return these."""
        ended = self.decoding.step() if batch.decoding else []
        for sequence in ended:
            sequence.last_s = now_s
        for sequence, tokens in batch.chunks:
            sequence.computed += tokens
            if sequence.computed == sequence.total:
                sequence.emit(now_s)
                if sequence.left:
                    del self.entering[sequence]
                    self.decoding.join(sequence)
                else:
                    ended.append(sequence)
        for sequence in ended:
            self._end(sequence)
        return ended

    def _admitted(self) -> Sequence:
        sequence = self.waiting.popleft()
        self.running[sequence] = self.entering[sequence] = None
        return sequence

    def _halted(self) -> None:
        """All that decode are asked one by one in the next step."""
        for sequence in self.running:
            if sequence.since >= 0:
                self.decoding.leave(sequence)
        self.entering = dict(self.running)

    def _end(self, sequence: Sequence) -> None:
        del self.running[sequence]
        self.entering.pop(sequence, None)
        self.pool.release(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        """An entering sequence loses its blocks, and waits before all others to compute everything once more."""
        del self.running[sequence], self.entering[sequence]
        self.pool.release(sequence)
        sequence.again += sequence.computed
        sequence.computed = 0
        sequence.preempted += 1
        self.waiting.appendleft(sequence)


def tokens_of(chunks: Iterable[tuple[Sequence, int]]) -> int:
    """Return the tokens of chunks."""
    return sum(tokens for _, tokens in chunks)
