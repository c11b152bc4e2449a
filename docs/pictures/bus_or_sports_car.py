"""A picture of docs/studies-money.md: the study bus-or-sports-car."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from accelsim.report.saved import answer_of

NAME = "bus-or-sports-car"


def draw(path: Path) -> None:
    """Write the picture, in 256 colours: three panels of dots are large."""
    answer_of(NAME).picture().save(path)
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / f"{NAME}.png")
