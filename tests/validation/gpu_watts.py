"""Check ``gpu-watts``: what kernels draw on an H200 and an H100 that were measured for this project.

What is around operations and what busy multiprocessors draw (``accelsim.engines.simt.drawn``) is fitted to kernels of
the H200: those of ``tests/golden/h200`` whose ``part`` is ``fit``, and its ``more.csv``. ``python -m
tests.validation.gpu_watts`` fits them again and says by how much each shipped constant would change. Kernels that their
board slowed down (below ``HIGHEST_MHz``) have no part in it: these tell how voltage falls with the clock. All others,
and every kernel of the H100, are compared as shipped. Networks have no part in any of it (``gpu-own-models``).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.account.energy import STATIC, EnergyRow, energy_table
from accelsim.engines.simt.drawn import shipped
from accelsim.machine.run import Run
from accelsim.program.actions import ACTIVE, TRANSFER
from accelsim.spec.chip import Chip, Power
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from tests.validation.base import Check, check
from tests.validation.gpu_own import ABSENT, CHIPS, FOLDER, in_graphs, there
from tests.validation.gpu_rows import simulated, without_link_s
from tests.validation.least_squares import nnls

HIGHEST_MHz = 1950.0
"""Kernels at this clock and above were not slowed down by their board (1,980 MHz)."""
FULL_MHz, SLOWED = 1980.0, 0.93
"""The highest clock, and the share of it below which a board has slowed a kernel down for sure."""
FITTED_TO = "h200"
CLAIMED: Mapping[str, float] = {"h200": 0.09, "h100": 0.15}
"""Device -> mean error of the watts of its kernels."""
GROUPS = ("active", "tensor", "lanes", "op")
"""What is fitted: busy multiprocessors, then what is around multiplications of either unit and around functions."""
Cells = Mapping[str, str]


class Metered(NamedTuple):
    """A kernel: whether it is fitted to, watts measured, and as simulated for as long as it really took: those of
    ``GROUPS``, and all others; the clock that it had, MHz."""

    name: str
    device: str
    fitted: bool
    measured_W: float
    groups_W: Floats
    rest_W: float
    clock_MHz: float

    @property
    def predicted_W(self) -> float:
        """By the shipped constants, without a limit."""
        return float(self.groups_W.sum()) + self.rest_W


def kernels_of(device: str) -> Iterator[Metered]:
    """Kernels whose power was metered, of random numbers."""
    chip = _unlimited(in_graphs(device))
    for file in ("kernels", "more"):
        with (FOLDER / device / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
            for cells in csv.DictReader(lines):
                known = cells["power_W"] and cells["op"] in GRAPHS and cells.get("data") != "zeros"
                if known:
                    fitted = device == FITTED_TO and (file == "more" or cells["part"] == "fit")
                    yield _metered(device, chip, cells, fitted)


def _unlimited(chip: Chip) -> Chip:
    """The chip without a design power: energy at the highest clock."""
    assert chip.power is not None
    return chip.model_copy(update={"power": chip.power.model_copy(update={"tdp": None})})


def _metered(device: str, chip: Chip, cells: Cells, fitted: bool) -> Metered:
    run, seconds = (simulated(graph_of(cells), chip, cells["dtype"], fusion="eager"), float(cells["time_us"]) * 1e-6)
    joules, rest_J, static_W = dict.fromkeys(GROUPS, 0.0), 0.0, 0.0
    # What copies from and to the host move in the memory of the chip was not measured.
    copied_J = float(chip.memories["hbm"].memory.read_energy or 0.0)
    for row in energy_table(run):
        group = _group(run, row)
        if row.component == STATIC:
            static_W += row.energy_J / run.seconds if "host" not in str(row.action) else 0.0
        elif group:
            joules[group] += row.energy_J * (seconds / without_link_s(run) if group == "active" else 1.0)
        elif row.action == TRANSFER:
            rest_J -= row.count * copied_J
        elif not row.component.startswith(("pcie", "host")):
            rest_J += row.energy_J
    watts = np.array([joules[name] for name in GROUPS]) / seconds
    name = " ".join([cells["op"], cells["dtype"], *(cells[key] for key in SIZES if cells.get(key))])
    return Metered(
        f"{device} {name}", device, fitted, float(cells["power_W"]), watts, rest_J / seconds + static_W,
        float(cells["clock_MHz"]),
    )  # fmt: skip


def _group(run: Run, row: EnergyRow) -> str:
    """Return which of ``GROUPS`` a row is of, "" for none."""
    if row.action == ACTIVE:
        return "active"
    if row.action.kind != "around":
        return ""
    unit = next(iter(run.chip.engines.values()))
    form = unit.formats.get(row.action.of)  # type: ignore[attr-defined]
    return form.unit if form is not None else "op"


SIZES = ("B", "M", "K", "N", "rows", "cols", "C_in", "C_out", "kernel", "H_W")


def graph_of(cells: Cells) -> Graph:
    """Return the network of one node that a row of kernels is."""
    build = Builder(cells["op"])
    size = {name: int(float(cells[name])) for name in (*SIZES, "stride", "padding") if cells.get(name)}
    return build.finish(GRAPHS[cells["op"]](build, size))


def _product(build: Builder, size: Mapping[str, int]) -> str:
    batch = (size["B"],) if "B" in size else ()
    a, b = (*batch, size["M"], size["K"]), (*batch, size["K"], size["N"])
    return build.matmul(build.input("a", a), build.input("b", b) if batch else build.weight("b", b), "y")


def _convolution(build: Builder, size: Mapping[str, int]) -> str:
    image = build.input("x", (size["B"], size["C_in"], size["H_W"], size["H_W"]))
    return build.conv(image, size["C_out"], size["kernel"], "y", stride=size["stride"], pad=size["padding"])


def _function(op: str, operands: int = 1, **attrs: int | str) -> Callable[[Builder, Mapping[str, int]], str]:
    def build_it(build: Builder, size: Mapping[str, int]) -> str:
        given = [build.input(f"x{number}", (size["rows"], size["cols"])) for number in range(operands)]
        return build.op(op, given, "y", **attrs)

    return build_it


GRAPHS: Mapping[str, Callable[[Builder, Mapping[str, int]], str]] = {
    "gemm": _product, "conv2d": _convolution, "softmax": _function("Softmax", axis=-1),
    "gelu": _function("Gelu", approximate="none"), "relu": _function("Relu"), "copy": _function("Relu"),
    "add": _function("Add", 2), "mul": _function("Mul", 2),
}  # fmt: skip
"""Op of a table -> its node; a copy moves what a ReLU moves."""


def fitted(rows: Sequence[Metered]) -> dict[str, float]:
    """Return what each of ``GROUPS`` should be times, by least squares of relative errors."""
    kept = [row for row in rows if row.fitted and row.clock_MHz >= HIGHEST_MHz]
    share = np.array([row.groups_W / row.measured_W for row in kept])
    left = np.array([1 - row.rest_W / row.measured_W for row in kept])
    return dict(zip(GROUPS, map(float, nnls(share, left)), strict=True))


def exponents(rows: Sequence[Metered]) -> Floats:
    """Return the exponent of the clock in the energy of an operation, of each kernel that its board slowed down."""
    slowed = [row for row in rows if row.clock_MHz < SLOWED * FULL_MHz]
    idle_W = {device: float(power_of(device).idle or 0.0) for device in CHIPS}
    return np.array([
        np.log((row.measured_W - idle_W[row.device]) / (row.predicted_W - idle_W[row.device]))
        / np.log(row.clock_MHz / FULL_MHz)
        for row in slowed
    ])  # fmt: skip


@check("gpu-watts")
def gpu_watts() -> Check:
    """Kernels that no constant was fitted to, device by device."""
    what = "watts of kernels on an H200 and an H100, measured for this project"
    if not there():
        return Check("gpu-watts", what, 0, 0, np.zeros(0), [ABSENT])
    rows = [row for device in there() for row in kernels_of(device)]
    told, every, kept = [], [], 0
    for device in there():
        own = [row for row in rows if row.device == device and not row.fitted]
        errors = np.array([limited_W(row) / row.measured_W - 1 for row in own])
        size = np.abs(errors)
        kept += bool(size.mean() <= CLAIMED[device])
        every.append(errors)
        told.append(
            f"{device}: {len(own)} kernels, mean {size.mean():.1%}, median {np.median(size):.1%}, 90th percentile "
            f"{np.quantile(size, 0.9):.1%} (claimed: mean {CLAIMED[device]:.0%})"
        )
    powers = exponents(rows)
    told.append(
        f"energy of an operation by the clock, of {len(powers)} kernels that their boards slowed down: exponent "
        f"{np.median(powers):.1f} in the middle, {np.quantile(powers, 0.1):.1f} to {np.quantile(powers, 0.9):.1f} of "
        f"eight in ten (shipped: {shipped().exponent:g})"
    )
    return Check("gpu-watts", what, len(there()), kept, np.concatenate(every), told, "mean error as claimed")


def limited_W(row: Metered) -> float:
    """Watts of a kernel as a run of it alone has them: no more than the design power."""
    return min(row.predicted_W, float(power_of(row.device).tdp or np.inf))


def power_of(device: str) -> Power:
    """Return the power that the spec of a device states."""
    power = load_chip(CHIPS[device]).power
    assert power is not None
    return power


if __name__ == "__main__":
    for group, factor in fitted([*kernels_of(FITTED_TO)]).items():
        print(f"{group}: {factor:.3f} times what is shipped")
