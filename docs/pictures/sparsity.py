"""The picture of docs/sparsity.md: a matrix, its 2:4 mask, what is stored, and what different masks keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.formats import sparsity
from accelsim.report.style import BLUE, GREY, INK, ORANGE, figure, save, styled, subtitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

ROWS, COLUMNS, M = 4, 8, 4
SHADES = ("#cfe3f2", "#fbe3b8")
"""Colours of neighbouring groups."""
PATTERNS = ((3, 4), (2, 3), (1, 2), (2, 4), (4, 8), (1, 4))


def weights() -> NDArray[np.int8]:
    """The matrix of the page."""
    return np.random.default_rng(0).integers(-99, 100, (ROWS, COLUMNS)).astype(np.int8)


def _cells(axes: Axes, left: float, title: str, texts: Any, group: int) -> None:
    """A table of boxes; ``group`` boxes beside each other have one colour, empty texts none."""
    from matplotlib.patches import Rectangle

    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            color = SHADES[column // group % 2] if text else "white"
            at = (left + column, ROWS - 1 - row)
            axes.add_patch(Rectangle(at, 1, 1, facecolor=color, edgecolor="#999999", linewidth=0.8))
            axes.text(at[0] + 0.5, at[1] + 0.5, text, ha="center", va="center", fontsize=8.5, color=INK)
    axes.text(left, ROWS + 0.3, title, fontsize=9, color=INK)


def _storage(axes: Axes) -> None:
    w = weights()
    chosen = sparsity.mask(w)
    packed = sparsity.compress(w, chosen)
    positions = [[f"{position:02b}" for position in row] for row in packed.positions.reshape(ROWS, -1)]
    sparse = [[str(x) if keep else "" for x, keep in zip(*row, strict=True)] for row in zip(w, chosen, strict=True)]
    _cells(axes, 0, "dense: 32 B in int8", w.astype(str), M)
    _cells(axes, 9, "2:4: largest two of four", sparse, M)
    _cells(axes, 18, "values: 16 B", packed.values.astype(str), 2)
    _cells(axes, 23, "positions: 4 B", positions, 2)
    axes.set_xlim(-0.1, 27.2)
    axes.set_ylim(-0.1, ROWS + 1.1)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title("What is stored: 5/8 of the bytes (fp16: 9/16)")


def _kept(axes: Axes) -> None:
    w = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)
    labels, bars, best = [], [], []
    for n, m in sorted(PATTERNS, key=lambda pattern: (-pattern[0] / pattern[1], pattern[1])):
        order = sparsity.permutation(w, n, m)
        labels.append(f"{n}:{m}")
        bars.append([sparsity.kept_mass(x, sparsity.mask(x, n, m)) for x in (w, w[:, order])])
        best.append(sparsity.kept_mass(w, sparsity.unstructured(w, n / m)))
    places, heights = np.arange(len(labels)), 100 * np.array(bars)
    axes.bar(places - 0.2, heights[:, 0], 0.38, color=GREY, label="groups as they stand")
    axes.bar(places + 0.2, heights[:, 1], 0.38, color=BLUE, hatch="////", edgecolor="white", label="columns permuted")
    axes.hlines(100 * np.array(best), places - 0.45, places + 0.45, color=ORANGE, linewidth=2.5,
                label="as many, anywhere")  # fmt: skip
    for place, (plain, permuted) in zip(places, heights, strict=True):
        axes.text(place - 0.2, plain - 4, f"{plain:.0f}", ha="center", fontsize=8.5, color=INK)
        axes.text(place + 0.2, permuted - 4, f"{permuted:.0f}", ha="center", fontsize=8.5, color="white",
                  bbox={"facecolor": BLUE, "edgecolor": "none", "pad": 1})  # fmt: skip
    axes.set_xticks(places, labels)
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of the sum of |w| kept")
    axes.set_title("What the pattern costs", pad=18)
    subtitle(axes, "a matrix of 96 x 96 normal weights")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def draw(path: Path) -> None:
    """Write the picture (a few seconds)."""
    with styled():
        drawn, (above, below) = figure(5.6, rows=2, height_ratios=(2, 3))
        _storage(above)
        _kept(below)
    save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "sparsity.png")
