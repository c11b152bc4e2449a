"""A picture of docs/networks.md: time per image of ResNet-50 on TPU v1 against the batch size."""

from __future__ import annotations

from pathlib import Path

from accelsim.explore.batching import batching
from accelsim.report.studies import time_per_sample

BATCHES = (1, 2, 4, 8, 12, 16)


def draw(path: Path) -> None:
    """Write the picture."""
    time_per_sample(batching("resnet50", "tpu-v1", BATCHES)).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "batching.png")
