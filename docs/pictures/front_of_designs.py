"""Area against latency of 10,125 designs of an edge chip (``examples/edge-front``), drawn by ``accelsim sweep``."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

from PIL import Image

from accelsim.explore.sweep.point import DONE, Outcome, Point
from accelsim.explore.sweep.store import Member
from accelsim.explore.sweep.study import Study, pricing
from accelsim.report import sweep as report
from accelsim.report.answer import Answer

FOLDER = Path(__file__).parents[2] / "examples" / "edge-front"
FIGURES = ("latency_s", "energy_J", "area_m2", "node_nm")
OBJECTIVES = ("latency", "area")
MODEL = "mobilenet?width=25,resolution=96"


@cache
def answer(objectives: tuple[str, ...] = OBJECTIVES) -> Answer:
    """Return what the command says of the points in ``points.csv.gz``."""
    with gzip.open(FOLDER / "points.csv.gz", "rt", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    axes = {name: [row[name] for row in rows] for name in rows[0] if "." in name}
    members = [Member(int(row["number"]), point(row), _outcome(row)) for row in rows]
    return report.sweep(Study("edge chip", list(map(pricing(), members)), axes, objectives, {}), 0, False)


def point(row: dict[str, str]) -> Point:
    """Return the point of a row, as the sweep has it."""
    overrides = [f"{name}={row[axis]}" for axis in row if "." in axis for name in axis.split(",")]
    options = {"values": "off", "edges": "outside", "batch": 1, "set": overrides}
    return Point.of(MODEL, "edge.yaml", options)


def _outcome(row: dict[str, str]) -> Outcome:
    figures = {name: float(row[name]) for name in FIGURES if row["status"] == DONE}
    return Outcome(row["number"], row["status"], {**figures, "limit": row["limit"]} if figures else {})


def draw(path: Path) -> None:
    """Write the picture, with 64 colours: so many points would make a large file."""
    answer().picture("front").save(path)
    with Image.open(path) as image:
        image.quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "front-of-designs.png")
