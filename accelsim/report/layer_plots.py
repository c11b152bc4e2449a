"""Plots with one bar or mark per layer: latency, energy, and what moving data costs against computing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from accelsim.account.categories import CATEGORIES
from accelsim.account.critical_path import KEYS, OPERANDS, by_blame
from accelsim.account.energy import STATIC, price_list
from accelsim.account.latency import Layer, layers, main_format
from accelsim.account.latency import lines as lines_of
from accelsim.machine.run import Run
from accelsim.program.actions import mac
from accelsim.program.roles import multiplier
from accelsim.report.looks import CATEGORY_LOOKS, REASON_LOOKS
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points, stacked
from accelsim.report.style import BLUE, GREEN, VERMILLION, Look, ticks
from accelsim.report.table import layer_names
from accelsim.report.text import shorten, si
from accelsim.spec.levels import home
from accelsim.time import FS
from accelsim.workload.graph import FORMAT_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES = 40
"""Up to so many layers, each has its name and a horizontal bar; beyond, numbers along a horizontal axis."""
NAME_WIDTH = 30
LEAST_SHOWN = 4
"""Layers to which a page can stretch a plot."""
NOTHING: Mapping[str, object] = {}
MOST_STAGES = 16
"""Names of stages that fit beside each other."""
STATIC_WORTH = 0.05
"""Share of static power from which on the energy is drawn once more without it."""


class Plot(NamedTuple):
    """A picture of a run by ``name``. ``caption`` says how to read it. ``function`` returns None where a run has
    nothing to show; then a report has no such picture, and ``empty`` says why."""

    name: str
    title: str
    caption: str
    function: Callable[[Run], Picture | None]
    empty: str = ""


def _picture(rows: Sequence[Layer], panels: Sequence[Panel]) -> Picture:
    """Return panels side by side where layers have names, else one above the other."""
    if len(rows) <= MOST_NAMES:
        return Picture(max(2.6, 1.5 + 0.21 * len(rows)), panels, legend=4, across=len(panels), share="y")
    return Picture(1.0 + 3.6 * len(panels), panels, legend=4, share="x")


def _panel(
    rows: Sequence[Layer],
    title: str,
    caption: str,
    marks: Sequence[Mark],
    quantity: Axis,
    last: bool = True,
    page: Mapping[str, object] = NOTHING,
) -> Panel:
    """Return a panel over the layers: their names downwards where they fit, else their numbers to the right."""
    if len(rows) <= MOST_NAMES:
        names = {
            place: f"{shorten(name, NAME_WIDTH)}  {layer.number or ''}".rstrip()
            for place, (layer, name) in enumerate(zip(rows, layer_names(rows), strict=True), 1)
        }
        return Panel(title, marks, quantity, Axis(low=len(rows) + 0.6, high=0.4, names=names), caption, "x", page=page)
    shown = set(ticks(len(rows), 20))
    numbers = {place: str(layer.number) for place, layer in enumerate(rows, 1) if layer.number in shown}
    x = Axis("layer (number in the table)" if last else "", low=0.2, high=len(rows) + 0.8, names=numbers)
    finish = partial(_name_stages, rows) if last else None
    return Panel(title, marks, x, quantity, caption, "y", finish=finish, page={**page, "zoom": LEAST_SHOWN})


def _name_stages(rows: Sequence[Layer], _: Figure, axes: Axes) -> None:
    """Name under the numbers where each stage of the network begins, as many names as fit."""
    found = stages(rows)
    if len(found) < 2:
        return
    second = axes.secondary_xaxis(-0.13)
    second.set_xticks([first - 0.5 for _, first, _ in found], labels=[])
    second.tick_params(length=5)
    apart = len(rows) / MOST_STAGES  # layers that the name of a stage is wide
    last, where = -apart, ("data", "axes fraction")
    for name, first, end in found:
        middle = (first + end) / 2
        if middle - last >= apart and end - first + 1 >= apart / 2:
            axes.annotate(name, (middle, -0.14), xycoords=where, ha="center", va="top", fontsize=7.5)
            last = middle
    axes.xaxis.labelpad = 27


def stages(rows: Sequence[Layer]) -> list[tuple[str, int, int]]:
    """(stage, place of its first layer, of its last): neighbours of one stage; those without one join the next."""
    found: list[tuple[str, int, int]] = []
    for number, layer in enumerate(rows, 1):
        if found and layer.stage in ("", found[-1][0]):
            found[-1] = (found[-1][0], found[-1][1], number)
        else:
            found.append((layer.stage, number, number))
    return found


def _bars(
    rows: Sequence[Layer],
    series: Mapping[str, Sequence[float]],
    looks: Mapping[str, Look],
    labels: Mapping[str, str],
    title: str,
    label: str,
    unit: str,
    last: bool = True,
) -> Panel:
    """Return stacked bars per layer; ``series``: key -> values in SI units of ``unit``."""
    totals = [sum(values) for values in zip(*series.values(), strict=True)] or [0.0] * len(rows)
    places, largest = range(1, len(rows) + 1), max(totals, default=0.0) or None
    named, lines = len(rows) <= MOST_NAMES, {"columns": {"line": range(len(rows))}}
    parts = {"first": 1, "count": len(rows), "flat": named, "unit": unit, "heading": f"{label}:"}
    if named:
        marks = stacked(places, series, looks, labels, flat=True, page=lines)
        marks += [note(end, at, si(end, unit), (3, 0)) for at, end in zip(places, totals, strict=True)]
        axis = Axis(label, unit, low=0, high=largest and 1.18 * largest)
        return _panel(rows, title, "", marks, axis, page={"parts": parts})
    names = layer_names(rows)
    top = sorted(range(len(rows)), key=lambda i: -totals[i])[:2]
    called = [f"layer {rows[i].number}, " * bool(rows[i].number) + shorten(names[i], NAME_WIDTH) for i in top]
    caption = "; ".join(f"{name} ({si(totals[i], unit)})" for name, i in zip(called, top, strict=True))
    marks = stacked(places, series, looks, labels, wide=0.85, page=lines)
    axis = Axis(label, unit, low=0, high=largest and 1.05 * largest)
    return _panel(rows, title, f"largest: {caption}", marks, axis, last, {"parts": parts})


def key_labels(run: Run) -> dict[str, str]:
    """Keys of ``KEYS`` -> text for a legend, with the names of the resources: 'moving weights (ddr3)'."""
    named: dict[str, dict[str, None]] = {}
    for blame in by_blame(run):
        named.setdefault(blame.key, {})[blame.resource] = None
    several = (*OPERANDS, "latency", "requests", "buffer_port")
    return {
        key: f"{text} ({', '.join(named[key])})" if key in several and key in named else text
        for key, text in KEYS.items()
    }


def latency(run: Run) -> Picture:
    """Draw what each layer adds to the latency, its time on the critical path, split by what it went to."""
    rows = lines_of(layers(run))
    series = {key: [layer.reasons.get(key, 0) * FS for layer in rows] for key in KEYS}
    title, label = (f"Latency per layer: together {si(run.seconds, 's')}", "time that the layer adds to the run")
    return _picture(rows, [_bars(rows, series, REASON_LOOKS, key_labels(run), title, label, "s")])


def energy(run: Run) -> Picture:
    """Draw energy of each layer by category: with its share of the static power, and without where that is worth it."""
    rows = lines_of(layers(run))
    total, static = (sum(parts) for parts in ([layer.energy_J for layer in rows], _joules(rows, STATIC)))
    panels = [("Energy per layer: together", total, list(CATEGORIES))]
    if total > static >= STATIC_WORTH * total:
        dynamic = [name for name in CATEGORIES if name != STATIC]
        panels.append(("Without static power:", total - static, dynamic))
    return _picture(rows, [
        _bars(rows, {name: _joules(rows, name) for name in names}, CATEGORY_LOOKS, {}, f"{title} {si(joules, 'J')}",
              "energy", "J", number == len(panels))
        for number, (title, joules, names) in enumerate(panels, 1)
    ])  # fmt: skip


def _joules(rows: Sequence[Layer], *kinds: str) -> list[float]:
    return [sum(layer.energy_by_category_J.get(kind, 0.0) for kind in kinds) for layer in rows]


MARKS = (
    (("MAC",), "o", BLUE, "computing: multiply and add"),
    (("PE registers", "PE network", "on-chip SRAM"), "^", GREEN, "moving on the chip: SRAM and registers"),
    (("off-chip memory", "link"), "s", VERMILLION, "moving off the chip: memory and links"),
)


def moving_data(run: Run) -> Picture | None:
    """Draw energy of computing, of on-chip and of off-chip data movement per layer, on a logarithmic axis."""
    rows = lines_of(layers(run))
    named, sums, marks = len(rows) <= MOST_NAMES, [_joules(rows, *kinds) for kinds, *_ in MARKS], []
    if not any(map(any, sums)):
        return None
    for place, values in enumerate(zip(*sums, strict=True), 1):
        ends = [value for value in values if value]
        if len(ends) > 1:
            x, y = ([min(ends), max(ends)], [place, place])[:: 1 if named else -1]
            marks.append(line(x, y, color="#cccccc", linewidth=1, zorder=1))
    for (_, marker, color, label), joules in zip(MARKS, sums, strict=True):
        where = [place for place, value in enumerate(joules, 1) if value]
        x, y = ([value for value in joules if value], where)[:: 1 if named else -1]
        page = {"columns": {"line": [place - 1 for place in where]}}
        marks.append(points(x, y, label, color, marker, ms=6 if named else 4)._replace(page=page))
    quantity = Axis("energy of the layer, logarithmic", "J", "log")
    title = "Energy of moving data against computing"
    return _picture(rows, [_panel(rows, title, access_note(run), marks, quantity)])


def access_note(run: Run) -> str:
    """'one int8 operand from ddr3: 63 pJ = 315 MACs of 0.2 pJ'; '' without matrix work or memory."""
    memory, mac_format = home(run.chip, "weights"), main_format(run)
    prices = price_list(run.chip)
    unit = multiplier(run.chip)
    mac_J = prices.get((unit.name, mac(mac_format)), 0.0) if unit else 0.0
    if not memory or not mac_J:
        return ""
    access_J = prices[memory, "read"] * FORMAT_BYTES.get(mac_format, 1.0)
    return (
        f"reading one {mac_format} operand from {memory} costs {si(access_J, 'J')}, "
        f"as much as {si(access_J / mac_J)} MACs of {si(mac_J, 'J')}"
    )


PLOTS = (
    Plot(
        "latency",
        "Latency per layer",
        "A bar is what the layer adds to the run: its time on the critical path. Bars add up to the latency; "
        "colours say what the run was waiting for. What happens meanwhile, such as a prefetch, is in no bar.",
        latency,
    ),
    Plot(
        "energy",
        "Energy per layer",
        "Energy of each layer by what used it. Static power is charged for the time that the layer adds; the "
        "second panel leaves it out.",
        energy,
    ),
    Plot(
        "moving_data",
        "Energy of moving data against computing",
        "Three marks per layer, on a logarithmic axis: a small distance is a large factor.",
        moving_data,
        "no layer used energy to compute or to move data",
    ),
)
"""Rows of the registry."""
