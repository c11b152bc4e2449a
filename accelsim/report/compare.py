"""The answer about several runs side by side, from their summaries, and what to beware of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.account.energy import CATEGORY_NAMES, STATIC
from accelsim.account.energy_basis import Ground, caveats
from accelsim.account.latency import COUNTED, summary
from accelsim.errors import Problem, UsageError
from accelsim.machine.run import Run
from accelsim.report.answer import Answer, Lines, Part, Record, Table
from accelsim.report.compare_labels import NAMES, common, labels, settings
from accelsim.report.intervals import of_what
from accelsim.report.saved_summary import read_summaries
from accelsim.report.table import GAP, Column
from accelsim.report.table import table as ranked
from accelsim.report.text import percent, ratio, si, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table as RichTable

Summary = dict[str, Any]
Source = Run | str | Path

LEAST_LABEL, RATIO = 12, 8
"""Characters of a line of a label at least, of a ratio at most."""
STAR = "*"
"""Beside a ratio of energies that do not rest on the same figures."""
ALL: tuple[Ground, ...] = ("table", "idle", "memory")
OFF_CHIP = "off-chip memory"
ON_CHIP = frozenset({"MAC", "PE registers", "PE network", "on-chip SRAM", "vector unit"})
"""Categories of energy that the energy table of a chip prices."""


WHAT = ("source", "chip", "model", "dtype", "batch", "values", "memory_model")
"""Keys of a summary that say what was run."""


class Metric(NamedTuple):
    """One compared figure: its name, its column in a CSV (with the unit), its value in a summary (None: not there),
    how it is written, and which grounds of ``account.energy_basis`` it rests on."""

    title: str
    column: str
    value: Callable[[Summary], float | None]
    text: Callable[[float | None], str]
    grounds: tuple[Ground, ...] = ()


def _traffic(entry: Summary) -> float:
    return float(sum(flow["read_B"] + flow["write_B"] for flow in entry["traffic"].values()))


METRICS = (
    Metric("latency", "latency_s", lambda s: s["latency_s"], lambda v: si(v, "s")),
    Metric("energy", "energy_per_inference_J", lambda s: s["energy_per_inference_J"], lambda v: si(v, "J"), ALL),
    Metric("power", "power_average_W", lambda s: s["power_average_W"], lambda v: si(v, "W"), ALL),
    Metric("utilisation", "utilisation", lambda s: s["utilisation"], percent),
    Metric("inferences/s", "throughput_per_s", lambda s: s["throughput_per_s"], si),
    Metric("TOPS", "achieved_TOPS", lambda s: s["achieved_TOPS"], si),
    Metric("off-chip", "off_chip_B", _traffic, lambda v: si(v, "B")),
)  # fmt: skip
"""What is compared, the most important first; 'energy' is per inference, or per product of a single one."""


def load_summaries(sources: Sequence[Source]) -> list[Summary]:
    """Summaries of runs, or of the directories that ``write_run`` wrote.

    UsageError naming every directory that has no readable summary, and every wrong field, all at once.
    """
    if not sources:
        what = "one or more directories with the report of a run"
        raise UsageError(Problem("nothing to compare", expected=what))
    folders = [Path(source) for source in sources if not isinstance(source, Run)]
    read = iter(read_summaries(folders))
    return [
        summary(source) if isinstance(source, Run) else _named(next(read), Path(source)) for source in sources
    ]


def _named(entry: Summary, folder: Path) -> Summary:
    return entry | dict(zip(NAMES, (folder.name, str(folder)), strict=True))


def counted(entries: Sequence[Summary]) -> list[str]:
    """Return what energies are per and rates count, values of ``COUNTED``: 'inference' ; several where runs differ."""
    return list(dict.fromkeys(map(_one, entries)))


def _one(entry: Summary) -> str:
    return COUNTED[entry.get("counts", "inferences")]


def common_metrics(entries: Sequence[Summary]) -> list[Metric]:
    """``METRICS``, with the rate called after what these runs make."""
    kinds = list(dict.fromkeys(entry.get("counts", "inferences") for entry in entries))
    rate = f"{kinds[0]}/s" if len(kinds) == 1 else "per second"
    return [each._replace(title=rate) if each.column == "throughput_per_s" else each for each in METRICS]


def basis(entries: Sequence[Summary]) -> str:
    """Return what the figures of a table are of, where that is not one: a batch, or one inference of it."""
    if all(entry["batch"] == 1 for entry in entries):
        return ""
    return f"latency: of the whole run; energy: per {' or '.join(counted(entries))}"


def metrics_of(entries: Sequence[Summary]) -> list[Metric]:
    """The common metrics, and the energy per inference of each category that any run has."""
    found = [
        name for name in CATEGORY_NAMES if any(name in entry["energy_by_category_J"] for entry in entries)
    ]
    parts = (
        Metric(f"E {name}", f"energy_{name.replace(' ', '_')}_J", energy_of(name), lambda v: si(v, "J"), _grounds(name))
        for name in found
    )  # fmt: skip
    return [*common_metrics(entries), *parts]


def _grounds(category: str) -> tuple[Ground, ...]:
    if category == STATIC:
        return ("idle",)
    if category == OFF_CHIP:
        return ("memory",)
    return ("table",) if category in ON_CHIP else ()


def energy_of(name: str) -> Callable[[Summary], float | None]:
    """Return what gives the energy per inference of a category, J; None where a run has none."""

    def energy(entry: Summary) -> float | None:
        joules = entry["energy_by_category_J"].get(name)
        return None if joules is None else float(joules) / int(entry["batch"])

    return energy


def heading(entries: Sequence[Summary]) -> str:
    """Return what all runs have in common, in words; '' for a single run, or where nothing is."""
    shared = common(entries)
    return f"In all runs: {', '.join(shared)}" if len(entries) > 1 and shared else ""


def grounds_of(entries: Sequence[Summary]) -> list[frozenset[Ground]]:
    """Return for each run on which grounds its energies are not like those of the first."""
    names = ("", "")
    first = entries[0].get("energy_basis")
    told = [caveats(first, entry.get("energy_basis"), names) for entry in entries]
    return [frozenset[Ground]().union(*(each.grounds for each in found)) for found in told]


def notes(entries: Sequence[Summary]) -> list[str]:
    """Sentences that a reader of the ratios must know."""
    names = labels(entries)
    found: dict[str, None] = {}
    if len(counted(entries)) > 1:
        per = ", ".join(f"of {name} per {_one(entry)}" for name, entry in zip(names, entries, strict=True))
        found[f"Rates and energies are {per}."] = None
    for name, entry in zip(names, entries, strict=True):
        if "basis" in (interval := entry.get("latency_interval") or {}):
            found[of_what(f"{name}'s latency", interval["basis"], interval["family"])] = None
    for name, entry in zip(names[1:], entries[1:], strict=True):
        both = (names[0], name)
        told = list(caveats(entries[0].get("energy_basis"), entry.get("energy_basis"), both))
        if told:
            text = "; ".join(each.text for each in told)
            found[f"{STAR} {text[:1].upper()}{text[1:]}."] = None
    if any(text.startswith(STAR) for text in found):
        found[f"Ratios marked {STAR} hold that difference as well as the one between the runs."] = None
    return list(found)


def compare(sources: Sequence[Source], layers: int | None = None) -> Answer:
    """Several runs side by side; ``layers``: so many layers of two runs of one model too, in ``rows`` all of them.

    UsageError as for ``load_summaries``, and where ``layers`` cannot be compared.
    """
    entries = load_summaries(sources)

    def picture() -> Figure:
        from accelsim.report.compare_plot import compare_figure

        return compare_figure(entries)

    rows: Sequence[Record] = records(entries)
    runs = [{**row, "settings": settings(entry)} for row, entry in zip(rows, entries, strict=True)]
    facts = {"tool": "accelsim", "common": common(entries), "runs": runs, "notes": notes(entries)}
    text, said = heading(entries), basis(entries)
    shown: list[Part] = [*([text, ""] if text else []), Runs((), (), entries=entries)]
    shown += ["", Lines(said)] if said else []
    shown += [part for note in notes(entries) for part in ("", note)]
    if layers is not None:
        from accelsim.report.compare_layers import differences, layer_table

        rows = facts["layers"] = differences(sources)
        one, two = labels(entries)
        legend = f"Layers by the difference of the time that they add. First: {one}; second: {two}."
        shown += ["", legend, "", layer_table(rows, bool(grounds_of(entries)[1]), layers)]
    return Answer(facts, shown, rows, {"comparison": picture})


@dataclass(frozen=True)
class Runs(Table):
    """A column per run where they fit, else a row; a column for each ratio to the first.

    'energy' and the rows 'E ...' (its parts) are per inference. No value is ever cut: where the width is short, columns
    go, the least important first.
    """

    entries: Sequence[Summary] = ()

    def shown(self, terminal: int) -> RichTable:
        """The table for a terminal of so many characters."""
        names, metrics = labels(self.entries), metrics_of(self.entries)
        cells = [_cells(metric, self.entries) for metric in metrics]
        first = max(len(metric.title) for metric in metrics)
        room = (terminal - first - (len(names) - 1) * (RATIO + GAP)) // len(names) - GAP
        if room >= LEAST_LABEL:
            return _run_by_column(names, metrics, cells, terminal, room)
        return _run_by_row(names, metrics, cells, terminal)


def _run_by_column(
    names: Sequence[str], metrics: Sequence[Metric], cells: Sequence[Sequence[str]], width: int, room: int
) -> RichTable:
    columns = [Column("", right=False)]
    for index, name in enumerate(names):
        columns += [Column("ratio")] * (index > 0)
        columns.insert(len(columns) - (index > 0), Column("\n".join(wrapped(name, room))))
    return ranked(columns, [[metric.title, *row] for metric, row in zip(metrics, cells, strict=True)], width)


def _run_by_row(
    names: Sequence[str], metrics: Sequence[Metric], cells: Sequence[Sequence[str]], width: int
) -> RichTable:
    room = max(LEAST_LABEL, width // 3)
    columns = [Column("run", 0, right=False)]
    for rank, metric in enumerate(metrics):
        columns += [Column(metric.title, 2 * rank), Column("ratio", 2 * rank + (rank > 0))]
    rows = []
    for index, name in enumerate(names):
        at = slice(2 * index - 1, 2 * index + 1)
        pairs = [part for row in cells for part in (row[at] if index else (row[0], ""))]
        rows.append(["\n".join(wrapped(name, room)), *pairs])
    return ranked(columns, rows, width)


def _cells(metric: Metric, entries: Sequence[Summary]) -> list[str]:
    """The values of one metric; from the second run on each with its ratio to the first."""
    first, grounds = metric.value(entries[0]), grounds_of(entries)
    starred = any(grounds)
    cells = [metric.text(first)]
    for entry, unlike in zip(entries[1:], grounds[1:], strict=True):
        value = metric.value(entry)
        times = _ratio(value, first)
        mark = STAR if unlike & set(metric.grounds) else " " * starred
        cells += [metric.text(value), f"{ratio(times)}{mark}" if times is not None else ""]
    return cells


def records(entries: Sequence[Summary]) -> list[Summary]:
    """A row for each run: its label, what it is, every figure with all digits, and from the second run on the ratios
    to the first (``ratio_of_...``) with ``unlike``: grounds on which energies are not like those of the first."""
    names, metrics, grounds = labels(entries), metrics_of(entries), grounds_of(entries)
    rows: list[Summary] = []
    for name, entry, unlike in zip(names, entries, grounds, strict=True):
        figures = {metric.column: metric.value(entry) for metric in metrics}
        row = {"run": name, **{key: entry.get(key) for key in WHAT}, **figures}
        if rows:
            row |= {f"ratio_of_{key}": _ratio(value, rows[0][key]) for key, value in figures.items()}
            row["unlike"] = sorted(unlike)
        rows.append(row)
    return rows


def _ratio(value: float | None, first: float | None) -> float | None:
    if value is None or not first:
        return None
    found = value / first
    return found if isfinite(found) else None
