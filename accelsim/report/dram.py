"""Answers about one DRAM and several: figures, a histogram in characters, what limited a trace, energy by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from accelsim.digits import whole
from accelsim.dram.energy import WORD_BITS
from accelsim.errors import Problem, UsageError
from accelsim.explore.dram_compare import ComparedMemory
from accelsim.explore.dram_replay import MODELS, Replay, latency_facts
from accelsim.explore.dram_waits import REASONS
from accelsim.machine.memory_models import engine
from accelsim.report import dram_plots
from accelsim.report.answer import Answer, Draw, Field, Lines, Part, Record, Table, column
from accelsim.report.table import Column
from accelsim.report.text import MISSING, cut, percent, si
from accelsim.spec.status import DOUBTFUL, MEANING

MOST_CLOCKS = 1 << 50
"""Clocks of a trace are below this."""
BINS = 10
BAR = 40
"""Rows of the histogram, and characters of its longest bar."""
WORTH_SAYING = 0.02
"""Share of the time from which on a reason gets a sentence."""

PARTS = {
    "activate": "activate and precharge (ACT, PRE)",
    "read": "read (RD)",
    "write": "write (WR)",
    "refresh": "refresh (REF)",
    "open_standby": "background, a row open",
    "closed_standby": "background, all rows closed",
}
"""Part of the energy of the dies -> its name in the table."""

ADVICE = {
    "group": "Another mapping may help: rorabachcobg sends neighbouring bursts to different bank groups.",
    "bank": "More banks at work would help: another mapping, or data that share rows.",
    "turn": "Longer batches of writes would help.",
    "tFAW": "More ranks or channels would help, or accesses that share rows.",
    "t32AW": "More channels would help, or accesses that share rows.",
    "request": "More requests in flight would help: a larger window, or more outstanding.",
    "uneven": "A mapping with the channels at other address bits would help, or data laid out with padding.",
}
"""Reason -> what would help."""


def _scheduler(found: Replay) -> list[tuple[str, str]]:
    """Return what goes next, where that is not the default of the bank model; the others schedule nothing."""
    c = found.device.controller
    if found.model != "bank" or c.scheduler == "bursts":
        return []
    deep = f", {c.depth} commands for each bank" if c.scheduler == "queues" else ""
    return [("scheduler", f"{c.scheduler}{deep}")]


def figure_rows(found: Replay) -> list[tuple[str, str]]:
    """Return names and values of everything but energy."""
    c, device, counts = found.device.controller, found.device, found.served.counts
    latency, share = latency_facts(found.latencies_s), percent(_finite(found.share_of_peak))
    rows = [
        ("memory", f"{device.name}, {device.standard.upper()}, {_shape(found)}"),
        ("trace", f"{found.trace_name}, {found.bursts:,} bursts of {device.geometry.access_B} B"),
        ("model", f"{found.model}: {MODELS[found.model].text}"),
        ("controller", f"mapping {c.mapping}, page {c.page_policy}, window {c.window}, refresh {c.refresh}"),
        *_scheduler(found),
        ("time", f"{si(found.seconds, 's', 4)}, {found.served.elapsed:,} clocks of {si(found.clock_s, 's')}"),
        ("bandwidth", f"{si(found.bandwidth_Bps, 'B/s', 4)}, {share} of {si(device.peak_Bps, 'B/s', 4)}"),
        ("unloaded read", f"{si(found.unloaded_s, 's')} (one read, its row closed)"),
    ]
    if latency is not None:
        spread = ", ".join(f"{name} {si(latency[name], 's')}" for name in ("p50", "p99", "max"))
        rows.append(("read under load", f"mean {si(latency['mean'], 's')}, {spread}"))
    if counts["act"]:
        met = ", ".join(f"{percent(counts[key] / found.bursts)} {key}" for key in ("hits", "misses", "conflicts"))
        rows.append(("rows", f"{met} (row open; bank closed; another row open)"))
        names = ("act", "pre", "rd", "wr", "ref", "refpb")
        rows.append(("commands", ", ".join(f"{counts[key]:,} {key.upper()}" for key in names if counts[key])))
    return rows


def _finite(share: float) -> float | None:
    return share if np.isfinite(share) else None


def _shape(found: Replay) -> str:
    g = found.device.geometry
    counts = ((g.channels, "channel"), (g.ranks, "rank"), (g.groups, "group"), (g.banks, "bank"))
    return " x ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts)


def _energy(found: Replay) -> list[Part]:
    """The energy of the dies by part, and its total; nothing where it is not known."""
    joules = found.energy
    if joules is None:
        return []
    parts = [{"part": PARTS[part], "J": value, "of_J": joules.die_J} for part, value in joules.parts_J.items()]
    rows: list[Record] = [*parts, {"part": "I/O and termination, apart", "J": joules.io_J or None, "of_J": None}]
    return ["", Table(ENERGY, rows, footer=("dies", si(joules.die_J, "J"), percent(1.0)))]


def _share(row: Record) -> str:
    return "" if row["of_J"] is None else percent(row["J"] / row["of_J"] if row["of_J"] else 0.0)


ENERGY = (
    Field("part", look=Column("energy", right=False)),
    Field("J", form=lambda value: "not stated" if value is None else si(value, "J"), look=Column("", 0)),
    Field("", form=_share, whole=True, look=Column("share", 1)),
)
FIGURES = (
    Field("what", look=Column("figure", right=False)),
    Field("value", look=Column("", right=False, least=20, shorten=cut)),
)
BUS = (Field("share", "of the time", percent), Field("reason", "the data bus", REASONS.__getitem__))


def window(text: str | None, drawn: bool) -> tuple[int, int] | None:
    """Read clocks of a picture: '100:400' as (100, 400); None stays. Raises UsageError, also if none is ``drawn``."""
    if text is None:
        return None
    begin, end = (whole(part) for part in text.partition(":")[::2])
    problems = []
    if begin is None or end is None or begin >= end or end >= MOST_CLOCKS:
        problems.append(Problem(f"--clocks {text!r}", "", "A:B, two clocks with A < B, such as 0:300"))
    if not drawn:
        problems.append(Problem("--clocks without --out", "", "--out DIR, where the picture goes"))
    if begin is None or end is None or problems:
        raise UsageError(problems)
    return begin, end


def replay(found: Replay, clocks: tuple[int, int] | None = None, channel: int = 0) -> Answer:
    """Report a trace on one memory, and in words what limits it. ``clocks``, ``channel``: the window of banks that
    the picture of their activity shows."""
    limits, energy = list(limit_sentences(found)), list(energy_sentences(found))
    facts = found.as_dict()
    shown: list[Part] = [Table(FIGURES, [{"what": what, "value": value} for what, value in figure_rows(found)])]
    if lines := histogram(found):
        heading = "\nread latency under load (the last row: the slowest 1 %)"
        shown.append(Lines("\n".join([heading, *lines])))
    if rows := bus_rows(found):
        shown += ["", Table(BUS, rows, least=100)]
    shown += [*_energy(found), "", " ".join(limits), "", " ".join(energy)]
    if of := engine(found.model):
        shown += ["", of]
    words = {"limits": limits, "energy_in_words": energy}
    return Answer(facts | words, shown, [facts], _pictures(found, clocks, channel), ["summary.json"])


def _pictures(found: Replay, clocks: tuple[int, int] | None, channel: int) -> dict[str, Draw]:
    scheduled: dict[str, Draw] = {
        "bus": lambda: dram_plots.bus([(found.trace_name, found)], dram_plots.bus_title(found)),
        "activity": partial(dram_plots.activity, found, clocks, channel),
    }
    return {"latency": partial(dram_plots.latency, found), **({} if found.served.commands is None else scheduled)}


def energy_sentences(found: Replay) -> Iterator[str]:
    """Yield what a bit costs, what idles, and how far to trust it."""
    joules = found.energy
    if joules is None:
        lacking = "this memory states no currents" if found.device.energy is None else "this model counts no commands"
        yield f"Energy is not known: {lacking}."
        return
    yield (
        f"A bit costs {si(joules.pJ_per_bit * 1e-12, 'J')}, a 32-bit word {si(joules.pJ_per_word * 1e-12, 'J')}; "
        f"mean power {si(joules.mean_W, 'W')}. {percent(joules.idle_share)} of the energy went in while nothing moved."
    )
    warning = status_warning(found)
    if warning:
        yield warning


def status_warning(found: Replay) -> str:
    """Return a warning where the energies of the memory are not verified, else ''."""
    if found.status not in DOUBTFUL:
        return ""
    return f"Warning: the energies of this memory are not verified ({found.status}: {MEANING[found.status]})."


def histogram(found: Replay) -> list[str]:
    """Return the lines of a histogram of read latencies under load; the last row holds the slowest 1 %."""
    latencies = found.latencies_s
    if latencies is None:
        return []
    low, high = float(latencies.min()), float(np.quantile(latencies, 0.99))
    if high <= low:
        return [f"all {len(latencies):,} reads took {si(low, 's')}"]
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(latencies[latencies <= high], edges)
    rows = [(f"to {edges[i + 1] * 1e9:.0f} ns", int(count)) for i, count in enumerate(counts)]
    rows.append((f"to {latencies.max() * 1e9:.0f} ns", int((latencies > high).sum())))
    wide, most = max(len(label) for label, _ in rows), max(count for _, count in rows)
    lines = []
    for label, count in rows:
        bar = "█" * round(BAR * count / most) or ("▏" if count else "")
        lines.append(f"{label:>{wide}} {percent(count / len(latencies)):>6} {bar}".rstrip())
    return lines


def bus_rows(found: Replay) -> list[Record]:
    """Return what the data buses did and the share of the time, the largest first."""
    told = found.waits
    if told is None:
        return []
    shares = sorted(((told.share(reason), reason) for reason in told.clocks), reverse=True)
    return [{"share": share, "reason": reason} for share, reason in shares if share >= 0.0005]


def limit_sentences(found: Replay) -> Iterator[str]:
    """Yield what limited the trace, in plain words."""
    told = found.waits
    if told is None:
        yield f"Model {found.model!r} keeps no commands, so it cannot say what the data bus waited for; 'bank' can."
        return
    buses = "buses were" if found.device.geometry.channels > 1 else "bus was"
    yield f"The data {buses} busy for {percent(told.share('data'))} of the time."
    worst = told.worst
    if told.share(worst) < WORTH_SAYING or worst == "data":
        yield "So the pins are the limit: no scheduling could make this trace much faster."
        return
    rest = 1 - told.share("data")
    most = "Most" if told.share(worst) > rest / 2 else "The largest part"
    yield f"{most} of the rest, {percent(told.share(worst))} of the time, went to this: {REASONS[worst]}."
    if worst in ADVICE:
        yield ADVICE[worst]
    if worst == "refresh" and rest - told.share(worst) < WORTH_SAYING:
        yield "Nothing else is in the way: the pins are the limit, but for refresh."


def _pJ(trace: str, bits: int = 1) -> Any:
    """The energy of so many bits of a trace, pJ; a '?' marks what is not verified."""

    def cell(row: ComparedMemory) -> str:
        value = row.pJ_per_bit(trace)
        return MISSING if value is None else f"{value * bits:.3g}" + "?" * row.doubtful

    return cell


def _of_peak(trace: str) -> Any:
    return lambda row: percent(_finite(row.share(trace)))


COMPARED = (
    column("memory", lambda row: row.name, 0, right=False, least=8),
    column("peak", lambda row: si(row.peak_Bps, "B/s"), 0),
    column("seq", _of_peak("seq_read"), 0),
    column("tile3", _of_peak("tile3"), 2),
    column("stream3", _of_peak("stream3"), 5),
    column("random", _of_peak("rand_read"), 1),
    column("conflict", _of_peak("conflict"), 4),
    column("unloaded", lambda row: si(row.unloaded_s, "s"), 1),
    column("pJ/bit", _pJ("seq_read"), 0),
    column("random", _pJ("rand_read"), 6),
    column("pJ/word", _pJ("seq_read", WORD_BITS), 3),
)
"""Columns of a comparison: shares of the peak by trace, a lone read, energy of the dies."""


def compare(rows: Sequence[ComparedMemory]) -> Answer:
    """Compare memories on the same traces: share of the peak, latency, energy."""
    facts = [row.as_dict() for row in rows]
    shown: list[Part] = [Table(COMPARED, rows), "", " ".join(compare_sentences(rows))]
    pictures: dict[str, Draw] = {
        "utilisation": partial(dram_plots.utilisation, rows),
        "energy": partial(dram_plots.energy, rows),
    }
    return Answer(facts, shown, facts, pictures, ["compare.json"])


def compare_sentences(rows: Sequence[ComparedMemory]) -> Iterator[str]:
    """Yield how to read the comparison."""
    yield (
        "Shares are of the peak. Unloaded: one read on an idle memory, its row closed. Energy of "
        "the dies: a bit and a 32-bit word of seq, a bit of random; without I/O."
    )
    yield "Each memory keeps its own address mapping; --mapping gives all the same."
    doubtful = [row.name for row in rows if row.doubtful]
    if doubtful:
        yield f"Warning: energies marked '?' are not verified ({', '.join(doubtful)})."
