"""Lesson 4: words per operand for three dataflows and six products, by the counts of the array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from numpy.random import Generator

from accelsim.engines.systolic.sweep import one
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, numbers

SIDE = 8
DATAFLOWS = ("ws", "os", "is")
WORDS = ("words of A", "words of B", "words of sums")
RULES = {
    "ws": "B once; A for every 8 columns of B; sums are written for every 8 rows of B, read back but the first time",
    "os": "A for every 8 columns of B, B for every 8 rows of A; sums stay in their PEs until complete",
    "is": "A once; B for every 8 rows of A; sums are written for every 8 columns of A, read back but the first time",
}


class Numbers(NamedTuple):
    """Six products, as (M, N, K); energy of a word, pJ; number of the product in the question, from 1."""

    products: tuple[tuple[int, int, int], ...]
    word_pJ: float
    asked: int


@cache
def words(dataflow: str, product: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the words of A, of B and of sums to and from the accumulators, as the array counts them."""
    found = one(SIDE, SIDE, dataflow, "overlapped", *product)
    sums = found["accumulator_reads"] + found["accumulator_writes"]
    return int(found["a_reads"]), int(found["b_reads"]), int(sums)


class Dataflows(Lesson):
    """Lesson 4: dataflows."""

    number, title, file, minutes = 4, "Dataflows", "dataflows.py", 30
    idea = "Something stays in the array while the rest streams past; that decides what is fetched again and again."
    steps = ("weight stationary", "output stationary", "input stationary", "the best for each product", "the question")

    def draw(self, rng: Generator) -> Numbers:
        drawn = ([int(x) for x in rng.integers(*ends, 6)] for ends in ((3, 9), (9, 17), (20, 65), (150, 500)))
        few, small, middle, large = drawn
        products = (
            (large[0], small[0], few[0]),
            (small[1], large[1], few[1]),
            (small[2], small[3], large[2]),
            (large[3], middle[0], few[2]),
            (middle[1], large[4], few[3]),
            (middle[2], middle[3], middle[4]),
        )
        return Numbers(products, int(rng.integers(20, 90)) / 10, int(rng.integers(1, 7)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [f"| {place} | {M} | {N} | {K} |" for place, (M, N, K) in enumerate(numbers.products, 1)]
        return {
            "products": "\n".join(rows),
            "word": numbers.word_pJ,
            "asked": numbers.asked,
            "mnk": ", ".join(map(str, numbers.products[numbers.asked - 1])),
        }

    def check(self, ask: Ask, numbers_: Numbers, sheet: Sheet) -> Iterator[None]:
        sheet["told"] = {}
        for dataflow in DATAFLOWS:
            for place, product in enumerate(numbers_.products, 1):
                got = ask("words", dataflow, *product)
                sheet["told"][dataflow, product] = got
                M, N, K = product
                where = f"words({dataflow!r}, {M}, {N}, {K}), product {place}"
                numbers(where, WORDS, words(dataflow, product), got, RULES[dataflow])
            yield
        for place, product in enumerate(numbers_.products, 1):
            got = ask("best", *product)
            totals = {name: sum(words(name, product)) for name in DATAFLOWS}
            least = min(totals.values())
            if totals.get(got) != least:
                right = " or ".join(repr(name) for name, total in totals.items() if total == least)
                rule = f"the one with the fewest words of A, B and sums together: {totals}"
                raise Wrong(f"best{product}, product {place}", right, got, rule)
        yield
        totals = {name: sum(words(name, numbers_.products[numbers_.asked - 1])) for name in DATAFLOWS}
        saved_nJ = (max(totals.values()) - min(totals.values())) * numbers_.word_pJ / 1000
        rule = "words of the worst dataflow less words of the best, times the energy of a word; 1000 pJ are 1 nJ"
        answer(ask, saved_nJ, rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Words of each dataflow on each product; the student's as a black line."""
        from accelsim.report.style import BLUE, GREEN, INK, ORANGE

        told = sheet.get("told", {})
        for axes, product in zip(figure.subplots(1, len(numbers.products)), numbers.products, strict=True):
            for place, dataflow in enumerate(DATAFLOWS):
                start = 0
                for what, count, colour in zip(WORDS, words(dataflow, product), (BLUE, GREEN, ORANGE), strict=True):
                    first = product == numbers.products[0] and not place
                    axes.bar(place, count, 0.7, bottom=start, color=colour, label=what if first else None)
                    start += count
                got = told.get((dataflow, product))
                if isinstance(got, tuple | list) and all(isinstance(each, int | float) for each in got):
                    axes.plot([place - 0.45, place + 0.45], [sum(got)] * 2, color=INK, lw=2)
            axes.set_xticks(range(len(DATAFLOWS)), DATAFLOWS)
            axes.set_title("M {}\nN {}\nK {}".format(*product), fontsize=9)
            axes.set_ylim(0, 1.15 * max(sum(words(name, product)) for name in DATAFLOWS))
            axes.set_yticks([])
        figure.suptitle(
            "Words between array and SRAM, each product to its own scale; black: yours", fontsize=10, x=0.01, ha="left"
        )
        figure.legend(loc="outside lower center", ncols=3)


LESSON = Dataflows()
