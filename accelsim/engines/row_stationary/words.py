"""What the time and the energy of a row-stationary array go to, in words."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.program.commands import MAC_ACTION
from accelsim.spec.models import Chip
from accelsim.spec.trust import mac_status, network_status, register_status

LOAD, STEPS = "pass_load", "pass_steps"
REASONS = (
    Reason(STEPS, "compute", "computing in the PE array", "steps of passes", "#2a6f97", computing=True),
    Reason(LOAD, "loading PEs", "loading filters and first windows into the PEs", "loading PEs", "#89c2d9", "////",
           True),
)  # fmt: skip
PIECES = (
    (STEPS, "the PEs multiply, or wait for the networks of the array"),
    (LOAD, "filters and first windows of a processing pass go into the PEs"),
)
CATEGORIES = (
    Category("MAC", "#0072b2"), Category("PE registers", "#56b4e9", "////"), Category("PE network", "#003f63", "----")
)  # fmt: skip
REGISTERS = {"ifmap": "ifmap registers", "filter": "filter registers", "psum": "psum registers"}
"""Registers of a PE: prefix of their actions -> what they are called."""
NETWORKS = {
    "bus.ifmap": "the bus of ifmaps", "bus.filter": "the bus of filters", "bus.psum": "the buses of psums",
    "pe_network.hop": "psums from PE to PE",
}  # fmt: skip


def prices(chip: Chip) -> dict[str, Price]:
    """Multiplications by format, bytes of each kind of PE register, of the buses and of the way from PE to PE.

    The table has one energy for registers and one for the network; a word on a bus costs what a hop costs, however many
    PEs take it.
    """
    table = chip.energy
    found = {
        f"{MAC_ACTION}{name}": Price(
            float(energy), "MAC", f"{name} multiply-accumulates", mac_status(table, name)
        )
        for name, energy in table.mac.items()
    }
    for kind, what in REGISTERS.items():
        price = Price(float(table.register), "PE registers", what, register_status(table))
        found |= {f"{kind}_register.{way}": price for way in ("read", "write")}
    for action, what in NETWORKS.items():
        found[action] = Price(float(table.network or 0.0), "PE network", what, network_status(table))
    return found
