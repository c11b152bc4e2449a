"""A picture of docs/networks.md: the load of each link of a mesh under transpose traffic."""

from __future__ import annotations

from pathlib import Path

from accelsim.network.noc.sweep import sweep
from accelsim.report.network import channel_loads
from accelsim.spec.network import Noc
from accelsim.spec.yaml.parts import load_part


def draw(path: Path) -> None:
    """Write the picture."""
    found = sweep(load_part("mesh-8x8", "networks", Noc), "transpose", loads=[0.01], clocks=100)
    channel_loads(found).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "noc-channels.png")
