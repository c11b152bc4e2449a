"""The picture of docs/dram.md: what the banks of a DDR4-3200 do in the first clocks of tile3."""

from __future__ import annotations

from pathlib import Path

from accelsim.explore.dram_replay import replay
from accelsim.report.dram_plots import activity

ACCESSES = 2_000
CLOCKS = (0, 420)


def draw(path: Path) -> None:
    """Write the picture."""
    activity(replay("ddr4-3200", "tile3", limit=ACCESSES), CLOCKS).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "dram-activity.png")
