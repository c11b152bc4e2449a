"""A picture of docs/tpu.md: a slice of sixteen TPU v5e, whose edges are not joined."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.shapes.building import build
from accelsim.report.cluster.topology import draw as topology
from accelsim.spec.yaml.clusters import load_cluster


def draw(path: Path) -> None:
    """Write the picture."""
    topology(build(load_cluster("tpu-v5e-16"))).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "tpu-slice.png")
