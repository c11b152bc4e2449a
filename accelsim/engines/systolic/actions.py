"""Ledger entries of each command, from the closed forms. Nothing is charged anywhere else."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from accelsim.engines.systolic.counts import Counts, counts, hops
from accelsim.engines.systolic.pace import packs
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.actions import PADDING, READ, SKIPPED, WRITE, Action, ActionName, mac
from accelsim.program.commands import Tile
from accelsim.program.roles import Roles
from accelsim.program.tiles import kept
from accelsim.program.writing.entries import nbytes
from accelsim.workload.graph import Tensor

REGISTER, HOP = "pe_register", ActionName("pe_network", "hop")
"""Bytes of the registers of PEs, and from a PE to the next."""


def tile_counts(unit: MatrixUnit, tm: int, tn: int, tk: int) -> Counts[int]:
    """Accesses of one tile, as the closed forms count them on the array."""
    return _counts(
        unit.rows, unit.cols, unit.dataflow, unit.schedule, unit.shadow_load, unit.load_rows_per_clock, tm, tn, tk
    )


@lru_cache(maxsize=4096)
def _counts(
    rows: int, cols: int, dataflow: str, schedule: str, shadow_load: str, per_clock: int, tm: int, tn: int, tk: int
) -> Counts[int]:
    return counts(rows, cols, dataflow, schedule, tm, tn, tk, shadow_load=shadow_load, load_rows_per_clock=per_clock)


class Product(NamedTuple):
    """Data that the MatMuls of a step on one array share: format, (n, m) of sparse weights, operands and the name of
    the result, the buffer that B is read from, the array.
    """

    dtype: str
    sparse: tuple[int, int]
    a: Tensor
    b: Tensor
    y: str
    b_from: str
    array: str


def product_actions(roles: Roles, product: Product, tile: Tile, first: bool) -> list[Action]:
    """Entries of one MatMul; ``first``: it writes the sums, later ones add to them.

    With sparse weights the array does n of m multiplications ('mac.skipped' are the others) and picks their
    activations from all that it reads.
    """
    unit, groups, (n, m) = roles.matrix, tile.g1 - tile.g0, product.sparse
    tm, tn, tk = tile.m1 - tile.m0, tile.n1 - tile.n0, kept(product.sparse, tile.k1 - tile.k0)
    c = tile_counts(unit, tm, tn, tk)
    packed = int(packs(unit, groups, tn, tk))  # registers work in every PE of a fold, whatever it holds
    a_words, b_words = unit.flow.a_and_b(c.row_words, c.col_words)
    sums, operand = unit.formats[product.dtype].accumulate, product.a.memory_format
    operands_read = c.moving_reads + c.stationary_reads + c.shadow_reads
    operands_written = c.moving_writes + c.stationary_writes + c.shadow_writes
    registers_read = nbytes(operand, operands_read) + nbytes(sums, c.psum_reads)
    registers_written = nbytes(operand, operands_written) + nbytes(sums, c.psum_writes)
    moved = hops(unit.dataflow, c)
    network = nbytes(operand, moved.operands) + nbytes(sums, moved.sums)
    again = 0 if first else tm * tn
    acc, array = roles.engine(roles.sums), product.array
    entries = [
        Action(array, mac(product.dtype), "", groups * c.macs),
        Action(array, SKIPPED, "", groups * (tm * tn * (tile.k1 - tile.k0) - c.macs)),
        Action(array, PADDING, "", packed * (c.macs + c.mac_padding) - groups * c.macs),
        Action(array, ActionName(REGISTER, READ), "", packed * registers_read),
        Action(array, ActionName(REGISTER, WRITE), "", packed * registers_written),
        Action(array, HOP, "", packed * network),
        Action(roles.engine(roles.activations), READ, product.a.name, groups * product.a.size_B(a_words * m // n)),
        # b's bytes per element are those of the dense count, so its words are taken before what is skipped
        Action(roles.engine(product.b_from), READ, product.b.name, groups * product.b.size_B(b_words * m // n)),
        Action(acc, READ, product.y, groups * nbytes(sums, c.accumulator_reads + again)),
        Action(acc, WRITE, product.y, groups * nbytes(sums, c.accumulator_writes)),
    ]
    return [entry for entry in entries if entry.count]
