"""Words for the uses of time and energy of a systolic array."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.engines.prices import mac_prices, undone_prices
from accelsim.engines.systolic.actions import HOP, REGISTER
from accelsim.program.actions import WAYS, ActionName
from accelsim.spec.chip import Chip

REASONS = (
    Reason("compute", "compute", "computing in the matrix unit", "compute", "#0072b2", computing=True),
    Reason("padding", "unused PEs", "unused PEs", "unused PEs", "#9ecae1", computing=True, unused_of="compute"),
    Reason("weight_shift", "weight shift", "shifting weights into the array", "weight shift", "#56b4e9", "////", True),
    Reason("fill_drain", "array fill and drain", "filling and draining the array", "array fill and drain", "#003f63",
           "////", True),
    Reason("port_width", "port width of {resource}", "waiting for the narrow port of {resource}", "narrow ports",
           "#7a5195", "xxxx"),
)  # fmt: skip
CATEGORIES = (
    Category("MAC", "#0072b2"),
    Category("PE registers", "#56b4e9", "////"),
    Category("PE network", "#003f63", "----"),
)
PIECES = (
    ("stream", "a MatMul streams its rows"),
    ("weight_shift", "the stationary operand is shifted in, and no row streams"),
    ("fill_drain", "the array fills or drains"),
    ("port_width", "the narrow port of a buffer holds up the rows or the sums of a MatMul"),
)


def prices(chip: Chip) -> dict[str, Price]:
    """Multiplications by format, those that no PE carries out, bytes of PE registers and of the network between PEs."""
    table = chip.energy
    found = mac_prices(table) | undone_prices(table)
    register = Price(float(table.register), "PE registers", "PE registers", table.status_of("register"))
    found |= {ActionName(REGISTER, way): register for way in WAYS}
    hop = Price(float(table.network or 0.0), "PE network", "PE network", table.status_of("network"))
    return found | {HOP: hop}
