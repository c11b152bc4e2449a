"""The picture of pipeline schedules: devices against time, each op with its microbatch, bubbles left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from accelsim.cluster.schedules.base import Kind, Op
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.report.style import (
    BLUE,
    DPI,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    WIDTH_IN,
    Look,
    figure,
    prefixed,
    styled,
    subtitle,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: dict[Kind, tuple[str, Look]] = {
    "F": ("forward", Look(BLUE)),
    "B": ("backward", Look(ORANGE)),
    "W": ("gradients of weights", Look(GREEN)),
}
"""Kind of op -> what it is in words, its look."""
ROW_IN, HEAD_IN, LABEL_PX = 0.30, 1.05, 13
"""Inches of a device's row and of all else of a panel; pixels that a digit or two need."""
NARROW_PX = 10
"""Mean width of a bar below which edges would hide it."""
FEMTO = 1e-15


class Panel(NamedTuple):
    """One schedule of a picture. ``steps``: times are numbers of time steps, not femtoseconds."""

    title: str
    played: PlayedSchedule
    steps: bool = False


def schedule_plot(panels: Sequence[Panel]) -> Figure:
    """The schedules below each other on one axis of time, so that their lengths can be compared.

    Numbers count microbatches from 1; of several model chunks per device later ones are paler. Grey is the bubble.
    """
    with styled():
        heights = [HEAD_IN + ROW_IN * len(panel.played.orders) for panel in panels]
        fig, axes = figure(sum(heights), len(panels), gridspec_kw={"height_ratios": heights})
        end = max(float(panel.played.makespan_fs) for panel in panels)
        factor, unit = (1.0, "time steps") if panels[0].steps else prefixed([end * FEMTO], "s")
        scale = factor if panels[0].steps else factor * FEMTO
        for place, panel in zip(axes, panels, strict=True):
            _panel(place, panel, scale, end)
        axes[-1].set_xlabel(unit if panels[0].steps else f"time ({unit})")
        _legend(fig, [op.kind for panel in panels for op in panel.played.orders[0]])
        return fig


def _panel(axes: Axes, panel: Panel, scale: float, end: float) -> None:
    played = panel.played
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    span = float(played.makespan_fs) * scale
    room_px = (WIDTH_IN - 0.9) * DPI / (end * scale)
    for device, order in enumerate(played.orders):
        axes.broken_barh([(0, span)], (device - 0.42, 0.84), facecolor="#eeeeee", hatch="////", edgecolor=FAINT, lw=0)
        spans = [
            (op, float(start) * scale, float(stop - start) * scale)
            for op, start, stop in zip(order, played.start_fs[device], played.end_fs[device], strict=True)
        ]
        edge = 0.5 if span * room_px > NARROW_PX * len(order) else 0.0
        for kind, (_, look) in LOOKS.items():
            mine = [one for one in spans if one[0].kind == kind]
            colors = [tint(look.color, _shade(op, chunks)) for op, _, _ in mine]
            bars = [(start, length) for _, start, length in mine]
            axes.broken_barh(bars, (device - 0.42, 0.84), facecolors=colors, edgecolor="white", lw=edge)
        for op, start, length in spans:
            text = str(op.microbatch + 1)
            if length * room_px > LABEL_PX * (len(text) + 1) / 3:
                axes.text(start + length / 2, device, text, ha="center", va="center", fontsize=7, color=INK)
    axes.set_ylim(len(played.orders) - 0.5, -0.5)
    axes.set_xlim(0, end * scale)
    axes.set_yticks(range(len(played.orders)), [f"device {device}" for device in range(len(played.orders))])
    axes.tick_params(axis="y", length=0)
    axes.set_title(panel.title, pad=18)
    subtitle(axes, sentence(played))


def sentence(played: PlayedSchedule) -> str:
    """Return what the picture shows in a line: the share of the bubble, stashes of the first and the last device."""
    first, last = played.peak_stashes[0], played.peak_stashes[-1]
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    what = "activations" + (f" of 1/{chunks} stage each" if chunks > 1 else "")
    held = f"{first} {what}" if first == last else f"{first} (first device) to {last} (last) {what}"
    return f"bubble: {100 * float(played.bubble_fraction):.1f} % of all devices' time; held at most: {held}"


def _shade(op: Op, chunks: int) -> float:
    """Return how much of the colour is left: all in the first chunk, half in the last."""
    return 0.85 - 0.5 * op.chunk / max(chunks - 1, 1)


def _legend(fig: Figure, kinds: Sequence[Kind]) -> None:
    from matplotlib.patches import Patch

    entries = [
        Patch(facecolor=tint(look.color, 0.85), label=words)
        for kind, (words, look) in LOOKS.items() if kind in kinds
    ]  # fmt: skip
    bubble = Patch(facecolor="#eeeeee", hatch="////", edgecolor=FAINT, lw=0, label="bubble")
    fig.legend(handles=[*entries, bubble], loc="outside lower center", ncols=4)
