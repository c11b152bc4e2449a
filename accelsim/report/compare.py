"""Names and figures of several runs, from their summaries, and warnings about figures that do not compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.account.categories import CATEGORIES
from accelsim.account.energy import STATIC
from accelsim.account.energy_basis import Ground, caveats
from accelsim.account.latency import COUNTED, summary
from accelsim.errors import UsageError
from accelsim.machine.memory_models import DEFAULT
from accelsim.machine.run import Run
from accelsim.report.text import Facts, percent, si
from accelsim.request import OPTIONS

Summary = Facts
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
RESOLVED = ("model", "on", "dtype", "batch", "values", "memory_model")
"""Fields of a request that the summary itself says the outcome of."""
UNSEEN = tuple(name for name, row in OPTIONS.items() if row.limits)
"""Fields that change no figure."""
USUAL = (f"memory-model {DEFAULT}", "values exact")
NAMES = ("label", "source")
"""Keys that a summary has only once it was read: name and path of its directory."""
PLAIN = "defaults"
"""The label of a run in which nothing was asked for that others asked for."""
WHAT = ("source", "chip", "model", "dtype", "batch", "values", "memory_model")
"""Keys of a summary that say what was run."""


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

    def star(self, row: Mapping[str, Any]) -> str:
        """Return the mark beside the ratio of a row of ``records``: '' where both figures have the same grounds."""
        return STAR if set(row.get("unlike", ())) & set(self.grounds) else ""


METRICS = (
    Metric("latency", "latency_s", "s"),
    Metric("energy", "energy_per_inference_J", "J", ALL),
    Metric("power", "power_average_W", "W", ALL),
    Metric("utilisation", "utilisation", "%"),
    Metric("inferences/s", "throughput_per_s"),
    Metric("TOPS", "achieved_TOPS"),
    Metric("off-chip", "off_chip_B", "B"),
)
"""Figures that are compared, the most important first; 'energy' is per inference, or per product of a single one."""


def category_metric(name: str) -> Metric:
    """Return the energy per inference of a category."""
    return Metric(f"E {name}", f"energy_{name.replace(' ', '_')}_J", "J", GROUNDS.get(name, ()), name)


def load_summaries(sources: Sequence[Source]) -> list[Summary]:
    """Load the summaries of runs, or of directories that ``write_run`` wrote.

    UsageError naming every directory that has no readable summary, and every wrong field, all at once.
    """
    if not sources:
        what = "one or more directories with the report of a run"
        raise UsageError("nothing to compare", expected=what)
    folders = [Path(source) for source in sources if not isinstance(source, Run)]
    named = (dict(zip(NAMES, (folder.name, str(folder)), strict=True)) for folder in folders)
    from accelsim.report.saved_summary import read_summaries

    read = iter(read_summaries(folders))
    return [summary(each) if isinstance(each, Run) else next(read) | next(named) for each in sources]


def settings(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return each setting of a run in words, by its key, without those at their defaults."""
    asked = entry.get("run", {}).get("asked", {})
    model = asked.get("model")
    found = {
        "chip": entry["chip"],
        "model": model if isinstance(model, str) and "?" in model else entry["model"],
        "dtype": entry["dtype"],
        "batch": f"batch {entry['batch']}",
        "values": f"values {entry['values']}" if entry.get("values") else "",
        "memory_model": f"memory-model {entry.get('memory_model', DEFAULT)}",
    }
    found |= {key: text for name, value in asked.items() for key, text in _asked(name, value)}
    return {key: text for key, text in found.items() if text}


def _asked(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(key, words) of one field of a request; a mapping or a list of overrides has one for each of its entries."""
    if name in RESOLVED or name in UNSEEN:
        return
    words = name.replace("_", "-")
    if name == "set":
        for text in value:
            path, _, setting = text.partition("=")
            yield f"set {path.strip()}", f"{path.strip()}={setting.strip()}"
    elif isinstance(value, Mapping):
        for key, part in value.items():
            shown = ",".join(map(str, part)) if isinstance(part, list | tuple) else str(part)
            yield f"{name} {key}", f"{'' if name == 'param' else words + ' '}{key}={shown}"
    else:
        yield name, words if value is True else f"{words} {value}"


def _settings_by_key(entries: Sequence[Summary]) -> dict[str, list[str | None]]:
    """Return the words of each setting in each run, None where a run has its default."""
    found = [settings(entry) for entry in entries]
    return {key: [each.get(key) for each in found] for key in dict.fromkeys(key for each in found for key in each)}


def common(entries: Sequence[Summary]) -> list[str]:
    """Return the settings that all runs share, in words, without the usual memory model and policy of values."""
    shared = (words[0] for words in _settings_by_key(entries).values() if len(set(words)) == 1)
    return [text for text in shared if text and text not in USUAL]


def labels(entries: Sequence[Summary]) -> list[str]:
    """Return a name for each run: all that differs of chip, model, format, batch and what was asked for.

    Where that leaves two alike: the files of chip and model or their hashes, then the directories; numbers only for
    runs that nothing tells apart.
    """
    found = _settings_by_key(entries)
    shown = [words for words in found.values() if len(set(words)) > 1] or [
        found[key] for key in ("chip", "model") if key in found
    ]
    names = [_joined(*(words[at] for words in shown)) for at in range(len(entries))]
    for trace in zip(*map(_traces, entries), strict=True):
        if len(set(names)) < len(names) and len(set(trace)) > 1:
            names = [_joined(name if name != PLAIN else "", more) for name, more in zip(names, trace, strict=True)]
    for key in NAMES:
        if len(set(names)) < len(names):
            names = [str(entry.get(key) or name) for entry, name in zip(entries, names, strict=True)]
    return [f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, 1)]


def _joined(*words: str | None) -> str:
    return " ".join(filter(None, words)) or PLAIN


def _traces(entry: Summary) -> list[str]:
    """Return what still tells runs of the same settings apart: files of chip and model, then their hashes."""
    record = entry.get("run", {})
    asked = record.get("asked", {})
    hashes = [f"{kind} {record[key][:8]}" if record.get(key := f"{kind}_sha256") else "" for kind in ("chip", "model")]
    return [str(asked.get("on", "")), str(asked.get("model", "")), *hashes]


def counted(entries: Sequence[Summary]) -> list[str]:
    """Return what energies are per and rates count, values of ``COUNTED``: 'inference' ; several where runs differ."""
    return list(dict.fromkeys(map(_one, entries)))


def _one(entry: Summary) -> str:
    return COUNTED[entry.get("counts", "inferences")]


def common_metrics(entries: Sequence[Summary]) -> list[Metric]:
    """Return ``METRICS`` with the throughput titled by what the runs count, such as inferences/s."""
    kinds = list(dict.fromkeys(entry.get("counts", "inferences") for entry in entries))
    rate = f"{kinds[0]}/s" if len(kinds) == 1 else "per second"
    return [each._replace(title=rate) if each.column == "throughput_per_s" else each for each in METRICS]


def basis(entries: Sequence[Summary]) -> str:
    """Return what the figures of a table are of, where that is not one: a batch, or one inference of it."""
    if all(entry["batch"] == 1 for entry in entries):
        return ""
    return f"latency: of the whole run; energy: per {' or '.join(counted(entries))}"


def metrics_of(entries: Sequence[Summary]) -> list[Metric]:
    """Return the common metrics, and the energy per inference of each category that any run has."""
    held = set[str]().union(*(entry["energy_by_category_J"] for entry in entries))
    return [*common_metrics(entries), *(category_metric(name) for name in CATEGORIES if name in held)]


def heading(entries: Sequence[Summary]) -> str:
    """Return what all runs have in common, in words; '' for a single run, or where nothing is."""
    shared = common(entries)
    return f"In all runs: {', '.join(shared)}" if len(entries) > 1 and shared else ""


def records(entries: Sequence[Summary]) -> list[Summary]:
    """Return a row for each run: its label, what it is, every figure with all digits, and from the second run on the
    ratios to the first (``ratio_of_...``) with ``unlike``: grounds on which energies are not like those of the first.
    """
    metrics, rows, first = metrics_of(entries), list[Summary](), entries[0].get("energy_basis")
    for name, entry in zip(labels(entries), entries, strict=True):
        figures = {metric.column: metric.value(entry) for metric in metrics}
        row = {"run": name, **{key: entry.get(key) for key in WHAT}, **figures}
        if rows:
            row |= {f"ratio_of_{key}": _ratio(value, rows[0][key]) for key, value in figures.items()}
            found = caveats(first, entry.get("energy_basis"), ("", ""))
            row["unlike"] = sorted(frozenset[Ground]().union(*(each.grounds for each in found)))
        rows.append(row)
    return rows


def _ratio(value: float | None, first: float | None) -> float | None:
    if value is None or not first:
        return None
    found = value / first
    return found if isfinite(found) else None


def notes(entries: Sequence[Summary]) -> list[str]:
    """Return sentences that warn readers of the ratios."""
    from accelsim.report.intervals import of_what

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
