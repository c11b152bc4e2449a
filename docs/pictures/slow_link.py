"""A picture of docs/parallelism.md: one to four devices, with a link that is fast and one that is slow."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.step.asked import Asked, ready
from accelsim.report.write_step import parts_figure

MODEL, BATCH = "digits-cnn", 64
LINKS = ("100 MB/s", "400 kB/s")


def draw(path: Path) -> None:
    """Write the picture: a batch of 64, on 1, 2 and 4 devices."""
    steps, labels = [], []
    for bandwidth in LINKS:
        link = f"nodes.node.fabrics.link.link.bandwidth={bandwidth}"
        asked = ready(Asked(MODEL, "4x-edu", "dp=4", BATCH, set=[link]))
        for count in (1, 2, 4):
            plan = asked._replace(fleet=asked.fleet.first(count))
            steps.append(plan.step(dp=count))
            labels.append(f"{count} device{'s' * (count > 1)}, {bandwidth}")
    parts_figure(steps, labels).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "slow-link.png")
