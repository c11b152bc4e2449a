"""The roofline of a run: a panel for each off-chip memory, a mark for each layer, and labels that keep apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import cos, isfinite, log, pi, sin
from typing import TYPE_CHECKING, Any

from accelsim.account.critical_path import HIDDEN, KEYS
from accelsim.account.latency import Layer, layers
from accelsim.account.roofline import Point, Roofline, rooflines
from accelsim.account.spans import multiplier_title
from accelsim.errors import count_of
from accelsim.machine.run import Run
from accelsim.report.layer_plots import Plot
from accelsim.report.looks import REASON_LOOKS
from accelsim.report.page.layers import lines_of
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, points
from accelsim.report.style import FAINT, INK, lay_out, renderer
from accelsim.report.text import percent, si, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

TITLE = 104
"""Characters of titles that fit beside each other."""
TOLD = ("{rate} at {intensity} operations per byte", "{share} of the roof there, {roof}")
"""Words of a page beside the mark of a layer."""
POINTS_PER_IN = 72
NEAR_PT, STEP_PT, STEPS = 9.0, 11.0, 6
"""From the middle of a mark to its label, points: at least, and how much farther in each of so many steps."""
LINE_PX, LINE_PARTS = 2, 200
"""Width of the roof, and the parts in which labels keep away from it."""
ANGLES = tuple(eighth * pi / 4 for eighth in (-1, 1, 0, -2, -3, 3, 4, 2))
"""Directions in which a label is tried, the best first: below and to the right."""


def roofline(run: Run) -> Picture | None:
    """Draw one panel per off-chip memory with every layer; the area of a mark is its share of the latency."""
    roofs = [roof for roof in rooflines(run) if any(isfinite(p.intensity_ops_per_B) for p in roof.points)]
    if not roofs:
        return None
    rows = {layer.index: layer for layer in layers(run)}
    rates = [p.achieved_ops_per_s for roof in roofs for p in roof.points if p.achieved_ops_per_s]
    label = "achieved (one MAC is two operations)"
    y = Axis(label, "", "log", min(rates) / 2.5, roofs[0].peak_ops_per_s * 2, text=partial(si, unit="OPS"))
    panels = [_panel(roof, rows, run, y, TITLE // len(roofs) - 4) for roof in roofs]
    title = "Roofline: how fast each layer ran, and how fast it could"
    return Picture(5.0, panels, title, legend=3, across=len(roofs), share="y")


def _panel(roof: Roofline, rows: Mapping[int, Layer], run: Run, y: Axis, width: int) -> Panel:
    finite = [p.intensity_ops_per_B for p in roof.points if isfinite(p.intensity_ops_per_B)]
    knee, peak = roof.knee_ops_per_B, roof.peak_ops_per_s
    low, high, shown = min(*finite, knee) / 4, max(*finite, knee) * 4, _shown(roof)
    looks = {p: REASON_LOOKS[rows[p.layer].bound_key].color for p in shown}
    dots = {
        "s": [_area(rows[p.layer], run) for p in shown],
        "c": list(looks.values()),
        "edgecolors": "white",
        "linewidths": 0.6,
        "zorder": 3,
    }
    achieved = [p.achieved_ops_per_s for p in shown]
    lines = lines_of(run)
    columns = {
        "line": [lines.line_of(p.layer) for p in shown],
        "name": [str(rows[p.layer].number or "") for p in shown],
        "rate": [si(rate, "OPS") for rate in achieved],
        "intensity": list(map(si, (p.intensity_ops_per_B for p in shown))),
        "share": [percent(p.achieved_ops_per_s / roof.roof(p.intensity_ops_per_B)) for p in shown],
        "roof": [si(roof.roof(p.intensity_ops_per_B), "OPS") for p in shown],
    }
    page = {"columns": columns, "told": TOLD}
    marks = [
        line([low, knee, high], [roof.roof(low), peak, peak], linewidth=1.5),
        line([knee, knee], [y.low or 0.0, peak], "", FAINT, ":", linewidth=1),
        Mark("dots", [p.intensity_ops_per_B for p in shown], achieved, look=dots, page=page),
    ]
    for key in dict.fromkeys(rows[p.layer].bound_key for p in shown):
        label = "adds no time" if key == HIDDEN else f"bound by {KEYS[key]}"
        marks.append(points([], [], label, REASON_LOOKS[key].color))
    kind = "" if roof.kind == roof.memory else f" ({roof.kind})"
    hidden = sum(not isfinite(p.intensity_ops_per_B) for p in roof.points)
    facts = [
        f"{roof.memory}{kind}, {si(roof.bandwidth_Bps, 'B/s')}",
        f"peak {si(peak, 'OPS')}, knee at {si(knee)} operations/B",
        f"not shown: {count_of(hidden, 'layer')} without bytes" if hidden else "",
    ]
    held = "\n".join(wrapped(f"operations per byte of {', '.join(roof.holds)}", width))
    title = "\n".join(part for text in facts for part in wrapped(text, width))
    x = Axis(held, "", "log", low, high)
    return Panel(title, marks, x, y, grid="both", finish=partial(_labels, roof, rows, run))


def _labels(roof: Roofline, rows: Mapping[int, Layer], run: Run, fig: Figure, axes: Axes) -> None:
    """Name roofs and marks where there is room: only now it is known where things are."""
    from matplotlib.transforms import Bbox

    lay_out(fig)
    (low, high), shown = axes.get_xlim(), _shown(roof)
    places = [(p.intensity_ops_per_B, p.achieved_ops_per_s) for p in shown]
    sizes = [_area(rows[p.layer], run) ** 0.5 * fig.dpi / POINTS_PER_IN for p in shown]
    for part in range(LINE_PARTS + 1):  # no label fits between these places on the roof
        x = low ** (1 - part / LINE_PARTS) * high ** (part / LINE_PARTS)
        places.append((x, roof.roof(x)))
        sizes.append(LINE_PX)
    taken = [
        Bbox.from_bounds(x - size / 2, y - size / 2, size, size)
        for (x, y), size in zip(axes.transData.transform(places).tolist(), sizes, strict=True)
    ]
    for choices in (*_roof_names(axes, roof, multiplier_title(run.chip)), *_mark_names(axes, shown, rows, run)):
        _place(fig, axes, choices, taken)


def _shown(roof: Roofline) -> list[Point]:
    return [p for p in roof.points if isfinite(p.intensity_ops_per_B) and p.achieved_ops_per_s]


def _area(layer: Layer, run: Run) -> float:
    """Return the area of a mark, square points."""
    return 18 + 400 * layer.added_fs / max(run.time_fs, 1)


def _roof_names(axes: Axes, roof: Roofline, engine: str) -> Iterator[Iterator[Annotation]]:
    """The two roofs by name, each along its line: the memory on the slope, the ``engine`` of products on the flat."""
    (low, high), knee = axes.get_xlim(), roof.knee_ops_per_B
    look: dict[str, object] = {"fontsize": 7.5, "color": INK}
    peak = f"peak of {engine} {si(roof.peak_ops_per_s, 'OPS')}"
    yield (_label(axes, peak, (high, roof.peak_ops_per_s), (-2, 7 + up), "right", **look) for up in (0, 8, 12))
    slope = f"{roof.memory} {si(roof.bandwidth_Bps, 'B/s')}"
    places = [low ** (1 - part) * knee**part for part in (0.65, 0.8, 0.5, 0.95, 0.35)]
    yield (_label(axes, slope, (x, roof.roof(x)), (-4, 7), "right", **look) for x in places)


def _mark_names(
    axes: Axes, points: Sequence[Point], rows: Mapping[int, Layer], run: Run
) -> Iterator[Iterator[Annotation]]:
    """The numbers of the layers, each label wherever it may stand, the best place first."""
    for group in _clusters(axes, points, rows):
        numbers = [str(rows[p.layer].number) for p in group]
        text = ", ".join(numbers) if len(numbers) <= 3 else f"{numbers[0]}, {numbers[1]}, +{len(numbers) - 2}"
        where = (group[0].intensity_ops_per_B, group[0].achieved_ops_per_s)
        yield _around(axes, text, where, _area(rows[group[0].layer], run) ** 0.5 / 2)


def _around(axes: Axes, text: str, where: tuple[float, float], radius_pt: float) -> Iterator[Annotation]:
    """A label beside a mark in all directions, then farther away with a line between the two."""
    line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0}
    for step, angle in product(range(STEPS), ANGLES):
        reach = radius_pt + NEAR_PT + step * STEP_PT
        x, y = reach * cos(angle), reach * sin(angle)
        side = "center" if abs(x) < 1 else "left" if x > 0 else "right"
        yield _label(axes, text, where, (x, y), side, fontsize=7, color="#444444", arrowprops=line if step else None)


def _label(
    axes: Axes, text: str, where: tuple[float, float], offset_pt: tuple[float, float], side: str, **look: Any
) -> Annotation:
    found = axes.annotate(
        text, where, xytext=offset_pt, textcoords="offset points", ha=side, va="center", zorder=4, **look
    )
    found.set_in_layout(False)
    return found


def _place(fig: Figure, axes: Axes, choices: Iterator[Annotation], taken: list[Bbox]) -> None:
    """The first of the choices within the axes that covers nothing of what is ``taken`` stays; none, where all do."""
    from matplotlib.text import Text

    for label in choices:
        label.update_positions(renderer(fig))
        box = Text.get_window_extent(label, renderer(fig))  # without the line to the mark
        frame = axes.bbox
        within = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        if within and not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return
        label.remove()


def _clusters(axes: Axes, points: Sequence[Point], rows: Mapping[int, Layer]) -> list[list[Point]]:
    """Points that lie so close that they can only share one label; the costliest layer leads each group."""
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    groups: list[tuple[float, float, list[Point]]] = []
    for point in sorted(points, key=lambda p: -rows[p.layer].added_fs):
        x = log(point.intensity_ops_per_B / low) / log(high / low)
        y = log(point.achieved_ops_per_s / bottom) / log(top / bottom)
        for gx, gy, group in groups:
            if abs(gx - x) < 0.05 and abs(gy - y) < 0.04:
                group.append(point)
                break
        else:
            groups.append((x, y, [point]))
    return [group for _, _, group in groups]


PLOTS = (
    Plot(
        "roofline",
        "Roofline",
        "A mark is a layer (numbers as in the table), its area the layer's share of the time. No layer "
        "can lie above the line: left of the knee the memory is the limit, right of it the arithmetic.",
        roofline,
        "no layer used the engine of products and moved data off the chip",
    ),
)
"""Rows of the registry."""
