"""A picture of docs/parallelism.md: where a step goes, the same network and four devices, four kinds of plans."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.step.asked import Asked, ready
from accelsim.report.write_step import parts_figure

PLANS = ("dp=4", "tp=4", "pp=4,microbatches=8", "dp=2,pp=2,microbatches=4", "tp=2,pp=2,microbatches=8")
MODEL, BATCH = "gpt", 16


def draw(path: Path) -> None:
    """Write the picture."""
    steps = [ready(Asked(MODEL, "4x-edu", plan, BATCH, params={"layers": 4})).step() for plan in PLANS]
    parts_figure(steps).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "four-kinds.png")
