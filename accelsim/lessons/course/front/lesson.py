"""Lesson 15: twenty arrays for one layer, the front among them, its knee, and what a limit of latency costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim import run
from accelsim.account.area import die_m2
from accelsim.explore.sweep.fronts import knee, on_front
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet
from accelsim.lessons.compare import answer, same
from accelsim.spec.yaml.load import load_chip

CHIP = "systolic-generic"
SIDES, BANDWIDTHS = (8, 16, 32, 64, 128), (2, 4, 8, 16)
"""Rows and columns of the arrays; GB/s of their DRAM."""
SMALL = ("matrix.formats={int8: {accumulate: int32}}", "act_sram.capacity=256 KiB", "weight_sram.capacity=128 KiB",
         "accumulators.capacity=64 KiB")  # fmt: skip


class Numbers(NamedTuple):
    """The student's layer: pixels, input channels, output channels."""

    M: int
    K: int
    N: int


class Design(NamedTuple):
    """A design: latency of the layer, us; area of the die, mm2."""

    latency_us: float
    area_mm2: float


@cache
def designs(numbers: Numbers) -> tuple[Design, ...]:
    """Simulate the layer on every array with every memory; figures as the text shows them."""
    found = []
    for side, bandwidth in product(SIDES, BANDWIDTHS):
        sizes = (f"matrix.rows={side}", f"matrix.cols={side}", f"vector.lanes={side}")
        chip = load_chip(CHIP, [*SMALL, *sizes, f"memories.dram.memory.bandwidth={bandwidth} GB/s"])
        layer = f"gemm?M={numbers.M},K={numbers.K},N={numbers.N}"
        done = run(layer, chip, dtype="int8", values="off", edges="outside")
        area_m2 = die_m2(chip)
        assert area_m2 is not None
        found.append(Design(float(f"{done.latency_s * 1e6:.4g}"), float(f"{area_m2 * 1e6:.4g}")))
    return tuple(found)


def front(found: Sequence[Design]) -> list[int]:
    """Return the numbers of the designs that no other beats, the fastest first."""
    kept = [int(at) for at in np.flatnonzero(on_front(np.array(found)))]
    return sorted(kept, key=lambda at: (found[at].latency_us, at))


def knee_of(found: Sequence[Design]) -> int:
    """Return the number of the design at the knee of the front."""
    own = front(found)
    return own[knee(np.array([found[at] for at in own]))]


def cheapest(found: Sequence[Design], limit_us: float) -> int:
    """Return the number of the smallest design within a limit; -1 if none is."""
    fits = [at for at, each in enumerate(found) if each.latency_us <= limit_us]
    return min(fits, key=lambda at: found[at].area_mm2) if fits else -1


def limit_us(found: Sequence[Design]) -> float:
    """Return the student's limit: half of it is kept too, by a design that is a good deal larger."""
    for at in front(found):
        limit = float(f"{2.1 * found[at].latency_us:.3g}")
        if found[cheapest(found, limit / 2)].area_mm2 > 1.3 * found[cheapest(found, limit)].area_mm2:
            return limit
    return float(f"{2.1 * min(found).latency_us:.3g}")


PAIRS = (
    ((1.0, 2.0), (2.0, 3.0)), ((2.0, 3.0), (1.0, 2.0)), ((1.0, 3.0), (2.0, 2.0)), ((2.0, 2.0), (1.0, 3.0)),
    ((1.0, 2.0), (1.0, 2.0)), ((1.0, 2.0), (1.0, 3.0)), ((1.0, 3.0), (2.0, 3.0)), ((1.0, 3.0), (1.0, 2.0)),
)  # fmt: skip
"""Designs that are better in both, in one, in none, and equal ones."""


class Front(Lesson):
    """Lesson 15: a front of designs."""

    number, title, file, minutes = 15, "A front of designs", "front.py", 30
    idea = "Of many designs, keep those that no other beats; what you want decides among these alone."
    steps = ("which design beats which", "the front", "the knee", "the smallest design within a limit", "the question")

    def draw(self, rng: Generator) -> Numbers:
        side, inputs = 7 * int(rng.integers(1, 5)), 16 * int(rng.integers(1, 9))
        return Numbers(side * side, 9 * inputs, 32 * int(rng.integers(2, 9)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        found = designs(numbers)
        rows = [
            f"| {at} | {side} x {side} | {bandwidth} GB/s | {each.latency_us:g} | {each.area_mm2:g} |"
            for at, ((side, bandwidth), each) in enumerate(zip(product(SIDES, BANDWIDTHS), found, strict=True))
        ]
        listed = ",\n    ".join(f"({each.latency_us:g}, {each.area_mm2:g})" for each in found)
        shape = {"M": numbers.M, "K": numbers.K, "N": numbers.N}
        return {**shape, "rows": "\n".join(rows), "designs": listed, "limit": f"{limit_us(found):g}"}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        found = designs(numbers)
        table, limit = [tuple(each) for each in found], limit_us(found)
        for one, other in PAIRS:
            right = one != other and all(a <= b for a, b in zip(one, other, strict=True))
            rule = "no worse in latency and area, and better in at least one of them"
            same(f"beats({one}, {other})", right, ask("beats", one, other), rule)
        yield
        sheet["front"] = ask("front", table)
        same("front(DESIGNS)", front(found), sheet["front"], "numbers of all that no other beats, the fastest first")
        twins = [(3.0, 1.0), (1.0, 2.0), (1.0, 2.0), (2.0, 2.0)]
        same(f"front({twins})", [1, 2, 0], ask("front", twins), "equal designs do not beat each other: both stay")
        yield
        sheet["knee"] = ask("knee", table)
        rule = "of the front, the least sum of both logarithms, each scaled from 0 (the best) to 1 (the worst)"
        same("knee(DESIGNS)", knee_of(found), sheet["knee"], rule)
        yield
        for each_us in (limit, limit / 2, found[0].latency_us, min(found).latency_us, min(found).latency_us / 2):
            rule = "the least area among those with latency <= limit; -1 where there is none"
            same(f"smallest(DESIGNS, {each_us:g})", cheapest(found, each_us), ask("smallest", table, each_us), rule)
        yield
        ratio = found[cheapest(found, limit / 2)].area_mm2 / found[cheapest(found, limit)].area_mm2
        answer(ask, ratio, "area of the smallest design within half the limit / area of the smallest within the limit")
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """All designs over latency and area; the student's front and knee; the limit."""
        from accelsim.report.style import BLUE, FAINT, GREY, INK, VERMILLION, log_axis

        found, axes = designs(numbers), figure.subplots()
        for at, each in enumerate(found):
            axes.loglog(*each, "o", color=GREY, ms=5)
            axes.annotate(str(at), each, xytext=(4, 4), textcoords="offset points", fontsize=7)
        got = sheet.get("front")
        if isinstance(got, list):
            own = [found[at] for at in got if isinstance(at, int) and 0 <= at < len(found)]
            right = got == front(found)
            if own:
                told = "your front" if right else "your front: not that of these designs"
                axes.plot(*zip(*own, strict=True), "o-", color=BLUE if right else VERMILLION, label=told)
        best = sheet.get("knee")
        if isinstance(best, int) and 0 <= best < len(found):
            axes.plot(*found[best], "*", color=INK, ms=13, label="your knee")
        axes.axvline(limit_us(found), color=INK, ls="--", lw=1, label="the limit")
        axes.set(xlabel="latency, us", ylabel="area, mm²", title="Twenty designs for one layer")
        axes.grid(True, color=FAINT)
        for axis in (axes.xaxis, axes.yaxis):
            log_axis(axis)
        axes.legend()


LESSON = Front()
