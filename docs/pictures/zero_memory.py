"""A picture of docs/parallelism.md: what each of 64 devices keeps of a model of 7.5 billion parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.report.cluster.looks import HELD
from accelsim.report.style import figure, log_axis, save, styled, subtitle
from accelsim.report.text import si
from tests.helpers.zero_sizes import zero_B

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGES = ("all kept by each", "1: states of the\noptimiser cut up", "2: gradients too", "3: weights too")
GIGA = 1e-9


def zero_figure(parameters: int, devices: Sequence[int]) -> Figure:
    """Left: bytes of a device by kind on the last number of devices. Right: their sum against devices."""
    with styled():
        fig, (kinds, sums) = figure(3.4, 1, 2)
        for stage, _ in enumerate(STAGES):
            found, left = zero_B(parameters, devices[-1], stage), 0.0
            sizes = (("weights", found.weights_B), ("gradients", found.gradients_B), ("optimiser", found.optimiser_B))
            for name, size in sizes:
                look, wide = HELD[name], float(size) * GIGA
                kinds.barh(stage, wide, 0.65, left=left, color=look.color, hatch=look.hatch, edgecolor="white",
                           label=None if stage else name)  # fmt: skip
                left += wide
            kinds.annotate(f"{left:.3g} GB", (left, stage), xytext=(4, -3), textcoords="offset points")
            totals = [float(zero_B(parameters, count, stage).total_B) * GIGA for count in devices]
            sums.plot(devices, totals, "o-", markersize=3.5, label=f"ZeRO {stage}" if stage else "no ZeRO")
        kinds.set_yticks(range(len(STAGES)), STAGES)
        kinds.invert_yaxis()
        kinds.margins(x=0.2)
        kinds.set_xlabel("GB on each device")
        kinds.legend(loc="lower right")
        kinds.set_title(f"ZeRO: {si(parameters)} parameters", pad=18)
        subtitle(kinds, f"{devices[-1]} devices, mixed precision with Adam")
        sums.set_xscale("log", base=2)
        sums.set_yscale("log")
        log_axis(sums.yaxis)
        sums.set_xticks(devices, [str(count) for count in devices])
        sums.minorticks_off()
        sums.set_xlabel("devices")
        sums.set_ylabel("GB on each device")
        sums.grid(True)
        sums.legend()
        return fig


def draw(path: Path) -> None:
    """Write the picture; the sizes of figure 1 of Rajbhandari et al., SC 2020."""
    save(zero_figure(7_500_000_000, [1, 4, 16, 64]), path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "zero-memory.png")
