"""Check ``gpu-streams``: 32 equal kernels that need nothing of each other, on 1 to 16 streams of a CUDA graph.

They were measured for this project on an H200 and an H100 (``tests/golden/*/more.csv``). Two constants of streams were
fitted to products on the H200 (``hold``, ``spacing``); its other kernels, and all of the H100, are compared only. What
streams do is one question, how long a kernel takes another: the time of all kernels is compared, and by how much
several streams are faster than one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

import accelsim
from accelsim.compiler.state import Options
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from tests.validation.base import Check, check
from tests.validation.gpu_own import ABSENT, CHIPS, FOLDER, there

KERNELS = 32
FORMAT = "fp16"
FUNCTIONS = {"gelu": "Gelu", "softmax": "Softmax", "copy": "Relu"}
"""Op of the table -> operator that moves and computes as much: a copy is an activation of one clock."""
CLAIMED: Mapping[tuple[str, str], tuple[float, float]] = {
    ("h200", "gemm"): (0.16, 0.24), ("h200", "gelu"): (0.36, 0.62), ("h200", "softmax"): (0.51, 0.17),
    ("h200", "copy"): (0.32, 0.74), ("h100", "gemm"): (0.19, 0.24), ("h100", "gelu"): (0.37, 0.45),
    ("h100", "softmax"): (0.43, 0.18), ("h100", "copy"): (0.39, 0.55),
}  # fmt: skip
"""Device and op -> mean errors that are claimed: of the time, and of by how much streams are faster."""


class Beside(NamedTuple):
    """Kernels of one op on a device, a row for each size and number of streams: us measured and predicted, and both for
    the same kernels on one stream."""

    device: str
    op: str
    measured: Floats
    predicted: Floats
    alone: Floats
    alone_predicted: Floats

    @property
    def error(self) -> Floats:
        """Of the time, relative."""
        return self.predicted / self.measured - 1

    @property
    def gain_error(self) -> Floats:
        """Of by how much they are faster than on one stream, relative; where there are several streams."""
        several = self.measured != self.alone
        gained = (self.alone_predicted / self.predicted) / (self.alone / self.measured)
        found: Floats = gained[several] - 1
        return found


def kernels_of(device: str) -> Iterator[Beside]:
    """By op, in the order of the table."""
    with (FOLDER / device / "more.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["what"] == "streams"]
    for op in dict.fromkeys(row["op"] for row in rows):
        own = [row for row in rows if row["op"] == op]
        first = {_size(row): place for place, row in enumerate(own) if row["streams"] == "1"}
        alone = [first[_size(row)] for row in own]
        measured = np.array([float(row["time_us"]) for row in own])
        predicted = np.array([on_streams_us(device, row) for row in own])
        yield Beside(device, op, measured, predicted, measured[alone], predicted[alone])


def _size(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("M", "K", "N", "rows", "cols"))


def on_streams_us(device: str, row: Mapping[str, str]) -> float:
    """Return what the kernels of a row take, us: from the launch of the first to the last result."""
    chip = load_chip(CHIPS[device], [f"sm.streams={row['streams']}"])
    program = accelsim.compile(_graph(row), chip, Options(dtype=FORMAT, values="off"))
    return _span_us(simulate(program, values="off"))


def _graph(row: Mapping[str, str]) -> Graph:
    """The kernels between one that makes their operand and one that joins what they leave."""
    b = Builder("streams")
    if row["op"] == "gemm":
        m, k, n = (int(row[name]) for name in "MKN")
        x = b.op("Relu", [b.input("x", (m, k))], "first")
        made = [b.matmul(x, b.weight(f"b{i}", (k, n)), f"y{i}") for i in range(KERNELS)]
    else:
        rows, cols = int(row["rows"]), int(row["cols"])
        x = b.matmul(b.input("x", (rows, 16)), b.weight("w", (16, cols)), "first")
        made = [b.op(FUNCTIONS[row["op"]], [x], f"y{i}") for i in range(KERNELS)]
    return b.finish(b.op("Concat", made, "last", axis=0))


def _span_us(run: Run) -> float:
    """From the first to the last of the kernels between."""
    far = {engine for engine in run.program.engines if engine.startswith("host")}
    own = [piece for piece in run.slices if 0 < piece.op <= KERNELS and piece.engine not in far]
    return (max(piece.end for piece in own) - min(piece.start for piece in own)) / 1e9


@check("gpu-streams")
def gpu_streams() -> Check:
    """Times and gains, by device and op."""
    what, devices = (f"{KERNELS} kernels side by side on an H200 and an H100, measured for this project", there())
    if not devices:
        return Check("gpu-streams", what, 0, 0, np.zeros(0), [ABSENT])
    sets = [each for device in devices for each in kernels_of(device)]
    kept = [
        mean <= claimed
        for each in sets
        for mean, claimed in zip(means(each), CLAIMED[each.device, each.op], strict=True)
    ]
    return Check(
        "gpu-streams", what, len(kept), sum(kept), np.concatenate([each.error for each in sets]),
        [_said(each) for each in sets], "mean error as claimed",
    )  # fmt: skip


def means(found: Beside) -> tuple[float, float]:
    """Mean errors: of the time, and of the gain."""
    return float(np.abs(found.error).mean()), float(np.abs(found.gain_error).mean())


def _said(found: Beside) -> str:
    (time, gain), (of_time, of_gain) = means(found), CLAIMED[found.device, found.op]
    most = np.quantile(np.abs(found.error), 0.9)
    return (
        f"{found.op} on {found.device}: {len(found.measured)} rows, times {time:.1%} (claimed: {of_time:.0%}), 90th "
        f"percentile {most:.1%}; gain of streams {gain:.1%} (claimed: {of_gain:.0%})"
    )
