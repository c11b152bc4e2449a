"""Lesson 7: address mappings of a DDR4, two traffic patterns, every mapping simulated command by command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.dram.device import Device
from accelsim.dram.mapping import decoder
from accelsim.dram.traces import Trace
from accelsim.explore.dram_replay import MODELS, Offer, Replay
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, number
from accelsim.seeds import generator
from accelsim.spec import dram_device as build
from accelsim.spec.status import UNSTATED
from accelsim.spec.yaml.parts import load_dram
from accelsim.types import Ints

FIELDS = ("ro", "ba", "bg", "co")
NAMES = {"ro": "row", "ba": "bank", "bg": "group", "co": "column"}
MAPPINGS = tuple("".join(order) for order in permutations(FIELDS))
"""All orders of the fields, the most significant first."""
ACCESSES = 512
NEAR = 0.95
"""Bandwidth that is good enough, of the best."""
BURST_B = 64


class Numbers(NamedTuple):
    """tRP and tRAS, clocks; bytes from one row of the matrix to the next."""

    tRP: int
    tRAS: int
    stride: int


@cache
def device(numbers: Numbers, mapping: str) -> Device:
    """The DDR4 of a student: one channel, one rank."""
    changes = ["organisation.ranks=1", f"timing.tRP={numbers.tRP} tCK", f"timing.tRAS={numbers.tRAS} tCK"]
    return build.device(load_dram("ddr4-3200", changes), "ddr4-3200", mapping=mapping)


@cache
def bandwidth(numbers: Numbers, stride: int, mapping: str) -> float:
    """Bytes per second of reads that are so many bytes apart, every command simulated."""
    trace = Trace(walk(stride), np.zeros(ACCESSES, bool))
    made = device(numbers, mapping)
    served = MODELS["bank"].serve(made, trace, Offer())
    return Replay(made, "", trace, "bank", Offer(), served, UNSTATED).bandwidth_Bps


def walk(stride: int) -> Ints:
    """Return the addresses of ``ACCESSES`` bursts that are ``stride`` bytes apart."""
    return np.arange(ACCESSES, dtype=np.int64) * stride


def hits(addresses: Ints, mapping: str, numbers: Numbers) -> int:
    """Accesses, in their order, that find their row open; a bank keeps its last row open."""
    place = decoder(mapping, device(numbers, mapping).geometry).decode(addresses)
    found, rows = 0, dict[tuple[int, int], int]()
    for group, bank, row in zip(place.group, place.bank, place.row, strict=True):
        found += rows.get((int(group), int(bank))) == int(row)
        rows[int(group), int(bank)] = int(row)
    return found


class Banks(Lesson):
    """Lesson 7: banks and rows."""

    number, title, file, minutes = 7, "Banks and rows", "banks.py", 40
    idea = "The same bytes come ten times slower from a DRAM when they lie in the wrong places."
    steps = ("where an address lies", "row hits", "a mapping for a row", "a mapping for a column", "the question")

    def draw(self, rng: Generator) -> Numbers:
        return Numbers(int(rng.integers(18, 28)), int(rng.integers(46, 60)), 4096 << int(rng.integers(0, 3)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        clock_ns = device(numbers, MAPPINGS[0]).clock_fs * 1e-6
        return numbers._asdict() | {"clock": f"{clock_ns:g}", "column": self.best(numbers, numbers.stride)}

    @staticmethod
    def best(numbers: Numbers, stride: int) -> str:
        """Return the mapping with the highest bandwidth for accesses ``stride`` bytes apart."""
        return max(MAPPINGS, key=lambda mapping: bandwidth(numbers, stride, mapping))

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        addresses = np.array([0, 64, 4096, 8192, 12_345_664, 987_654_336, 4_000_000_000])
        for mapping in ("robabgco", "corobgba", "bgrocoba"):
            place = decoder(mapping, device(numbers, mapping).geometry).decode(addresses)
            for index, address in enumerate(addresses.tolist()):
                got = ask("place", address, mapping)
                for field in FIELDS:
                    where = f"place({address}, {mapping!r}): {NAMES[field]}"
                    if not isinstance(got, dict) or field not in got:
                        raise Wrong(where, f"a dictionary with {', '.join(FIELDS)}", got, "one number for each field")
                    rule = "the lowest 6 bits are inside a burst; the last field of the mapping has the bits above them"
                    number(where, int(getattr(place, NAMES[field])[index]), got[field], rule, 0)
        yield
        rng = generator(numbers.stride + numbers.tRP)
        for addresses in (walk(64), walk(numbers.stride), rng.integers(0, 1 << 22, 300) * BURST_B):
            for mapping in ("robabgco", "rocobabg", "corobgba"):
                got = ask("row_hits", addresses.tolist(), mapping)
                where = f"row_hits of {len(addresses)} accesses, {addresses[:3].tolist()}..., mapping {mapping!r}"
                rule = "each of the 16 banks (group and bank together) keeps the row of its last access open"
                number(where, hits(addresses, mapping, numbers), got, rule, 0)
        yield
        for name, stride in (("ROW", BURST_B), ("COLUMN", numbers.stride)):
            got = ask.value(name)
            rule = "the four fields ro, ba, bg, co in some order, the most significant first"
            if got not in MAPPINGS:
                raise Wrong(name, "such as 'robabgco'", got, rule)
            sheet[name] = got
            reached = bandwidth(numbers, stride, got)
            most = max(bandwidth(numbers, stride, mapping) for mapping in MAPPINGS)
            if reached < NEAR * most:
                want, have = f"at least {NEAR * most / 1e9:.2f} GB/s", f"{got!r}: {reached / 1e9:.2f} GB/s"
                hint = "from one access to the next the bank group has to change, then the bank, and not the row"
                raise Wrong(name, want, have, hint)
            yield
        clock_s = device(numbers, MAPPINGS[0]).clock_fs * 1e-15
        rule = "one burst of 64 bytes in every tRAS + tRP clocks; 1 MB/s is a million bytes per second"
        answer(ask, BURST_B / ((numbers.tRAS + numbers.tRP) * clock_s) / 1e6, rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """All mappings by bandwidth, for both walks; the student's marked."""
        from accelsim.report.style import BLUE, FAINT, VERMILLION

        panels = figure.subplots(1, 2)
        for axes, (name, stride) in zip(panels, (("ROW", BURST_B), ("COLUMN", numbers.stride)), strict=True):
            rates = sorted((bandwidth(numbers, stride, mapping) / 1e9, mapping) for mapping in MAPPINGS)
            mine, most = sheet.get(name), rates[-1][0]
            for place, (rate, mapping) in enumerate(rates):
                good = rate >= NEAR * most
                colour = VERMILLION if mapping == mine and not good else BLUE if mapping == mine else FAINT
                axes.barh(place, rate, 0.8, color=colour)
            axes.axvline(NEAR * most, color="#222222", lw=1, ls="--")
            axes.set_yticks(range(len(rates)), [mapping for _, mapping in rates], fontsize=6)
            axes.set_title(f"{stride} bytes apart: {name}")
            axes.set_xlabel("GB/s; dashed: 95 % of the best" + (f"; yours: {mine}" if mine else ""))


LESSON = Banks()
