"""Lesson 1: energies of a table, two products, the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from numpy.random import Generator

from accelsim import run
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet
from accelsim.lessons.compare import answer, number, numbers
from accelsim.report.text import si

ON = "edu-4x4"
PARTS = ("multiplications", "on-chip SRAM", "DRAM")


class Numbers(NamedTuple):
    """Energy of a bit in DRAM, pJ; both products, as (M, N, K)."""

    dram_pJ: float
    square: tuple[int, int, int]
    vector: tuple[int, int, int]


class Measured(NamedTuple):
    """Counts in the ledger of a run: multiplications, bytes out of the activation SRAM, bytes from and to
    DRAM, their energies, pJ."""

    counts: tuple[int, int, int]
    energies: tuple[float, float, float]

    @property
    def each(self) -> tuple[float, float, float]:
        """Energy of one multiplication, one SRAM byte and one DRAM byte, pJ."""
        one, two, three = (energy / count for energy, count in zip(self.energies, self.counts, strict=True))
        return one, two, three


@cache
def measured(size: tuple[int, int, int], dram_pJ: float) -> Measured:
    """A product on the teaching chip, by its ledger."""
    M, N, K = size
    field = "memories.dram.memory"
    changes = [f"{field}.{way}_energy={dram_pJ} pJ/bit" for way in ("read", "write")]
    done = run(f"gemm?M={M},N={N},K={K}", ON, dtype="int8", values="off", edges="outside", set=changes)
    counts, joules = [0, 0, 0], [0.0, 0.0, 0.0]
    frame = done.ledger_frame()
    for row in frame if isinstance(frame, list) else frame.to_dict("records"):
        index = _part(row["component"], row["action"])
        if index is not None:
            counts[index] += row["count"]
            joules[index] += row["energy_J"]
    one, two, three = (1e12 * value for value in joules)
    return Measured((counts[0], counts[1], counts[2]), (one, two, three))


def _part(component: str, action: str) -> int | None:
    if (component, action) == ("matrix", "mac.int8"):
        return 0
    if (component, action) == ("act_sram", "read"):
        return 1
    return 2 if component == "dram" else None


class Bytes(Lesson):
    """Lesson 1: what a byte costs."""

    number, title, file, minutes = 1, "What a byte costs", "energy.py", 10
    idea = "Fetching a number from memory costs hundreds of times as much energy as multiplying it."
    steps = ("the three energies", "counts of both products", "picojoules of both products", "the question")

    def draw(self, rng: Generator) -> Numbers:
        side, wide, deep = 4 * int(rng.integers(3, 6)), int(rng.integers(2, 7)), int(rng.integers(6, 16))
        return Numbers(float(rng.integers(50, 120)) / 10, (side, side, side), (1, 8 * wide + 6, 4 * deep))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        found = measured(numbers.square, numbers.dram_pJ)
        named = {
            f"{name}{letter}": value
            for name, size in (("s", numbers.square), ("v", numbers.vector))
            for letter, value in zip("MNK", size, strict=True)
        }
        return named | {"dram": numbers.dram_pJ, "mac": f"{found.each[0]:.3g}", "sram": f"{found.each[1]:.4g}"}

    def check(self, ask: Ask, numbers_: Numbers, sheet: Sheet) -> Iterator[None]:
        sizes = _sizes(numbers_)
        known = {name: measured(size, numbers_.dram_pJ) for name, size in sizes.items()}
        each = known["square product"].each
        rules = (
            "row 'int8 multiply-accumulate' of the table",
            "row 'activation SRAM, read' of the table: what leaves it, not what enters",
            "the table gives DRAM for each bit, and a byte has 8",
        )
        for name, value, rule in zip(("MAC", "SRAM_BYTE", "DRAM_BYTE"), each, rules, strict=True):
            number(name, value, ask.value(name), rule)
        yield
        what = ("multiplications", "bytes out of the SRAM", "bytes from and to DRAM")
        rule = (
            "M N K multiplications; from the SRAM A once for every 4 columns of B, and the result once; from and "
            "to DRAM each byte of A, B and the result once"
        )
        for name, size in sizes.items():
            numbers(f"counts{size}, {name}", what, known[name].counts, ask("counts", *size), rule)
        yield
        sheet["told"] = {}
        for name, size in sizes.items():
            got = ask("picojoules", *size)
            if isinstance(got, int | float):
                sheet["told"][name] = float(got)
            rule = "each count times its energy, added up, in picojoules"
            number(f"picojoules{size}, {name}", sum(known[name].energies), got, rule)
        yield
        rule = "n multiplications for each of n x n results, against 3 n x n bytes"
        answer(ask, 3 * each[2] / each[0], rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Draw what the ledger says of both products, and what the student predicted."""
        from accelsim.report.style import BLUE, GREEN, INK, ORANGE

        axes, told = figure.subplots(), sheet.get("told", {})
        known = {name: measured(size, numbers.dram_pJ) for name, size in _sizes(numbers).items()}
        for place, (name, found) in enumerate(known.items()):
            start, total = 0.0, sum(found.energies)
            for part, energy, colour in zip(PARTS, found.energies, (BLUE, GREEN, ORANGE), strict=True):
                label = part if not place else None
                axes.barh(place, energy / total, 0.5, left=start, color=colour, label=label)
                start += energy / total
            axes.annotate(f"ledger: {si(total * 1e-12, 'J')}", (1.0, place), xytext=(6, 4), textcoords="offset points")
            if name in told:
                axes.plot([told[name] / total] * 2, [place - 0.35, place + 0.35], color=INK, lw=2)
                said = f"you: {si(told[name] * 1e-12, 'J')}"
                axes.annotate(said, (1.0, place), xytext=(6, -10), textcoords="offset points")
        axes.set_yticks(range(len(known)), [f"{name}\n{size}" for name, size in _sizes(numbers).items()])
        most = max([1.0, *(told[name] / sum(known[name].energies) for name in told)])
        axes.set_xlim(0, min(3.0, 1.35 * most))
        axes.set_ylim(-0.7, len(known) - 0.3)
        axes.set_xlabel("share of the energy in the ledger; black line: your prediction")
        axes.set_title("Where the energy goes")
        figure.legend(loc="outside lower center", ncols=3)


def _sizes(numbers: Numbers) -> dict[str, tuple[int, int, int]]:
    return {"square product": numbers.square, "vector times matrix": numbers.vector}


LESSON = Bytes()
