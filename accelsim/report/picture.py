"""Pictures as declarations: panels of marks over axes, each with its unit. One renderer draws them with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from accelsim.files import Make, write_file
from accelsim.report import style
from accelsim.report.style import INK, Look, figure, log_axis, prefixed, renderer, styled, subtitle
from accelsim.report.text import wrapped
from accelsim.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values: TypeAlias = "Sequence[float] | Array"
Names: TypeAlias = "Sequence[str] | Mapping[float, str] | Mapping[int, str]"
Finish: TypeAlias = "Callable[[Figure, Axes], None]"
ENTRY = (80, 48)
"""Characters of a line of a legend, and where that does not fit."""
MANY = 60
"""Bars beyond which they are one artist, which is drawn in a tenth of the time."""
MARGIN_PX = 10
"""Left free on both sides of a legend."""
SMALL = 7.5
"""Size of figures beside marks, points."""
UNDER_PT = 19
"""Height of the label of an x axis without ticks."""


class Axis(NamedTuple):
    """An axis. ``unit``: SI unit of its values, which get the prefix that suits the largest; '' leaves them alone;
    ``factor``: from a value to that unit.

    ``names``: texts at 0, 1, 2, ... (an axis upwards then runs down), or at these places. ``text``: text of a tick.
    ``whole``: ticks at whole numbers.
    """

    label: str = ""
    unit: str = ""
    scale: Literal["linear", "log", "log2"] = "linear"
    low: float | None = None
    high: float | None = None
    names: Names | None = None
    text: Callable[[float], str] | None = None
    whole: bool = False
    factor: float = 1.0


PLAIN = Axis()


class Mark(NamedTuple):
    """A series. ``kind``: a case of ``_paint``. ``base``: where bars begin, or the lower edge of an area. ``look``:
    further arguments of matplotlib. ``page``: what only pages know, by the names that ``assets/chart.js`` reads;
    'columns' has values of each item, 'line' among them its line in the table of layers."""

    kind: str
    x: Values
    y: Values
    label: str = ""
    base: Values = ()
    look: Mapping[str, Any] = {}
    page: Mapping[str, Any] = {}


def line(x: Values, y: Values, label: str = "", color: str = INK, dash: str = "-", **look: Any) -> Mark:
    """Return a line through points."""
    return Mark("line", x, y, label, (), {"color": color, "linestyle": dash, **look})


def points(x: Values, y: Values, label: str = "", color: str = INK, marker: str = "o", **look: Any) -> Mark:
    """Return a mark at each point."""
    return line(x, y, label, color, "none", marker=marker, **look)


def area(x: Values, low: Values, high: Values, label: str = "", **look: Any) -> Mark:
    """Return the area between two lines."""
    return Mark("area", x, high, label, low, look)


def rule(x: float | None = None, y: float | None = None, label: str = "", color: str = INK, **look: Any) -> Mark:
    """Return a line across the panel at ``x`` or at ``y``."""
    return Mark("rule", [] if x is None else [x], [] if y is None else [y], label, (), {"color": color, **look})


def note(x: float, y: float, text: str, shift: tuple[float, float] = (0, 0), side: str = "left", **look: Any) -> Mark:
    """Return a text beside a point, ``shift`` points away from it."""
    own = {"xytext": shift, "ha": side, "va": "center", "fontsize": SMALL, "textcoords": "offset points"}
    return Mark("note", [x], [y], text, (), {**own, **look})


def bars(
    places: Values,
    values: Values,
    label: str = "",
    look: Look | str = INK,
    base: Values = (),
    wide: float = 0.75,
    flat: bool = False,
    page: Mapping[str, Any] = {},
    **more: Any,
) -> Mark:
    """Return bars at ``places`` which begin at ``base``; ``flat``: they run to the right."""
    own = Look(look) if isinstance(look, str) else look
    shown = {"color": own.color, "hatch": own.hatch, "edgecolor": "white", "linewidth": 0.3, **more}
    start = base if len(base) else np.zeros(len(values))
    if flat:
        return Mark("flat bars", values, places, label, start, shown | {"height": wide}, page)
    return Mark("bars", places, values, label, start, shown | {"width": wide}, page)


def spans(row: float, spans: Iterable[tuple[float, float]], label: str = "", size: float = 0.72, **look: Any) -> Mark:
    """Return bars from start to end in a row of height ``size``."""
    starts, ends = zip(*spans, strict=True) if (spans := list(spans)) else ((), ())
    return Mark("spans", ends, [row], label, starts, {"size": size, "linewidth": 0, **look})


def stacked(
    places: Values, series: Mapping[str, Values], looks: Mapping[str, Look], labels: Mapping[str, str], **more: Any
) -> list[Mark]:
    """Return bars on each other, one for each key of ``series`` that is anything but zero."""
    found, start = [], np.zeros(len(places))
    for key, values in series.items():
        if np.any(values):
            found.append(bars(places, values, labels.get(key, key), looks[key], start, **more))
            start = start + values
    return found


def beside(index: int, count: int, room: float = 0.8) -> float:
    """Return where bar ``index`` of ``count`` that share the room of a name stands, from its middle."""
    return room * ((index + 0.5) / count - 0.5)


@dataclass(frozen=True)
class Panel:
    """Marks over two axes. ``note``: a line in small print under the title. ``legend``: columns of a legend of its own
    under its axis; ``inside``: it is in the upper left corner. ``bare``: without axes. ``equal``: one scale for both.
    ``finish``: draws what no mark can say. ``page``: what only pages know."""

    title: str
    marks: Sequence[Mark]
    x: Axis = PLAIN
    y: Axis = PLAIN
    note: str = ""
    grid: Literal["", "x", "y", "both"] = ""
    legend: int = 0
    inside: bool = False
    bare: bool = False
    equal: bool = False
    finish: Finish | None = None
    page: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """Panels one above the other, or ``across`` many side by side; ``legend``: columns of a common legend, at most."""

    height_in: float
    panels: Sequence[Panel]
    title: str = ""
    note: str = ""
    legend: int = 0
    across: int = 1
    share: Literal["", "x", "y"] = ""
    ratios: Sequence[float] | None = None

    def figure(self) -> Figure:
        """Draw it; the caller owns the figure."""
        with styled():
            rows = -(-len(self.panels) // self.across)
            shared = {f"share{self.share}": True} if self.share else {}
            fig, axes = figure(self.height_in, rows, self.across, height_ratios=self.ratios, **shared)
            for at, (panel, ax) in enumerate(zip(self.panels, axes, strict=True)):
                _draw(ax, panel, not self.title)
                if self.share == "x" and at + self.across < len(axes):
                    ax.set_xlabel("")
                if self.share == "y" and at % self.across:
                    ax.set_ylabel("")
            look: dict[str, Any] = {"weight": "bold"} if self.title else {"fontsize": 8, "color": "#555555"}
            if heading := self.title or self.note:
                fig.suptitle(heading, x=0.01, ha="left", **look)
            if self.legend:
                _legend(fig, fig, axes, self.legend)
            for panel, ax in zip(self.panels, axes, strict=True):
                _finish(fig, ax, panel)
        return fig

    def file(self, suffix: str) -> Make:
        """Return what writes it as PNG, or as SVG where ``suffix`` is '.svg'."""
        return style.picture(self.figure(), suffix)

    def save(self, path: Path) -> None:
        """Write it as PNG or SVG, by the suffix of ``path``: the same bytes for the same picture."""
        write_file(path, self.file(path.suffix))


def nothing(title: str, why: str) -> Panel:
    """Return a panel without anything to show, which says why."""
    return Panel(title, [note(0.5, 0.5, why, side="center", fontsize=9)], bare=True)


def _draw(axes: Axes, panel: Panel, alone: bool) -> None:
    """Draw a panel; ``alone``: the picture has no title but the panel's own."""
    factors, units = [], []
    for axis, values in ((panel.x, ends(panel.marks, 0)), (panel.y, ends(panel.marks, 1))):
        factor, unit = prefixed((value * axis.factor for value in values), axis.unit) if axis.unit else (1.0, "")
        factors.append(factor * axis.factor)
        units.append(unit)
    if panel.bare:
        axes.set_axis_off()
    if panel.equal:
        axes.set_aspect("equal", adjustable="datalim")
    for axis, scale in ((panel.x, axes.set_xscale), (panel.y, axes.set_yscale)):
        if axis.scale != "linear":
            scale("log", base=2 if axis.scale == "log2" else 10)
    for mark in panel.marks:
        _paint(axes, mark, *factors)
    _axis(axes, "x", panel.x, factors[0], units[0])
    _axis(axes, "y", panel.y, factors[1], units[1])
    if panel.grid:
        axes.grid(True, axis=panel.grid)
    look: dict[str, Any] = {} if alone else {"fontsize": 9.5, "weight": "normal"}
    axes.set_title(panel.title, pad=20 if panel.note else 6, **look)
    if panel.note:
        subtitle(axes, panel.note)


def _finish(fig: Figure, axes: Axes, panel: Panel) -> None:
    """Add what needs the panels of the whole figure: legends of its own, and what no mark can say."""
    if panel.inside:
        axes.legend(loc="upper left")
    if panel.legend:
        _legend(fig, axes, [axes], panel.legend)
    if panel.finish:
        panel.finish(fig, axes)


def ends(marks: Sequence[Mark], which: int) -> Iterator[float]:
    """Yield values along an axis, those of bars at their ends; no rules and texts, which may lie far away."""
    for mark in marks:
        if mark.kind in ("rule", "note"):
            continue
        values = np.asarray(mark[1 + which], float)
        lengths = ("flat bars", "bars")[which]
        yield from (values + mark.base if mark.kind == lengths else values).tolist()


def _axis(axes: Axes, which: Literal["x", "y"], axis: Axis, factor: float, unit: str) -> None:
    """Limits, ticks and label of the axis ``which``: 'x' or 'y'."""
    own, names = getattr(axes, f"{which}axis"), axis.names
    limit, ticks = getattr(axes, f"set_{which}lim"), getattr(axes, f"set_{which}ticks")
    low, high = (None if end is None else end * factor for end in (axis.low, axis.high))
    if axis.scale == "log" and names is None:
        log_axis(own)
    if axis.whole:
        axes.locator_params(axis=which, integer=True)
    if names is not None:
        listed = not isinstance(names, Mapping)
        shown = names if isinstance(names, Mapping) else dict(enumerate(names))
        ticks(list(shown), list(shown.values()))
        axes.minorticks_off()
        axes.tick_params(axis=which, **({"length": 0} if listed or which == "y" else {}), labelsize=8)
        if listed and which == "y" and low is None:
            low, high = len(names) - 0.4, -0.6
    elif axis.text is not None:
        text = axis.text
        own.set_major_formatter(lambda value, _: text(value))
    if low is not None or high is not None:
        limit(low, high)
    own.set_label_text(f"{axis.label} ({unit})" if unit and axis.label else axis.label)


def _paint(axes: Axes, mark: Mark, fx: float, fy: float) -> None:
    """Draw a mark; ``fx``, ``fy``: factors of the prefixes of both axes."""
    x, y, look = np.asarray(mark.x) * fx, np.asarray(mark.y) * fy, {"label": mark.label or "_", **mark.look}
    match mark.kind:
        case "line":
            axes.plot(x, y, **look)
        case "dots":
            axes.scatter(x, y, **look)
        case "area":
            axes.fill_between(x, np.asarray(mark.base) * fy, y, **look)
        case "rule":
            (axes.axvline if len(x) else axes.axhline)((x if len(x) else y)[0], **look)
        case "strokes":
            axes.vlines(x, mark.base[0] * fy, y[0], **look)
        case "note":
            where = (mark.x[0] if "xycoords" in look else x[0], y[0])
            axes.annotate(mark.label, where, **mark.look)
        case "flat bars":
            axes.barh(y, x, left=np.asarray(mark.base) * fx, **look)
        case "spans":
            size, start = look.pop("size"), np.asarray(mark.base) * fx
            axes.broken_barh(np.stack([start, x - start], 1).tolist(), (y[0] - size / 2, size), **look)
        case "bars":
            _bars(axes, x, y, np.asarray(mark.base) * fy, **look)


def _bars(axes: Axes, x: Array, y: Array, base: Array, width: float, color: str, **look: Any) -> None:
    from matplotlib.collections import PolyCollection

    if len(x) <= MANY:
        axes.bar(x, y, width, base, color=color, **look)
        return
    left, right, top = x - width / 2, x + width / 2, base + y
    corners = np.stack([left, base, left, top, right, top, right, base], 1).reshape(-1, 4, 2)[y > 0]
    axes.add_collection(PolyCollection(corners.tolist(), facecolor=color, **look))
    axes.autoscale_view()


def _legend(fig: Figure, owner: Figure | Axes, axes: Sequence[Axes], most: int) -> None:
    """Place a legend below a figure, or below one of its axes, in as many columns as there is room for; long entries go
    on in a further line."""
    from matplotlib.transforms import ScaledTranslation

    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    where: dict[str, Any] = {"loc": "outside lower center"}
    room_px, fewest = fig.bbox.width - 2 * MARGIN_PX, (1, ENTRY[-1])
    if owner is not fig:
        below = axes[0].transAxes + ScaledTranslation(0, -UNDER_PT / 72, fig.dpi_scale_trans)
        where = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below, "borderaxespad": 0}
        room_px *= 0.87
    for columns, width in product(range(min(most, len(handles)), 0, -1), ENTRY):
        texts = ["\n".join(wrapped(label, width)) for label in handles]
        drawn = owner.legend(list(handles.values()), texts, ncols=columns, **where)
        if (columns, width) == fewest or drawn.get_window_extent(renderer(fig)).width <= room_px:
            return
        drawn.remove()
