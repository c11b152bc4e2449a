"""Figures of several runs, from their summaries, and what to beware of where they stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.account.energy import CATEGORY_NAMES, STATIC
from accelsim.account.energy_basis import Ground, caveats
from accelsim.account.latency import COUNTED, summary
from accelsim.errors import Problem, UsageError
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
OFF_CHIP = "off-chip memory"
ON_CHIP = frozenset({"MAC", "PE registers", "PE network", "on-chip SRAM", "vector unit"})
"""Categories of energy that the energy table of a chip prices."""


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
