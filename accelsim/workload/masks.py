"""Masks of attention that are known without their values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.types import Array

HIDDEN = -1e9
"""Number added to a hidden score: its exponential is 0."""


@dataclass(frozen=True)
class CausalMask:
    """0 where a token may look, ``HIDDEN`` at later ones: float32 [tokens, past + tokens], after so many axes of 1.

    ``window``: a token sees itself and the last tokens before it, so many in all (0: all tokens before it).
    """

    tokens: int
    past: int = 0
    before: int = 0
    window: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return (*[1] * self.before, self.tokens, self.past + self.tokens)

    def __call__(self) -> Array:
        """The values."""
        hidden = np.triu(np.full(self.shape, HIDDEN, np.float32), self.past + 1)
        if self.window:
            hidden += np.tril(np.full(self.shape, HIDDEN, np.float32), self.past - self.window)
        return hidden
