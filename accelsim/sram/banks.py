"""Bank conflicts: how long the banks of a buffer take for what an array asks of them at each clock.

The array moves in lockstep: a clock of it is over when every word that it asked for was served, and the next begins
then. A bank serves ``ports`` words per clock. Lanes that read one word (or write parts of one word) share an
access; a read and a write of a word are two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.sram.patterns import IDLE, LARGEST_STRIDE_B, Pattern, size_problems
from accelsim.types import Ints

CHUNK = 1 << 20
"""Addresses, or loads of banks, that are looked at together."""
MOST = 1 << 32
"""Addresses, or loads of banks, of a whole pattern: about a minute."""


@dataclass(frozen=True)
class Banking:
    """Banks of words of ``word_B`` bytes. ``interleave``: a name of ``INTERLEAVES``; ``row_words`` is for 'row'.

    Raises UsageError, all problems at once.
    """

    banks: int
    word_B: int
    ports: int = 1
    interleave: str = "low"
    row_words: int = 1

    def __post_init__(self) -> None:
        problems = [
            *size_problems(banks=self.banks),
            *size_problems(LARGEST_STRIDE_B, word_B=self.word_B, ports=self.ports, row_words=self.row_words),
        ]
        if self.interleave not in INTERLEAVES:
            near = nearest(self.interleave, INTERLEAVES)
            what = f"no interleaving {self.interleave!r}"
            problems.append(Problem(what, "interleave", ", ".join(INTERLEAVES), near))
        if self.interleave == "xor" and self.banks & (self.banks - 1):
            problems.append(Problem(f"{self.banks} banks", "banks", "a power of two for 'xor'"))
        UsageError.raise_for(problems)

    def bank(self, words: Ints) -> Ints:
        """Bank of each word number."""
        return INTERLEAVES[self.interleave](words, self)


INTERLEAVES: dict[str, Callable[[Ints, Banking], Ints]] = {
    "low": lambda words, banking: words % banking.banks,
    "row": lambda words, banking: words // banking.row_words % banking.banks,
    "xor": lambda words, banking: (words ^ words // banking.banks) % banking.banks,
}
"""Name -> bank of a word: neighbouring words in neighbouring banks; rows of ``row_words`` words in neighbouring banks;
as 'low', with the bank number turned by the next higher bits of the address (a power of two of banks)."""


@dataclass(frozen=True)
class Conflicts:
    """Cost of a pattern on banks: clocks without and with conflicts, and words served.

    ``degrees``: clocks that a clock of the array takes -> how often; ``words`` counts accesses, shared ones once.
    """

    clocks: int
    taken: int
    words: int
    degrees: dict[int, int]

    @property
    def stalls(self) -> int:
        """Clocks that the array waits."""
        return self.taken - self.clocks

    @property
    def conflicting(self) -> int:
        """Clocks of the array that take longer than one."""
        return sum(count for degree, count in self.degrees.items() if degree > 1)

    @property
    def slowdown(self) -> Fraction:
        """Clocks with conflicts over clocks without, at least 1."""
        return Fraction(self.taken, self.clocks)

    def words_per_clock(self) -> float:
        """Words served per clock, stalls included."""
        return self.words / self.taken


def degrees(pattern: Pattern, banking: Banking) -> tuple[Ints, Ints]:
    """Per clock of the array: clocks that it takes, at least 1, and words served. Exact, each clock on its own.

    Raises UsageError when an element is wider than a word or does not divide it, or there is too much to count.
    """
    if banking.word_B % pattern.element_B:
        what = f"words of {banking.word_B} B hold no whole number of elements of {pattern.element_B} B"
        raise UsageError(what, "word_B", f"a multiple of {pattern.element_B} B")
    at_once = max(len(pattern.writes), banking.banks)
    if pattern.clocks * at_once > MOST:
        what = f"{pattern.clocks:,} clocks of {len(pattern.writes):,} lanes on {banking.banks:,} banks"
        raise UsageError(what, "", f"at most {MOST // at_once:,} clocks, or fewer lanes or banks")
    step = max(1, CHUNK // at_once)
    parts = [
        _chunk(pattern, banking, np.arange(start, min(start + step, pattern.clocks)))
        for start in range(0, pattern.clocks, step)
    ]
    return np.concatenate([taken for taken, _ in parts]), np.concatenate([words for _, words in parts])


def _chunk(pattern: Pattern, banking: Banking, clocks: Ints) -> tuple[Ints, Ints]:
    addresses = pattern.at(clocks)
    accesses = np.where(addresses == IDLE, IDLE, addresses // banking.word_B * 2 + pattern.writes)
    accesses.sort(axis=1)
    new = accesses != IDLE
    new[:, 1:] &= accesses[:, 1:] != accesses[:, :-1]
    row, _ = np.nonzero(new)
    place = row * banking.banks + banking.bank(accesses[new] // 2)
    load = np.bincount(place, minlength=len(clocks) * banking.banks).reshape(len(clocks), banking.banks)
    taken = -(-load.max(axis=1) // banking.ports)
    return np.maximum(taken, 1), load.sum(axis=1)


def conflicts(pattern: Pattern, banking: Banking) -> Conflicts:
    """All clocks of a pattern, summed up; see :func:`degrees`."""
    taken, words = degrees(pattern, banking)
    values, counts = np.unique(taken, return_counts=True)
    histogram = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return Conflicts(pattern.clocks, int(taken.sum()), int(words.sum()), histogram)


def by_interleaving(pattern: Pattern, banks: int, word_B: int, ports: int, row_B: int) -> dict[str, Conflicts]:
    """Return the cost of a pattern for every interleaving that so many banks can have; ``row_B``: bytes of a row."""
    row_words = max(1, row_B // max(1, word_B))
    usable = [name for name in INTERLEAVES if name != "xor" or not banks & (banks - 1)]
    return {name: conflicts(pattern, Banking(banks, word_B, ports, name, row_words)) for name in usable}
