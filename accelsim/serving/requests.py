"""Requests: what a user sends and what became of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from accelsim.program.lazy import Lazy
from accelsim.types import Array

NEVER = -1.0
"""Time of what has not happened."""


Part = tuple[int | str, int]
"""A part of a prompt: a name that is equal where it and all before it are equal, and its tokens."""


class Request(NamedTuple):
    """A request: seconds of its arrival, tokens of its prompt, and tokens that it gets. ``prefix``: parts with which
    its prompt begins and that other prompts may share; ``adapter``: number of its adapter, 0 for none."""

    arrival_s: float
    prompt: int
    output: int
    prefix: tuple[Part, ...] = ()
    adapter: int = 0


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


class Requests(Lazy[Request]):
    """Many requests as columns: arrivals (s), tokens of prompts and outputs, prefixes and adapters ([] where none has
    one)."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._arrival_s, self._prompt, self._output = array("d"), array("l"), array("l")
        self.prefixes, self.adapters = list[tuple[Part, ...]](), list[int]()
        for each in requests:
            self._arrival_s.append(each.arrival_s)
            self._prompt.append(each.prompt)
            self._output.append(each.output)
            self.prefixes.append(each.prefix)
            self.adapters.append(each.adapter)
        for column in (self.prefixes, self.adapters):
            if not any(column):
                column.clear()

    def __len__(self) -> int:
        return len(self._arrival_s)

    def at(self, index: int) -> Request:
        """The request at a place."""
        prefix = self.prefixes[index] if self.prefixes else ()
        adapter = self.adapters[index] if self.adapters else 0
        return Request(self._arrival_s[index], self._prompt[index], self._output[index], prefix, adapter)

    def __iter__(self) -> Iterator[Request]:
        own = self.prefixes or repeat(()), self.adapters or repeat(0)
        return map(Request, self._arrival_s, self._prompt, self._output, *own)

    def apart(self, factor: float) -> Requests:
        """Return the same requests, ``factor`` times as far apart."""
        found = copy(self)
        found._arrival_s = array("d", [factor * each for each in self._arrival_s])
        return found


class Done:
    """Requests that were sent, as columns by their number: when they arrived, their tokens, and what became of them
    (see ``Sequence``)."""

    NAMES = ("arrival_s", "prompt", "output", "first_s", "last_s", "generated", "preempted", "again", "cached")

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {name: array("d" if name.endswith("_s") else "l") for name in self.NAMES}

    def __len__(self) -> int:
        return len(self._columns["arrival_s"])

    def __getitem__(self, name: str) -> Array:
        """Return a column."""
        return np.array(self._columns[name])

    def send(self, request: Request) -> Sequence:
        """Return a request that a user sends, with the next number."""
        sequence = Sequence(len(self), request)
        for name, value in zip(self.NAMES, (*request[:3], NEVER, NEVER, 0, 0, 0, 0), strict=True):
            self._columns[name].append(value)
        return sequence

    def end(self, sequence: Sequence) -> None:
        """Keep what became of a request."""
        for name in self.NAMES[3:]:
            self._columns[name][sequence.number] = getattr(sequence, name)

    def __iter__(self) -> Iterator[Sequence]:
        """Yield the requests as they ended."""
        for number, (arrival_s, prompt, output, *more) in enumerate(zip(*self._columns.values(), strict=True)):
            became = dict(zip(self.NAMES[3:], more, strict=True))
            yield Sequence(number, Request(arrival_s, prompt, output), **became)
