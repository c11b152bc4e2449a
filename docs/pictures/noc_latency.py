"""A picture of docs/networks.md: latency of a mesh against its load."""

from __future__ import annotations

from pathlib import Path

from accelsim.network.noc.sweep import sweep
from accelsim.report.network import load_latency
from accelsim.spec.network import Noc
from accelsim.spec.yaml.parts import load_part


def draw(path: Path) -> None:
    """Write the picture."""
    load_latency(sweep(load_part("mesh-4x4", "networks", Noc), "transpose", packet_flits=4)).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "noc-latency.png")
