"""Power of multiprocessors beside the arithmetic, registers and memories of the energy table.

Two things: what busy multiprocessors draw as long as a kernel runs, whatever it does, even where they wait for memory
(``active``), and what an operation has around it, the fetching and scheduling of instructions and the collecting of
operands. The numbers are in ``hwspecs/power/gpu.yaml``, with where they come from: those of one process node are
measured; others have what is around operations in the ratio of what arithmetic draws there, other chips the active
power in the ratio of what their design power leaves.

They are those of the highest clock. Voltage falls with the clock, so that an operation takes less energy at a lower one
(``at_clock``). A board that would draw more than its design power lowers both until it does not
(``accelsim.account.energy``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from math import ceil

from accelsim.engines.simt.spec import Simt
from accelsim.program.commands import Step
from accelsim.spec.chip import Chip
from accelsim.spec.gpu_power import GpuPower, NodeEnergies
from accelsim.spec.multiplying import operands_B
from accelsim.spec.yaml.chips import load_power

SHIPPED = "gpu"
"""File of ``hwspecs/power`` that the numbers come of."""


@cache
def shipped() -> GpuPower:
    """Return the numbers that come with the tool."""
    return load_power(SHIPPED)


@cache
def nodes() -> Mapping[int, NodeEnergies]:
    """Return energies of operations by process node, nm."""
    return {each.nm: each for each in shipped().nodes}


def operation_J(node: int, unit: str, size: int = 0) -> float | None:
    """Return the energy of an operation of FP32 lanes, or of FP16 Tensor Cores of so many 16-bit multiplications per
    clock, with everything around it, of random numbers, at the stated clock, J; None where that is not known."""
    found = nodes().get(node)
    if found is None:
        return None
    joules = found.lanes if unit == "lanes" else found.sizes.get(str(size), found.tensor)
    return None if joules is None else float(joules)


def power(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> what multiplying on all multiprocessors draws at the stated clock, as a share of the power that they
    may have; {} for a chip that states no design power, or no node."""
    if chip.power is None or chip.power.tdp is None:
        return {}
    most_W, clock = shipped().design_share * float(chip.power.tdp), float(spec.clock or chip.clock)
    return {
        name: float(spec.formats[name].rate) * spec.multiprocessors * clock * whole / most_W
        for name, whole in whole_J(chip, spec).items()
    }


def whole_J(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> energy of a multiply-accumulate with everything around it, J; {} for a node that is not known."""
    units = {form.unit for form in spec.formats.values()}
    found = {unit: operation_J(_node(chip), unit, _size(spec) if unit == "tensor" else 0) for unit in units}
    return _of_formats(spec, {unit: 2 * joules for unit, joules in found.items() if joules is not None})


def _of_formats(spec: Simt, units_J: Mapping[str, float]) -> dict[str, float]:
    """Format -> energy of a multiply-accumulate, J, from those of the units at their reference rates.

    A unit draws about as much in every format that it computes (but see ``Simt.draws``): one that has twice the rate
    costs half as much.
    """
    return {
        name: units_J[form.unit] * reference(spec, form.unit) / float(form.rate) * spec.draws(name)
        for name, form in spec.formats.items()
        if form.unit in units_J
    }


def reference(spec: Simt, unit: str) -> float:
    """Return the rate to which energies refer: FP32 on lanes, FP16 on Tensor Cores, or the highest of the unit."""
    form = spec.formats.get({"lanes": "fp32", "tensor": "fp16"}[unit])
    if form is not None and form.unit == unit:
        return float(form.rate)
    return max(float(other.rate) for other in spec.formats.values() if other.unit == unit)


def _size(spec: Simt) -> int:
    """Return the 16-bit multiplications per clock that Tensor Cores have units for: a board may do fewer of them than
    its operations of 8 bits show."""
    wide = (float(form.rate * max(operands_B(name))) for name, form in spec.formats.items() if form.unit == "tensor")
    return round(max(wide) / 2)


def active_W(chip: Chip, spec: Simt) -> float:
    """Return what all multiprocessors draw as long as they are busy; 0 of a chip that states no design power."""
    if spec.active is not None:
        return float(spec.active)
    if chip.power is None or chip.power.tdp is None:
        return 0.0
    return float(shipped().active) * (float(chip.power.tdp) - float(chip.power.idle or 0.0))


def busy(spec: Simt, step: Step) -> float:
    """Share of the multiprocessors that a kernel has blocks for."""
    gemm, tile = step.gemm, step.mapping
    if gemm is None or tile is None:
        elements = max(1, step.ops)
        return min(1.0, elements / (shipped().elements * spec.multiprocessors))
    m, n, splits = (int(getattr(tile, name)) for name in ("m", "n", "splits"))
    blocks = gemm.groups * ceil(gemm.M / m) * ceil(gemm.N / n) * splits
    return min(1.0, blocks / spec.multiprocessors)


def around_J(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> what a multiply-accumulate draws besides what the energy table has a price for, J; {} for a node of
    which nothing is known."""
    around = {"lanes": float(shipped().around_lanes), "tensor": float(shipped().around_tensor)}
    return _of_formats(spec, {unit: ratio * around[unit] for unit, ratio in _ratios(chip).items()})


def around_operations_J(chip: Chip) -> tuple[float, float]:
    """Return the energy around an operation of a function, J, and around one on operands in registers, which needs no
    loads, stores and addresses and counts as a multiply-accumulate in FP32; 0 for a node that is not known."""
    lanes = _ratios(chip).get("lanes", 0.0)
    return lanes * float(shipped().around_function), lanes * float(shipped().around_lanes)


def _ratios(chip: Chip) -> dict[str, float]:
    """Unit -> what it draws on the node of a chip, that of the measured GPUs being 1."""
    node, measured = _node(chip), shipped().measured
    both = {unit: (operation_J(node, unit), operation_J(measured, unit)) for unit in ("lanes", "tensor")}
    return {unit: here / there for unit, (here, there) in both.items() if here and there}


def _node(chip: Chip) -> int:
    """Return the process node, nm; 0 where it is not known."""
    found = re.match(r"(\d+)", chip.process or "")
    return int(found[1]) if found else 0


def at_clock(spec: Simt) -> float:
    """Return the energy of an operation at the clock that the chip keeps, relative to that at its highest."""
    return float(max(shipped().lowest, spec.sustained_clock ** shipped().exponent))
