"""The picture of docs/cpu-pcie-or-chip.md: answers a second by cores of the host."""

from __future__ import annotations

from pathlib import Path

from accelsim.report.service_study import picture
from accelsim.serving.items.asked import Question
from accelsim.serving.items.limits import limits


def draw(path: Path) -> None:
    """Write the picture."""
    question = Question("resnet50", "t4", before="decode-jpeg,resize", after="top5", cores=8)
    picture(limits(question, 0.3, 32, "xeon-8375c")).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "service-limits.png")
