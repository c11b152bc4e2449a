"""The picture of docs/mixed-precision.md: errors of long sums, and gradients against the range of FP16."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.formats.dot import product
from accelsim.report.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION, figure, save, styled, subtitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

LENGTHS = tuple(2**power for power in range(4, 14))
RULES = {
    "fp16-accumulate": (VERMILLION, "o", "-"),
    "tensor-core-h100": (BLUE, "s", "-"),
    "tensor-core-v100": (GREEN, "^", "--"),
    "fp32-sequential": (ORANGE, "D", ":"),
}
"""Rule -> colour, marker, line."""

ROWS, COLUMNS = 24, 24
LAYERS, WIDTH, BATCH = 10, 64, 512
SCALE = 16
"""Loss scale of the second histogram, as a power of two: 65,536."""
SMALLEST, LEAST_NORMAL, LARGEST = -24, -14, 16


def errors() -> dict[str, list[float]]:
    """Rule -> rms error of a sum of K normal products, relative to the rms of the sum, for each K."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for K in LENGTHS:
        a, b = (rng.standard_normal(s).astype(np.float16).astype(np.float32) for s in ((ROWS, K), (K, COLUMNS)))
        exact = a.astype(np.float64) @ b
        for rule, line in found.items():
            wrong = product(a, b, rule, "fp16") - exact
            line.append(float(np.sqrt(np.mean(wrong**2) / np.mean(exact**2))))
    return found


def gradients() -> NDArray[np.float32]:
    """Gradients of all weights of a network of sigmoid layers at its start, mean cross entropy of random labels."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH) for _ in range(LAYERS)]
    values = [rng.standard_normal((BATCH, WIDTH))]
    for w in weights:
        values.append(1 / (1 + np.exp(-values[-1] @ w)))
    chosen = np.exp(values[-1]) / np.exp(values[-1]).sum(1, keepdims=True)
    back = (chosen - np.eye(WIDTH)[rng.integers(0, WIDTH, BATCH)]) / BATCH
    found = []
    for w, x, y in zip(reversed(weights), reversed(values[:-1]), reversed(values[1:]), strict=True):
        back = back * y * (1 - y)
        found.append((x.T @ back).ravel())
        back = back @ w.T
    return np.concatenate(found).astype(np.float32)


def _sums(axes: Axes) -> None:
    for rule, line in errors().items():
        color, marker, dash = RULES[rule]
        axes.loglog(LENGTHS, line, dash, color=color, marker=marker, markersize=5, linewidth=2, label=rule)
    axes.set_title("How wrong a long sum is", pad=18)
    subtitle(axes, "dot products of K normal values in fp16, rms error relative to the rms of the result")
    axes.set_xlabel("K, number of products")
    axes.set_xticks(LENGTHS[::3], [f"{K:,}" for K in LENGTHS[::3]])
    axes.set_ylim(3e-8, 0.1)
    powers = range(-7, 0)
    axes.set_yticks([10.0**power for power in powers], [f"1e{power}" for power in powers])
    axes.minorticks_off()
    axes.set_ylabel("relative error")
    axes.grid(True)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _histogram(axes: Axes) -> None:
    sizes = np.log2(np.abs(gradients()))
    bins = np.arange(-45, LARGEST + 1)
    axes.axvspan(-45, SMALLEST - 1, color="#f3d6c9")
    axes.axvspan(SMALLEST - 1, LEAST_NORMAL, color="#f7f0d2")
    axes.hist(sizes, bins, color=GREY, label="gradients as they are")
    axes.hist(sizes + SCALE, bins, histtype="step", color=BLUE, linewidth=2, label=f"times {2**SCALE:,}")
    axes.set_title("Why the loss is scaled", pad=18)
    subtitle(axes, f"gradients of all weights of {LAYERS} sigmoid layers, before training")
    top = axes.get_ylim()[1] * 1.22
    axes.set_ylim(0, top)
    for where, text in (((-45 + SMALLEST - 1) / 2, "becomes zero"), ((SMALLEST - 1 + LEAST_NORMAL) / 2, "subnormal"),
                        ((LEAST_NORMAL + LARGEST) / 2, "full precision of fp16")):  # fmt: skip
        axes.text(where, top * 0.94, text, ha="center", va="center", fontsize=8.5, color=INK)
    axes.set_xlim(-45, LARGEST)
    axes.set_xlabel("size of the gradient")
    marks = range(-40, LARGEST + 1, 8)
    axes.set_xticks(list(marks), [f"2^{mark}" for mark in marks])
    axes.set_ylabel("weights per bin")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def draw(path: Path) -> None:
    """Write the picture."""
    with styled():
        drawn, (above, below) = figure(6.6, rows=2)
        _sums(above)
        _histogram(below)
    save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "mixed-precision.png")
