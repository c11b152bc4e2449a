"""Lesson 11: a mask, the compressed form, a product on it, its bytes, and where it is faster on a chip that skips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.formats import sparsity
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, array, number
from accelsim.lessons.timing import product_s
from accelsim.seeds import generator
from accelsim.types import Array

ON, DTYPE = "a100-80-sxm", "fp16"
REAL = 1.5
"""Speed-up from which on it counts as real."""
KEPT, GROUP = 2, 4


class Numbers(NamedTuple):
    """Seed of weights; five products as (M, K, N); bits of a weight in the question."""

    seed: int
    products: tuple[tuple[int, int, int], ...]
    bits: int


def speedup(product: tuple[int, int, int]) -> float:
    """Time with dense weights over that with 2:4, simulated."""
    return product_s(ON, *product, DTYPE) / product_s(ON, *product, DTYPE, f"{KEPT}:{GROUP}")


def weights(numbers: Numbers, rows: int = 6, columns: int = 16) -> Array:
    """Random weights with a row of equal ones."""
    found = generator(numbers.seed, rows).normal(0, 1, (rows, columns)).round(2)
    found[-1] = 0.5
    return found


class Pruning(Lesson):
    """Lesson 11: 2:4 sparsity."""

    number, title, file, minutes = 11, "2:4 sparsity", "sparsity.py", 40
    idea = "Half of the weights can go, if they go in a pattern that hardware can skip."
    steps = ("a legal mask", "the largest weights stay", "the compressed form", "a product on it", "bytes",
             "where it is faster", "the question")  # fmt: skip

    def draw(self, rng: Generator) -> Numbers:
        large = [tuple(int(each) for each in rng.choice([3072, 4096, 5120], 3)) for _ in range(2)]
        one, few = int(rng.integers(8, 17)) * 128, int(rng.integers(8, 17)) * 128
        products = [*large, (1, one, one), (64, few, few), (4096, 64, 64)]
        order = rng.permutation(len(products))
        M_K_N = tuple((products[place][0], products[place][1], products[place][2]) for place in order)
        return Numbers(int(rng.integers(1 << 30)), M_K_N, (8, 16, 32)[int(rng.integers(3))])

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [f"| {place} | {M} | {K} | {N} |" for place, (M, K, N) in enumerate(numbers.products, 1)]
        real = [place for place, product in enumerate(numbers.products, 1) if speedup(product) > REAL]
        return {"products": "\n".join(rows), "bits": numbers.bits, "real": real}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        w = weights(numbers)
        sheet["weights"] = w
        keep = ask("mask", w)
        self._legal(keep, w)
        sheet["keep"] = keep
        yield
        rule = "of every four neighbours in a row the two with the largest |w|; of equal ones the first"
        array("mask", sparsity.mask(w, KEPT, GROUP), np.asarray(keep, bool), rule)
        yield
        right = sparsity.compress(w, np.asarray(keep, bool), KEPT, GROUP)
        got = ask("compress", w, keep)
        if not isinstance(got, tuple | list) or len(got) != 2:
            raise Wrong("compress", "(values, positions)", got, "two arrays of half as many columns")
        rule = "the kept weights of each row, in their order"
        array("compress, values", right.values, _plain(got[0]), rule)
        rule = "place of each kept weight in its group of four, 0 to 3"
        positions = right.positions.reshape(right.values.shape)
        array("compress, positions", positions.astype(float), _plain(got[1]), rule)
        yield
        x = generator(numbers.seed, 99).integers(-5, 6, (w.shape[1], 5)).astype(float)
        dense = np.where(keep, w, 0)
        got = _plain(ask("multiply", right.values, positions.astype(np.int64), x))
        rule = "value j of a row belongs to row 4 (j // 2) + position of x: two values for every four rows of x"
        array("multiply", (dense @ x).round(6), got.round(6), rule)
        yield
        for rows, columns, bits in ((8, 16, 16), (64, 128, 8), (1000, 4096, 4)):
            rule = "half of the weights with their bits, and 2 bits of position for each of these; 8 bits are a byte"
            right_B = rows * columns / 2 * (bits + 2) / 8
            got = ask("compressed_bytes", rows, columns, bits)
            number(f"compressed_bytes({rows}, {columns}, {bits})", right_B, got, rule, 0)
        yield
        real = [place for place, product in enumerate(numbers.products, 1) if speedup(product) > REAL]
        given = ask.value("FASTER")
        if not isinstance(given, list | tuple) or sorted(given) != real:
            rule = (
                "faster where multiplications take the time; not where starting the kernel, or moving what is not "
                "compressed, does"
            )
            wanted = "the numbers of the products that are more than 1.5 times as fast"
            raise Wrong("FASTER", wanted if given is None else f"{wanted}: {len(real)} of 5", given, rule)
        yield
        bits = numbers.bits
        rule = "bits of four weights before, divided by bits of two weights and two positions"
        answer(ask, 4 * bits / (2 * bits + 4), rule, 0.001)
        yield

    @staticmethod
    def _legal(keep: object, w: Array) -> None:
        """Shape, and two of every four."""
        if not isinstance(keep, np.ndarray) or keep.shape != w.shape:
            shape = keep.shape if isinstance(keep, np.ndarray) else type(keep).__name__
            raise Wrong("mask", f"an array of shape {w.shape}", f"{shape}", "one truth value for each weight")
        groups = (keep != 0).reshape(w.shape[0], -1, GROUP).sum(axis=2)
        if (groups != KEPT).any():
            row, group = (int(each) for each in np.argwhere(groups != KEPT)[0])
            where = f"mask, row {row}, columns {GROUP * group} to {GROUP * group + GROUP - 1}"
            raise Wrong(
                where, "2 of 4", f"{groups[row, group]} of 4", "each group of four neighbours in a row keeps two"
            )

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The weights with the student's mask; simulated speed-ups."""
        from accelsim.report.style import BLUE, FAINT, INK

        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        w, keep = weights(numbers), sheet.get("keep")
        shown = np.abs(w) if keep is None else np.where(np.asarray(keep, bool), np.abs(w), np.nan)
        left.imshow(shown, cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
        for row, column in np.ndindex(w.shape):
            gone = keep is not None and not keep[row, column]
            left.text(
                column, row, f"{w[row, column]:.2f}", ha="center", va="center", fontsize=6, color=FAINT if gone else INK
            )
        for edge in range(GROUP, w.shape[1], GROUP):
            left.axvline(edge - 0.5, color=INK, lw=1)
        left.set(xticks=[], yticks=[])
        left.set_title("Weights, groups of four" + ("" if keep is None else "; white: pruned by you"))
        places = range(1, len(numbers.products) + 1)
        right.barh(places, [speedup(product) for product in numbers.products], 0.6, color=BLUE)
        right.axvline(REAL, color=INK, ls="--", lw=1)
        named = [f"{place}: {' x '.join(map(str, product))}" for place, product in enumerate(numbers.products, 1)]
        right.set_yticks(places, named)
        right.invert_yaxis()
        right.set_xlabel(f"times as fast on {ON}, simulated")
        right.set_title("What 2:4 brings (M x K x N)")


def _plain(got: Any) -> Array:
    return np.asarray(got, float) if isinstance(got, np.ndarray | list | tuple) else got


LESSON = Pruning()
