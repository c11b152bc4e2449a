"""Lesson 9: the KL threshold to the bin, fake quantisation with its gradient, a network of two-bit weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.formats.fake_quant import fake_quantise, fake_quantise_grad
from accelsim.formats.ranges.entropy import entropy_bins
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, array, number
from accelsim.seeds import generator
from accelsim.types import Array

INPUTS, HIDDEN, CLASSES = 12, 24, 6
SAMPLES, STEPS, BATCH, RATE = 1200, 160, 60, 0.3
LEVELS = 1
"""Codes of the weights go from minus this to this: three levels, in two bits."""

Quantise = Callable[[Array, float], Array]
Gradient = Callable[[Array, float, Array], Array]


class Data(NamedTuple):
    """Samples [n, 12] and their classes, to train and to test."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


def data(seed: int) -> Data:
    """Draw samples around six centres, one per class; classes overlap a little."""
    rng = generator(seed)
    centres = rng.normal(0, 1.1, (CLASSES, INPUTS))
    y = rng.integers(0, CLASSES, 2 * SAMPLES)
    x = centres[y] + rng.normal(0, 1.0, (2 * SAMPLES, INPUTS))
    return Data(x[:SAMPLES], y[:SAMPLES], x[SAMPLES:], y[SAMPLES:])


def train(
    seed: int, quantise: Quantise | None = None, gradient: Gradient | None = None, start: list[Array] | None = None
) -> list[Array]:
    """Both matrices of weights. With ``quantise`` the forward pass uses what it makes of them, and ``gradient`` leads
    back through it: quantisation-aware training."""
    found, rng = data(seed), generator(seed, 1)
    weights = start or [rng.normal(0, 0.4, shape) for shape in ((INPUTS, HIDDEN), (HIDDEN, CLASSES))]
    weights = [weight.copy() for weight in weights]
    for _ in range(STEPS):
        chosen = rng.integers(0, SAMPLES, BATCH)
        x, y = found.x[chosen], found.y[chosen]
        used = weights if quantise is None else [quantise(weight, scale(weight)) for weight in weights]
        hidden = np.maximum(x @ used[0], 0)
        error = _shares(hidden @ used[1])
        error[np.arange(BATCH), y] -= 1
        error /= BATCH
        slopes = [x.T @ ((error @ used[1].T) * (hidden > 0)), hidden.T @ error]
        if gradient is not None:
            slopes = [gradient(weight, scale(weight), slope) for weight, slope in zip(weights, slopes, strict=True)]
        weights = [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)]
    return weights


def scale(weight: Array) -> float:
    """The step of a matrix of weights: the power of two nearest to the mean size of its weights."""
    return float(2.0 ** np.round(np.log2(np.mean(np.abs(weight)) / LEVELS)))


def accuracy(seed: int, weights: list[Array]) -> float:
    """Return the share of test samples that are classified correctly."""
    found = data(seed)
    return float(np.mean(np.argmax(np.maximum(found.x_test @ weights[0], 0) @ weights[1], axis=1) == found.y_test))


def _shares(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


BINS, CODES, VALUES = 512, 128, 20_000
LOST = 0.04
"""Accuracy that two-bit weights may lose after they were trained for it."""


class Numbers(NamedTuple):
    """Seed of everything; how far the outliers lie."""

    seed: int
    far: float


@cache
def histogram(numbers: Numbers, which: int = 0) -> tuple[int, ...]:
    """Counts of |x| in 512 bins over [0, max]: many small values, some far out."""
    rng = generator(numbers.seed, which)
    values = np.abs(rng.laplace(0, 1, VALUES))
    values[: 20 + 40 * which] *= numbers.far
    return tuple(int(each) for each in np.histogram(values, BINS, (0, values.max()))[0])


@cache
def trained(seed: int) -> list[Array]:
    """Return the weights trained in full precision."""
    return train(seed)


class EightBits(Lesson):
    """Lesson 9: eight bits."""

    number, title, file, minutes = 9, "Eight bits", "eightbits.py", 50
    idea = "Few bits need a range: which values may saturate, and how a network learns to live with its codes."
    steps = (
        "a threshold to the bin",
        "fake quantisation",
        "its gradient",
        "a network of two-bit weights",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        return Numbers(int(rng.integers(1 << 30)), float(rng.integers(30, 60)) / 10)

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        weights = trained(numbers.seed)
        rounded = [_rounded(weight, scale(weight)) for weight in weights]
        counts = histogram(numbers)
        return {
            "full": f"{accuracy(numbers.seed, weights):.1%}",
            "rounded": f"{accuracy(numbers.seed, rounded):.1%}",
            "first": ", ".join(map(str, counts[:6])),
            "last": ", ".join(map(str, counts[-4:])),
            "bins": entropy_bins(np.array(counts), CODES),
        }

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        for which in range(3):
            counts = histogram(numbers, which)
            got = ask("amax_bins", list(counts))
            sheet["bins"] = {**sheet.get("bins", {}), which: got}
            rule = "of all candidates from 128 bins on the one with the smallest divergence, of equal ones the largest"
            number(f"amax_bins, histogram {which}", entropy_bins(np.array(counts), CODES), got, rule, 0)
        yield
        x = generator(numbers.seed, 7).normal(0, 1.5, (6, 8))
        x[0, :5] = (0.0, 0.25, -0.25, 5.0, -5.0)
        for step, most in ((0.5, 1), (0.25, 7), (1.0, 127)):
            right = _right(x, step, most)
            rule = "round x / scale to the nearest whole number, keep it between -most and most, times scale"
            array(f"fake_quant with scale {step}, most {most}", right, ask("fake_quant", x, step, most), rule)
        yield
        upstream = generator(numbers.seed, 8).normal(0, 1, x.shape)
        for step, most in ((0.5, 1), (0.25, 7), (1.0, 127)):
            found, _ = fake_quantise_grad(
                x.astype(np.float32), step, 0, -most, most, None, np.ones(x.shape, np.float32)
            )
            rule = "straight through: upstream where the rounded number is within -most and most, 0 where it was cut"
            where = f"fake_quant_gradient with scale {step}, most {most}"
            array(where, upstream * found, ask("fake_quant_gradient", x, step, most, upstream), rule)
        yield
        self._learnt(ask, numbers, sheet)
        yield
        kept = entropy_bins(np.array(histogram(numbers)), CODES)
        rule = "steps are threshold / 127: with all bins the threshold is that of bin 512, else that of yours"
        answer(ask, BINS / kept, rule)
        yield

    def _learnt(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> None:
        """Training with the student's functions, on the network that was trained in full precision."""
        seed, weights = numbers.seed, trained(numbers.seed)
        learnt = train(
            seed,
            lambda weight, step: np.asarray(ask("fake_quant", weight, step, LEVELS)),
            lambda weight, step, slope: np.asarray(ask("fake_quant_gradient", weight, step, LEVELS, slope)),
            weights,
        )
        used = [np.asarray(ask("fake_quant", weight, scale(weight), LEVELS)) for weight in learnt]
        full, mine = accuracy(seed, weights), accuracy(seed, used)
        sheet["accuracy"] = mine
        if mine < full - LOST:
            rule = "forward through fake_quant, backward through fake_quant_gradient, 160 steps"
            raise Wrong("accuracy with two-bit weights", f"at least {full - LOST:.1%}", f"{mine:.1%}", rule)

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The histogram with thresholds; accuracies."""
        from accelsim.report.style import BLUE, FAINT, GREEN, GREY, ORANGE, VERMILLION, log_axis

        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        counts = np.array(histogram(numbers))
        left.bar(np.arange(BINS), counts, 1.0, color=GREY)
        left.set_yscale("log")
        left.set_ylim(0.7, 2 * counts.max())
        log_axis(left.yaxis)
        right_bins, got = entropy_bins(counts, CODES), sheet.get("bins", {}).get(0)
        left.axvline(right_bins, color=GREEN, lw=2, label=f"smallest divergence: {right_bins} bins")
        if isinstance(got, int | float) and got != right_bins:
            left.axvline(got, color=VERMILLION, lw=2, ls="--", label=f"yours: {got:g} bins")
        left.set(xlabel="bin of |x|, 512 up to the largest", ylabel="values")
        left.set_title("What eight bits should span")
        left.legend()
        weights = trained(numbers.seed)
        rounded = [_rounded(weight, scale(weight)) for weight in weights]
        bars = {
            "full precision": (accuracy(numbers.seed, weights), FAINT),
            "rounded to\n2 bits": (accuracy(numbers.seed, rounded), ORANGE),
        }
        if "accuracy" in sheet:
            bars["trained for\n2 bits (yours)"] = (sheet["accuracy"], BLUE)
        for place, (share, colour) in enumerate(bars.values()):
            right.bar(place, 100 * share, 0.6, color=colour)
            right.annotate(f"{share:.1%}", (place, 100 * share), xytext=(0, 3), textcoords="offset points", ha="center")
        right.set_xticks(range(len(bars)), list(bars))
        right.set(ylim=(0, 110), ylabel=f"right of {len(data(numbers.seed).y_test)} test samples, %")
        right.set_title("Accuracy")


def _right(x: Array, step: float, most: int) -> Array:
    return np.asarray(fake_quantise(x.astype(np.float64), np.float64(step), 0, -most, most), np.float64)


def _rounded(weight: Array, step: float) -> Array:
    return _right(weight, step, LEVELS)


LESSON = EightBits()
