"""The picture of docs/dram.md: energy of a 32-bit word from every DRAM standard, streams and random reads."""

from __future__ import annotations

from pathlib import Path

from accelsim.report.style import save
from tests.validation.dram_lesson_plots import draw as drawn
from tests.validation.dram_lessons import LESSONS

ACCESSES = 16_384


def draw(path: Path) -> None:
    """Write the picture (seconds)."""
    lesson = LESSONS["energy"]
    save(drawn(lesson, lesson.measure(ACCESSES)), path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "dram-energy.png")
