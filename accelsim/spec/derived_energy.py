"""The rows of an energy table that no source states: of every number format, from a file of ``hwspecs/arithmetic``.

``arithmetic: arithmetic/NAME`` of an energy table stands for them. When the file is read they take its place, each
rounded to the four digits that such a figure can have at the most; a row that the table states itself stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Annotated, NamedTuple

from accelsim.errors import nearest
from accelsim.formats import table
from accelsim.spec.arithmetic import Stated, add_energy, mac_energy
from accelsim.spec.base import Model
from accelsim.spec.counts import Words
from accelsim.spec.declaring import AfterValidator, Field
from accelsim.spec.quantity import Joules
from accelsim.spec.scaling import VDD_V, nanometres, relative_energy, scale_energy
from accelsim.spec.status import UNSTATED, Status, weakest
from accelsim.spec.yaml.shape import item
from accelsim.spec.yaml.tree import BROKEN, PathTo

NEEDED = ("int8", "int32", "fp16", "fp32")
"""Formats that a source must state, additions and multiplications: the model goes through them."""
SINGLES = tuple(row.name for row in table.FORMATS.values() if row.kind in ("float", "int", "binary"))
PAIRS = (
    *("fp8_e4m3fnxfp8_e5m2", "fp8_e5m2xfp8_e4m3fn", "int8xint16", "int4xint16"),
    *("int8xuint8", "int4xint8", "int4xuint8", "int2xint8"),
)
"""Products of two formats that have a row, weights first: those that arrays are built for."""
DIGITS = 4
"""Significant digits of a derived row."""


def _of_formats(column: dict[str, float]) -> dict[str, float]:
    """Rows with names of formats, those of ``NEEDED`` among them, none of which is nothing."""
    for name, energy in column.items():
        if name not in SINGLES:
            near = nearest(name, SINGLES)
            raise ValueError(f"no arithmetic in {name!r}{f', perhaps {near}' if near else ''}")
        if not energy:
            raise ValueError(f"{name} costs nothing; expected an energy")
    missing = [name for name in NEEDED if name not in column]
    if missing:
        raise ValueError(f"no energy of {' and '.join(missing)}; expected {', '.join(NEEDED)} and perhaps more")
    return column


def _in_nm(node: str) -> str:
    """A node that ``scale_energy`` knows."""
    nm = nanometres(node)
    if nm is None:
        raise ValueError(f"{node!r} is no node; expected one such as 28 nm")
    relative_energy(nm, VDD_V)
    return node


Node = Annotated[Words, AfterValidator(_in_nm)]
Column = Annotated[dict[str, Joules], AfterValidator(_of_formats)]


class ArithmeticStatus(Model):
    """Status of each stated operation."""

    default: Status = Field("guess", description="of other operations")
    multiply: dict[str, Status] = Field({}, description="format -> status of its multiplication")
    add: dict[str, Status] = Field({}, description="format -> status of its addition")


class Arithmetic(Model):
    """A source's arithmetic at one node, from which all other formats follow
    (`accelsim/spec/arithmetic.py`)."""

    node: Node = Field(description="process, e.g. '45 nm'")
    scaled_to: Node | None = Field(None, description="process scaled to (Stillmaker and Baas); absent: not scaled")
    multiply: Column = Field(description=f"format -> one multiplication; {', '.join(NEEDED)} and perhaps more")
    add: Column = Field(description="format -> one addition; the same")
    status: ArithmeticStatus = Field(
        ArithmeticStatus.model_construct(default="guess"), description="how far to trust each; absent: guesses"
    )

    @property
    def stated(self) -> Stated:
        """Return the columns ``mac`` and ``vector``, J, at the node of the source."""
        return Stated(self.multiply, self.add)

    @property
    def factor(self) -> float:
        """Energy at ``scaled_to`` over that at ``node``."""
        here, there = nanometres(self.node), nanometres(self.scaled_to or self.node)
        assert here is not None and there is not None
        return scale_energy(1.0, here, VDD_V, there, VDD_V)


class DerivedEnergy(NamedTuple):
    """One derived figure, J."""

    energy_J: float
    status: Status


class _Seen(dict[str, float]):
    """A column that notes which of its rows were used."""

    def __init__(self, rows: Mapping[str, float]) -> None:
        super().__init__(rows)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.used.add(name)
        return super().__getitem__(name)


def rows(source: Arithmetic) -> dict[str, dict[str, DerivedEnergy]]:
    """'mac' and 'vector' -> format -> its row. A status is that of the row, or the weakest of what it was made of."""
    columns: dict[str, tuple[Callable[[str, Stated], float], tuple[str, ...]]] = {
        "mac": (mac_energy, (*SINGLES, *PAIRS)),
        "vector": (add_energy, SINGLES),
    }
    return {column: {name: _row(source, model, name) for name in names} for column, (model, names) in columns.items()}


def _row(source: Arithmetic, model: Callable[[str, Stated], float], name: str) -> DerivedEnergy:
    multiply, add = _Seen(source.multiply), _Seen(source.add)
    energy_J = model(name, Stated(multiply, add)) * source.factor
    known = source.status
    used = [known.multiply.get(each, known.default) for each in multiply.used]
    used += [known.add.get(each, known.default) for each in add.used]
    as_stated = len(used) == 1 and name in add.used and source.scaled_to is None
    return DerivedEnergy(energy_J, used[0] if as_stated else weakest(*used))


def followed(block: Mapping[str, object], stated: Callable[[PathTo], bool]) -> dict[str, object]:
    """The block of an energy table with rows in the place of ``arithmetic``; as it is where that has an error.

    ``stated``: whether a file says what is at a path of the block, so that it stays.
    """
    from pydantic import ValidationError

    try:
        derived = rows(Arithmetic.model_validate(block["arithmetic"]))
    except ValidationError:
        return dict.fromkeys(("mac", "vector"), BROKEN) | dict(block)  # validation tells what is wrong, and where
    status = block.get("status") or {}
    made = {key: value for key, value in block.items() if key != "arithmetic"}
    for column, found in derived.items():
        own = _kept(block, (column,), stated)
        made[column] = {name: _pJ(row.energy_J) for name, row in found.items()} | own
        if isinstance(status, dict):
            usual = status.get("default", UNSTATED)
            words = {name: row.status for name, row in found.items() if row.status != usual and name not in own}
            status = status | {column: words | _kept(block, ("status", column), stated)}
    return made | {"status": status}


def _pJ(energy_J: float) -> str:
    """An energy with ``DIGITS``, as a file states it. What conversion to J and back has lost does not decide a tie."""
    return f"{float(f'{energy_J * 1e12:.12g}'):.{DIGITS}g} pJ"


def _kept(block: Mapping[str, object], path: PathTo, stated: Callable[[PathTo], bool]) -> dict[str, object]:
    """Entries of the table at ``path`` that a file states."""
    inner = reduce(item, path, block)
    entries = inner.items() if isinstance(inner, dict) else ()
    return {name: value for name, value in entries if stated((*path, name))}
