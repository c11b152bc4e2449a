"""Lesson 10: the sums of a Tensor Core to the bit, the controller of a loss scale, a training that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import ceil, isfinite, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.formats.dot import product
from accelsim.formats.loss_scale import LossScaler
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, numbers
from accelsim.seeds import generator
from accelsim.types import Array

WIDTH, SAMPLES, STEPS = 8, 64, 120
SMALL = 2.0**-28
"""The targets are of this size, so that all gradients are below 2^-25, of which FP16 makes zero."""
START = 2.0**52
"""First scale of the controller: far too large."""


class Course(NamedTuple):
    """Loss of every step relative to that of the first, and the scale that it was computed with."""

    losses: list[float]
    scales: list[float]


Update = Callable[[float, int, bool], Any]


def train(seed: int, update: Update | None, start: float, skips: bool = True) -> Course:
    """Descend along gradients that are too small for FP16.

    The gradient of the scaled loss is rounded to FP16, divided by the scale, and applied in FP32.

    ``update``: (scale, good steps, whether something was infinite) -> (scale, good steps); None keeps the scale.
    ``skips``: steps with infinite gradients leave the weights as they are.
    """
    rng = generator(seed)
    x = rng.normal(0, 1, (SAMPLES, WIDTH))
    target = SMALL * (x @ rng.normal(0, 1, WIDTH))
    weights, scale, good = np.zeros(WIDTH), start, 0
    losses, scales = [], []
    for _ in range(STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            error = x @ weights - target
            losses.append(float(np.mean(error**2)))
            scales.append(scale)
            rounded = (scale * (x.T @ error) / SAMPLES / 8).astype(np.float16).astype(np.float64)
            found = not bool(np.isfinite(rounded).all())
            if not (found and skips):
                weights = weights - 2.0 * rounded / scale
        if update is not None:
            scale, good = update(scale, good, found)
    return Course([loss / losses[0] for loss in losses], scales)


CORES = {"tensor-core-v100": ("V100", 4, 23), "tensor-core-a100": ("A100", 8, 24), "tensor-core-h100": ("H100", 16, 25)}
"""Rule of sums -> chip, products added at once, bits after the largest exponent."""
FALLEN = 0.01
"""Share of the first loss that is left when a training has worked."""


class Numbers(NamedTuple):
    """Rule of the Tensor Core; good steps until the scale grows; a gradient; seed."""

    core: str
    interval: int
    gradient: float
    seed: int


class Mixed(Lesson):
    """Lesson 10: mixed precision."""

    number, title, file, minutes = 10, "Mixed precision", "mixed.py", 50
    idea = "Narrow factors, wide sums: what a Tensor Core drops, and how training keeps its gradients alive."
    steps = ("a block of products", "a long sum", "the controller", "a training that needs it", "the question")

    def draw(self, rng: Generator) -> Numbers:
        return Numbers(
            list(CORES)[int(rng.integers(len(CORES)))],
            int(rng.integers(6, 15)),
            float(rng.integers(11, 99)) * 1e-10,
            int(rng.integers(1 << 30)),
        )

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        chip, size, bits = CORES[numbers.core]
        facts = {"chip": chip, "size": size, "bits": bits}
        return facts | {"interval": numbers.interval, "gradient": f"{numbers.gradient:.2g}"}

    def check(self, ask: Ask, numbers_: Numbers, sheet: Sheet) -> Iterator[None]:
        _, size, bits = CORES[numbers_.core]
        for a, b, c in vectors(numbers_, size):
            right = float(product(a[None], b[:, None], numbers_.core, "fp16", c=np.float32(c)).item())
            got = ask("block", a.tolist(), b.tolist(), float(c))
            where = f"block({_brief(a)}, {_brief(b)}, {float(c):.6g})"
            rule = f"cut terms to multiples of 2^(e - {bits}), add, cut the sum to 24 bits; e: the largest exponent"
            _bits(where, right, got, rule)
        yield
        rng = generator(numbers_.seed, 3)
        for length in (size, 3 * size, 10 * size):
            a, b = (rng.normal(0, 1, length).astype(np.float16).astype(np.float32) for _ in range(2))
            right = float(product(a[None], b[:, None], numbers_.core, "fp16").item())
            rule = f"block after block of {size} products; the result of one is the c of the next, the first c is 0"
            _bits(f"dot of {length} products", right, ask("dot", a.tolist(), b.tolist()), rule)
        yield
        scaler, scale, good = LossScaler(init=1024.0, interval=numbers_.interval), 1024.0, 0
        for step, found in enumerate(_found(numbers_)):
            got = ask("update", scale, good, found)
            scaler.update(found)
            where = f"update({scale:g}, {good}, {found}), step {step}"
            rule = f"infinite: half the scale, good 0; else good + 1; at {numbers_.interval} twice the scale, good 0"
            numbers(where, ("scale", "good steps"), (float(scaler.scale), scaler.tracker), got, rule)
            scale, good = float(scaler.scale), scaler.tracker
        yield
        course = train(numbers_.seed, lambda *args: _pair(ask("update", *args)), START)
        sheet["course"] = course
        if not course.losses[-1] < FALLEN:
            rule = "start far too high, fall by halves while something is infinite, then stay"
            wanted, got = f"a loss below {FALLEN:.0%} of the first", f"{course.losses[-1]:.3g} of it"
            raise Wrong("a training with your controller", wanted, got, rule)
        yield
        rule = "the smallest whole n with gradient times 2^n at least 2^-14, the smallest normal number of FP16"
        answer(ask, ceil(-14 - log2(numbers_.gradient)), rule, 0)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Loss without a scale, with a fixed one that is too large, with the student's; the scale."""
        from accelsim.report.style import BLUE, GREY, ORANGE, VERMILLION, log_axis

        left, right = figure.subplots(1, 2)
        for label, course, colour in (
            ("no scale: gradients are 0", _without(numbers.seed), GREY),
            ("fixed at 2^52, no step skipped", _fixed(numbers.seed), VERMILLION),
            ("yours", sheet.get("course"), BLUE),
        ):
            if course is not None:
                finite = [loss if isfinite(loss) and loss < 1e6 else np.nan for loss in course.losses]
                left.semilogy(
                    finite, color=colour, lw=2, label=label, marker="x" if not np.isfinite(finite[-1]) else None, ms=4
                )
        left.set(xlabel="step", ylabel="loss, relative to the first")
        left.set_title("Loss (ends where it is no number)")
        left.legend()
        log_axis(left.yaxis)
        if (course := sheet.get("course")) is not None:
            scales = [log2(max(scale, 2.0**-60)) for scale in course.scales]
            right.step(range(len(scales)), scales, color=ORANGE, where="post")
        right.set(xlabel="step", ylabel="log2 of the scale")
        right.set_title("Your controller")


def vectors(numbers: Numbers, size: int) -> Iterator[tuple[Array, Array, np.float32]]:
    """Blocks that tell rules apart: one large term among small ones, signs, a large c, plain ones."""
    rng = generator(numbers.seed, 1)
    for kind in range(12):
        a, b = (rng.normal(0, 1, size) for _ in range(2))
        if kind % 3 == 1:
            a[1:] *= 2.0**-11
        c = (0.0, 1000.0, -0.5, 2.0**-20)[kind % 4] * rng.normal()
        yield a.astype(np.float16).astype(np.float32), b.astype(np.float16).astype(np.float32), np.float32(c)


def _found(numbers: Numbers) -> list[bool]:
    """Return which of sixty steps had an infinite gradient."""
    return [bool(each) for each in generator(numbers.seed, 2).random(60) < 0.08] + [False] * 2 * numbers.interval


@cache
def _without(seed: int) -> Course:
    return train(seed, None, 1.0)


@cache
def _fixed(seed: int) -> Course:
    return train(seed, None, START, skips=False)


def _pair(got: Any) -> tuple[float, int]:
    return float(got[0]), int(got[1])


def _bits(where: str, right: float, got: object, rule: str) -> None:
    """Compare numbers to the last bit, and state the distance in units of the last place."""
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Wrong(where, "a number", got, rule)
    if float(got) != right:
        ulp = float(np.spacing(np.float32(abs(right)))) or 1.0
        told = f"{float(got):.9g} ({(float(got) - right) / ulp:+.3g} units of the last place)"
        raise Wrong(where, f"{right:.9g}", told, rule)


def _brief(values: Array) -> str:
    shown = ", ".join(f"{value:.6g}" for value in values[:4])
    return f"[{shown}{', ...' if len(values) > 4 else ''}]"


LESSON = Mixed()
