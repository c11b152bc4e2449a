"""Prefix caches: blocks of prompts that other requests share, kept after their users have left while there is room."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from itertools import count, islice

from accelsim.serving.blocks import TOKENS, Groups, Pool
from accelsim.serving.requests import Part, Sequence

Key = tuple[int | str, int]
"""Name of a unit of tokens that is kept: its part of a prompt (below 0: one of a single request), and where in it."""
Unit = tuple[Key, int]
"""A unit, and its blocks in each group of layers."""


class HashBlocks(Pool):
    """Blocks by the hash of their tokens and all before them, as vLLM v1 keeps them (vllm/v1/core/block_pool.py).

    A full block can be found as soon as it is planned. Blocks that nobody uses wait in a queue, the last of a request
    first, and lose what they hold when they are needed. At least one token of a prompt is computed. Layers with a
    window keep shared parts while a request uses them, and nothing else that others, or it itself later, could find.
    """

    def __init__(self, size: int, tokens: int = TOKENS, groups: Groups = Groups()) -> None:  # noqa: B008 - a tuple
        super().__init__(size, tokens, groups)
        self._units: dict[Sequence, list[Unit]] = {}
        self._users: Counter[Key] = Counter()
        self._idle: OrderedDict[Key, int] = OrderedDict()
        self._blank = size

    def hits(self, sequence: Sequence) -> int:
        """Return the tokens of a waiting sequence that need not be computed."""
        found = self.tokens * sum(blocks for _, blocks in self._found(sequence))
        return sequence.computed or min(found, sequence.total - 1)

    def slides(self, sequence: Sequence) -> int:
        """Return the tokens of a sequence from which on each block of further ones gives one back."""
        shared = self._units.get(sequence) or self._found(sequence)
        return super().slides(sequence) + self.tokens * sum(blocks for _, blocks in shared)

    def fits(self, sequence: Sequence, tokens: int, kept: int = 0, computed: int = 0) -> bool:
        """Return whether a sequence can have ``tokens`` in all, and ``kept`` blocks stay free; blocks that others use
        take no room."""
        room = self.free - kept - self.lacks(sequence, tokens, computed)
        return room >= 0 or room + self._all_of(each for each in self._found(sequence) if each[0] in self._users) >= 0

    def woken(self, sequence: Sequence) -> int:
        """Return the free blocks that a waiting sequence takes by being admitted: those that nobody else uses."""
        return self._all_of(each for each in self._found(sequence) if each[0] not in self._users)

    def share(self, sequence: Sequence) -> None:
        """Give a sequence that is admitted what is kept of it."""
        found, hits = self._found(sequence), self.hits(sequence)
        if not found:
            return
        for key, _ in found:
            self._use(key)
        self._units[sequence] = found
        sequence.blocks = self._all_of(found)
        sequence.computed = hits
        if sequence.preempted:
            sequence.again -= hits
        else:
            sequence.cached = hits

    def hold(self, sequence: Sequence, tokens: int) -> None:
        """Give a sequence the blocks that it lacks for ``tokens`` in all; full ones can be found from now on."""
        super().hold(sequence, tokens)
        self.store(sequence, tokens)

    def take(self, blocks: int) -> None:
        """Take free blocks; what those hold that were free longest is lost."""
        super().take(blocks)
        while self._blank < blocks:
            self._blank += self._idle.popitem(last=False)[1]
        self._blank -= blocks

    def store(self, sequence: Sequence, tokens: int) -> None:
        """Let others find what a sequence has computed, ``tokens`` in all."""
        if sequence.passed:
            return
        units = self._units.setdefault(sequence, [])
        end = sum(blocks for _, blocks in units)
        for key, blocks in islice(self._parts(sequence), len(units), None):
            end += blocks
            twice = key in self._users or key in self._idle
            if end * self.tokens > tokens or (twice and not self._merge(key, blocks)):
                break
            self._users[key] += 1
            units.append((key, blocks))

    def release(self, sequence: Sequence) -> None:
        """Take all blocks of a sequence back, the last first; what is in them is kept until they are needed."""
        units = self._units.pop(sequence, [])
        if self.groups.sliding:
            self._keep((~sequence.number, -1), sequence.blocks - self._all_of(units))
        else:
            self._keep_own(sequence, sum(blocks for _, blocks in units))
        for key, blocks in reversed(units):
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._keep(key, self.groups.number * blocks)
        sequence.blocks = sequence.passed = 0

    def _found(self, sequence: Sequence) -> list[Unit]:
        """Units of a sequence that has nothing yet, from the first on, as far as they are kept."""
        if sequence.computed or sequence.blocks:
            return []
        found, left = list[Unit](), self._most(sequence)
        for key, blocks in self._all(sequence):
            left -= blocks
            if left < 0 or (key not in self._users and key not in self._idle):
                break
            found.append((key, blocks))
        return found

    def _most(self, sequence: Sequence) -> int:
        """Most blocks of a sequence that may be found."""
        return (sequence.total - 1) // self.tokens

    def _parts(self, sequence: Sequence) -> Iterator[Unit]:
        """Yield the units of a prompt that others can find: full blocks, by the part in which they end."""
        at = end = 0
        for name, tokens in sequence.request.prefix:
            end += tokens
            while (at + 1) * self.tokens <= end:
                yield (name, at), 1
                at += 1

    def _all(self, sequence: Sequence) -> Iterator[Unit]:
        """Yield the units of a sequence, then those that only itself may find after it lost its blocks."""
        shared = sum(tokens for _, tokens in sequence.request.prefix) // self.tokens
        yield from self._parts(sequence)
        if sequence.preempted:
            yield from (((~sequence.number, at), 1) for at in count(shared))

    def _keep_own(self, sequence: Sequence, first: int) -> None:
        """Keep the blocks of a sequence that nobody shares, from the ``first`` on."""
        for at in reversed(range(first, sequence.blocks)):
            full = (at + 1) * self.tokens <= sequence.computed
            self._keep((~sequence.number, at if full else -1), 1)

    def _merge(self, key: Key, blocks: int) -> bool:
        """Return whether a sequence gives up a unit that is kept twice for the other one."""
        return False

    def _all_of(self, units: Iterable[Unit]) -> int:
        """Return the blocks of units in all groups."""
        return self.groups.number * sum(blocks for _, blocks in units)

    def _use(self, key: Key) -> None:
        if key in self._idle:
            self.free -= self._idle.pop(key)
        self._users[key] += 1

    def _keep(self, key: Key, blocks: int) -> None:
        self.free += blocks
        if key in self._idle:
            self._blank += blocks
        else:
            self._idle[key] = blocks


class Radix(HashBlocks):
    """The tree of SGLang (mem_cache/radix_cache.py), with blocks of one token: parts of prompts are its nodes.

    They can be found after the step that computed them; whoever computed the same has one copy with the others then.
    Leaves that were used longest ago go first, as a whole.
    """

    def hold(self, sequence: Sequence, tokens: int) -> None:
        """Give a sequence the blocks that it lacks for ``tokens`` in all."""
        Pool.hold(self, sequence, tokens)

    def _most(self, sequence: Sequence) -> int:
        return sequence.total

    def _parts(self, sequence: Sequence) -> Iterator[Unit]:
        prefix, prompt = sequence.request.prefix, sequence.request.prompt
        own: Part = (~sequence.number, prompt - sum(tokens for _, tokens in prefix))
        yield from ((part, part[1]) for part in (*prefix, own) if part[1])

    def _all(self, sequence: Sequence) -> Iterator[Unit]:
        return self._parts(sequence)

    def _keep_own(self, sequence: Sequence, first: int) -> None:
        if sequence.blocks > first:
            self._keep((~sequence.number, 0), sequence.blocks - first)

    def _merge(self, key: Key, blocks: int) -> bool:
        self.free += blocks - self._idle.pop(key, 0)
        self._blank += blocks
        return True
