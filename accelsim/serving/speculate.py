"""Speculative decoding: a draft proposes some tokens, the model checks all of them in one step and keeps the first
ones that it would have chosen (Leviathan et al., ICML 2023)."""

from __future__ import annotations

import re
from math import inf, log
from typing import NamedTuple

from numpy.random import Generator

from accelsim.errors import Gather
from accelsim.serving.blocks import Pool
from accelsim.serving.loads import named, number
from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Decoding

WHERE = "--speculate"
KEYS = {
    "draft": "",
    "cost": "time of a proposed token as a share of a step that decodes, such as cost=0.1",
    "tokens": "proposed tokens, such as tokens=4",
    "accept": "a share below 1, such as accept=0.7",
}
"""Parameters, and what is expected of each."""


class Speculation(NamedTuple):
    """``tokens`` are proposed at a time; each is kept with the probability ``accept`` if all before it are. ``draft``:
    the model that proposes; '': one whose step takes ``cost`` times that of the model."""

    draft: str = ""
    cost: float = 1.0
    tokens: int = 4
    accept: float = 0.7


def read_speculation(text: str) -> Speculation:
    """Return speculation: 'draft=llama3.2-1b,tokens=4' or 'cost=0.1,accept=0.7'. Raises UsageError."""
    parts = re.split(rf",\s*(?=(?:{'|'.join(KEYS)})=)", text)  # the name of a model may have commas
    given, gather, found = named(parts, KEYS, WHERE), Gather(), Speculation()
    gather.refuse(("draft" in given) == ("cost" in given), text, WHERE, "either draft=MODEL or cost=SHARE")
    for key in given.keys() - {"draft"}:
        with gather.also():
            value = number(given[key], WHERE, KEYS[key], key == "tokens", 1.0 if key == "accept" else inf)
            found = found._replace(**{key: int(value) if key == "tokens" else value})  # type: ignore[arg-type]
    gather.done()
    return found._replace(draft=given.get("draft", ""))


class Speculating(Decoding):
    """Sequences that decode with speculation: each gets 1 to ``width`` tokens in a step, drawn when it is planned."""

    def __init__(self, pool: Pool, asked: Speculation, random: Generator) -> None:
        super().__init__(pool)
        self.width, self._asked, self._random = asked.tokens + 1, asked, random
        self._sequences: dict[Sequence, int] = {}

    @property
    def needed(self) -> int:
        """Blocks that the next step takes, for all tokens that it may keep."""
        return sum([max(0, self._pool.lacks(each, self._end(each))) for each in self._sequences])

    def alike(self, free: int) -> int:
        """Return 0: each step keeps tokens of its own."""
        return 0

    def join(self, sequence: Sequence) -> None:
        """From the next step on a sequence decodes; all its tokens but the last one are computed."""
        sequence.since = self.now
        self.count += 1
        self.context += sequence.computed
        self._sequences[sequence] = 0
        self.dates[sequence.last_s] = self.dates.get(sequence.last_s, 0) + 1

    def leave(self, sequence: Sequence) -> None:
        """A sequence decodes no more."""
        self.dates[sequence.last_s] -= 1
        self._remove(sequence)

    def hold(self) -> None:
        """Take the blocks of the next step, and draw what it keeps."""
        draws, self.more = self._random.random(self.count), 0
        for sequence, draw in zip(self._sequences, draws.tolist(), strict=True):
            self._pool.hold(sequence, self._end(sequence))
            kept = min(self._asked.tokens, int(log(1 - draw) / log(self._asked.accept)))
            self._sequences[sequence] = min(1 + kept, sequence.left)
            self.more += self._sequences[sequence] - 1

    def step(self, now_s: float) -> list[Sequence]:
        """Every sequence has got its tokens; return those that got their last, which leave."""
        self.now += 1
        for sequence, tokens in self._sequences.items():
            sequence.generated += tokens
            sequence.computed += tokens
            self.context += tokens
            self._pool.slide(sequence)
            sequence.last_s, sequence.since = now_s, self.now
        ended = [each for each in self._sequences if not each.left]
        for sequence in ended:
            self._remove(sequence)
        self.dates = {now_s: self.count}
        return ended

    def _end(self, sequence: Sequence) -> int:
        return sequence.computed + min(self.width, sequence.left)

    def _remove(self, sequence: Sequence) -> None:
        del self._sequences[sequence]
        sequence.since = -1
        self.count -= 1
        self.context -= sequence.computed
