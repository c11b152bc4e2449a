"""Lesson 5: tiles of three products in a small buffer; bytes of DRAM by the simulator, the best by trying all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim import run
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, array, number, same
from accelsim.seeds import generator
from accelsim.types import Array

ON = "edu-4x4"
STEP = 4
"""Tiles are as long as so many numbers, or a multiple."""
NEAR = 1.1
"""Bytes that are good enough, of the best."""
ROOM = [f"{name}.capacity=1 MiB" for name in ("act_sram", "weight_sram", "accumulators")]
"""The buffer of the lesson is smaller than any of these, so nothing else limits."""
RULE = (
    "with loops n, m, k from outside in: A comes once for every tile of n, unless it is one tile; B once for every "
    "tile of m, unless k has one tile; the result goes out once"
)

Shape = tuple[int, int, int]
"""M, N, K, or tm, tn, tk."""


class Numbers(NamedTuple):
    """Three products, as (M, N, K); bytes of the buffer; seed of operands."""

    products: tuple[Shape, ...]
    buffer: int
    seed: int


@cache
def simulated(product: Shape, tile: Shape) -> int:
    """Bytes from and to DRAM of a product with such tiles."""
    M, N, K = product
    tm, tn, tk = tile
    mapping = {
        "order": "nmk", "tm": tm, "tn": tn, "tk": tk, "tg": 1, "reuse": True, "a_resident": False, "b_resident": False,
        "y_resident": False, "a_whole_k": False, "a_slots": 1, "w_slots": 1, "y_slots": 1,
    }  # fmt: skip
    done = run(
        f"gemm?M={M},N={N},K={K}", ON, dtype="int8", values="off", edges="outside", mapping={"y": mapping}, set=ROOM
    )
    flow = done.summary()["traffic"]["dram"]
    return int(flow["read_B"] + flow["write_B"])


def closed(product: Shape, tile: Any) -> Any:
    """Return the elements moved by a closed form; ``tile`` may be three arrays."""
    (M, N, K), (m, n, k) = product, (-(-whole // part) for whole, part in zip(product, tile, strict=True))
    return M * K * np.where(m * k > 1, n, 1) + K * N * np.where(k > 1, m, 1) + M * N


def held(tile: Any) -> Any:
    """Bytes of a tile of A, of B and of the result together."""
    tm, tn, tk = tile
    return tm * tk + tk * tn + tm * tn


@cache
def optimum(product: Shape, buffer: int) -> tuple[int, Shape]:
    """The fewest bytes of all tiles that fit, and such a tile."""
    tiles = np.meshgrid(*(np.arange(STEP, whole + 1, STEP) for whole in product), indexing="ij")
    found = np.where(held(tiles) <= buffer, closed(product, tiles), np.iinfo(np.int64).max)
    place = np.unravel_index(int(found.argmin()), found.shape)
    tm, tn, tk = (int(each[place]) for each in tiles)
    return int(found[place]), (tm, tn, tk)


class Tiling(Lesson):
    """Lesson 5: tiling."""

    number, title, file, minutes = 5, "Tiling", "tiling.py", 40
    idea = "A product is cut into tiles that fit on the chip; their shape decides how often memory is asked again."
    steps = ("what fits", "bytes of a tiling", "a product by tiles", "tiles within 10 % of the best", "the question")

    def draw(self, rng: Generator) -> Numbers:
        sides = [STEP * int(each) for each in rng.integers(16, 26, 9)]
        products = (
            (sides[0], sides[1], sides[2]),
            (2 * sides[3], sides[4], sides[5]),
            (sides[6], sides[7], 2 * sides[8]),
        )
        return Numbers(products, 128 * int(rng.integers(6, 13)), int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [f"| {place} | {M} | {N} | {K} |" for place, (M, N, K) in enumerate(numbers.products, 1)]
        first = numbers.products[0]
        return {
            "products": "\n".join(rows),
            "buffer": numbers.buffer,
            "four": 4 * numbers.buffer,
            "first": ", ".join(map(str, first)),
        }

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        size = numbers.buffer
        for tile in ((4, 4, 4), (16, 16, 16), (size // 16, 8, 8), (20, 24, 28)):
            for room in (held(tile) - 1, held(tile)):
                rule = "a tile of A (tm tk), of B (tk tn) and of the result (tm tn), a byte each, all at once"
                same(f"fits{(*tile, room)}", bool(held(tile) <= room), ask("fits", *tile, room), rule)
        yield
        for product, tile in _examples(numbers):
            got = ask("dram_bytes", *product, *tile)
            number(f"dram_bytes{(*product, *tile)}", simulated(product, tile), got, RULE, 0)
        yield
        _values(ask, numbers.seed)
        yield
        sheet["chosen"] = {}
        for product in numbers.products:
            sheet["chosen"][product] = _chosen(ask, product, size)
        yield
        first = numbers.products[0]
        rule = "the fewest bytes with the buffer as it is, divided by the fewest with four times as much"
        answer(ask, optimum(first, size)[0] / optimum(first, 4 * size)[0], rule, 0.1)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Bytes of all tilings that fit against the bytes that they hold; the best, and the student's."""
        from accelsim.report.style import GREEN, GREY, VERMILLION, log_axis

        for axes, product in zip(figure.subplots(1, 3), numbers.products, strict=True):
            tiles = np.meshgrid(*(np.arange(STEP, whole + 1, STEP) for whole in product), indexing="ij")
            room, moved = held(tiles).ravel(), closed(product, tiles).ravel()
            inside = room <= numbers.buffer
            axes.scatter(room[inside], moved[inside], s=3, color=GREY, label="all tilings that fit", rasterized=True)
            best, tile = optimum(product, numbers.buffer)
            axes.plot(held(tile), best, "o", color=GREEN, ms=9, mfc="none", mew=2, label="the best")
            got = sheet.get("chosen", {}).get(product)
            if got is not None:
                axes.plot(held(got), simulated(product, got), "x", color=VERMILLION, ms=9, mew=2, label="yours")
            axes.set_yscale("log")
            log_axis(axes.yaxis)
            axes.set_xlim(0, numbers.buffer * 1.05)
            axes.set_title("M {}, N {}, K {}".format(*product), fontsize=10)
            axes.set_xlabel("bytes that a tiling holds")
            if product == numbers.products[0]:
                axes.set_ylabel("bytes from and to DRAM")
                figure.legend(loc="outside lower center", ncols=3)


def _examples(numbers: Numbers) -> Iterator[tuple[Shape, Shape]]:
    """Tilings with and without every kind of reuse."""
    for M, N, K in numbers.products:
        yield (M, N, K), (16, 16, 16)
        yield (M, N, K), (16, 16, K)
        yield (M, N, K), (M, 16, K)
        yield (M, N, K), (28, N, 20)
        yield (M, N, K), (M, N, K)


def _values(ask: Ask, seed: int) -> None:
    """The student's tiled product of random matrices, in tiles that do not divide them."""
    rng = generator(seed)
    for M, N, K, tile in ((8, 8, 8, (4, 4, 4)), (9, 7, 10, (4, 4, 4)), (5, 12, 3, (8, 4, 1))):
        a, b = (rng.integers(-9, 10, shape) for shape in ((M, K), (K, N)))
        rule = "for every tile of k, add the product of a tile of A and one of B to the tile of the result"
        got: Array = ask("multiply", a, b, *tile)
        array(f"multiply, {M} x {K} times {K} x {N} in tiles {tile}", a @ b, got, rule)


def _chosen(ask: Ask, product: Shape, buffer: int) -> Shape:
    """A student's tile: that it is one, that it fits, that it is good."""
    got, where = ask("choose", *product, buffer), f"choose{(*product, buffer)}"
    rule = "tm, tn and tk: whole numbers, multiples of 4, no longer than M, N and K"
    if (
        not isinstance(got, tuple | list)
        or len(got) != 3
        or not all(_is_side(*each) for each in zip(got, product, strict=True))
    ):
        raise Wrong(where, "(tm, tn, tk)", got, rule)
    tile = (got[0], got[1], got[2])
    if held(tile) > buffer:
        raise Wrong(where, f"at most {buffer} bytes", f"{tile} takes {held(tile)}", "all three tiles lie there at once")
    best, moved = optimum(product, buffer)[0], simulated(product, tile)
    if moved > NEAR * best:
        told = f"{tile} moves {moved:,} bytes"
        rule = "try all tiles, and keep the one that moves least"
        raise Wrong(where, f"at most {NEAR * best:,.0f} bytes", told, rule)
    return tile


def _is_side(got: object, whole: int) -> bool:
    return isinstance(got, int) and not isinstance(got, bool) and 0 < got <= whole and got % STEP == 0


LESSON = Tiling()
