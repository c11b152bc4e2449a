"""The picture of what the banks of a channel did, clock by clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device
from accelsim.errors import Problem, UsageError
from accelsim.explore.dram_replay import Replay
from accelsim.report.style import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    Look,
    figure,
    styled,
    subtitle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LOOKS: dict[str, Look] = {
    "open": Look("#dddddd"),
    "act": Look(ORANGE),
    "pre": Look(PURPLE),
    "ref": Look(GREEN, "////"),
    "rd": Look(BLUE),
    "wr": Look(VERMILLION, "\\\\\\\\"),
}
"""Kind of block -> look; later ones are drawn above, since data come after the PRE that may follow their RD."""

WORDS = {
    "open": "row open",
    "act": "ACT: opens a row (tRCD)",
    "rd": "data of a RD",
    "wr": "data of a WR",
    "pre": "PRE: closes it (tRP)",
    "ref": "REF: refresh (tRFC)",
}
"""Kind of block -> its line in the legend."""

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
    """UsageError when the window or the channel lies outside of what was simulated."""
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
    if problems:
        raise UsageError(problems)


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
            count, wait = (
                (device.geometry.banks_per_rank, t["tRFC"]) if kind == Command.REF else (1, t["tRFCpb"])
            )
            yield from (Block(bank + other, "ref", clock, clock + wait) for other in range(count))
        else:
            name, delay = ("rd", t["CL"]) if kind == Command.RD else ("wr", t["CWL"])
            yield Block(bank, name, clock + delay, clock + delay + device.burst)
    yield from (Block(bank, "open", clock, end) for bank, clock in since.items())


def activity(found: Replay, clocks: tuple[int, int] | None = None, channel: int = 0) -> Figure:
    """The picture: a row per bank (bank groups and ranks set apart), time in clocks, the data bus on top.

    UsageError when the window or the channel is none of this run. Beyond ``ALL_BANKS`` banks, only those that did
    something in the window are shown.
    """
    window = clocks or default_clocks(found)
    check_clocks(found, window, channel)
    window = window[0], min(window[1], found.served.end)
    seen = blocks(found, window, channel)
    g = found.device.geometry
    total = g.ranks * g.banks_per_rank
    used = sorted({each.bank for each in seen if each.kind != "ref"})
    shown = list(range(total)) if total <= ALL_BANKS or not used else used
    with styled():
        fig, (axes,) = figure(max(2.8, 1.9 + 0.2 * (len(shown) + 2)))
        places = _places(shown, found.device)
        _draw(axes, seen, places)
        _rows(axes, places, found.device)
        axes.set_xlim(*window)
        axes.set_xlabel(f"clock (one is {found.clock_s * 1e9:.3g} ns)")
        axes.set_title(f"What the banks did: {found.trace_name} on {found.device.name}", pad=18)
        subtitle(axes, _words(found, channel, len(shown), total))
        kinds = [kind for kind in LOOKS if any(each.kind == kind for each in seen)]
        _legend(fig, kinds)
    return fig


def _words(found: Replay, channel: int, shown: int, total: int) -> str:
    c = found.device.controller
    text = f"mapping {c.mapping}, page {c.page_policy}"
    text += f"; channel {channel}" if found.device.geometry.channels > 1 else ""
    return text + (f"; {shown} of {total} banks had work" if shown < total else "")


def _places(shown: list[int], device: Device) -> dict[int, float]:
    """Bank -> its height on the axis, from the bus (at 0) down; groups and ranks set apart."""
    g, places, y = device.geometry, dict[int, float](), 1.0
    for index, bank in enumerate(shown):
        before = shown[index - 1] if index else bank
        y += 0.35 * (bank // g.banks != before // g.banks) + 0.5 * (
            bank // g.banks_per_rank != before // g.banks_per_rank
        )
        y += 1
        places[bank] = y
    return places


def _draw(axes: Axes, seen: list[Block], places: dict[int, float]) -> None:
    """Bars of one kind at one height together; data also on the bus."""
    spans: dict[tuple[str, float], list[tuple[int, int]]] = {}
    for bank, kind, begin, end in seen:
        heights = [places[bank]] if bank in places else []
        for y in [*heights, *([0.0] if kind in ("rd", "wr") else [])]:
            spans.setdefault((kind, y), []).append((begin, end - begin))
    for kind, look in LOOKS.items():
        for (name, y), bars in spans.items():
            if name == kind:
                size = 0.5 if kind == "open" else 0.8
                axes.broken_barh(
                    bars, (y - size / 2, size), facecolors=look.color, hatch=look.hatch, edgecolor="white",
                    linewidth=0.4,
                )  # fmt: skip


def _rows(axes: Axes, places: dict[int, float], device: Device) -> None:
    labels = [_label(bank, device) for bank in places]
    axes.set_yticks([0.0, *places.values()], ["data bus", *labels], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(places.values(), default=0) + 0.8, -0.8)
    axes.axhline(1.0, color=FAINT, linewidth=0.8)
    axes.grid(True, axis="x")
    axes.spines["left"].set_visible(False)


def _label(bank: int, device: Device) -> str:
    g = device.geometry
    parts = [f"rank {bank // g.banks_per_rank}"] if g.ranks > 1 else []
    parts += [f"group {bank // g.banks % g.groups}"] if g.groups > 1 else []
    return " ".join([*parts, f"bank {bank % g.banks}"])


def _legend(fig: Figure, kinds: list[str]) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=LOOKS[kind].color, hatch=LOOKS[kind].hatch, edgecolor="white", label=WORDS[kind])
        for kind in kinds
    ]
    fig.legend(handles=patches, loc="outside lower center", ncols=3)
