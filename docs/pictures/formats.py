"""The picture of docs/formats.md: the positive values of eight formats on one logarithmic axis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.formats import codec
from accelsim.formats.table import Format, get
from accelsim.report.style import BLUE, GREEN, ORANGE, figure, save, styled, subtitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = ("bf16", "fp16", "fp8_e5m2", "fp8_e4m3fn", "fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn", "int8")
LOW, HIGH = -27, 19
"""Powers of two at the ends of the axis."""


def _values(row: Format) -> np.ndarray:
    """Positive values within the axis: all of them up to 8 bits, else powers of two."""
    if row.bits > 8:
        return np.ldexp(1.0, np.arange(LOW, HIGH))
    values = codec.decode(np.arange(row.codes), row.name).astype(np.float64)
    return values[np.isfinite(values) & (values > 0)]


def _row(axes: Axes, row: Format, place: int) -> None:
    values = _values(row)
    values = values[(values >= row.min_subnormal) & (values <= row.max)]
    small = values < row.min_normal
    heights = np.where(small, 0.32, 0.62)
    color = GREEN if row.kind == "int" else BLUE
    axes.vlines(np.log2(values), place, place + heights, colors=np.where(small, ORANGE, color).tolist(), linewidth=0.9)
    axes.hlines(
        place, max(np.log2(row.min_subnormal), LOW), min(np.log2(row.max), HIGH), color="#666666", linewidth=0.8
    )
    if np.log2(row.max) > HIGH:
        for end, side in ((LOW, "<"), (HIGH, ">")):
            axes.plot([end], [place + 0.3], marker=side, color=color, markersize=6)
    axes.text(HIGH + 0.8, place + 0.3, f"{row.max:.5g}", va="center")


def draw(path: Path) -> None:
    """Write the picture."""
    with styled():
        drawn, (axes,) = figure(4.6)
        for place, name in enumerate(reversed(NAMES)):
            _row(axes, get(name), place)
        axes.text(HIGH + 0.8, len(NAMES) - 0.1, "largest", va="center", weight="bold")
        axes.set_yticks(np.arange(len(NAMES)) + 0.3, [*reversed(NAMES)])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(LOW - 0.5, HIGH + 5)
        powers = range(-24, HIGH, 4)
        axes.set_xticks(powers, [f"2^{power}" if abs(power) > 4 else f"{2.0**power:g}" for power in powers])
        axes.set_title("What a few bits can say: every stroke is a value", pad=18)
        subtitle(
            axes,
            "Blue: normal. Orange: subnormal. Green: integers. bf16, fp16: powers of two only; bf16 goes on both ways.",
        )
    save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "formats.png")
