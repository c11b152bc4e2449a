"""A picture of docs/parallelism.md: what each of 64 devices keeps of a model of 7.5 billion parameters."""

from __future__ import annotations

from pathlib import Path

from accelsim.report.cluster.states import zero_figure
from accelsim.report.style import save


def draw(path: Path) -> None:
    """Write the picture; the sizes of figure 1 of Rajbhandari et al., SC 2020."""
    save(zero_figure(7_500_000_000, [1, 4, 16, 64]), path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "zero-memory.png")
