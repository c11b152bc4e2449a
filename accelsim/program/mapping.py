"""A mapping: what an engine type chose of one product. Of a systolic array: how the product is cut into tiles, in which
order they run, and what stays on the chip."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from accelsim.errors import Problem, nearest

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip

Pins = Table[str, int | str]
"""Fields of a mapping that a user pinned: whole numbers, flags and words."""
MOST = 2**31
"""No tile is larger: nor is any dimension of a tensor."""

Order = Literal["nmk", "mnk", "nkm", "mkn"]
ORDERS: tuple[Order, ...] = ("nmk", "mnk", "nkm", "mkn")
Split = Literal["none", "m", "n", "k"]
SPLITS: tuple[Split, ...] = ("none", "m", "n", "k")
Share = Literal["none", "g", "m", "n", "k"]
SHARES: tuple[Share, ...] = ("none", "g", "m", "n", "k")
Pin = int | str
"""Value of a field of a mapping: a whole number, a flag or a word."""


@dataclass(frozen=True)
class ProductMapping:
    """Mapping of one product, chosen by an engine type. Subclasses are frozen dataclasses whose fields are
    whole numbers, flags and words; mapping files hold them, and what a user pins of them the choice
    keeps."""

    words: ClassVar[Table[str, tuple[str, ...]]] = {}
    """Field -> the words that it may be."""
    may_be_0: ClassVar[frozenset[str]] = frozenset()
    """Whole numbers that may be 0; all others are positive."""

    @classmethod
    def types(cls) -> dict[str, type[str] | type[bool] | type[int]]:
        """Field -> its type."""
        plain: dict[object, type[bool] | type[int]] = {"int": int, "bool": bool}
        return {field.name: plain.get(field.type, str) for field in fields(cls)}

    @property
    def depth(self) -> int | None:
        """K of a tile, None for all of it."""
        return None

    def written(self, chip: Chip) -> dict[str, Pin]:
        """Return the fields, without those that this chip leaves no choice in."""
        return asdict(self)


def wrong_pins(kind: type[ProductMapping], pinned: Table[str, object], where: str) -> list[Problem]:
    """Return the problems of the mapping fields that a user pinned for a product."""
    types, problems = kind.types(), list[Problem]()
    for name, value in pinned.items():
        if name not in types:
            what = f"unknown field {name!r}"
            problems.append(Problem(what, where, ", ".join(types), nearest(name, types)))
        elif not _may_be(kind, name, value):
            problems.append(Problem(f"{name} is {value!r}", where, expected(kind, name)))
    return problems


def _may_be(kind: type[ProductMapping], name: str, value: object) -> bool:
    if name in kind.words:
        return value in kind.words[name]
    if kind.types()[name] is bool:
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and least(kind, name) <= value <= MOST


def least(kind: type[ProductMapping], name: str) -> int:
    """Smallest value of a field that is a whole number."""
    return 0 if name in kind.may_be_0 else 1


def expected(kind: type[ProductMapping], name: str) -> str:
    """Describe the values that a field may have, in words."""
    number = f"a whole number from {least(kind, name)} to {MOST:,}"
    return {str: ", ".join(kind.words.get(name, ())), bool: "true or false", int: number}[kind.types()[name]]


@dataclass(frozen=True)
class Mapping(ProductMapping):
    """Tile sizes and loop order of one GEMM (see ``workload.ops.base.Gemm``), outermost loop first; groups outside all.

    ``tm``, ``tn``, ``tk``: tile extents (the last tile of each dimension is smaller). ``tg``: groups per tile; above 1
    only when a tile holds whole groups (tn = N, tk = K).
    ``tq``: of a convolution, columns of the output in a tile, a block of tm / tq x tq pixels: M goes through the image
    in vertical strips of so many columns, one after the other (the last one narrower). 0: through whole rows.
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
    tq: int = 0

    words: ClassVar[Table[str, tuple[str, ...]]] = {"order": ORDERS, "split": SPLITS, "share": SHARES}
    may_be_0: ClassVar[frozenset[str]] = frozenset({"tq"})

    @property
    def depth(self) -> int:
        """K of a tile."""
        return self.tk

    def written(self, chip: Chip) -> dict[str, Pin]:
        """The fields, without what a chip with one array or one core has no choice of, or whole rows do not need."""
        found = asdict(self)
        if chip.core_count == 1:
            del found["share"]
        if chip.matrix is None or chip.matrix.count == 1:
            del found["split"]
        if not self.tq:
            del found["tq"]
        return found
