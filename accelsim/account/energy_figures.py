"""Energy per action of everything that specs and publications state: one list of figures, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

from accelsim.errors import Problem, SpecError, UsageError, nearest
from accelsim.spec.base import Model
from accelsim.spec.declaring import Field
from accelsim.spec.dram import Dram
from accelsim.spec.energy import EnergyTable
from accelsim.spec.node_scaling import LOGIC, scale_table
from accelsim.spec.quantity import Joules
from accelsim.spec.scaling import nanometres
from accelsim.spec.status import DOUBTFUL, UNSTATED, Status
from accelsim.spec.yaml import where
from accelsim.spec.yaml.marks import read
from accelsim.spec.yaml.parts import load_energy, load_link, load_memory, load_part
from accelsim.spec.yaml.tree import BROKEN, Tree
from accelsim.spec.yaml.validate import validate
from accelsim.units import parse, show

WORD_BITS = 32
ALIKE = 1.3
"""Nodes that differ by less are compared with each other."""
BASE = "horowitz-45nm"
"""The table that other nodes are scaled from."""


class Figure(NamedTuple):
    """One energy. ``low_J``..``high_J``: per operation, or per bit (of a wire: per bit and mm).

    ``component``: arithmetic, register, network, SRAM, DRAM, wire or link; ``origin``: the spec file or the source.
    """

    component: str
    what: str
    node: str
    low_J: float
    high_J: float
    per: str
    status: Status
    origin: str
    source: str

    @property
    def word_J(self) -> tuple[float, float] | None:
        """(lowest, highest) energy per word of 32 bits, J; None of an operation."""
        return None if self.per == "operation" else (self.low_J * WORD_BITS, self.high_J * WORD_BITS)

    @property
    def is_verified(self) -> bool:
        """Return whether it is verified, measured, or derived from such."""
        return self.status not in DOUBTFUL

    def as_dict(self) -> dict[str, object]:
        """Return the figures for JSON and CSV; units at the end of the keys."""
        word = self.word_J
        return {
            "component": self.component, "what": self.what, "node": self.node, "per": self.per,
            "low_J": self.low_J, "high_J": self.high_J,
            "low_J_per_32_bits": word[0] if word else None, "high_J_per_32_bits": word[1] if word else None,
            "status": self.status, "origin": self.origin, "source": self.source,
        }  # fmt: skip


def figures(node_nm: float | None = None) -> list[Figure]:
    """All figures of the spec files and the published ones.

    With ``node_nm`` those of that node, arithmetic and SRAM being scaled there from ``BASE`` in every way there
    is, and what has no node (memories, links). Raises UsageError for a node that nothing covers.
    """
    found = [*_by_size(table_figures()), *memory_figures(), *dram_figures(), *link_figures(), *published_figures()]
    if node_nm is None:
        return found
    here = [figure for figure in found if nanometres(figure.node) in (None, node_nm)]
    return [*_by_size(scaled(node_nm)), *here]


def _by_size(found: Iterable[Figure]) -> list[Figure]:
    """SRAM of all tables by capacity, the rest as it comes."""
    rows = list(found)
    sram = [row for row in rows if row.component == "SRAM"]
    sizes = {row.what: parse(row.what.split(",")[0], "B") for row in sram}
    rest = [row for row in rows if row.component != "SRAM"]
    return rest + sorted(sram, key=lambda row: (sizes[row.what], row.what))


def table_figures() -> Iterator[Figure]:
    """Every energy table of a process node; relative tables (node without nm) are no energies."""
    for name in where.names("energy"):
        table = load_energy(name)
        if nanometres(table.node) is not None:
            yield from entries_of(table, f"energy/{name}")


def scaled(node_nm: float) -> Iterator[Figure]:
    """``BASE`` at another node, by each rule of ``LOGIC`` that covers it; UsageError when none does."""
    base = load_energy(BASE)
    from_nm = nanometres(base.node)
    assert from_nm is not None
    covering = [name for name, rule in LOGIC.items() if rule.low_nm <= node_nm <= rule.high_nm]
    if not covering:
        low, high = min(r.low_nm for r in LOGIC.values()), max(r.high_nm for r in LOGIC.values())
        raise UsageError(f"no scaling to {node_nm:g} nm", "--node", f"{low:g} to {high:g}")
    for name in covering if node_nm != from_nm else ():
        yield from entries_of(scale_table(base, from_nm, node_nm, logic=name), f"{BASE} scaled: {name}")


def entries_of(table: EnergyTable, origin: str) -> Iterator[Figure]:
    """Yield the figures of one energy table."""
    source = table.source or ""

    def row(component: str, what: str, energy_J: float, per: str, status: Status) -> Figure:
        return Figure(component, what, table.node, energy_J, energy_J, per, status, origin, source)

    for name, energy in table.mac.items():
        yield row("arithmetic", f"{name} multiply-accumulate", energy, "operation", table.status_of("mac", name))
    for name, energy in table.vector.items():
        yield row("arithmetic", f"{name} add", energy, "operation", table.status_of("vector", name))
    yield row("register", "register of a PE", table.register / 8, "bit", table.status_of("register"))
    if table.network is not None:
        yield row("network", "PE to PE", table.network / 8, "bit", table.status_of("network"))
    for point in table.sram:
        size = show(point.capacity, "B", binary=True)
        for way, energy in (("", point.read), (", write", point.write)):
            yield row("SRAM", size + way, energy / 8, "bit", table.status_of("sram"))


def memory_figures() -> Iterator[Figure]:
    """Memories as simulations use them: dies, activation included, without standby."""
    for name in where.names("memories"):
        memory = load_memory(name)
        for way, energy in (("", memory.read_energy), (", write", memory.write_energy)):
            if energy is None:  # an SRAM whose energies are a matter of the chip
                continue
            yield Figure(
                "DRAM", memory.kind.upper() + way, "", energy / 8, energy / 8, "bit",
                memory.energy_status or UNSTATED, f"memories/{name}", memory.source or "",
            )  # fmt: skip


def link_figures() -> Iterator[Figure]:
    """Yield the energy of each link, both ends together."""
    for name in where.names("links"):
        link = load_link(name)
        yield Figure(
            "link", name, "", link.energy / 8, link.energy / 8, "bit", link.energy_status or UNSTATED,
            f"links/{name}", link.source or "",
        )  # fmt: skip


def dram_figures() -> Iterator[Figure]:
    """DRAMs with banks: a whole row activated once and read; none where no such spec ships."""
    names = list(where.names("dram"))
    if not names:
        return
    from accelsim.spec.dram_device import device as built

    for name in names:
        spec = load_part(name, "dram", Dram)
        device = built(spec, name)
        if device.energy is None:
            continue
        bits, row_bits = 8 * device.geometry.access_B, 8 * device.geometry.row_B
        for way, burst_J in (("", device.energy.read_J), (", write", device.energy.write_J)):
            energy = burst_J / bits + device.energy.act_J / row_bits
            status = spec.energy_status or UNSTATED
            what = str(spec.standard).upper() + way
            yield Figure("DRAM", what, "", energy, energy, "bit", status, f"dram/{name}", spec.source or "")


def published_figures() -> Iterator[Figure]:
    """Yield the rows of published_energy.yaml as figures."""
    table = published()
    for row in table.rows:
        low, high = row.range_J
        per = row.per if row.per in ("operation", "bit and mm") else "bit"
        source = table.sources[row.origin]
        yield Figure(row.component, row.what, row.node, low, high, per, row.status, row.origin, source)


class Spread(NamedTuple):
    """Spread of the sources of one figure: the lowest and the highest, and the factor between them."""

    what: str
    low: Figure
    high: Figure
    factor: float


def spread(found: Iterable[Figure]) -> list[Spread]:
    """Things that several sources state, at nodes that are alike, the widest disagreement first."""
    groups: dict[tuple[str, str], list[list[Figure]]] = {}
    for figure in sorted(found, key=lambda each: (nanometres(each.node) or -inf, each.low_J)):
        alike = groups.setdefault((figure.component, figure.what.casefold()), [])
        if not alike or not _alike(alike[-1][0], figure):
            alike.append([])
        alike[-1].append(figure)
    rows = []
    for alike in groups.values():
        for group in alike:
            low, high = min(group, key=lambda each: each.low_J), max(group, key=lambda each: each.high_J)
            if len({each.origin for each in group}) > 1 and low.low_J > 0:
                rows.append(Spread(low.what, low, high, high.high_J / low.low_J))
    return sorted(rows, key=lambda row: -row.factor)


def _alike(one: Figure, other: Figure) -> bool:
    a, b = nanometres(one.node), nanometres(other.node)
    return a == b if a is None or b is None else max(a, b) / min(a, b) < ALIKE


FILE = Path(__file__).with_name("published_energy.yaml")

Per = Literal["operation", "bit", "32 bits", "64 bits", "256 bits", "bit and mm"]
BITS: dict[Per, int] = {"bit": 1, "32 bits": 32, "64 bits": 64, "256 bits": 256, "bit and mm": 1}
"""Bits moved by what an energy is stated for; an operation moves none."""


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
    SpecError.raise_for(problems)
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
    """Return the published table that ships with the package."""
    return load_published()
