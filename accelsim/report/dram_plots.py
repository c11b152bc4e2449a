"""Pictures of one memory and of several: latency, what the bus and the banks did, utilisation, energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device
from accelsim.errors import Problem, UsageError
from accelsim.explore.dram_compare import TRACES, ComparedMemory
from accelsim.explore.dram_replay import Replay
from accelsim.explore.dram_waits import REASONS
from accelsim.report.picture import Axis, Mark, Panel, Picture, bars, beside, note, rule, spans, stacked
from accelsim.report.style import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION, YELLOW, Look
from accelsim.report.text import percent, si

BINS = 60

WAITS: dict[str, tuple[str, str, str]] = {
    "data": ("data", BLUE, ""),
    "group": ("same bank group (tCCD_L)", VERMILLION, "\\\\\\\\"),
    "column": ("column commands (tCCD_S)", "#7a5195", "++++"),
    "turn": ("read/write turn-around", ORANGE, "||||"),
    "rank": ("change of rank", YELLOW, "xxxx"),
    "bank": ("row cycle of a bank (tRC)", PURPLE, "...."),
    "tFAW": ("four activations (tFAW)", SKY, "////"),
    "t32AW": ("32 activations (t32AW)", "#003f63", "----"),
    "tRRD": ("activations (tRRD)", "#9ecae1", ""),
    "refresh": ("refresh", GREEN, "--"),
    "request": ("no request to serve", "#cfcfcf", ""),
    "uneven": ("channel out of work", "#f2f2f2", "//"),
}
"""Reason (``explore.dram_waits.REASONS``) -> its line in the legend, colour, hatch."""
TRACE_LOOKS = (Look(BLUE), Look(GREEN, "////"), Look(SKY, "----"), Look(ORANGE, "||||"), Look(VERMILLION, "xxxx"))


def latency(found: Replay) -> Picture | None:
    """Draw a histogram of the read latencies under load, with mean, p99 and the unloaded one; None without any."""
    values = found.latencies_s
    if values is None:
        return None
    ns, high = values * 1e9, float(np.quantile(values * 1e9, 0.999))
    top = high if high > ns.min() else float(ns.min()) + 1
    counts, edges = np.histogram(ns[ns <= top], BINS, (0, top))
    marks = [bars((edges[1:] + edges[:-1]) / 2, counts * 100 / len(ns), "", BLUE, wide=top / BINS, linewidth=0)]
    for name, value, color, dash in (
        ("unloaded", found.unloaded_s * 1e9, GREEN, "--"),
        ("mean", float(ns.mean()), INK, "-"),
        ("99th percentile", float(np.quantile(ns, 0.99)), VERMILLION, ":"),
    ):
        marks.append(rule(x=value, label=f"{name}: {value:.0f} ns", color=color, linestyle=dash, linewidth=1.8))
    queued = " Most of it is waiting in the queue." if ns.mean() > 2e9 * found.unloaded_s else ""
    caption = f"{len(ns):,} reads; the slowest took {ns.max():.0f} ns.{queued}"
    x = Axis("from acceptance to the last data of a read (ns)", low=0, high=top * 1.03)
    title = f"Read latency under load: {found.trace_name} on {found.device.name}"
    return Picture(3.8, [Panel(title, marks, x, Axis("reads (%)"), caption, "y")], legend=3)


def bus(founds: Sequence[tuple[str, Replay]], title: str, caption: str = "") -> Picture:
    """Draw one stacked bar per (label, replay): what the data buses did, shares of the time."""
    waits = [found.waits for _, found in founds]
    series = {
        reason: shares
        for reason in REASONS
        if max(shares := [100 * each.share(reason) if each else 0.0 for each in waits]) >= 0.5
    }
    looks = {reason: Look(*row[1:]) for reason, row in WAITS.items()}
    words = {reason: row[0] for reason, row in WAITS.items()}
    marks = stacked(range(len(founds)), series, looks, words, flat=True, wide=0.62)
    marks += [
        note(1, row, f"{share:.0f} %", color="white", weight="bold", fontsize=8)
        for row, share in enumerate(series.get("data", ()))
    ]
    x, names = Axis("time of the data bus (%)", low=0, high=100), Axis(names=[label for label, _ in founds])
    return Picture(max(2.8, 1.9 + 0.42 * len(founds)), [Panel(title, marks, x, names, caption)], legend=4)


def _groups(looks: dict[str, Look], heights: dict[str, list[float]], size: float) -> list[Mark]:
    """Return a group of bars per memory, one for each trace, with its figure above."""
    marks = []
    for index, (trace, look) in enumerate(looks.items()):
        places = np.arange(len(heights[trace])) + beside(index, len(looks))
        marks.append(bars(places, heights[trace], trace, look, wide=0.92 * 0.8 / len(looks)))
        for x, value in zip(places, heights[trace], strict=True):
            text = f"{value:.3g}" if size > 6.5 else f"{value:.0f}" if value >= 1 else "<1"
            marks.append(note(x, value, text, (0, 2), "center", va="bottom", fontsize=size))
    return marks


def utilisation(rows: Sequence[ComparedMemory]) -> Picture:
    """Draw the share of the peak by trace, a group of bars per memory."""
    looks = dict(zip(TRACES, TRACE_LOOKS, strict=True))
    marks = _groups(looks, {trace: [100 * row.share(trace) for row in rows] for trace in TRACES}, 6.5)
    names = Axis(names=[f"{row.name}\n{si(row.peak_Bps, 'B/s')}" for row in rows])
    title = "The peak is a promise; what is kept of it depends on the addresses"
    caption = "each memory with its own mapping; tile3 and stream3 walk through three tensors a power of two apart"
    y = Axis("achieved of the peak (%)", low=0, high=108)
    return Picture(4.2, [Panel(title, marks, names, y, caption, "y")], legend=len(TRACES))


ENERGY_LOOKS = {"seq_read": Look(BLUE), "rand_read": Look(ORANGE, "||||"), "conflict": Look(VERMILLION, "xxxx")}


def energy(rows: Sequence[ComparedMemory]) -> Picture | None:
    """Draw energy of the dies per bit by trace, on a logarithmic axis; None where no memory states any."""
    known = [row for row in rows if row.pJ_per_bit("seq_read") is not None]
    if not known:
        return None
    joules = {trace: [row.pJ_per_bit(trace) or 0.0 for row in known] for trace in ENERGY_LOOKS}
    names = Axis(names=[row.name + ("\n(not verified)" if row.doubtful else "") for row in known])
    y = Axis("dies (pJ/bit)", scale="log", high=1.6 * max(map(max, joules.values())))
    title = "Energy per bit: the memory decides, and the addresses as much"
    caption = "without I/O; conflict: a row opened for each burst, on one bank, while all others idle"
    return Picture(4.2, [Panel(title, _groups(ENERGY_LOOKS, joules, 7), names, y, caption, "y")], legend=3)


def bus_title(found: Replay) -> str:
    """Title of the picture of one replay."""
    share = percent(found.waits.share("data")) if found.waits else ""
    return f"What the data bus did: {found.trace_name} on {found.device.name}, {share} data"


LOOKS: dict[str, tuple[str, str, str]] = {
    "open": ("row open", "#dddddd", ""),
    "act": ("ACT: opens a row (tRCD)", ORANGE, ""),
    "pre": ("PRE: closes it (tRP)", PURPLE, ""),
    "ref": ("REF: refresh (tRFC)", GREEN, "////"),
    "rd": ("data of a RD", BLUE, ""),
    "wr": ("data of a WR", VERMILLION, "\\\\\\"),
}
"""Kind of block -> its line in the legend, colour, hatch. Later ones are drawn above: data come after the PRE that may
follow their RD."""
CYCLES = 4
"""Row cycles (tRC) that are shown unless asked otherwise."""
ALL_BANKS = 16
"""Banks up to which those that did nothing are shown too."""


class Block(NamedTuple):
    """Something that a bank did: kind (keys of ``LOOKS``), clocks from begin to end."""

    bank: int
    kind: str
    begin: int
    end: int


def default_clocks(found: Replay) -> tuple[int, int]:
    """The window that is shown unless asked otherwise: a few row cycles from the beginning."""
    cycle = found.device.latency[3][Command.ACT][Command.ACT]
    begin = found.served.begin
    return begin, min(begin + max(50, -(-CYCLES * cycle // 50) * 50), max(found.served.end, begin + 1))


def check_clocks(found: Replay, clocks: tuple[int, int], channel: int) -> None:
    """Raise UsageError when the window or the channel lies outside of what was simulated."""
    problems = []
    begin, end = clocks
    if not found.served.begin <= begin < end or begin >= found.served.end:
        expected = f"A:B with {found.served.begin} <= A < B and A below {found.served.end}"
        problems.append(Problem(f"clocks {begin}:{end}", "", expected))
    channels = found.device.geometry.channels
    if not 0 <= channel < channels:
        problems.append(Problem(f"no channel {channel}", "", f"0 to {channels - 1}"))
    if found.served.commands is None:
        problems.append(Problem(f"model {found.model!r} keeps no commands to draw", "", "model 'bank'"))
    UsageError.raise_for(problems)


def blocks(found: Replay, clocks: tuple[int, int], channel: int = 0) -> list[Block]:
    """Return what the banks of a channel did between two clocks; banks are numbered within the channel."""
    commands, device = found.served.commands, found.device
    assert commands is not None
    g = device.geometry
    size = g.ranks * g.banks_per_rank
    mine = commands[commands[:, 2] // size == channel]
    mine = mine[mine[:, 0] < clocks[1]]
    every = _blocks(mine, device, channel * size, clocks[1])
    return [each for each in every if each.end > clocks[0] and each.begin < clocks[1]]


def _blocks(commands: np.ndarray[Any, Any], device: Device, first: int, end: int) -> Iterator[Block]:
    """Blocks from the first command on; rows that are still open at ``end`` are so until then."""
    t, since = device.timing, dict[int, int]()
    for clock, kind, flat, _ in commands.tolist():
        bank = flat - first
        if kind == Command.ACT:
            since[bank] = clock
            yield Block(bank, "act", clock, clock + t["tRCDRD"])
        elif kind == Command.PRE:
            yield Block(bank, "open", since.pop(bank, clock), clock)
            yield Block(bank, "pre", clock, clock + t["tRP"])
        elif kind in (Command.REF, Command.REFPB):
            count, wait = (device.geometry.banks_per_rank, t["tRFC"]) if kind == Command.REF else (1, t["tRFCpb"])
            yield from (Block(bank + other, "ref", clock, clock + wait) for other in range(count))
        else:
            name, delay = ("rd", t["CL"]) if kind == Command.RD else ("wr", t["CWL"])
            yield Block(bank, name, clock + delay, clock + delay + device.burst)
    yield from (Block(bank, "open", clock, end) for bank, clock in since.items())


def activity(found: Replay, clocks: tuple[int, int] | None = None, channel: int = 0) -> Picture:
    """Draw a row per bank (bank groups and ranks set apart), time in clocks, the data bus on top.

    UsageError when the window or the channel is none of this run. Beyond ``ALL_BANKS`` banks, only those that did
    something in the window are shown.
    """
    window = clocks or default_clocks(found)
    check_clocks(found, window, channel)
    low, high = window[0], min(window[1], found.served.end)
    seen, g = blocks(found, (low, high), channel), found.device.geometry
    total, used = g.ranks * g.banks_per_rank, {each.bank for each in seen if each.kind != "ref"}
    shown = list(range(total)) if total <= ALL_BANKS or not used else sorted(used)
    places, rows = _places(shown, found.device), dict[tuple[str, float], list[tuple[int, int]]]()
    for bank, kind, begin, end in seen:
        heights = [places[bank]] * (bank in places) + [0.0] * (kind in ("rd", "wr"))
        for y in heights:
            rows.setdefault((kind, y), []).append((begin, end))
    marks = [rule(y=1.0, color=FAINT, linewidth=0.8)]
    for kind, (words, color, hatch) in LOOKS.items():
        size = 0.5 if kind == "open" else 0.8
        style = {"facecolors": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        marks += [spans(y, bars, words, size, **style) for (name, y), bars in rows.items() if name == kind]
    c = found.device.controller
    caption = f"mapping {c.mapping}, page {c.page_policy}" + f"; channel {channel}" * (g.channels > 1)
    caption += f"; {len(shown)} of {total} banks had work" * (len(shown) < total)
    names = {0.0: "data bus", **{y: _label(bank, found.device) for bank, y in places.items()}}
    banks = Axis(low=max(places.values(), default=0) + 0.8, high=-0.8, names=names)
    x = Axis(f"clock (one is {found.clock_s * 1e9:.3g} ns)", low=low, high=high)
    title = f"What the banks did: {found.trace_name} on {found.device.name}"
    return Picture(max(2.8, 1.9 + 0.2 * (len(shown) + 2)), [Panel(title, marks, x, banks, caption, "x")], legend=3)


def _places(shown: list[int], device: Device) -> dict[int, float]:
    """Bank -> its height on the axis, from the bus (at 0) down; groups and ranks set apart."""
    g, places, y = device.geometry, dict[int, float](), 1.0
    for index, bank in enumerate(shown):
        before = shown[index - 1] if index else bank
        y += 1 + 0.35 * (bank // g.banks != before // g.banks)
        y += 0.5 * (bank // g.banks_per_rank != before // g.banks_per_rank)
        places[bank] = y
    return places


def _label(bank: int, device: Device) -> str:
    g = device.geometry
    parts = [f"rank {bank // g.banks_per_rank}"] if g.ranks > 1 else []
    parts += [f"group {bank // g.banks % g.groups}"] if g.groups > 1 else []
    return " ".join([*parts, f"bank {bank % g.banks}"])
