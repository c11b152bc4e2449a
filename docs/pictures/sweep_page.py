"""A picture of docs/sweeps.md: the page of a sweep in a browser, with a rectangle around some of its points."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from accelsim.explore.sweep.space import Sweep
from accelsim.explore.sweep.store import Store
from accelsim.explore.sweep.study import read_study, run_sweep
from accelsim.report.page.points import points_page
from accelsim.report.sweep import sweep
from tests.helpers.chromium import chromium, opened

ARRAYS = Sweep(
    model="gemm?M=64,N=256,K=256",
    on="systolic-generic",
    axes={
        "matrix.rows,matrix.cols": [8, 16, 32, 64],
        "matrix.dataflow": ["ws", "os"],
        "dtype": ["int8", "fp16"],
        "memories.dram.memory.bandwidth": ["2 GB/s", "5 GB/s", "10 GB/s", "50 GB/s"],
    },
    objectives=["area", "latency"],
)
START, END, SHOWN = (0.08, 0.5), (0.6, 0.88), {"x": 0, "y": 200, "width": 1000, "height": 980}
"""Corners of the rectangle in shares of the chart, and the part of the page that the picture shows."""


def draw(path: Path) -> None:
    """Write the picture."""
    with TemporaryDirectory() as folder, chromium() as browser:
        store, file = Store(Path(folder) / "arrays.db"), Path(folder) / "arrays.html"
        run_sweep(ARRAYS, store, "arrays")
        file.write_text(points_page(sweep(read_study(store), 0, False)), encoding="utf-8")
        with opened(browser, file, 1000) as found:
            found.page.set_viewport_size({"width": 1000, "height": 1200})
            box = found.page.locator(".brushed .chart").bounding_box()
            corners = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (START, END)]
            found.page.mouse.move(*corners[0])
            found.page.mouse.down()
            found.page.mouse.move(*corners[1], steps=3)
            found.page.mouse.up()
            found.page.mouse.move(5, 5)
            found.page.wait_for_timeout(500)
            found.page.screenshot(path=path, clip=SHOWN)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "sweep-page.png")
