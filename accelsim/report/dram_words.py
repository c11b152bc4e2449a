"""A replayed trace in words: the table of figures, a histogram in characters, and what limited it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from accelsim.dram.energy import WORD_BITS
from accelsim.explore.dram_compare import Row
from accelsim.explore.dram_replay import MODELS, Replay, latency_facts
from accelsim.explore.dram_waits import REASONS
from accelsim.report.table import Column, table
from accelsim.report.text import MISSING, cut, percent, si
from accelsim.spec.status import DOUBTFUL, MEANING

if TYPE_CHECKING:
    from rich.table import Table

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
    """(what, value) of everything but energy."""
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
        met = ", ".join(
            f"{percent(counts[key] / found.bursts)} {key}" for key in ("hits", "misses", "conflicts")
        )
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


def figure_table(found: Replay, width: int = 80) -> Table:
    """The figures as a block of two columns."""
    columns = (Column("figure", right=False), Column("", right=False, least=20, shorten=cut))
    return table(columns, figure_rows(found), width)


def energy_rows(found: Replay) -> list[tuple[str, str, str]]:
    """(part, joules, share of the dies' energy)."""
    joules = found.energy
    if joules is None:
        return []
    rows = [
        (PARTS[part], si(value, "J"), percent(value / joules.die_J if joules.die_J else 0.0))
        for part, value in joules.parts_J.items()
    ]
    return [*rows, ("I/O and termination, apart", si(joules.io_J, "J") if joules.io_J else "not stated", "")]


def energy_table(found: Replay, width: int = 80) -> Table:
    """The energy by parts, and its total."""
    assert found.energy is not None
    columns = (Column("energy", right=False), Column("", 0), Column("share", 1))
    footer = ("dies", si(found.energy.die_J, "J"), percent(1.0))
    return table(columns, energy_rows(found), width, footer=footer)


def energy_sentences(found: Replay) -> Iterator[str]:
    """Yield what a bit costs, what idles, and how far to trust it."""
    joules = found.energy
    if joules is None:
        lacking = (
            "this memory states no currents"
            if found.device.energy is None
            else "this model counts no commands"
        )
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
    """A warning when the energies of the memory are not verified, or ''."""
    if found.status not in DOUBTFUL:
        return ""
    return f"Warning: the energies of this memory are not verified ({found.status}: {MEANING[found.status]})."


def histogram(found: Replay) -> list[str]:
    """Lines of a histogram of the read latencies under load; the last row holds the slowest 1 %."""
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


def bus_rows(found: Replay) -> list[tuple[str, str]]:
    """(share of the time, what the data buses did), the largest first."""
    told = found.waits
    if told is None:
        return []
    shares = sorted(((told.share(reason), reason) for reason in told.clocks), reverse=True)
    return [(percent(share), REASONS[reason]) for share, reason in shares if share >= 0.0005]


def limit_sentences(found: Replay) -> Iterator[str]:
    """Yield what limited the trace, in plain words."""
    told = found.waits
    if told is None:
        yield f"Model {found.model!r} schedules no commands, so it cannot say what the data bus waited for; 'bank' can."
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


COMPARED = (
    Column("memory", 0, right=False, least=8),
    Column("peak", 0),
    Column("seq", 0),
    Column("tile3", 2),
    Column("stream3", 5),
    Column("random", 1),
    Column("conflict", 4),
    Column("unloaded", 1),
    Column("pJ/bit", 0),
    Column("random", 6),
    Column("pJ/word", 3),
)
"""Columns of a comparison: shares of the peak by trace, a lone read, energy of the dies."""


def compare_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The cells of each memory, in the order of ``COMPARED``; a '?' marks energies that are not verified."""
    return [
        (
            row.name, si(row.peak_Bps, "B/s"), *(percent(_finite(row.share(trace))) for trace in row.replays),
            si(row.unloaded_s, "s"), _pJ(row, "seq_read"), _pJ(row, "rand_read"), _pJ(row, "seq_read", WORD_BITS),
        )
        for row in rows
    ]  # fmt: skip


def _pJ(row: Row, trace: str, bits: int = 1) -> str:
    value = row.pJ_per_bit(trace)
    return MISSING if value is None else f"{value * bits:.3g}" + "?" * row.doubtful


def compare_table(rows: Sequence[Row], width: int = 80) -> Table:
    """The comparison as a table."""
    return table(COMPARED, compare_rows(rows), width)


def compare_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how to read the comparison."""
    yield (
        "Shares are of the peak. Unloaded: one read on an idle memory, its row closed. Energy of "
        "the dies: a bit and a 32-bit word of seq, a bit of random; without I/O."
    )
    yield "Each memory keeps its own address mapping; --mapping gives all the same."
    doubtful = [row.name for row in rows if row.doubtful]
    if doubtful:
        yield f"Warning: energies marked '?' are not verified ({', '.join(doubtful)})."
