"""Power of multiprocessors beside the arithmetic, registers and memories of the energy table.

Two things: what busy multiprocessors draw as long as a kernel runs, whatever it does, even where they wait for memory
(``active``), and what an operation has around it, the fetching and scheduling of instructions and the collecting of
operands. Both are fitted to the watts of kernels on an H200 (``python -m tests.validation.gpu_watts`` does it again,
``accelsim validate gpu-watts`` compares the kernels that had no part in it, on an H100 too). Other nodes have what is
around operations in the ratio of what arithmetic draws there (``WHOLE_J``), other chips the active power in the ratio
of what their design power leaves.

They are those of the highest clock. Voltage falls with the clock, so that an operation takes less energy at a lower one
(``at_clock``). A board that would draw more than its design power lowers both until it does not
(``accelsim.account.energy``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil

from accelsim.engines.simt.spec import Simt
from accelsim.program.commands import Step
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import operands_B

SHARE = 0.8
"""Share of the design power that multiprocessors may have; memory, links and conversion take the rest."""
WHOLE_J: Mapping[str, Mapping[int, float]] = {
    "lanes": {28: 40e-12, 16: 20e-12, 14: 25e-12, 12: 14.5e-12, 8: 11e-12, 7: 9.5e-12, 5: 6e-12},
    "tensor": {12: 1.2e-12, 8: 1.1e-12, 7: 1.08e-12, 5: 0.6e-12},
}
"""Unit -> process node, nm -> energy of an operation of FP32 lanes, or of FP16 Tensor Cores, with everything around
it, of random numbers, at the stated clock, J. Set by eye on the clocks that measured products of eight chips keep (P4,
P100, V100, T4, A100, H100), 28, 14 and 8 nm between and beside them, 16 nm also on GTX 1080 Ti and P40: no measurements
of energy."""
OF_SIZE_J: Mapping[tuple[int, int], float] = {(5, 512): 1.05e-12, (5, 4096): 0.53e-12}
"""Process node, nm, and 16-bit multiplications of a multiprocessor's Tensor Cores per clock -> energy of an operation
of Tensor Cores of this size, J, where a node has several sizes: large ones use an operand more often. Those of 2,048
per clock are in ``WHOLE_J``. Chosen on square products of boards without constants of their own
(``accelsim validate gpu-uncalibrated``)."""


def power(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> what multiplying on all multiprocessors draws at the stated clock, as a share of the power that they
    may have; {} for a chip that states no design power, or no node."""
    if chip.power is None or chip.power.tdp is None:
        return {}
    most_W, clock = SHARE * float(chip.power.tdp), float(spec.clock or chip.clock)
    return {
        name: float(spec.formats[name].rate) * spec.multiprocessors * clock * whole / most_W
        for name, whole in whole_J(chip, spec).items()
    }


def whole_J(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> energy of a multiply-accumulate with everything around it, J; {} for a node that is not known.

    A unit draws about as much in every format that it computes (but see ``DRAWS``): one that has twice the rate costs
    half as much.
    """
    found = re.match(r"(\d+)", chip.process or "")
    node, rest = int(found[1]) if found is not None else 0, {}
    for name, form in spec.formats.items():
        each_J = WHOLE_J[form.unit].get(node)
        if each_J is not None:
            widest = reference(spec, form.unit)
            if form.unit == "tensor":
                each_J = OF_SIZE_J.get((node, _size(spec)), each_J)
            rest[name] = 2 * each_J * widest / float(form.rate) * spec.draws(name)
    return rest


def reference(spec: Simt, unit: str) -> float:
    """The rate that the energies are of: FP32 on lanes, FP16 on Tensor Cores, or the highest that the unit has."""
    form = spec.formats.get({"lanes": "fp32", "tensor": "fp16"}[unit])
    if form is not None and form.unit == unit:
        return float(form.rate)
    return max(float(other.rate) for other in spec.formats.values() if other.unit == unit)


def _size(spec: Simt) -> int:
    """Return the 16-bit multiplications per clock that Tensor Cores have units for: a board may do fewer of them than
    its operations of 8 bits show."""
    wide = (
        float(form.rate * max(operands_B(name)))
        for name, form in spec.formats.items()
        if form.unit == "tensor"
    )
    return round(max(wide) / 2)


MEASURED = 5
"""Process node of the GPUs that were measured, nm."""
AROUND_J: Mapping[str, float] = {"lanes": 15.9e-12, "tensor": 1.63e-12}
"""Unit -> what a multiply-accumulate has around it there: in FP32 on lanes, in FP16 on Tensor Cores, J."""
OPERATION_J = 73e-12
"""The same of a function of an element, J: loads, stores, addresses and conversions are instructions too."""
ACTIVE = 0.15
"""Active power as a share of what the design power has beyond idle power: that of the H200."""
VOLTAGE = 2.0
"""Exponent of the clock in the energy of an operation: voltage falls about as the clock does. Of 20 kernels that an
H100 and an H200 computed at 65 to 93 % of their highest clock, because of their design power, the exponent is 2.0 in
the middle (``gpu-watts``)."""
ELEMENTS = 2048
"""Elements of a function for which a multiprocessor is busy."""


def active_W(chip: Chip, spec: Simt) -> float:
    """Return what all multiprocessors draw as long as they are busy; 0 of a chip that states no design power."""
    if spec.active is not None:
        return float(spec.active)
    if chip.power is None or chip.power.tdp is None:
        return 0.0
    return ACTIVE * (float(chip.power.tdp) - float(chip.power.idle or 0.0))


def busy(spec: Simt, step: Step) -> float:
    """Share of the multiprocessors that a kernel has blocks for."""
    gemm, tile = step.gemm, step.mapping
    if gemm is None or tile is None:
        elements = max(1, step.ops)
        return min(1.0, elements / (ELEMENTS * spec.multiprocessors))
    m, n, splits = (int(getattr(tile, name)) for name in ("m", "n", "splits"))
    blocks = gemm.groups * ceil(gemm.M / m) * ceil(gemm.N / n) * splits
    return min(1.0, blocks / spec.multiprocessors)


def around_J(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> what a multiply-accumulate draws besides what the energy table has a price for, J; {} for a node of
    which nothing is known. A unit draws about as much in every format: one that has twice the rate costs half as much.
    """
    ratio = _ratios(chip)
    rest = {}
    for name, form in spec.formats.items():
        if form.unit in ratio:
            each_J = ratio[form.unit] * AROUND_J[form.unit] * reference(spec, form.unit) / float(form.rate)
            each_J *= spec.draws(name)
            rest[name] = each_J
    return rest


def around_operation_J(chip: Chip, spec: Simt) -> float:
    """Return the same of a function of an element; 0 where nothing is known of the node."""
    return _ratios(chip).get("lanes", 0.0) * OPERATION_J


def _ratios(chip: Chip) -> dict[str, float]:
    """Unit -> what it draws on the node of a chip, that of the measured GPUs being 1."""
    found = re.match(r"(\d+)", chip.process or "")
    node = int(found[1]) if found else 0
    return {unit: drawn[node] / drawn[MEASURED] for unit, drawn in WHOLE_J.items() if node in drawn}


def at_clock(spec: Simt) -> float:
    """Return the energy of an operation at the clock that the chip keeps, relative to that at its highest."""
    return float(spec.sustained_clock**VOLTAGE)
