"""Memory of keys and values in blocks of equally many tokens, as vLLM pages it (Kwon et al., SOSP 2023)."""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from accelsim.serving.requests import Sequence

TOKENS = 16
"""Tokens of a block."""
PADDED = 1.25
"""Two kinds of layers make one group each if there are fewer than so many times as many of the one as of the other."""


class Groups(NamedTuple):
    """Groups of layers that share a pool; a block holds keys and values of some tokens in all layers of one group.

    ``number`` of groups, ``sliding`` of which see only the last ``window`` tokens and give back the blocks before them.
    """

    number: int = 1
    sliding: int = 0
    window: int = 0


def groups_of(windows: Many[int]) -> tuple[Groups, int]:
    """Return the groups of layers with these windows (0: none), and the layers of one group.

    Groups are as large as the rarer kind of layers, and the last one is padded (vLLM,
    ``_get_kv_cache_groups_uniform_page_size`` of vllm/v1/core/kv_cache_utils.py). Different windows count as the
    largest.
    """
    sliding = sum(map(bool, windows))
    full = len(windows) - sliding
    if not full or not sliding:
        return Groups(1, int(sliding > 0), max(windows)), len(windows)
    size, most = sorted((full, sliding))
    size = most if most < PADDED * size else size
    return Groups(-(-full // size) - (-sliding // size), -(-sliding // size), max(windows)), size


class Pool:
    """Blocks of one replica: ``size`` of them, each for ``tokens`` tokens; ``free`` are held by nobody. ``groups``:
    kinds of layers, each with blocks of its own for the same tokens."""

    def __init__(self, size: int, tokens: int = TOKENS, groups: Groups = Groups()) -> None:  # noqa: B008 - a tuple
        self.size, self.tokens, self.free, self.groups = size, tokens, size, groups

    def of(self, tokens: int, passed: int = 0) -> int:
        """Return the blocks that so many tokens take, without those of ``passed`` blocks of tokens before a window."""
        return self.groups.number * -(-tokens // self.tokens) - self.groups.sliding * passed

    def peak(self, tokens: int, chunk: int) -> int:
        """Return the most blocks of a request of so many tokens, of which a step computes ``chunk`` at most."""
        return self.of(tokens, self._passed(max(0, tokens - chunk), self.groups.window - 1))

    def lacks(self, sequence: Sequence, tokens: int, computed: int = 0) -> int:
        """Return the blocks that a sequence lacks for ``tokens`` in all, when at least ``computed`` of them are."""
        return self.of(tokens, max(sequence.passed, self.passed(sequence, computed))) - sequence.blocks

    def passed(self, sequence: Sequence, computed: int) -> int:
        """Return the blocks of tokens that layers with a window no longer see after ``computed`` tokens."""
        return self._passed(computed, self.slides(sequence)) if self.groups.sliding else 0

    def slides(self, sequence: Sequence) -> int:
        """Return the tokens of a sequence from which on each block of further ones gives one back."""
        return self.groups.window - 1

    def _passed(self, computed: int, first: int) -> int:
        return max(0, computed - first) // self.tokens

    def fits(self, sequence: Sequence, tokens: int, kept: int = 0, computed: int = 0) -> bool:
        """Return whether a sequence can have ``tokens`` in all, and ``kept`` blocks stay free. ``computed``: tokens
        before the last step for them."""
        return self.lacks(sequence, tokens, computed) <= self.free - kept

    def hold(self, sequence: Sequence, tokens: int) -> None:
        """Give a sequence the blocks that it lacks for ``tokens`` in all."""
        more = max(0, self.lacks(sequence, tokens))
        self.take(more)
        sequence.blocks += more

    def slide(self, sequence: Sequence) -> None:
        """Take back the blocks of a sequence that no further token sees."""
        more = self.passed(sequence, sequence.computed) - sequence.passed
        if more > 0:
            sequence.passed += more
            if sequence.blocks:
                sequence.blocks -= self.groups.sliding * more
                self.take(-self.groups.sliding * more)

    def take(self, blocks: int) -> None:
        """Take free blocks; below 0: give blocks back."""
        self.free -= blocks

    def hits(self, sequence: Sequence) -> int:
        """Return the tokens of a waiting sequence that need not be computed."""
        return sequence.computed

    def woken(self, sequence: Sequence) -> int:
        """Return the free blocks that a waiting sequence takes by being admitted: those that are kept of it."""
        return 0

    def share(self, sequence: Sequence) -> None:
        """Give a sequence that is admitted what is kept of it: nothing."""

    def store(self, sequence: Sequence, tokens: int) -> None:
        """Let others find what a sequence has computed, ``tokens`` in all: they do not."""

    def release(self, sequence: Sequence) -> None:
        """Take all blocks of a sequence back."""
        self.free += sequence.blocks
        sequence.blocks = sequence.passed = 0
