"""A picture of docs/studies-money.md: the study cost-by-year."""

from __future__ import annotations

from pathlib import Path

from accelsim.report.saved import answer_of

NAME = "cost-by-year"


def draw(path: Path) -> None:
    """Write the picture."""
    answer_of(NAME).picture().save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / f"{NAME}.png")
