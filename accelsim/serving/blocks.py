"""Memory of keys and values in blocks of equally many tokens, as vLLM pages it (Kwon et al., SOSP 2023)."""

from __future__ import annotations

from accelsim.serving.requests import Sequence

TOKENS = 16
"""Tokens of a block."""


class Pool:
    """Blocks of one replica: ``size`` of them, each for ``tokens`` tokens; ``free`` are held by nobody."""

    def __init__(self, size: int, tokens: int = TOKENS) -> None:
        self.size, self.tokens, self.free = size, tokens, size

    def of(self, tokens: int) -> int:
        """Return the blocks that so many tokens take."""
        return -(-tokens // self.tokens)

    def fits(self, sequence: Sequence, tokens: int, kept: int = 0) -> bool:
        """Return whether a sequence can have ``tokens`` in all, and ``kept`` blocks stay free."""
        return self.of(tokens) - sequence.blocks <= self.free - kept

    def hold(self, sequence: Sequence, tokens: int) -> None:
        """Give a sequence the blocks that it lacks for ``tokens`` in all."""
        more = max(0, self.of(tokens) - sequence.blocks)
        self.take(more)
        sequence.blocks += more

    def take(self, blocks: int) -> None:
        """Take free blocks."""
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
        sequence.blocks = 0
