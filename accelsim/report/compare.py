"""Figures of several runs, from their summaries, and what to beware of where they stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.account.categories import CATEGORY_NAMES
from accelsim.account.energy import STATIC
from accelsim.account.energy_basis import Ground, caveats
from accelsim.account.latency import COUNTED, summary
from accelsim.errors import UsageError
from accelsim.machine.run import Run
from accelsim.report.compare_labels import NAMES, common, labels
from accelsim.report.intervals import of_what
from accelsim.report.saved_summary import read_summaries
from accelsim.report.text import percent, si

Summary = dict[str, Any]
Source = Run | str | Path

STAR = "*"
"""Beside a ratio of energies that do not rest on the same figures."""
ALL: tuple[Ground, ...] = ("table", "idle", "memory")
GROUNDS: dict[str, tuple[Ground, ...]] = {
    STATIC: ("idle",),
    "off-chip memory": ("memory",),
    **dict.fromkeys(("MAC", "PE registers", "PE network", "on-chip SRAM", "vector unit"), ("table",)),
}
"""Category of energy -> the grounds that it rests on."""


class Metric(NamedTuple):
    """One compared figure: its name, its column in a CSV, its unit, and the grounds of ``account.energy_basis`` that
    it rests on; ``category``: of the energy of an inference, '' for other figures."""

    title: str
    column: str
    unit: str = ""
    grounds: tuple[Ground, ...] = ()
    category: str = ""

    def value(self, entry: Summary) -> float | None:
        """Return the figure of a summary, None where it is not there."""
        if self.category:
            joules = entry["energy_by_category_J"].get(self.category)
            return None if joules is None else float(joules) / int(entry["batch"])
        if self.column == "off_chip_B":
            return float(sum(flow["read_B"] + flow["write_B"] for flow in entry["traffic"].values()))
        return entry[self.column]  # type: ignore[no-any-return]

    def text(self, value: float | None) -> str:
        """Return a figure as it is written."""
        return percent(value) if self.unit == "%" else si(value, self.unit)


METRICS = (
    Metric("latency", "latency_s", "s"),
    Metric("energy", "energy_per_inference_J", "J", ALL),
    Metric("power", "power_average_W", "W", ALL),
    Metric("utilisation", "utilisation", "%"),
    Metric("inferences/s", "throughput_per_s"),
    Metric("TOPS", "achieved_TOPS"),
    Metric("off-chip", "off_chip_B", "B"),
)
"""What is compared, the most important first; 'energy' is per inference, or per product of a single one."""


def category_metric(name: str) -> Metric:
    """Return the energy per inference of a category."""
    return Metric(f"E {name}", f"energy_{name.replace(' ', '_')}_J", "J", GROUNDS.get(name, ()), name)


def load_summaries(sources: Sequence[Source]) -> list[Summary]:
    """Summaries of runs, or of the directories that ``write_run`` wrote.

    UsageError naming every directory that has no readable summary, and every wrong field, all at once.
    """
    if not sources:
        what = "one or more directories with the report of a run"
        raise UsageError("nothing to compare", expected=what)
    folders = [Path(source) for source in sources if not isinstance(source, Run)]
    named = (dict(zip(NAMES, (folder.name, str(folder)), strict=True)) for folder in folders)
    read = iter(read_summaries(folders))
    return [summary(each) if isinstance(each, Run) else next(read) | next(named) for each in sources]


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
    held = set[str]().union(*(entry["energy_by_category_J"] for entry in entries))
    return [*common_metrics(entries), *(category_metric(name) for name in CATEGORY_NAMES if name in held)]


def heading(entries: Sequence[Summary]) -> str:
    """Return what all runs have in common, in words; '' for a single run, or where nothing is."""
    shared = common(entries)
    return f"In all runs: {', '.join(shared)}" if len(entries) > 1 and shared else ""


def grounds_of(entries: Sequence[Summary]) -> list[frozenset[Ground]]:
    """Return for each run on which grounds its energies are not like those of the first."""
    told = [caveats(entries[0].get("energy_basis"), entry.get("energy_basis"), ("", "")) for entry in entries]
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
