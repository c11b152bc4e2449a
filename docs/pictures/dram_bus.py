"""The picture of docs/dram.md: what the data bus of a DDR4-3200 does, on five traces with two mappings."""

from __future__ import annotations

from pathlib import Path

from accelsim.explore.dram_compare import TRACES
from accelsim.explore.dram_replay import replay
from accelsim.report.dram_plots import bus

ACCESSES = 16_384
MAPPINGS = {"rochrababgco": "column lowest", "rorabachcobg": "group lowest"}


def draw(path: Path) -> None:
    """Write the picture (seconds)."""
    found = [
        (f"{trace}, {words}", replay("ddr4-3200", trace, limit=ACCESSES, mapping=mapping))
        for trace in TRACES
        for mapping, words in MAPPINGS.items()
    ]
    title = "DDR4-3200: what the data bus did instead of moving data"
    note = "every idle clock has one reason; with the bank group lowest, streams no longer wait for tCCD_L"
    bus(found, title, note).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "dram-bus.png")
