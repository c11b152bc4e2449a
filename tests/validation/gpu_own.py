"""Checks ``gpu-own`` and ``gpu-own-models``: an H200 and an H100 that were measured for this project.

``accelsim measure`` timed kernels and whole networks there (PyTorch, replayed from CUDA graphs, the device alone) and
metered their joules. The constants of the H200 that come with the tool are fitted to the rows whose ``part`` is
``fit``; those that are compared were drawn and measured afterwards. The H100's are fitted to measurements of others, so
that every row of it is compared. Networks have no part in any constant. The tables lie in ``tests/golden`` of a
checkout.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.account.energy import HOST_IDLE, STATIC, energy_table
from accelsim.kernels.calibrate import regimes
from accelsim.kernels.explain import ends
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, read_table
from accelsim.machine.run import Run
from accelsim.spec.chip import Chip
from accelsim.spec.site import with_site
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats
from tests.validation.base import Check, check
from tests.validation.gpu_rows import simulated, without_link_s
from tests.validation.kernel_plot import Compared
from tests.validation.shipped import SOURCES, in_graph, is_test

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden"
ABSENT = "nothing compared: tests/golden lies in a checkout of the project alone"
CHIPS: Mapping[str, str] = {"h200": "h200-sxm", "h100": "h100-sxm"}
FITTED_HERE = "h200"
"""The device whose constants come of this lab; the products of the H100 were measured in others."""
FUSION = {"unfused": "eager", "fused": "sdpa"}
"""What was measured -> the option that asks for the same."""
CLAIMED: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("h200", "fp16"): {"gemm": 0.18, "attention": 0.175, "conv2d": 0.31, "softmax": 0.23, "layernorm": 0.29,
        "gelu": 0.16, "silu": 0.13, "relu": 0.09, "add": 0.11, "mul": 0.12, "copy": 0.1},
    ("h200", "fp32"): {"gemm": 0.18, "conv2d": 0.36, "softmax": 0.18, "add": 0.12, "gelu": 0.09, "layernorm": 0.24},
    ("h200", "bf16"): {"gemm": 0.2, "attention": 0.23},
    ("h200", "fp8_e4m3fn"): {"gemm": 0.17},
    ("h200", "int8"): {"gemm": 0.34},
    ("h200", "tf32"): {"gemm": 0.245},
    ("h200", "fp64"): {"gemm": 0.12},
    ("h100", "fp16"): {"gemm": 0.19, "attention": 0.17, "conv2d": 0.32, "softmax": 0.35, "layernorm": 0.18,
        "gelu": 0.16, "silu": 0.16, "relu": 0.12, "add": 0.13, "mul": 0.14, "copy": 0.09},
    ("h100", "fp32"): {"gemm": 0.21, "conv2d": 0.5, "softmax": 0.34, "add": 0.14, "gelu": 0.1, "layernorm": 0.22},
    ("h100", "bf16"): {"gemm": 0.15, "attention": 0.135},
    ("h100", "fp8_e4m3fn"): {"gemm": 0.15},
    ("h100", "int8"): {"gemm": 0.31},
    ("h100", "tf32"): {"gemm": 0.24},
    ("h100", "fp64"): {"gemm": 0.17},
}  # fmt: skip
"""Device and format -> op -> mean error that is claimed: a little more than what it is."""
OF_NETWORKS: Mapping[tuple[str, str], float] = {
    ("h200", "seconds"): 0.15, ("h200", "joules"): 0.16, ("h100", "seconds"): 0.13, ("h100", "joules"): 0.11,
}  # fmt: skip
"""The same of networks."""


class Rows(NamedTuple):
    """Kernels of one op in one format on a device: the times that were measured and predicted, s, where like errors are
    to be expected, and the share of them within their intervals."""

    device: str
    op: str
    format: str
    measured: Floats
    predicted: Floats
    regime: np.ndarray[tuple[int], np.dtype[np.object_]]
    covered: float

    @property
    def name(self) -> str:
        """In tables."""
        return f"{self.device} {self.op} {self.format}"

    @property
    def error(self) -> Floats:
        """Relative."""
        return self.predicted / self.measured - 1


class Network(NamedTuple):
    """A network on a device: seconds and joules measured and predicted."""

    name: str
    measured_s: float
    predicted_s: float
    measured_J: float
    predicted_J: float


def there() -> list[str]:
    """Devices whose tables are at hand."""
    return [device for device in CHIPS if (FOLDER / device / "kernels.csv").is_file()]


def kernels_of(device: str) -> Iterator[Rows]:
    """Kernels that had no part in a fit, by op and format."""
    table = read_table(FOLDER / device / "kernels.csv", timed=True)
    kept = [row for row, cells in enumerate(table.cells) if not _is_fitted(device, table.ops[row], cells)]
    sets: dict[tuple[str, str], list[int]] = {}
    for row in kept:
        sets.setdefault((table.ops[row], table.cells[row]["dtype"]), []).append(row)
    for (op, form), rows in sets.items():
        yield _predicted(device, op, form, table.only(rows))


def _is_fitted(device: str, op: str, cells: Mapping[str, str]) -> bool:
    """Return whether a row has a part in a constant of its chip."""
    return (
        any(
            (not source.ops or op in source.ops)
            and (not source.formats or cells["dtype"] in source.formats)
            and not is_test(cells)
            for source in SOURCES[CHIPS[device]]
            if source.file == device
        )
        or cells.get("part") == "fit"
    )


def _predicted(device: str, op: str, form: str, table: Table) -> Rows:
    chip = in_graphs(device)
    kernels = Kernels(table, chip)
    found, interval = kernels.predicted(chip), ends(kernels, kernels.predicted(chip))
    inside = (interval.low <= table.measured) & (table.measured <= interval.high)
    return Rows(device, op, form, table.measured, found.seconds, regimes(found), float(inside.mean()))


def in_graphs(device: str) -> Chip:
    """The chip, whose kernels begin as soon as those of a graph, which all of these are."""
    chip = in_graph(load_chip(CHIPS[device]))
    return with_site(chip, load_site("calibration-lab")) if device == FITTED_HERE else chip


def networks_of(device: str) -> Iterator[Network]:
    """Networks, replayed from a graph."""
    with (FOLDER / device / "networks.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["mode"] == "graph" and row["time_us"]:
                yield _network(device, row)


def _network(device: str, row: Mapping[str, str]) -> Network:
    fusion, seconds = FUSION[row["attention"]], float(row["time_us"]) * 1e-6
    run = simulated_network(device, row)
    name = f"{row['model']}, batch {row['batch']}, {row['dtype']}, {fusion}, on {device}"
    joules = float(row["power_W"]) * seconds
    return Network(name, seconds, without_link_s(run), joules, on_the_board_J(run))


def simulated_network(device: str, row: Mapping[str, str]) -> Run:
    """A network of a table as it was measured."""
    fusion = FUSION[row["attention"]]
    return simulated(row["model"], in_graphs(device), row["dtype"], batch=int(row["batch"]), fusion=fusion)


def on_the_board_J(run: Run) -> float:
    """Energy of the GPU and its memory while it computed: without host, links and what is drawn while inputs come."""
    near = {*run.program.engines, *run.chip.buffers, *run.chip.memories} - {"host"}
    far = {name for name, attached in run.chip.memories.items() if attached.link is not None}
    share = without_link_s(run) / run.seconds
    rows = energy_table(run)
    drawn = sum(row.energy_J for row in rows if row.component in near - far)
    return drawn + share * sum(row.energy_J for row in rows if row.component == STATIC and row.action != HOST_IDLE)


@check("gpu-own")
def gpu_own() -> Check:
    """Kernels, set by set."""
    what, devices = "kernels of an H200 and an H100, measured for this project", there()
    if not devices:
        return Check("gpu-own", what, 0, 0, np.zeros(0), [ABSENT])
    sets = [rows for device in devices for rows in kernels_of(device)]
    agree = [float(np.abs(rows.error).mean()) <= CLAIMED[rows.device, rows.format][rows.op] for rows in sets]
    return Check(
        "gpu-own", what, len(sets), sum(agree), np.concatenate([rows.error for rows in sets]),
        [_said(rows) for rows in sets], "mean error as claimed",
        compared=[Compared(r.name, r.measured, r.predicted, r.regime, 1.0) for r in sets],
    )  # fmt: skip


def _said(rows: Rows) -> str:
    size = np.abs(rows.error)
    return (
        f"{rows.name}: {len(size)} kernels, mean {size.mean():.1%}, median {np.median(size):.1%}, 90th percentile "
        f"{np.quantile(size, 0.9):.1%} (claimed: {CLAIMED[rows.device, rows.format][rows.op]:.0%}); "
        f"{rows.covered:.0%} within their intervals"
    )


@check("gpu-own-models")
def gpu_own_models() -> Check:
    """Networks of a device: seconds, and joules."""
    what, devices = "networks on an H200 and an H100, measured for this project: seconds and joules", there()
    told: list[str] = []
    networks: list[str] = []
    every, kept = [np.zeros(0)], 0
    for device in devices:
        found = list(networks_of(device))
        errors = {
            "seconds": np.array([each.predicted_s / each.measured_s - 1 for each in found]),
            "joules": np.array([each.predicted_J / each.measured_J - 1 for each in found]),
        }
        for name, own in errors.items():
            claimed = OF_NETWORKS[device, name]
            kept += bool(np.abs(own).mean() <= claimed)
            told.append(_summed(f"{name} of {len(found)} networks on {device}", own, claimed))
        every += errors.values()
        networks += [
            f"{each.name}: {each.measured_s * 1e3:.3g} ms measured, {s:+.1%}; {each.measured_J:.3g} J, {j:+.1%}"
            for each, s, j in zip(found, *errors.values(), strict=True)
        ]
    return Check(
        "gpu-own-models", what, len(told), kept, np.concatenate(every), [*told, *networks] or [ABSENT],
        "mean error as claimed",
    )  # fmt: skip


def _summed(what: str, errors: Floats, claimed: float) -> str:
    size = np.abs(errors)
    return (
        f"{what}: mean {size.mean():.1%}, median {np.median(size):.1%}, 90th percentile {np.quantile(size, 0.9):.1%} "
        f"(claimed: mean {claimed:.0%})"
    )
