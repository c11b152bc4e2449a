"""What the time and the energy of a systolic array go to, in words."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.program.commands import MAC_ACTION, NOT_DONE, PADDING, SKIPPED, Command
from accelsim.spec.models import Chip
from accelsim.spec.trust import mac_status, network_status, register_status

REASONS = (
    Reason("compute", "compute", "computing in the matrix unit", "compute", "#0072b2", computing=True),
    Reason("padding", "unused PEs", "PEs that stream without work", "unused PEs", "#9ecae1", computing=True),
    Reason("weight_shift", "weight shift", "shifting weights into the array", "weight shift", "#56b4e9", "////", True),
    Reason("fill_drain", "array fill and drain", "filling and draining the array", "array fill and drain", "#003f63",
           "////", True),
)  # fmt: skip
CATEGORIES = (
    Category("MAC", "#0072b2"), Category("PE registers", "#56b4e9", "////"), Category("PE network", "#003f63", "----")
)  # fmt: skip
PIECES = (
    ("stream", "a MatMul streams its rows"),
    ("weight_shift", "the stationary operand is shifted in, and no row streams"),
    ("fill_drain", "the array fills or drains"),
)


def prices(chip: Chip) -> dict[str, Price]:
    """Multiplications by format, those that no PE carries out, bytes of PE registers and of the network between PEs."""
    table = chip.energy
    macs = {name: float(energy) for name, energy in table.mac.items()} | dict.fromkeys(_names(NOT_DONE), 0.0)
    found = {
        f"{MAC_ACTION}{name}": Price(energy, "MAC", f"{name} multiply-accumulates", mac_status(table, name))
        for name, energy in macs.items()
    }
    register = Price(float(table.register), "PE registers", "PE registers", register_status(table))
    found |= {f"pe_register.{way}": register for way in ("read", "write")}
    hop = Price(float(table.network or 0.0), "PE network", "PE network", network_status(table))
    return found | {"pe_network.hop": hop}


def _names(actions: frozenset[str]) -> list[str]:
    return sorted(action.removeprefix(MAC_ACTION) for action in actions)


def stream_shares(fs: int, edges: tuple[int, int, int], command: Command) -> dict[str, int]:
    """Streaming, with PEs at work and without, shifting, and neither: by their clock edges."""
    streamed, shifted, idle = edges
    whole = max(1, streamed + shifted + idle)
    work, unused = _multiplications(command)
    shift_fs, idle_fs = fs * shifted // whole, fs * idle // whole
    stream_fs = fs - shift_fs - idle_fs
    padding_fs = stream_fs * unused // max(1, work + unused)
    return {
        "compute": stream_fs - padding_fs, "padding": padding_fs, "weight_shift": shift_fs, "fill_drain": idle_fs
    }  # fmt: skip


def _multiplications(command: Command) -> tuple[int, int]:
    """Multiplications that PEs carried out for a MatMul, and those for which they had nothing."""
    work = unused = 0
    for _, action, _, count in command.actions:
        if action.startswith(MAC_ACTION) and action != SKIPPED:
            work, unused = (work, unused + count) if action == PADDING else (work + count, unused)
    return work, unused
