"""What each command costs: ledger entries from the closed forms. Nothing is charged anywhere else."""

from __future__ import annotations

from functools import lru_cache

from accelsim.array.counts import Counts, counts
from accelsim.compiler.program import Action, Tile
from accelsim.compiler.roles import Roles
from accelsim.compiler.tiles import packs
from accelsim.spec.models import MatrixUnit
from accelsim.workload.graph import FORMAT_BYTES


def tile_counts(unit: MatrixUnit, tm: int, tn: int, tk: int) -> Counts[int]:
    """Accesses of one tile on the array."""
    return _counts(
        unit.rows,
        unit.cols,
        unit.dataflow,
        unit.schedule,
        unit.shadow_load,
        unit.load_rows_per_clock,
        tm,
        tn,
        tk,
    )


@lru_cache(maxsize=4096)
def _counts(
    rows: int,
    cols: int,
    dataflow: str,
    schedule: str,
    shadow_load: str,
    per_clock: int,
    tm: int,
    tn: int,
    tk: int,
) -> Counts[int]:
    return counts(
        rows, cols, dataflow, schedule, tm, tn, tk, shadow_load=shadow_load, load_rows_per_clock=per_clock
    )


def nbytes(dtype: str, count: int) -> int:
    """Bytes of ``count`` words of a format."""
    return int(FORMAT_BYTES[dtype] * count)


def product_actions(
    roles: Roles,
    dtype: str,
    tile: Tile,
    first: bool,
    names: tuple[str, str, str],
    dtypes: tuple[str, str],
    b_from: str,
) -> list[Action]:
    """Entries of one MatMul: ``names`` of A, B and Y, ``dtypes`` of A and B, ``b_from`` the buffer B is read from."""
    unit, groups = roles.matrix, tile.g1 - tile.g0
    tm, tn, tk = tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0
    c = tile_counts(unit, tm, tn, tk)
    packed = int(packs(unit, groups, tn, tk))  # registers work in every PE of a fold, whatever it holds
    a_words, b_words = (c.col_words, c.row_words) if unit.dataflow == "is" else (c.row_words, c.col_words)
    sums = unit.formats[dtype].accumulate
    operand = nbytes(dtypes[0], 1)
    registers_read = operand * (c.moving_reads + c.stationary_reads + c.shadow_reads) + nbytes(
        sums, c.psum_reads
    )
    registers_written = operand * (c.moving_writes + c.stationary_writes + c.shadow_writes) + nbytes(
        sums, c.psum_writes
    )
    again = 0 if first else tm * tn
    acc, array = roles.engine(roles.sums), roles.engine("matrix")
    a_name, b_name, y_name = names
    entries = [
        Action(array, f"mac.{dtype}", "", groups * c.macs),
        Action(array, "mac.padding", "", packed * (c.macs + c.mac_padding) - groups * c.macs),
        Action(array, "pe_register.read", "", packed * registers_read),
        Action(array, "pe_register.write", "", packed * registers_written),
        Action(roles.engine(roles.activations), "read", a_name, groups * nbytes(dtypes[0], a_words)),
        Action(roles.engine(b_from), "read", b_name, groups * nbytes(dtypes[1], b_words)),
        Action(acc, "read", y_name, groups * nbytes(sums, c.accumulator_reads + again)),
        Action(acc, "write", y_name, groups * nbytes(sums, c.accumulator_writes)),
    ]
    return [entry for entry in entries if entry.count]


def transfer_actions(roles: Roles, memory: str, tensor: str, count_B: int, write: bool) -> list[Action]:
    """Entries of the off-chip side of a transfer: the memory, and the link before it."""
    entries = [Action(memory, "write" if write else "read", tensor, count_B)]
    if roles.memory(memory).link is not None:
        entries.append(Action(f"{memory}.link", "transfer", tensor, count_B))
    return entries
