"""Published energies of single actions, as data: for comparison and plots, never for a simulation."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from accelsim.errors import Problem, SpecError, nearest
from accelsim.spec.base import Model
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Joules
from accelsim.spec.status import Status
from accelsim.spec.yaml.marks import BROKEN, Tree, read
from accelsim.spec.yaml.validate import validate

FILE = Path(__file__).with_name("published_energy.yaml")

Per = Literal["operation", "bit", "32 bits", "64 bits", "256 bits", "bit and mm"]
BITS: dict[Per, int] = {"bit": 1, "32 bits": 32, "64 bits": 64, "256 bits": 256, "bit and mm": 1}
"""What an energy is stated for -> bits moved; an operation moves none."""


class PublishedRow(Model):
    """One figure of one source."""

    component: Literal["arithmetic", "register", "SRAM", "DRAM", "wire", "link"] = Field(
        description="what sort of thing"
    )
    what: str = Field(description="operation, capacity, kind of memory or link")
    node: str = Field("", description="process, where the source states one")
    energy: Joules = Field(description="the figure, or the lower end of a range")
    high: Joules | None = Field(None, description="the upper end of a range")
    per: Per = Field(description="what the energy is stated for")
    status: Status = Field(description="how it is known")
    origin: str = Field(description="key of the source")

    @property
    def range_J(self) -> tuple[float, float]:
        """(lowest, highest) energy per operation or per bit, J."""
        bits = BITS.get(self.per, 1)
        return self.energy / bits, (self.energy if self.high is None else self.high) / bits


class PublishedTable(Model):
    """All figures, with the sources that they name."""

    sources: dict[str, str] = Field(description="key -> document")
    rows: list[PublishedRow] = Field(min_length=1, description="the figures")


def load_published(file: Path = FILE) -> PublishedTable:
    """The table of a file; SpecError with all problems at once, each with its line: wrong units, unknown sources."""
    tree = read(file, PublishedTable)
    if tree.value == BROKEN:
        raise SpecError(tree.problems)
    table, problems, complete = validate(tree, PublishedTable)
    problems = [*tree.problems, *problems, *(_contradictions(tree, table) if complete else ())]
    if problems:
        raise SpecError(problems)
    return table


def _contradictions(tree: Tree, table: PublishedTable) -> list[Problem]:
    found = []
    for index, row in enumerate(table.rows):
        if row.origin not in table.sources:
            place = str(tree.at(("rows", index, "origin")))
            near = nearest(row.origin, table.sources)
            found.append(Problem(f"no source {row.origin!r}", place, ", ".join(table.sources), near))
        if row.high is not None and row.high < row.energy:
            place = str(tree.at(("rows", index, "high")))
            found.append(Problem("the upper end of the range is below the lower one", place))
    used = {row.origin for row in table.rows}
    found += [
        Problem(f"no row names source {key!r}", str(tree.at(("sources", key), key=True)))
        for key in table.sources
        if key not in used
    ]
    return found


@cache
def published() -> PublishedTable:
    """The table that ships with the package."""
    return load_published()
