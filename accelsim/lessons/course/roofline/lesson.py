"""Lesson 2: rooflines of four chips, five layers on each, held against the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim import run
from accelsim.account.roofline import rooflines
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet
from accelsim.lessons.compare import answer, number, numbers, same
from accelsim.lessons.timing import product_s

CHIPS = {"edu-4x4": "int8", "systolic-generic": "int8", "t4": "int8", "a100-80-sxm": "int8"}
"""Chips, and the format of one byte in which all layers run."""
WEIGHTS = "weights"


class Layer(NamedTuple):
    """A product of M x K inputs and K x N weights."""

    name: str
    M: int
    K: int
    N: int


class Peak(NamedTuple):
    """Peaks of a chip: operations per second, bytes per second of the memory of its weights."""

    ops_per_s: float
    bytes_per_s: float


class Numbers(NamedTuple):
    """The five layers of a student; the chip of the question and the width of its layer."""

    layers: tuple[Layer, ...]
    asked: str
    width: int


@cache
def roof(chip: str) -> Peak:
    """Return what the simulator takes for the peaks of a chip."""
    done = run("gemm?M=8,N=8,K=8", chip, dtype=CHIPS[chip], values="off", edges="outside")
    found = next(each for each in rooflines(done) if WEIGHTS in each.holds)
    return Peak(found.peak_ops_per_s, found.bandwidth_Bps)


def traffic_B(layer: Layer) -> int:
    """Bytes that must move at the least: inputs, weights, results, one byte each."""
    return layer.M * layer.K + layer.K * layer.N + layer.M * layer.N


def operations(layer: Layer) -> int:
    """A multiplication and an addition for each term."""
    return 2 * layer.M * layer.K * layer.N


def achieved(layer: Layer, chip: str) -> float:
    """Simulate a layer; return its operations per second."""
    return operations(layer) / product_s(chip, layer.M, layer.K, layer.N, CHIPS[chip])


class Rooflines(Lesson):
    """Lesson 2: roofline by hand."""

    number, title, file, minutes = 2, "Roofline by hand", "roofline.py", 20
    idea = "Two numbers of a chip and two of a layer tell whether arithmetic or memory limits it."
    steps = ("operations and bytes", "attainable", "five layers on four chips", "what limits them", "the question")

    def draw(self, rng: Generator) -> Numbers:
        batch, words = int(rng.integers(2, 9)), 64 * int(rng.integers(2, 7))
        width = 256 * int(rng.integers(3, 7))
        found = (
            Layer("one word of a language model", 1, width, width),
            Layer("a prompt of a language model", words, width, width),
            Layer("last layer of an image classifier", batch, 2048, 1000),
            Layer("convolution 3x3 as a product", 196, 9 * 64, 64),
            Layer("convolution 1x1 as a product", 784, 64, 256),
        )
        asked = list(CHIPS)[int(rng.integers(1, len(CHIPS)))]
        return Numbers(found, asked, 1024 * int(rng.integers(4, 13)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        chips = [f"| `{name}` | {_si(roof(name).ops_per_s)} | {_si(roof(name).bytes_per_s)} |" for name in CHIPS]
        rows = [f"| {each.name} | {each.M} | {each.K} | {each.N} |" for each in numbers.layers]
        peak = roof(numbers.asked)
        return {
            "chips": "\n".join(chips),
            "layers": "\n".join(rows),
            "asked": numbers.asked,
            "width": numbers.width,
            "knee": f"{peak.ops_per_s / peak.bytes_per_s:.6g}",
        }

    def check(self, ask: Ask, numbers_: Numbers, sheet: Sheet) -> Iterator[None]:
        sheet["points"] = []
        for layer in numbers_.layers:
            rule = "2 M K N operations; M K + K N + M N bytes"
            got = ask("work", layer.M, layer.K, layer.N)
            where = f"work({layer.M}, {layer.K}, {layer.N}), {layer.name}"
            numbers(where, ("operations", "bytes"), (operations(layer), traffic_B(layer)), got, rule)
        yield
        for chip in CHIPS:
            peak = roof(chip)
            for intensity in (0.25, 3.0, peak.ops_per_s / peak.bytes_per_s, 1e6):
                best = min(peak.ops_per_s, intensity * peak.bytes_per_s)
                rule = "the smaller of the peak and intensity times bandwidth"
                got = ask("attainable", _record(peak), intensity * 1e6, 1e6)
                number(f"attainable({chip}, {intensity * 1e6:.4g}, 1e6)", best, got, rule, 1e-6)
        yield
        for chip in CHIPS:
            for layer in numbers_.layers:
                got = ask("attainable", _record(roof(chip)), operations(layer), traffic_B(layer))
                best = _best(layer, chip)
                sheet["points"].append((chip, layer, got))
                rule = "operations and bytes of the layer are what 'work' returns"
                number(f"attainable on {chip}, {layer.name}", best, got, rule, 1e-6)
        yield
        for chip in CHIPS:
            for layer in numbers_.layers:
                got = ask("limit", _record(roof(chip)), operations(layer), traffic_B(layer))
                told = "compute" if _best(layer, chip) == roof(chip).ops_per_s else "memory"
                rule = "memory, where intensity times bandwidth is below the peak"
                same(f"limit on {chip}, {layer.name}", told, got, rule)
        yield
        peak = roof(numbers_.asked)
        knee = peak.ops_per_s / peak.bytes_per_s
        rule = "2 M W W operations against M W + W W + M W bytes: their ratio has to be peak / bandwidth"
        answer(ask, _batch(knee, numbers_.width), rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The four roofs; the student's points, and what the simulation reaches below them."""
        from accelsim.report.style import BLUE, GREY, INK, VERMILLION, log_axis

        marks = dict(zip((layer.name for layer in numbers.layers), "osD^v", strict=True))
        panels = figure.subplots(1, len(CHIPS), sharey=True)
        for axes, chip in zip(panels, CHIPS, strict=True):
            peak, x = roof(chip), np.geomspace(0.5, 5000, 200)
            axes.loglog(x, np.minimum(peak.ops_per_s, x * peak.bytes_per_s), color=INK, lw=1.5)
            for layer in numbers.layers:
                intensity = operations(layer) / traffic_B(layer)
                axes.plot(intensity, achieved(layer, chip), marks[layer.name], color=GREY, ms=4)
            for where, layer, got in sheet.get("points", []):
                if where == chip and isinstance(got, int | float) and got > 0:
                    right = abs(got / _best(layer, chip) - 1) < 1e-6
                    intensity = operations(layer) / traffic_B(layer)
                    axes.plot(intensity, got, marks[layer.name], ms=7, color=BLUE if right else VERMILLION)
            axes.set_title(chip)
            axes.grid(True)
            axes.set_xlabel("operations per byte")
            log_axis(axes.xaxis)
            log_axis(axes.yaxis)
            axes.tick_params(axis="x", labelsize=7)
        panels[0].set_ylabel("operations per second")
        for name, mark in marks.items():
            panels[0].plot([], [], mark, color=BLUE, label=name)
        panels[0].plot([], [], "s", color=GREY, ms=4, label="simulated")
        figure.legend(loc="outside lower center", ncols=3)


def _best(layer: Layer, chip: str) -> float:
    peak = roof(chip)
    return min(peak.ops_per_s, operations(layer) / traffic_B(layer) * peak.bytes_per_s)


def _batch(knee: float, width: int) -> float:
    """Rows at which a W x W layer has that intensity: 2 M W W = knee (2 M W + W W)."""
    return knee * width / (2 * (width - knee))


def _record(peak: Peak) -> dict[str, float]:
    return {"peak": peak.ops_per_s, "bandwidth": peak.bytes_per_s}


def _si(value: float) -> str:
    return f"{value:.4g}"


LESSON = Rooflines()
