"""Words for the uses of time and energy of a machine of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.engines.base import Category, Price, Reason
from accelsim.engines.prices import mac_prices, op_prices
from accelsim.program.actions import PADDING, ActionName
from accelsim.spec.chip import Chip
from accelsim.spec.status import UNSTATED

if TYPE_CHECKING:
    from accelsim.engines.bsp.spec import BspUnit


SEND = ActionName("exchange", "send")
"""Ledger action: bytes that tiles send into the exchange."""
REASONS = (
    Reason("tiles", "tiles", "computing in the slowest tile", "tiles", "#225ea8", computing=True),
    Reason("exchange", "exchange", "the exchange between tiles", "exchange between tiles", "#41b6c4", "////", True),
    Reason("sync", "sync", "tiles waiting for each other", "sync of tiles", "#253494", "....", True),
)
CATEGORIES = (Category("MAC", "#0072b2"), Category("exchange", "#41b6c4", "////"))
"""Categories of its own; functions count as those of a vector unit."""
PIECES = (
    ("tiles", "the slowest tile computes"),
    ("exchange", "tiles send and receive"),
    ("sync", "tiles wait for each other"),
)


def prices(chip: Chip, unit: BspUnit) -> dict[str, Price]:
    """Multiplications and operations by format, and bytes of the exchange. Zeros that fill a block up cost nothing."""
    table = chip.energy
    found = mac_prices(table) | op_prices(table, "vector unit", "functions")
    found[PADDING] = Price(0.0, "MAC", "zeros that fill blocks", UNSTATED)
    status = unit.energy_status or UNSTATED
    return found | {SEND: Price(float(unit.exchange_energy), "exchange", "the exchange", status)}
