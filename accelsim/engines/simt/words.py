"""What the time and the energy of multiprocessors go to, in words."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.program.commands import MAC_ACTION, NOT_DONE, PADDING, SKIPPED, Command
from accelsim.program.roles import Unit
from accelsim.spec.models import Chip
from accelsim.spec.sram_energy import sram_J_per_B
from accelsim.spec.trust import mac_status, register_status, sram_status, vector_status

REASONS = (
    Reason("products", "products", "multiplying in the multiprocessors", "products", "#117733", computing=True),
    Reason("tile_padding", "unused parts of tiles", "computing parts of tiles that hold nothing",
           "unused parts of tiles", "#a1d99b", computing=True),
    Reason("block_ends", "ends of blocks", "finishing blocks, with what is fused", "ends of blocks", "#44aa99",
           "----", True),
    Reason("lanes", "other functions", "computing other functions in the multiprocessors", "other functions",
           "#aa4499", "....", True),
    Reason("launch", "kernel launch", "launching kernels", "kernel launches", "#332288", "////", True),
)  # fmt: skip
PRODUCTS, REGISTERS, SHARED, LANES = "MAC", "registers", "shared memory", "lanes"
CATEGORIES = (
    Category(PRODUCTS, "#0072b2"), Category(REGISTERS, "#88ccee", "////"), Category(SHARED, "#44aa99", "----"),
    Category(LANES, "#aa4499", "...."),
)  # fmt: skip
PIECES = (
    ("products", "a wave of blocks multiplies"),
    ("block_ends", "blocks compute what is fused behind their sums, and results leave"),
    ("lanes", "lanes and units for special functions work"),
    ("launch", "a kernel is launched"),
)


def prices(chip: Chip, unit: Unit) -> dict[str, Price]:
    """Multiplications by format, operations of lanes, bytes of registers and of shared memory."""
    table = chip.energy
    macs = {name: float(energy) for name, energy in table.mac.items()}
    macs |= dict.fromkeys((action.removeprefix(MAC_ACTION) for action in sorted(NOT_DONE)), 0.0)
    found = {
        f"{MAC_ACTION}{name}": Price(
            energy, PRODUCTS, f"{name} multiply-accumulates", mac_status(table, name)
        )
        for name, energy in macs.items()
    }
    found |= {
        f"op.{name}": Price(float(energy), LANES, "the lanes", vector_status(table, name))
        for name, energy in table.vector.items()
    }
    for way in ("read", "write"):
        register = Price(float(table.register), REGISTERS, REGISTERS, register_status(table))
        energy = sram_J_per_B(table.sram, float(unit.spec.shared), way == "write")
        found |= {
            f"register.{way}": register,
            f"shared.{way}": Price(energy, SHARED, SHARED, sram_status(table)),
        }
    return found


def product_shares(fs: int, command: Command) -> dict[str, int]:
    """Products that the node asks for, and those of tiles that hold nothing, by their numbers."""
    work = unused = 0
    for _, action, _, count in command.actions:
        if action.startswith(MAC_ACTION) and action != SKIPPED:
            work, unused = (work, unused + count) if action == PADDING else (work + count, unused)
    padding_fs = fs * unused // max(1, work + unused)
    return {"products": fs - padding_fs, "tile_padding": padding_fs}
