"""A picture of docs/parallelism.md: all-reduce by algorithm and size on eight A100."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.collectives.choice import Asked
from accelsim.cluster.collectives.figures import sweep
from accelsim.cluster.shapes.building import build
from accelsim.report.collectives import bus_bandwidths, crossovers
from accelsim.spec.yaml.clusters import load_cluster

SIZES_B = [1 << power for power in range(12, 31, 2)]
SHOWN = ("ring", "halving_doubling", "recursive_doubling", "tree", "server", "library")


def draw(path: Path) -> None:
    """Write the picture."""
    cluster = load_cluster("dgx-a100")
    topology = build(cluster)
    asked = Asked(topology, cluster.collectives, "all_reduce")
    rows = [row for row in sweep(asked, SIZES_B) if row["algorithm"] in SHOWN]
    bus_bandwidths("all_reduce", cluster.name, topology.ranks, rows, crossovers(rows)).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "bus-bandwidth.png")
