"""The picture of docs/ranges.md: three distributions and the thresholds that four methods choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.formats.ranges.methods import Collector, peak_of
from accelsim.report.style import BLUE, GREEN, ORANGE, VERMILLION, figure, log_axis, save, styled, subtitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = {"absmax": (BLUE, "-"), "percentile": (GREEN, "--"), "mse": (ORANGE, "-."), "entropy": (VERMILLION, ":")}
"""Method -> colour and line."""

SIZE = 20_000


def tensors() -> dict[str, tuple[str, np.ndarray]]:
    """Title -> (what to see, values); those of the page."""
    rng = np.random.default_rng(7)
    tail = rng.standard_t(3, SIZE)
    humps = rng.normal(0, 0.5, SIZE) + 4 * rng.choice([-1, 1], SIZE)
    outliers = np.append(rng.standard_normal(SIZE - 5), [60, -62, 58, -61, 59])
    return {
        "heavy tail": ("Entropy keeps the many small values fine, MSE the few large ones right.", tail),
        "two humps": ("Entropy cuts below the hump: almost every value saturates.", humps),
        "five outliers": ("Entropy gives up 5 values of 20,000; the others spend nearly all codes on them.", outliers),
    }


def _panel(axes: Axes, title: str, text: str, x: np.ndarray) -> None:
    collector = Collector()
    collector.add(x)
    sizes, top = np.abs(x), collector.absmax
    axes.hist(sizes, 120, range=(0, top), color="#d4d4d4", log=True)
    axes.set_ylim(0.6, 2 * SIZE)
    log_axis(axes.yaxis)
    axes.minorticks_off()
    axes.set_xlim(0, top * 1.02)
    peaks = {method: peak_of(method, collector) for method in METHODS}
    for method, peak in peaks.items():
        color, line = METHODS[method]
        axes.axvline(peak, color=color, linestyle=line, linewidth=2.2, label=f"{method} {peak:.2f}")
    axes.set_title(title, pad=18)
    subtitle(axes, text)
    axes.set_ylabel("values per bin")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="largest |x| kept", handlelength=3.2)


def draw(path: Path) -> None:
    """Write the picture."""
    with styled():
        drawn, panels = figure(7.2, rows=3)
        for axes, (title, (text, x)) in zip(panels, tensors().items(), strict=True):
            _panel(axes, title, text, x)
        panels[-1].set_xlabel("|x|")
    save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "ranges.png")
