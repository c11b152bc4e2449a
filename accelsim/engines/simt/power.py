"""What the thermal design power of a chip leaves of its clock.

At its peak a chip would draw the energy of an operation, everything around it with it, times the operations of a
second. Where that is more than the share of its design power that arithmetic may have, the clock falls until it is
not. What a run is charged for is in :mod:`accelsim.engines.simt.drawn`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from accelsim.engines.simt.spec import Simt
from accelsim.spec.chip import Chip

SHARE = 0.8
"""Share of the design power that multiprocessors may have; memory, links and conversion take the rest."""
WHOLE_J: Mapping[str, Mapping[int, float]] = {
    "lanes": {28: 40e-12, 16: 25e-12, 14: 25e-12, 12: 14.5e-12, 8: 11e-12, 7: 9.5e-12, 5: 6e-12},
    "tensor": {12: 1.2e-12, 8: 1.1e-12, 7: 1.08e-12, 5: 0.6e-12},
}
"""Unit -> process node, nm -> energy of an operation of FP32 lanes, or of FP16 Tensor Cores, with everything around
it, of random numbers, J. Set by eye on the clocks that measured products of eight chips keep (P4, P100, V100, T4, A100,
H100), 28, 14 and 8 nm between and beside them: no measurements of energy."""


def droops(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> by how much longer long kernels take, below 0 where the design power leaves some; {} for a chip that
    states none, or no node."""
    if chip.power is None or chip.power.tdp is None:
        return {}
    clock, rest = spec.clock or chip.clock, {}
    for name, whole in whole_J(chip, spec).items():
        draws_W = float(spec.formats[name].rate) * spec.multiprocessors * clock * whole
        rest[name] = draws_W / (SHARE * chip.power.tdp) - 1
    return rest


def whole_J(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> energy of a multiply-accumulate with everything around it, J; {} for a node that is not known.

    A unit draws about as much in every format that it computes (but see ``DRAWS``): one that has twice the rate costs
    half as much.
    """
    found = re.match(r"(\d+)", chip.process or "")
    rest = {}
    for name, form in spec.formats.items():
        each_J = WHOLE_J[form.unit].get(int(found[1])) if found is not None else None
        if each_J is not None:
            widest = reference(spec, form.unit)
            rest[name] = 2 * each_J * widest / float(form.rate) * spec.draws(name)
    return rest


def reference(spec: Simt, unit: str) -> float:
    """The rate that the energies are of: FP32 on lanes, FP16 on Tensor Cores, or the highest that the unit has."""
    form = spec.formats.get({"lanes": "fp32", "tensor": "fp16"}[unit])
    if form is not None and form.unit == unit:
        return float(form.rate)
    return max(float(other.rate) for other in spec.formats.values() if other.unit == unit)
