"""A picture of docs/gpu-kernels.md: the time of a product against its N on an A100."""

from __future__ import annotations

from pathlib import Path

from accelsim.kernels.sweep import parsed, swept
from accelsim.report.kernel import staircase
from accelsim.spec.yaml.load import load_chip


def draw(path: Path) -> None:
    """Write the picture."""
    over = parsed("N=64:8192:64", ("M", "K", "N"))
    staircase(swept("gemm", "fp16", {"M": "4096", "K": "4096"}, over, load_chip("a100-80-sxm"))).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "staircase.png")
