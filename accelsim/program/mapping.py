"""A mapping: how one matrix op is cut into tiles, in which order they run, and what stays on the chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Order = Literal["nmk", "mnk", "nkm", "mkn"]
ORDERS: tuple[Order, ...] = ("nmk", "mnk", "nkm", "mkn")
Split = Literal["none", "m", "n", "k"]
SPLITS: tuple[Split, ...] = ("none", "m", "n", "k")
Share = Literal["none", "g", "m", "n", "k"]
SHARES: tuple[Share, ...] = ("none", "g", "m", "n", "k")


@dataclass(frozen=True)
class Mapping:
    """Tile sizes and loop order of one GEMM (see ``workload.ops.base.Gemm``), outermost loop first; groups outside all.

    ``tm``, ``tn``, ``tk``: tile extents (the last tile of each dimension is smaller). ``tg``: groups per tile; above 1
    only when a tile holds whole groups (tn = N, tk = K).
    ``reuse``: a load is left out when its tile is that of the command just before.
    ``a_resident``: the whole activation operand lies in its buffer before the op starts; otherwise it is streamed from
    its memory tile by tile. ``y_resident``: the result stays in an activation buffer; otherwise tiles go out.
    ``b_resident``: the same for a stationary operand that is an activation; weights always come tile by tile.
    ``a_slots``, ``w_slots``, ``y_slots``: tiles in flight of streamed activations, weights, partial sums.
    ``a_whole_k``: a streamed activation tile holds all of K (its key is m alone).
    In 'nkm' and 'mkn' the open sums of the whole inner loop stay in the accumulators, so the inner tile count is at
    most ``y_slots`` (or there is one k tile).
    ``split``: the axis whose tiles several arrays side by side take in turn, inside all loops: 'm' rows, 'n' columns,
    'k' the reduction (each array has sums of its own, which are added on their way out); 'none': one array does all.
    ``a_slots`` and ``w_slots`` then count per array where the arrays have tiles of their own.
    ``share``: the axis that several cores share, each with one contiguous part that it cuts into tiles as above: 'g'
    groups, 'm' rows, 'n' columns, 'k' the reduction (what they have of a sum is added by the first); 'none': one core
    does all.
    """

    order: Order
    tm: int
    tn: int
    tk: int
    tg: int = 1
    reuse: bool = True
    a_resident: bool = True
    b_resident: bool = True
    y_resident: bool = True
    a_whole_k: bool = False
    a_slots: int = 2
    w_slots: int = 2
    y_slots: int = 2
    split: Split = "none"
    share: Share = "none"
