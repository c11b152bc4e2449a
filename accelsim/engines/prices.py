"""Prices that several engine types have alike: multiplications and operations by format, from the energy table."""

from __future__ import annotations

from accelsim.engines.base import Price
from accelsim.program.actions import NOT_DONE, mac, op
from accelsim.spec.energy import EnergyTable


def mac_prices(table: EnergyTable, category: str = "MAC") -> dict[str, Price]:
    """Action -> price of a multiply-accumulate in each format of the table."""
    return {
        mac(name): Price(float(energy), category, f"{name} multiply-accumulates", table.status_of("mac", name))
        for name, energy in table.mac.items()
    }


def undone_prices(table: EnergyTable, category: str = "MAC") -> dict[str, Price]:
    """Return the prices of multiply-accumulates that are not carried out, which cost nothing."""
    return {
        action: Price(0.0, category, f"{action.of} multiply-accumulates", table.status_of("mac", action.of))
        for action in sorted(NOT_DONE)
    }


def op_prices(table: EnergyTable, category: str, what: str) -> dict[str, Price]:
    """Action -> price of an operation in each format of the table."""
    return {
        op(name): Price(float(energy), category, what, table.status_of("vector", name))
        for name, energy in table.vector.items()
    }
