"""The picture of docs/energy.md: one operation and one 32-bit word, from an addition to DRAM, by every source."""

from __future__ import annotations

from pathlib import Path

from accelsim.account.energy_figures import figures
from accelsim.report.energy import per_access


def draw(path: Path) -> None:
    """Write the picture (a second)."""
    per_access(figures()).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "energy-per-access.png")
