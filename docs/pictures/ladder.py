"""A picture of docs/gpu-kernels.md: ResNet-50 in the number formats of four generations of GPUs."""

from __future__ import annotations

from pathlib import Path

from accelsim.explore.studies import precision
from accelsim.report.studies import ladder

CHIPS = ("v100-sxm2-16", "t4", "a100-80-sxm", "h100-sxm")


def draw(path: Path) -> None:
    """Write the picture."""
    ladder(precision("resnet50", CHIPS, batch=64)).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "ladder.png")
