"""A run that can be asked: seconds, joules, layers, tables, a report. What ``accelsim.run`` and ``simulate`` return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.account import latency
from accelsim.account.energy import energy_table, total_J
from accelsim.account.latency import Layer
from accelsim.account.what_if import with_energy
from accelsim.explore.what_ifs import WhatIf, what_ifs
from accelsim.machine.check import check
from accelsim.machine.critical_path import critical_path
from accelsim.machine.lifetimes import occupancy
from accelsim.machine.memory_models import DEFAULT
from accelsim.machine.run import Run, Segment
from accelsim.machine.simulate import simulate as simulate_program
from accelsim.program.program import Program
from accelsim.report.page.tables import Cell, table_html
from accelsim.report.table import layer_names
from accelsim.report.text import percent, seconds, si
from accelsim.request import Request
from accelsim.request.calling import takes
from accelsim.request.job import execute, prepare
from accelsim.request.option import option
from accelsim.spec.energy import EnergyTable
from accelsim.spec.memory import Memory
from accelsim.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 10
"""Layers in the table of a notebook: those that add most time."""


class Result(Run):
    """A run with answers. Times in s, energies in J; everything is computed from the records of the run."""

    def __repr__(self) -> str:
        """One line: what ran, where, how long it took, what it cost."""
        return f"Result({self._in_one_line()})"

    def _in_one_line(self) -> str:
        graph, chip = self.program.graph.name, self.chip.name
        return f"{graph} on {chip}, {self.program.dtype}: {si(self.latency_s, 's')}, {si(self.energy_J, 'J')}"

    @property
    def latency_s(self) -> float:
        """Latency of the run, s."""
        return self.seconds

    @property
    def energy_J(self) -> float:
        """Energy of the run, static power included, J."""
        return total_J(energy_table(self))

    @property
    def occupancy(self) -> dict[str, list[tuple[int, int]]]:
        """Per buffer, (time fs, bytes in use) at each change."""
        return occupancy(self)

    @property
    def critical_path(self) -> Sequence[Segment]:
        """Return what the run waited for from its start to its end."""
        return critical_path(self)

    def check(self, thorough: bool = False) -> None:
        """Assert the laws that every run obeys. Raises ``LawError`` with the numbers (never the user's fault)."""
        check(self, thorough)

    def with_energy(
        self, table: str | Path | EnergyTable | None = None, memories: Mapping[str, str | Path | Memory] | None = None
    ) -> Result:
        """Return the same run under another energy table, see ``account.what_if``: nothing is simulated again."""
        return answered(with_energy(self, table, memories))

    def summary(self) -> dict[str, Any]:
        """The run in one dictionary, as ``--json`` prints it; the unit is the end of each key."""
        return latency.summary(self)

    def layers(self) -> list[Layer]:
        """One entry per step, in program order: time, what bound it, traffic, energy. Conversions of inputs and results
        are among them; their ``number`` is 0."""
        return latency.layers(self)

    def what_ifs(self) -> list[WhatIf]:
        """Return what single changes of the chip would give, each simulated, the shortest run first."""
        return what_ifs(self)

    def ledger_frame(self) -> Any:
        """Every action with its count and energy: a pandas DataFrame where pandas is installed, else a list of
        dictionaries. Columns: component, action, layer, tensor, count, energy_J."""
        from accelsim.report.answer import frame
        from accelsim.report.write import ledger_records

        header, rows = ledger_records(self)
        records = [dict(zip(header, row, strict=True)) for row in rows]
        return frame(records) if find_spec("pandas") else records

    def to_dict(self) -> dict[str, Any]:
        """Return the summary, as every result of the library does under this name."""
        return self.summary()

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row per layer, as ``layers.csv`` has them. Raises UsageError without
        pandas."""
        from accelsim.report.answer import frame
        from accelsim.report.write import layer_records

        header, rows = layer_records(self)
        return frame([dict(zip(header, row, strict=True)) for row in rows])

    def plot(self, name: str = "whole") -> Figure:
        """Draw a plot by name: 'whole', 'latency', 'energy', 'timeline', ... Raises UsageError for other names."""
        from accelsim.report.plot import draw

        return draw(name, self)

    def report(self, folder: str | Path, png: bool = False) -> Path:
        """Write the whole report, as ``accelsim run --out`` does; returns the path of its page.

        ``png``: whether it has its pictures as PNG too, beside SVG. Raises UsageError when the directory holds
        something else or cannot be written.
        """
        from accelsim.report.plot import also_png
        from accelsim.report.write import write_run

        with also_png(png):
            return write_run(self, folder) / "report.html"

    def _repr_html_(self) -> str:
        """The summary and the costliest layers, for notebooks."""
        rows = latency.lines(self.layers())
        top = sorted(zip(rows, layer_names(rows), strict=True), key=lambda row: -row[0].added_fs)[:SHOWN]
        heads = [Cell(head) for head in ("layer", "operators", "time", "of run", "bound by", "energy")]
        cells = [
            [Cell(name), Cell(layer.label), Cell(seconds(layer.added_fs)),
             Cell(percent(layer.added_fs / max(1, self.time_fs))), Cell(layer.bound), Cell(si(layer.energy_J, "J"))]
            for layer, name in top
        ]  # fmt: skip
        more = "" if len(rows) <= SHOWN else f"<p>{SHOWN} of {len(rows)} lines: those that add most time.</p>"
        return f"<p><b>{escape(self._in_one_line())}</b></p>{table_html(heads, cells)}{more}"


def answered(run: Run) -> Result:
    """Return a run as a ``Result``, which has methods for its answers."""
    return Result(**{entry.name: getattr(run, entry.name) for entry in fields(Run) if entry.init})


def simulate(
    program: Program,
    feeds: Mapping[str, Array] | None = None,
    values: str = "off",
    keep: bool = False,
    progress: Callable[[float], None] | None = None,
    memory_model: str = DEFAULT,
    record: bool = False,
) -> Result:
    """Simulate as ``accelsim.machine.simulate.simulate`` does; the run can be asked for its summary, layers and
    report."""
    return answered(simulate_program(program, feeds, values, keep, progress, memory_model, record))


@dataclass(frozen=True)
class Call(Request):
    """The arguments of ``run``: a request, and what else is wanted of it."""

    keep: bool = field(default=False, kw_only=True, metadata=option(
        "Keep every tensor, in ``run.tensors``.", kind="none",
        why_not="--check looks at every tensor; files have no place for them"))  # fmt: skip


@takes(Call)
def run(call: Call) -> Result:
    """Compile ``model`` for the chip ``on`` and simulate it.

    Every argument but ``keep`` and ``scales`` has the name of its option of ``accelsim run``. Raises SpecError,
    ModelError, UsageError, Infeasible, TooLarge; independent ones together.
    """
    request = Request(**{entry.name: getattr(call, entry.name) for entry in fields(Request)})
    return answered(execute(prepare(request), call.keep))
