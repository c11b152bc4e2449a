"""DRAM standards as tables: which commands may follow which, and after how many clocks.

A row is (level, preceding, following, latency, window): two such commands that share the level (see ``device.Level``)
are at least ``latency`` clocks apart; with a window of n, a command and the n-th one before it. All rows that apply
hold together. Latencies are expressions over the names of the timing parameters, in clocks, with BL the clocks of one
burst on the data bus; CL, CWL and tRCD have the additive latency AL inside (see ``build``).

The rows are those of the JEDEC standards (JESD79-3/-4/-5, JESD209-4/-5, JESD212, JESD250, JESD235, JESD238) in the
form that DRAMsim3 (src/timing.cc) and Ramulator 2 (src/dram/impl) give them. A new standard is a :class:`Standard`
with a line in ``STANDARDS``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class Constraint(NamedTuple):
    """One row; ``preceding`` and ``following`` are names of commands separated by blanks."""

    level: str
    preceding: str
    following: str
    latency: str
    window: int = 0


BANK = (
    #          level   preceding following latency
    Constraint("bank", "ACT", "RD", "tRCDRD"),
    Constraint("bank", "ACT", "WR", "tRCDWR"),
    Constraint("bank", "ACT", "PRE", "tRAS"),
    Constraint("bank", "ACT", "ACT", "tRC"),
    Constraint("bank", "RD", "PRE", "AL + tRTP"),
    Constraint("bank", "WR", "PRE", "CWL + BL + tWR"),
    Constraint("bank", "PRE", "ACT", "tRP"),
)
"""Constraints within a bank."""

RANK = (
    Constraint("rank", "ACT", "ACT", "tRRD_S"),
    Constraint("rank", "RD", "RD", "max(BL, tCCD_S)"),
    Constraint("rank", "WR", "WR", "max(BL, tCCD_S_WR)"),
    Constraint("rank", "RD", "WR", "tRTW"),
    Constraint("rank", "WR", "RD", "CWL - AL + BL + tWTR_S"),
)
"""Constraints within a rank, whose banks share the power network, the internal bus and the data bus."""

GROUP = (
    Constraint("group", "ACT", "ACT", "tRRD_L"),
    Constraint("group", "RD", "RD", "max(BL, tCCD_L)"),
    Constraint("group", "WR", "WR", "max(BL, tCCD_L_WR)"),
    Constraint("group", "WR", "RD", "CWL - AL + BL + tWTR_L"),
)
"""Banks of one group share its internal data bus, which is slower than the pins."""

SIBLING = (
    Constraint("sibling", "RD", "RD", "BL + tRTRS"),
    Constraint("sibling", "RD", "WR", "CL + BL + tRTRS - CWL"),
    Constraint("sibling", "WR", "RD", "CWL + BL + tRTRS - CL"),
    Constraint("sibling", "WR", "WR", "BL"),
)
"""Ranks share the data bus, which changes hands with a gap of tRTRS."""

STACK = (
    Constraint("sibling", "ACT", "ACT", "tRRD_S"),
    Constraint("sibling", "RD", "RD", "tCCD_R"),
    Constraint("sibling", "WR", "WR", "max(BL, tCCD_S_WR)"),
    Constraint("sibling", "RD", "WR", "tRTW"),
    Constraint("sibling", "WR", "RD", "CWL + BL + tWTR_S"),
)
"""Stack IDs of a pseudo-channel (HBM), as ranks: reads tCCD_R apart, otherwise like banks of different groups."""

REFRESH = (Constraint("rank", "PRE", "REF", "tRP"), Constraint("rank", "REF", "ACT REF", "tRFC"))
BANK_REFRESH = (
    Constraint("bank", "PRE", "REFPB", "tRP"),
    Constraint("bank", "REFPB", "ACT REFPB", "tRFCpb"),
    Constraint("rank", "REFPB", "REF", "tRFCpb"),
    Constraint("rank", "REF", "REFPB", "tRFC"),
    Constraint("rank", "REFPB", "REFPB", "tPBR2PBR"),
    Constraint("rank", "REFPB", "ACT", "tPBR2ACT"),
    Constraint("rank", "ACT", "REFPB", "tRRD_S"),
)
"""All banks at once, and one bank at a time while the others work."""

FOUR = (Constraint("rank", "ACT", "ACT", "tFAW", 4),)
THIRTY_TWO = (Constraint("rank", "ACT", "ACT", "t32AW", 32),)
"""No more than 4, no more than 32 activations of a rank in a window."""


@dataclass(frozen=True)
class Standard:
    """One DRAM standard.

    ``bursts``: burst lengths, in transfers. ``transfers_per_clock``: of each data pin. ``split_rcd``: states tRCDRD and
    tRCDWR instead of tRCD. ``row_bus``: commands for rows have a bus of their own beside those for columns.
    ``optional``: parameters that it knows, but a file need not state.
    """

    name: str
    bursts: tuple[int, ...]
    transfers_per_clock: int
    constraints: tuple[Constraint, ...]
    split_rcd: bool = False
    row_bus: bool = False
    optional: tuple[str, ...] = ()

    @property
    def groups(self) -> bool:
        """Return whether it has bank groups."""
        return any(row.level == "group" for row in self.constraints)

    @property
    def bank_refresh(self) -> bool:
        """Return whether it can refresh one bank while the others work (REFPB)."""
        return any("REFPB" in row.preceding for row in self.constraints)

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of the standard's commands."""
        return ("ACT", "PRE", "RD", "WR", "REF", *(("REFPB",) if self.bank_refresh else ()))

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of its hierarchy that constraints speak of, the widest first."""
        used = {row.level for row in self.constraints}
        return tuple(level for level in ("sibling", "rank", "group", "bank") if level in used)

    @property
    def required(self) -> tuple[str, ...]:
        """Parameters that a file of this standard states."""
        rcd = ("tRCDRD", "tRCDWR") if self.split_rcd else ("tRCD",)
        groups = tuple(f"{name}_L" for name in _PER_GROUP) if self.groups else ()
        return (*_ALWAYS, *rcd, *groups)

    @property
    def known(self) -> tuple[str, ...]:
        """Parameters that it may state."""
        return tuple(dict.fromkeys((*self.required, *_EVERYWHERE, *self.optional)))


_PER_GROUP = ("tRRD", "tCCD", "tWTR")
_ALWAYS = ("CL", "CWL", "tRP", "tRAS", "tRRD_S", "tFAW", "tCCD_S", "tWR", "tWTR_S", "tRTP", "tREFI", "tRFC")
_EVERYWHERE = ("AL", "tRC", "tRTRS", "tRTW")
_SLOW_WRITES = ("tCCD_S_WR", "tCCD_L_WR")
_BANK_REFRESH = ("tREFIpb", "tRFCpb", "tPBR2PBR", "tPBR2ACT")

DEFAULTS: dict[str, str] = {
    "AL": "0",
    "tRCDRD": "tRCD",
    "tRCDWR": "tRCD",
    "tRC": "tRAS + tRP",
    "tRRD_L": "tRRD_S",
    "tCCD_L": "tCCD_S",
    "tWTR_L": "tWTR_S",
    "tCCD_S_WR": "tCCD_S",
    "tCCD_L_WR": "tCCD_L",
    "tRTRS": "1",
    "tRTW": "CL + BL + 2 - CWL",
    "tCCD_R": "BL + tRTRS",
    "t32AW": "0",
    "tRFCpb": "0",
    "tREFIpb": "0",
    "tPBR2PBR": "tRFCpb",
    "tPBR2ACT": "tRRD_S",
}
"""Value of a parameter that is not stated, in this order. tRTW: clocks from RD to WR of one rank, two of them idle on
the bus. 0: no such window, no refresh of single banks."""

_DDR = (*BANK, *RANK, *SIBLING, *REFRESH, *FOUR)
_LPDDR = (*_DDR, *GROUP, *BANK_REFRESH)
_GDDR = (*_LPDDR, *THIRTY_TWO)
_HBM = (*BANK, *RANK, *GROUP, *REFRESH, *BANK_REFRESH, *FOUR)
_STACK = ("tCCD_R", *_BANK_REFRESH)

STANDARDS: dict[str, Standard] = {
    each.name: each
    for each in (
        #        name     bursts   per clock
        Standard("ddr3", (8,), 2, _DDR),
        Standard("ddr4", (8,), 2, (*_DDR, *GROUP)),
        Standard("ddr5", (16,), 2, (*_DDR, *GROUP), optional=_SLOW_WRITES),
        Standard("lpddr4", (16, 32), 2, _LPDDR, optional=_BANK_REFRESH),
        Standard("lpddr5", (16, 32), 8, _LPDDR, optional=(*_SLOW_WRITES, *_BANK_REFRESH)),
        Standard("gddr5", (8,), 4, _GDDR, split_rcd=True, optional=("t32AW", *_BANK_REFRESH)),
        Standard("gddr6", (16,), 8, _GDDR, split_rcd=True, optional=("t32AW", *_BANK_REFRESH)),
        Standard("hbm1", (2, 4), 2, (*_HBM, *SIBLING), split_rcd=True, row_bus=True, optional=_BANK_REFRESH),
        Standard("hbm2", (2, 4), 2, (*_HBM, *SIBLING), split_rcd=True, row_bus=True, optional=_BANK_REFRESH),
        Standard("hbm2e", (4,), 2, (*_HBM, *STACK), split_rcd=True, row_bus=True, optional=_STACK),
        Standard("hbm3", (8,), 4, (*_HBM, *STACK), split_rcd=True, row_bus=True, optional=_STACK),
    )
}
"""Every standard by name."""


def clocks(expression: str, values: Mapping[str, int]) -> int:
    """The value of a latency expression: whole numbers, names of ``values``, + - * and max().

    Raises KeyError for a name that is not in ``values``, ValueError for anything else that does not belong.
    """
    return _value(_tree(expression), values)


def names(expression: str) -> set[str]:
    """Return the timing parameters that an expression names."""
    return {node.id for node in ast.walk(_tree(expression)) if isinstance(node, ast.Name)} - {"max"}


@lru_cache(maxsize=256)
def _tree(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"latency {expression!r} is no expression") from error


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATIONS:
            return _OPERATIONS[type(sign)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id="max"), args=[*args], keywords=[]) if args:
            return max(_value(each, values) for each in args)
    raise ValueError(f"{ast.unparse(node)!r} does not belong in a latency")
