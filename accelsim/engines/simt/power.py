"""What the thermal design power of a chip leaves of its clock, where nothing was measured.

At its peak a chip would draw the energy of an operation, everything around it with it, times the operations of a
second. Where that is more than the share of its design power that arithmetic may have, the clock falls until it is
not.
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
    "tensor": {12: 1.2e-12, 8: 1.0e-12, 7: 0.9e-12, 5: 0.5e-12},
}
"""Unit -> process node, nm -> energy of an operation of FP32 lanes, or of FP16 Tensor Cores, with everything around
it, J. Set by eye on the clocks that measured products of eight chips keep (P4, P100, V100, T4, A100, H100), 28, 14
and 8 nm between and beside them: no measurements of energy."""


def droops(chip: Chip, spec: Simt) -> dict[str, float]:
    """Format -> by how much longer long kernels take; {} for a chip that states no design power, or no node."""
    found = re.match(r"(\d+)", chip.process or "")
    if chip.power is None or chip.power.tdp is None or found is None:
        return {}
    node, rest = int(found[1]), {}
    for name, form in spec.formats.items():
        each_J = WHOLE_J[form.unit].get(node)
        if each_J is not None:
            clock = spec.clock or chip.clock
            unit_rate = max(float(other.rate) for other in spec.formats.values() if other.unit == form.unit)
            widest = _reference(spec, form.unit) or unit_rate
            draws_W = 2 * widest * spec.multiprocessors * clock * each_J
            rest[name] = max(0.0, draws_W / (SHARE * chip.power.tdp) - 1)
    return rest


def _reference(spec: Simt, unit: str) -> float:
    """The rate that the energies are of: FP32 on lanes, FP16 on Tensor Cores; other formats draw about as much."""
    form = spec.formats.get({"lanes": "fp32", "tensor": "fp16"}[unit])
    return float(form.rate) if form is not None and form.unit == unit else 0.0
