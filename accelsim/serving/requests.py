"""Requests: what a user sends and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NEVER = -1.0
"""Time of what has not happened."""


class Request(NamedTuple):
    """A request: seconds of its arrival, tokens of its prompt, and tokens that it gets.

    ``prefix``: hashes of the first parts of its prompt, by which others share them; ``rank``: lower ones go first.
    """

    arrival_s: float
    prompt: int
    output: int
    prefix: tuple[int, ...] = ()
    rank: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way: ``computed`` of its tokens are in the cache, which has ``blocks`` of it; ``generated``
    tokens have come out. ``since``: step from which on it decodes, -1 while it does not.

    Times in seconds: of the first step that computes it, of the first and of the last token so far. ``preempted``: how
    often it lost its blocks; ``again``: tokens that had to be computed once more, ``reused`` tokens that never had to.
    """

    number: int
    request: Request
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    since: int = -1
    begun_s: float = NEVER
    first_s: float = NEVER
    last_s: float = NEVER
    preempted: int = 0
    again: int = 0
    reused: int = 0

    @property
    def total(self) -> int:
        """Tokens that must be in the cache before the next comes out."""
        return self.request.prompt + self.generated

    @property
    def left(self) -> int:
        """Tokens that are still to come."""
        return self.request.output - self.generated

    def emit(self, now_s: float) -> None:
        """A token comes out."""
        self.generated += 1
        self.last_s = now_s
        if self.first_s < 0:
            self.first_s = now_s
