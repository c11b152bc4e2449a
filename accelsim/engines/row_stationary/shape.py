"""The array, the convolution and the mapping. Sizes are in words of the array (Eyeriss: 16 bits)."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from accelsim.errors import Problem, UsageError
from accelsim.program.mapping import Pins, ProductMapping
from accelsim.types import Bools, Ints

Number = TypeVar("Number", int, Ints)


class _Positive:
    """Raises UsageError, naming every field that is not a whole number from 1."""

    def __post_init__(self) -> None:
        kind, values = type(self).__name__, vars(self).items()
        wrong = [
            Problem(f"{kind}.{name} is {value!r}", expected="a whole number from 1")
            for name, value in values
            if not isinstance(value, int | np.integer) or value < 1
        ]
        UsageError.raise_for(wrong)


@dataclass(frozen=True)
class Geometry(_Positive):
    """Sizes of a row-stationary array; the defaults are those of the Eyeriss chip (JSSC 2017).

    ``rows``, ``cols``: PEs. ``*_pad``: words of the scratch pads of one PE. ``glb_banks`` banks of ``glb_bank_B`` bytes
    of the global buffer hold ifmaps and psums, a bank only one of the two; ``glb_filter_B`` more bytes hold filters.
    ``*_words``: words per clock of the network of each operand; psums have one into the array and one out of it.

    Published: 12 x 14 PEs, pads of 12, 224 and 24 words, 108 KB in all, 16 bits, buses of 64 bits for filters and
    psums and of 16 bits for ifmaps. The split into 25 banks of 4 KB and 8 KB is recalled from the paper; the published
    mapping of CONV4 and CONV5 of AlexNet fills exactly 25 banks.

    Raises UsageError for sizes that are not whole numbers from 1.
    """

    rows: int = 12
    cols: int = 14
    ifmap_pad: int = 12
    filter_pad: int = 224
    psum_pad: int = 24
    word_B: int = 2
    glb_banks: int = 25
    glb_bank_B: int = 4096
    glb_filter_B: int = 8192
    ifmap_words: int = 1
    filter_words: int = 4
    psum_words: int = 4


@dataclass(frozen=True)
class Conv(_Positive):
    """A convolution: ``N`` images, ``G`` groups, and per group ``M`` filters and ``C`` channels.

    ``H``, ``W``: rows and columns of the ifmap with its padding; ``R``, ``S``: of a filter; ``U``: stride.

    Raises UsageError for sizes below 1 and for a filter larger than the ifmap.
    """

    N: int
    M: int
    C: int
    H: int
    W: int
    R: int
    S: int
    U: int = 1
    G: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.R > self.H or self.S > self.W:
            raise UsageError(f"a filter of {self.R} x {self.S} is larger than the ifmap of {self.H} x {self.W}")

    @property
    def E(self) -> int:
        """Rows of the ofmap."""
        return (self.H - self.R) // self.U + 1

    @property
    def F(self) -> int:
        """Columns of the ofmap."""
        return (self.W - self.S) // self.U + 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layer."""
        return self.N * self.G * self.M * self.C * self.R * self.S * self.E * self.F

    @property
    def columns(self) -> int:
        """Columns of the ifmap that some window covers."""
        return self.S + (self.F - 1) * min(self.U, self.S)

    def rows(self, e: Number) -> Number:
        """Rows of the ifmap that ``e`` rows of the ofmap need."""
        return self.R + (e - 1) * min(self.U, self.R)


class Mappings(NamedTuple):
    """Many mappings side by side: the fields of :class:`Mapping` as int64 arrays [k]."""

    m: Ints
    n: Ints
    e: Ints
    p: Ints
    q: Ints
    r: Ints
    t: Ints

    def where(self, chosen: Bools | Ints) -> Mappings:
        """Return the mappings at a mask or at indices."""
        return Mappings(*(column[chosen] for column in self))


@dataclass(frozen=True)
class Mapping(_Positive, ProductMapping):
    """A cut of a convolution into processing passes, with the names of JSSC 2017.

    ``m``: ofmap channels whose psums are in the global buffer; ``n``: ifmaps of a pass; ``e``: rows of the ofmap in a
    strip, the width of a PE set; ``p`` filters and ``q`` channels of a PE; ``r`` sets over channels, whose psums are
    added up a chain; ``t`` sets over filters.

    Raises UsageError for values that are not whole numbers from 1.
    """

    m: int
    n: int
    e: int
    p: int
    q: int
    r: int
    t: int

    def many(self) -> Mappings:
        """Return this one alone, as arrays [1]."""
        return Mappings(*(np.array([value], dtype=np.int64) for value in astuple(self)))


def pinned_mapping(pins: Pins) -> Mapping:
    """Return the smallest mapping with the pinned fields: all others are 1."""
    return Mapping(*(int(pins.get(name, 1)) for name in Mappings._fields))
