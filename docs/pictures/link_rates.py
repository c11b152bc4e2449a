"""A picture of docs/networks.md: payload per second over PCIe by the size of a transfer."""

from __future__ import annotations

from pathlib import Path

from accelsim.report.network import link_rates
from accelsim.spec.yaml.parts import load_link

NAME = "pcie-gen4-x16"
SIZES_B = [2**power for power in range(6, 29)]


def draw(path: Path) -> None:
    """Write the picture."""
    link_rates(NAME, load_link(NAME), SIZES_B).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "link-rates.png")
