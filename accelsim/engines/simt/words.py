"""Words for the uses of time and energy of multiprocessors."""

from __future__ import annotations

from accelsim.engines.base import Category, Price, Reason
from accelsim.engines.prices import mac_prices, op_prices, undone_prices
from accelsim.program.actions import ACTIVE, WAYS, WRITE, ActionName, multiplications
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.spec.energy import sram_J_per_B
from accelsim.spec.trust import register_status, sram_status
from accelsim.time import FS

REASONS = (
    Reason("products", "products", "multiplying in the multiprocessors", "products", "#117733", computing=True),
    Reason("tile_padding", "unused parts of tiles", "computing parts of tiles that hold nothing",
           "unused parts of tiles", "#a1d99b", computing=True),
    Reason("block_ends", "ends of blocks", "finishing blocks, with what is fused", "ends of blocks", "#44aa99",
           "----", True),
    Reason("lanes", "other functions", "computing other functions in the multiprocessors", "other functions",
           "#aa4499", "....", True),
    Reason("attention", "attention", "attention in one kernel", "attention", "#999933", "xx", True),
    Reason("beside", "kernels of other streams", "waiting for multiprocessors that other streams have",
           "kernels of other streams", "#ddcc77", "\\\\\\\\"),
    Reason("launch", "kernel launch", "launching kernels", "kernel launches", "#332288", "////", True),
)  # fmt: skip
PRODUCTS, REGISTERS, SHARED, LANES = "MAC", "registers", "shared memory", "lanes"
INSTRUCTIONS = "instructions"
CATEGORIES = (
    Category(PRODUCTS, "#0072b2"), Category(REGISTERS, "#88ccee", "////"), Category(SHARED, "#44aa99", "----"),
    Category(LANES, "#aa4499", "...."), Category(INSTRUCTIONS, "#999933", "xxxx"),
)  # fmt: skip
PIECES = (
    ("products", "a wave of blocks multiplies"),
    ("block_ends", "blocks compute what is fused behind their sums, and results leave"),
    ("lanes", "lanes and units for special functions work"),
    ("attention", "queries meet keys and values in one kernel"),
    ("launch", "a kernel is launched"),
    (
        "beside",
        "a kernel takes longer because those of other streams have the multiprocessors, or are launched",
    ),
)


def prices(chip: Chip, unit: Unit) -> dict[str, Price]:
    """Return the prices of multiplications by format, of operations of lanes, of what instructions draw around both, of
    bytes of registers and of shared memory, at the clock that the chip keeps."""
    from accelsim.engines.simt.actions import AROUND, FUSED, OPERATION
    from accelsim.engines.simt.drawn import active_W, around_fused_J, around_J, around_operation_J, at_clock

    table = chip.energy
    found = (
        mac_prices(table, PRODUCTS) | undone_prices(table, PRODUCTS) | op_prices(table, LANES, "the lanes")
    )
    for way in WAYS:
        register = Price(float(table.register), REGISTERS, REGISTERS, register_status(table))
        energy = sram_J_per_B(table.sram, float(unit.spec.shared), way == WRITE)
        found |= {
            ActionName("register", way): register,
            ActionName("shared", way): Price(energy, SHARED, SHARED, sram_status(table)),
        }
    draws = around_J(chip, unit.spec)
    draws |= {OPERATION: around_operation_J(chip), FUSED: around_fused_J(chip)}
    for name in (*table.mac, OPERATION, FUSED):
        found[ActionName(AROUND, name)] = Price(draws.get(name, 0.0), INSTRUCTIONS, INSTRUCTIONS, "guess")
    active_J = active_W(chip, unit.spec) * float(unit.spec.sustained_clock) * FS
    found[ACTIVE] = Price(active_J, INSTRUCTIONS, "busy multiprocessors", "guess")
    lower = at_clock(unit.spec)
    return {action: price._replace(energy_J=price.energy_J * lower) for action, price in found.items()}


def product_shares(fs: int, command: Command) -> dict[str, int]:
    """Products that the node asks for, and those of tiles that hold nothing, by their numbers."""
    work, unused = multiplications(command.actions)
    padding_fs = fs * unused // max(1, work + unused)
    return {"products": fs - padding_fs, "tile_padding": padding_fs}
