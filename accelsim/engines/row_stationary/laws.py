"""Conditions that a mapping must meet on an array: one table, read in words for one or as a mask for many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.errors import Problem, UsageError
from accelsim.types import Bools, Ints


def ceil(a: Ints, b: Ints | int) -> Ints:
    """Return the quotient of non-negative integers, rounded up."""
    quotient: Ints = -(-a // b)
    return quotient


def most_filters(maps: Mappings) -> Ints:
    """Filters of a full pass."""
    filters: Ints = np.minimum(maps.p * maps.t, maps.m)
    return filters


def most_channels(conv: Conv, maps: Mappings) -> Ints:
    """Channels of a full pass."""
    channels: Ints = np.minimum(maps.q * maps.r, conv.C)
    return channels


def active_pes(conv: Conv, maps: Mappings) -> Ints:
    """PEs at work in a full pass: ``t`` chains of ``r`` sets, each of R x e PEs."""
    return conv.R * maps.r * maps.t * maps.e


def lanes(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Return the places for the foot of a chain: the array's columns times the chains of R x r PEs above each other."""
    return array.rows // (conv.R * maps.r) * array.cols


def ifmap_banks(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Banks for the ifmap rows of a pass: ``n`` ifmaps, its channels, all rows that the strip needs."""
    words = maps.n * most_channels(conv, maps) * conv.rows(maps.e) * conv.W
    return ceil(words * array.word_B, array.glb_bank_B)


def psum_banks(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Banks for psums: ``n`` x ``m`` x ``e`` rows of the ofmap."""
    return ceil(maps.n * maps.m * maps.e * conv.F * array.word_B, array.glb_bank_B)


def filter_B(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Bytes of the filters of a pass."""
    return most_filters(maps) * most_channels(conv, maps) * conv.R * conv.S * array.word_B


class Law(NamedTuple):
    """``needed`` must not exceed ``available``; ``why``: what each of the two is, in words."""

    name: str
    needed: Callable[[Conv, Geometry, Mappings], Ints]
    available: Callable[[Conv, Geometry, Mappings], Ints | int]
    why: str


LAWS = (
    Law("m", lambda c, a, x: x.m, lambda c, a, x: c.M, "ofmap channels in the global buffer, of the group"),
    Law("n", lambda c, a, x: x.n, lambda c, a, x: c.N, "ifmaps of a pass, of the batch"),
    Law("e", lambda c, a, x: x.e, lambda c, a, x: c.E, "rows of a strip, of the ofmap"),
    Law("t", lambda c, a, x: x.t, lambda c, a, x: x.m, "sets over filters, filters in the global buffer"),
    Law("p", lambda c, a, x: x.p, lambda c, a, x: ceil(x.m, x.t), "filters of a PE, those that there are for it"),
    Law("r", lambda c, a, x: x.r, lambda c, a, x: c.C, "sets over channels, channels"),
    Law("q", lambda c, a, x: x.q, lambda c, a, x: ceil(c.C + 0 * x.r, x.r), "channels of a PE, those for it"),
    Law("psum pad", lambda c, a, x: x.p, lambda c, a, x: a.psum_pad, "psums of a PE (p), words of its pad"),
    Law("ifmap pad", lambda c, a, x: x.q * c.S, lambda c, a, x: a.ifmap_pad,
        "words of a window (q x S), words of the pad"),
    Law("filter pad", lambda c, a, x: x.p * x.q * c.S, lambda c, a, x: a.filter_pad,
        "filter words of a PE (p x q x S), words of the pad"),
    Law("array rows", lambda c, a, x: c.R * x.r, lambda c, a, x: a.rows, "PEs of a chain (R x r), rows of the array"),
    Law("array columns", lambda c, a, x: x.t * x.e, lanes, "chains (t x e), places for them"),
    Law("global buffer", lambda c, a, x: ifmap_banks(c, a, x) + psum_banks(c, a, x), lambda c, a, x: a.glb_banks,
        "banks for ifmap rows and psums, banks"),
    Law("filter buffer", filter_B, lambda c, a, x: a.glb_filter_B, "bytes of the filters of a pass, bytes for filters"),
)  # fmt: skip
"""Every law of a mapping. A PE set wider than the array is cut: its columns are independent chains."""


@dataclass(frozen=True)
class Refusal:
    """A law that a mapping breaks: what it needs and what there is."""

    law: str
    needed: int
    available: int
    why: str

    def __str__(self) -> str:
        needs, has = self.why.rsplit(", ", 1)
        return f"{self.law}: {self.needed} {needs}, but {self.available} {has}"


def refusals(conv: Conv, array: Geometry, mapping: Mapping) -> tuple[Refusal, ...]:
    """Return every law that a mapping breaks; empty where it can run."""
    return tuple(_broken(conv, array, mapping.many()))


def _broken(conv: Conv, array: Geometry, maps: Mappings) -> Iterator[Refusal]:
    for law in LAWS:
        needed, available = int(law.needed(conv, array, maps)[0]), law.available(conv, array, maps)
        there = int(np.broadcast_to(available, (1,))[0])
        if needed > there:
            yield Refusal(law.name, needed, there, law.why)


def legal(conv: Conv, array: Geometry, maps: Mappings) -> Bools:
    """Return which of many mappings keep every law, bool [k]."""
    kept = np.ones(len(maps.m), dtype=bool)
    for law in LAWS:
        kept &= law.needed(conv, array, maps) <= law.available(conv, array, maps)
    return kept


def require(conv: Conv, array: Geometry, mapping: Mapping) -> None:
    """Raise UsageError with every law that a mapping breaks."""
    broken = refusals(conv, array, mapping)
    if broken:
        raise UsageError([Problem(str(refusal), where=str(mapping)) for refusal in broken])
