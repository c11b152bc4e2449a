"""A picture of docs/parallelism.md: four stages and four micro-batches in four schedules."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.report.style import save
from tests.helpers.schedule_picture import Panel, schedule_plot

STAGES, MICROBATCHES = 4, 4
SHOWN = (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1))
"""Schedules, and the pieces of the model that each device holds."""


def draw(path: Path) -> None:
    """Write the picture. F, B and W of a whole stage take 2 steps each, without W the backward pass 4."""
    panels = []
    for name, chunks in SHOWN:
        schedule = SCHEDULES[name]
        orders = schedule.orders(STAGES, MICROBATCHES, chunks)
        each = 2 // chunks
        panels.append(Panel(schedule.title, play_schedule(orders, each, each, each), steps=True))
    save(schedule_plot(panels), path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "pipeline-schedules.png")
