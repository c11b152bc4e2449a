"""A picture of docs/networks.md: the load of each link of a mesh under transpose traffic."""

from __future__ import annotations

from pathlib import Path

from accelsim.network.noc.sweep import sweep
from accelsim.report.network_plots import channel_loads
from accelsim.report.style import save
from accelsim.spec.yaml.parts import load_noc


def draw(path: Path) -> None:
    """Write the picture."""
    found = sweep(load_noc("mesh-8x8"), "transpose", loads=[0.01], clocks=100)
    save(channel_loads(found), path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "noc-channels.png")
