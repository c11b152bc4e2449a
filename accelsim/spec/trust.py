"""Status of each value in an energy table."""

from __future__ import annotations

from accelsim.spec.energy import EnergyStatus, EnergyTable
from accelsim.spec.status import UNSTATED, Status


def mac_status(table: EnergyTable, name: str) -> Status:
    """Status of the multiply and add of a format."""
    status = _status(table)
    return status.mac.get(name, status.default)


def vector_status(table: EnergyTable, name: str) -> Status:
    """Status of an operation of the vector unit in a format."""
    status = _status(table)
    return status.vector.get(name, status.default)


def register_status(table: EnergyTable) -> Status:
    """Status of the register of a PE."""
    status = _status(table)
    return status.register or status.default


def network_status(table: EnergyTable) -> Status:
    """Status of the network between PEs."""
    status = _status(table)
    return status.network or status.default


def sram_status(table: EnergyTable) -> Status:
    """Status of the SRAM points, and so of every buffer whose energy is interpolated between them."""
    status = _status(table)
    return status.sram or status.default


def _status(table: EnergyTable) -> EnergyStatus:
    return table.status or EnergyStatus(default=UNSTATED)
