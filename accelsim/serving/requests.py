"""Requests: what a user sends and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NEVER = -1.0
"""Time of what has not happened."""


Part = tuple[int | str, int]
"""A part of a prompt: a name that is equal where it and all before it are equal, and its tokens."""


class Request(NamedTuple):
    """A request: seconds of its arrival, tokens of its prompt, and tokens that it gets. ``prefix``: parts with which
    its prompt begins and that other prompts may share."""

    arrival_s: float
    prompt: int
    output: int
    prefix: tuple[Part, ...] = ()


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way: ``computed`` of its tokens are in the cache, which has ``blocks`` of it; ``generated``
    tokens have come out. ``since``: step from which on it decodes, -1 while it does not. ``passed``: blocks of tokens
    that it gave back in layers with a window.

    ``first_s``, ``last_s``: times of its first and its last token so far. ``preempted``: how often it lost its blocks;
    ``again``: tokens that had to be computed once more; ``cached``: those of its prompt that others had computed.
    """

    number: int
    request: Request
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    passed: int = 0
    since: int = -1
    first_s: float = NEVER
    last_s: float = NEVER
    preempted: int = 0
    again: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Tokens that must be in the cache before the next comes out."""
        return self.request.prompt + self.generated

    @property
    def left(self) -> int:
        """Tokens that are still to come."""
        return self.request.output - self.generated

    @property
    def ttft_s(self) -> float:
        """Time from its arrival to its first token, s."""
        return self.first_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time between its tokens, s: (end to end - first) / (tokens - 1); None for a single token."""
        gaps = self.request.output - 1
        return (self.last_s - self.first_s) / gaps if gaps else None

    @property
    def e2e_s(self) -> float:
        """Time from its arrival to its last token, s."""
        return self.last_s - self.request.arrival_s

    def emit(self, now_s: float) -> None:
        """A token comes out."""
        self.generated += 1
        self.last_s = now_s
        if self.first_s < 0:
            self.first_s = now_s
