"""Answers about spec files: what is wrong with them; the memories of a chip as a tree, each below what fills it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from accelsim.errors import Problem, SpecError
from accelsim.report.answer import Answer, Lines
from accelsim.report.text import percent
from accelsim.spec.chip import Chip
from accelsim.spec.levels import feeders
from accelsim.spec.memory import Attachment, Buffer
from accelsim.spec.resources import taken
from accelsim.spec.yaml import load
from accelsim.spec.yaml.instances import unknown_chips
from accelsim.units import show


def checked(files: Sequence[str]) -> Answer:
    """Check spec files (names of chips or clusters, or paths); the answer fails with all that is wrong."""
    problems: dict[str, list[Problem]] = {}
    for file in files:
        try:
            problems[file] = load.check(file)
            if load.kind_of(load.file_of(file)) == "instances":
                problems[file] = load.sorted_problems([*problems[file], *unknown_chips(file)])
        except SpecError as error:
            problems[file] = list(error.problems)
    kinds = {file: None if found else load.kind_of(load.file_of(file)) for file, found in problems.items()}
    facts = [{"file": file, "kind": kinds[file], "problems": list(map(str, problems[file]))} for file in files]
    shown = [Lines(f"{file}: nothing wrong ({kinds[file]})") for file in files if kinds[file]]
    wrong = [problem for file in files for problem in problems[file]]
    return Answer(facts, shown, fails=SpecError(wrong) if wrong else False)


def tree(chip: Chip) -> Answer:
    """Show the cores of a chip and its memories as a tree."""
    return Answer(facts(chip), [Lines(text(chip))])


class Leaf(NamedTuple):
    """A memory of the tree: its name (of a core's behind its kind), how many there are, its spec, what fills it."""

    name: str
    copies: int
    spec: Buffer | Attachment
    fed_by: list[str]

    @property
    def capacity_B(self) -> int:
        """Capacity of one copy, bytes."""
        return int((self.spec if isinstance(self.spec, Buffer) else self.spec.memory).capacity)

    def cells(self) -> tuple[str, str, str]:
        """Return three texts: capacity, rates in and out, contents."""
        spec, size = self.spec, show(self.capacity_B, "B", 3, binary=True)
        if isinstance(spec, Attachment):
            return size, show(spec.rate_Bps, "B/s", 3), "cache" if spec.cache else ", ".join(spec.holds)
        out, into = (show(width, "B", 3, binary=True) for width in (spec.read_width, spec.write_width))
        rate = f"{out} out, {into} in a clock"
        each = f" ({self.copies} of it)" if self.copies > 1 else ""
        return size + each, rate, ", ".join(spec.holds)


def memories(chip: Chip) -> list[Leaf]:
    """Return all memories of a chip, those that its cores share first."""
    shared = [Leaf(name, 1, each, feeders(chip, name)) for name, each in chip.memories.items()]
    local = [
        Leaf(f"{view.core_kind}.{name}", view.core.count, each, feeders(view, name))
        for view in chip.views()
        for name, each in view.buffers.items()
    ]
    return shared + local


def engines(chip: Chip) -> list[str]:
    """Return a line for each kind of core: how many, with which engines."""
    told = {
        kind: ", ".join(f"{name} ({unit.type})" for name, unit in core.engines.items())
        for kind, core in chip.cores.items()
    }
    return [f"{kind}, {chip.cores[kind].count} of it: {names or 'no engines'}" for kind, names in told.items()]


def rows(chip: Chip) -> list[tuple[str, ...]]:
    """A row for each memory below what fills it: its name behind branches, and its cells. A memory that is filled from
    two stands below both; those of the cores that nothing fills come last."""
    every = memories(chip)
    roots = [leaf for leaf in every if not leaf.fed_by]
    return [row for root in roots for row in _below(root, every, "", "")]


def _below(leaf: Leaf, every: list[Leaf], branch: str, indent: str) -> Iterator[tuple[str, ...]]:
    yield (branch + leaf.name, *leaf.cells())
    inner = [each for each in every if leaf.name in each.fed_by]
    for number, each in enumerate(inner, 1):
        last = number == len(inner)
        yield from _below(each, every, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "))


def text(chip: Chip) -> str:
    """Return the lines of the cores, then the tree."""
    table = rows(chip)
    widths = [max((len(row[column]) for row in table), default=0) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in table]
    return "\n".join([*engines(chip), *lines, *resources(chip)])


def resources(chip: Chip) -> list[str]:
    """Return a line for each kind of block of an FPGA: how many the design uses, and for what."""
    return [
        f"{row['name']}: {row['used']:,} of {row['blocks']:,} blocks ({percent(row['used'] / row['blocks'])}): "
        f"{', '.join(row['parts'])}"
        for row in blocks(chip)
    ]


def blocks(chip: Chip) -> list[dict[str, Any]]:
    """Return a record for each kind of block that the design on an FPGA uses: how many there are, how many are used."""
    return [
        {"name": kind, "blocks": there, "used": used, "parts": [use.part for use in by]}
        for kind, there, used, by in taken(chip)
    ]


def facts(chip: Chip) -> list[dict[str, object]]:
    """Records of the memory tree: one per memory, with its capacity, contents and source."""
    return [
        {
            "name": leaf.name,
            "count": leaf.copies,
            "capacity_B": leaf.capacity_B,
            "holds": list(leaf.spec.holds),
            "fed_by": leaf.fed_by,
        }
        for leaf in memories(chip)
    ] + blocks(chip)
