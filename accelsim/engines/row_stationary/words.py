"""Words for the uses of time and energy of a row-stationary array."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.engines.prices import mac_prices
from accelsim.program.actions import WAYS, ActionName
from accelsim.spec.chip import Chip

LOAD, STEPS = "pass_load", "pass_steps"
HOP = ActionName("pe_network", "hop")
REASONS = (
    Reason(STEPS, "compute", "computing in the PE array", "steps of passes", "#2a6f97", computing=True),
    Reason(
        LOAD, "loading PEs", "loading filters and first windows into the PEs", "loading PEs", "#89c2d9", "////", True
    ),
)
PIECES = (
    (STEPS, "the PEs multiply, or wait for the networks of the array"),
    (LOAD, "filters and first windows of a processing pass go into the PEs"),
)
CATEGORIES = (
    Category("MAC", "#0072b2"),
    Category("PE registers", "#56b4e9", "////"),
    Category("PE network", "#003f63", "----"),
)
REGISTERS = {"ifmap": "ifmap registers", "filter": "filter registers", "psum": "psum registers"}
"""Registers of a PE: prefix of their actions -> what they are called."""
NETWORKS = {
    ActionName("bus", "ifmap"): "the bus of ifmaps",
    ActionName("bus", "filter"): "the bus of filters",
    ActionName("bus", "psum"): "the buses of psums",
    HOP: "psums from PE to PE",
}


def register(kind: str, way: str) -> ActionName:
    """Bytes out of or into one of ``REGISTERS``."""
    return ActionName(f"{kind}_register", way)


def prices(chip: Chip) -> dict[str, Price]:
    """Multiplications by format, bytes of each kind of PE register, of the buses and of the way from PE to PE.

    The table has one energy for registers and one for the network; a word on a bus costs what a hop costs, however many
    PEs take it.
    """
    table = chip.energy
    found = mac_prices(table)
    for kind, what in REGISTERS.items():
        price = Price(float(table.register), "PE registers", what, table.status_of("register"))
        found |= {register(kind, way): price for way in WAYS}
    for action, what in NETWORKS.items():
        found[action] = Price(float(table.network or 0.0), "PE network", what, table.status_of("network"))
    return found
