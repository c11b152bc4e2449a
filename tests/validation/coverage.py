"""Check ``coverage``: of each kind of interval that is printed, how many of the things that it is made for it holds.

A row is a kind of interval. **As shipped**: things without part in any constant or factor. **By parts** (whole things):
each fifth of all rows within the factor of the others. **Left out**: a lab, a family of models or a device by what the
others tell, the mean over all that are left out. Of kernels in the lab of their chip only the first exists: another lab,
or a device without a fit, has the interval that is made for it, which is a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.fit.validation import LEVEL
from accelsim.kernels.whole import uncalibrated
from accelsim.seeds import generator
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats
from tests.validation import collectives_served, gpu, gpu_labs, gpu_serving
from tests.validation.base import Check, check
from tests.validation.measured import ABSENT, folder
from tests.validation.serving_fit import set_of
from tests.validation.serving_rows import SYSTEMS, rows, tables
from tests.validation.serving_rows import Row as Served
from tests.validation.shipped import selected, split
from tests.validation.shipped_whole import by_key, every, factors, held
from tests.validation.whole_rows import Row

LEAST, MOST, OUT = 0.85, 0.95, 0.8
"""Share of the things that an interval is to hold, and at least of those that are left out."""
SPREADS = 2.0
"""Standard deviations of a share of so many rows by which a small set may be outside of these."""
FIFTHS = 5
LEFT = ("lab", "family", "device")
"""Parts that are left out in turn."""
UNCLAIMED: dict[str, str] = {}
"""Kind of interval of which nothing is claimed -> why."""


class Kind(NamedTuple):
    """A kind of interval: its things, the share that it holds of those without part in it, by parts, and with each thing
    of ``LEFT`` left out (None: there is nothing to leave out). ``unseen``: things without part in it, 0: all."""

    name: str
    rows: int
    shipped: float | None
    parts: float | None = None
    left: tuple[float | None, float | None, float | None] = (None, None, None)
    unseen: int = 0

    @property
    def agrees(self) -> bool:
        """Return whether it holds what it is made for."""
        near = [
            LEAST - _spread(many) <= share <= MOST + _spread(many)
            for share, many in ((self.shipped, self.unseen or self.rows), (self.parts, self.rows))
            if share is not None
        ]
        return all(near) and all(share is None or share >= OUT - _spread(self.rows) for share in self.left)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        shares = (self.shipped, self.parts, *self.left)
        return (self.name, f"{self.rows:,}", *("-" if each is None else f"{each:.0%}" for each in shares))


def _spread(many: int) -> float:
    """Return how far off a share of so many rows may be by chance."""
    return SPREADS * float(np.sqrt(LEVEL * (1 - LEVEL) / max(1, many)))


def wholes(found: Sequence[Row]) -> Iterator[Kind]:
    """Kinds of intervals of whole things."""
    for key, own in by_key(found).items():
        unseen = [row for row in own if row.unseen]
        whole = factors([row for row in own if not row.unseen])
        shipped = float(held(unseen, whole).mean()) if unseen else None
        lab, model, device = (_left_out(own, each) for each in LEFT)
        yield Kind(key, len(own), shipped, _by_parts(own), (lab, model, device), len(unseen))


def _by_parts(own: Sequence[Row]) -> float | None:
    if len(own) < FIFTHS:
        return None
    part, inside = generator(0).permutation(len(own)) % FIFTHS, list[Floats]()
    for number in range(FIFTHS):
        out, rest = (
            [row for row, p in zip(own, part, strict=True) if bool(p == number) is mine] for mine in (True, False)
        )
        inside.append(held(out, factors(rest)))
    return float(np.concatenate(inside).mean())


def _left_out(own: Sequence[Row], what: str) -> float | None:
    """The mean share of the rows of each lab, family or device by the factor of all others; None for a single one."""
    names, shares = sorted({getattr(row, what) for row in own}), []
    if len(names) < 2:
        return None
    for name in names:
        out, rest = ([row for row in own if (getattr(row, what) == name) is mine] for mine in (True, False))
        shares.append(float(held(out, factors(rest)).mean()))
    return float(np.mean(shares))


def kernels(data: Path) -> Iterator[Kind]:
    """Kinds of intervals of single kernels: in the lab of the chip, in any lab, without calibration."""
    for kind, sets in (("product", gpu.GEMM), ("function", gpu.VECTOR), ("convolution", gpu.CONV)):
        own, plain = [], []
        for each in sets:
            every_row = selected(data, load_chip(each.chip), each.source)
            own.append(gpu.shipped(split(every_row)[1], gpu.in_its_lab(each)).inside)
            plain.append(gpu.shipped(every_row, gpu.in_its_lab(each, plain=True)).inside)
        yield Kind(f"{kind}: this lab", sum(map(len, own)), _mean(own))
        yield Kind(f"{kind}: uncalibrated", sum(map(len, plain)), None, None, (None, None, _mean(plain)))


def _mean(inside: Sequence[Floats]) -> float:
    """The mean over sets, each weighing alike."""
    return float(np.mean([float(np.mean(each)) for each in inside]))


def labs(data: Path) -> Iterator[Kind]:
    """Kinds of intervals of kernels in any lab."""
    for each in gpu_labs.spreads(data):
        yield Kind(f"{each.kind}: any lab", each.rows, each.held, None, (each.out, None, None))


def served(data: Path) -> Iterator[Kind]:
    """Kinds of intervals of kernels of serving stacks."""
    found = tables()
    if found is None:
        return
    inside: dict[str, list[Floats]] = {}
    plain: dict[str, list[Floats]] = {}
    for chip in SYSTEMS.values():
        unseen = [each for each in rows(found) if each.chip == chip and not each.seen]
        held_here = gpu_serving.predicted(chip, unseen).inside
        for kind in dict.fromkeys(each.kind for each in unseen):
            mine = [index for index, each in enumerate(unseen) if each.kind == kind]
            inside.setdefault(kind, []).append(held_here[mine])
            plain.setdefault(kind, []).append(_by_others(chip, kind, [unseen[index] for index in mine]))
    for kind, own in inside.items():
        yield Kind(f"{kind}: this lab", sum(map(len, own)), _mean(own))
        yield Kind(f"{kind}: uncalibrated", sum(map(len, own)), None, None, (None, None, _mean(plain[kind])))


def _by_others(chip: str, kind: str, found: Sequence[Served]) -> Floats:
    """Return 1 for each row within the interval of a GPU that nobody measured, by the other families."""
    shares = []
    for key in dict.fromkeys(each.key for each in found):
        own = set_of(load_chip(chip), kind, [row for row in found if row.key == key])
        seconds = own.seconds(gpu_serving.without(chip, kind), np.arange(len(own.measured)))
        shares.append(np.abs(np.log(seconds / own.measured)) <= np.log(uncalibrated(kind)))
    return np.concatenate(shares).astype(float)


def collectives(data: Path) -> Iterator[Kind]:
    """Kinds of intervals of collectives: libraries as they are called."""

    for case in collectives_served.CASES:
        outcomes = [collectives_served.outcome(machine, case, data) for machine in collectives_served.MACHINES]
        many = sum(len(each.inside) for each in outcomes)
        out = _mean([each.inside_other for each in outcomes])
        yield Kind(
            f"collective: {case.title}", many, _mean([each.inside for each in outcomes]), None, (None, None, out)
        )


SOURCES: tuple[Callable[[Path], Iterator[Kind]], ...] = (
    lambda data: wholes(every(data)), kernels, labs, served, collectives,
)  # fmt: skip
"""Kinds of intervals."""
HEADERS = ("kind of interval", "rows", "as shipped", "by parts", *(f"{each} left out" for each in LEFT))


def table(found: Sequence[Kind]) -> list[str]:
    """Return the lines of a table."""
    lines = (HEADERS, ("---", *("---:" for _ in HEADERS[1:])), *(each.cells for each in found))
    return ["| " + " | ".join(cells) + " |" for cells in lines]


@check("coverage")
def coverage() -> Check:
    """The table of all kinds of intervals."""
    what, data = "kinds of 90 % intervals against the things that they are made for", folder()
    if data is None:
        return Check("coverage", what, 0, 0, np.zeros(0), [ABSENT])
    found = [kind for source in SOURCES for kind in source(data)]
    claimed = [each for each in found if each.name not in UNCLAIMED]
    told = [f"{name}: nothing claimed, {why}" for name, why in UNCLAIMED.items()]
    return Check(
        "coverage", what, len(claimed), sum(each.agrees for each in claimed), np.zeros(0), [*table(found), *told],
        "85 to 95 %, left out 80 %", len(found) - len(claimed),
    )  # fmt: skip
