"""Plots with one bar or mark per layer: latency, energy, and what moving data costs against computing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from accelsim.account.critical_path import KEYS, OPERANDS, by_blame
from accelsim.account.energy import CATEGORY_NAMES, STATIC, price_list
from accelsim.account.latency import Layer, layers, lines, main_format
from accelsim.machine.run import Run
from accelsim.program.actions import mac
from accelsim.program.roles import multiplier
from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    CATEGORY_LOOKS,
    GREEN,
    REASON_LOOKS,
    VERMILLION,
    Look,
    Plot,
    figure,
    log_axis,
    prefixed,
    subtitle,
    ticks,
)
from accelsim.report.table import layer_names
from accelsim.report.text import shorten, si
from accelsim.spec.levels import home
from accelsim.time import FS
from accelsim.workload.graph import FORMAT_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

MOST_NAMES = 40
"""Up to so many layers, each has its name and a horizontal bar; beyond, numbers along a horizontal axis."""
NAME_WIDTH = 30
MOST_STAGES = 16
"""Names of stages that fit beside each other."""
BAR = 0.85
"""Width of a bar where there are many, of the room for it."""
STATIC_WORTH = 0.05
"""Share of static power from which on the energy is drawn once more without it."""


def _layer_figure(rows: Sequence[Layer], panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels: side by side where layers have names, else one above the other."""
    if len(rows) <= MOST_NAMES:
        fig, several = figure(max(2.6, 1.5 + 0.21 * len(rows)), 1, panels, sharey=True)
    else:
        fig, several = figure(1.0 + 3.6 * panels, panels, 1, sharex=True)
    _layer_axis(several[0 if len(rows) <= MOST_NAMES else -1], rows)
    return fig, several


def _layer_axis(axes: Axes, rows: Sequence[Layer]) -> None:
    named = len(rows) <= MOST_NAMES
    positions = range(1, len(rows) + 1)
    if named:
        names = [
            f"{shorten(name, NAME_WIDTH)}  {layer.number or ''}".rstrip()
            for layer, name in zip(rows, layer_names(rows), strict=True)
        ]
        axes.set_yticks(positions, names, fontsize=8)
        axes.set_ylim(len(rows) + 0.6, 0.4)
    else:
        told = set(ticks(len(rows), 20))
        places = [(place, layer.number) for place, layer in enumerate(rows, 1) if layer.number in told]
        axes.set_xticks([place for place, _ in places], [str(number) for _, number in places])
        axes.set_xlim(0.2, len(rows) + 0.8)
        axes.set_xlabel("layer (number in the table)")
        _name_stages(axes, rows)


def _name_stages(axes: Axes, rows: Sequence[Layer]) -> None:
    """Under the numbers: where each stage of the network begins, as many names as fit."""
    found = stages(rows)
    if len(found) < 2:
        return
    second = axes.secondary_xaxis(-0.13)
    second.set_xticks([first - 0.5 for _, first, _ in found], labels=[])
    second.tick_params(length=5)
    apart = len(rows) / MOST_STAGES  # layers that the name of a stage is wide
    last = -apart
    for name, first, end in found:
        middle = (first + end) / 2
        if middle - last >= apart and end - first + 1 >= apart / 2:
            axes.annotate(
                name, (middle, -0.14), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=7.5
            )
            last = middle
    axes.xaxis.labelpad = 24


def stages(rows: Sequence[Layer]) -> list[tuple[str, int, int]]:
    """(stage, place of its first layer, of its last): neighbours of one stage; those without one join the next."""
    found: list[tuple[str, int, int]] = []
    for number, layer in enumerate(rows, 1):
        if found and layer.stage in ("", found[-1][0]):
            found[-1] = (found[-1][0], found[-1][1], number)
        else:
            found.append((layer.stage, number, number))
    return found


def _stacked(
    axes: Axes,
    rows: Sequence[Layer],
    series: dict[str, list[float]],
    looks: dict[str, Look],
    labels: dict[str, str],
    unit: str,
) -> str:
    """Stacked bars per layer; ``series``: key -> values in SI units of ``unit``; returns the scaled unit."""
    named = len(rows) <= MOST_NAMES
    totals = [sum(values[i] for values in series.values()) for i in range(len(rows))]
    factor, name = prefixed(totals, unit)
    start = [0.0] * len(rows)
    positions = range(1, len(rows) + 1)
    for key, values in series.items():
        look, part = looks[key], [value * factor for value in values]
        style: dict[str, Any] = {
            "facecolor": look.color,
            "hatch": look.hatch,
            "edgecolor": "white",
            "linewidth": 0.3,
        }
        if named:
            axes.barh(positions, part, 0.75, left=start, label=labels[key], **style)
        else:
            axes.add_collection(_columns(start, part, label=labels[key], **style), autolim=False)
        start = [below + value for below, value in zip(start, part, strict=True)]
    if named:
        for place, total, end in zip(positions, totals, start, strict=True):
            options: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
            axes.annotate(si(total, unit), (end, place), xytext=(3, 0), **options)
    _room(axes, max(start, default=0.0), named)
    return name


def _columns(start: Sequence[float], part: Sequence[float], **looks: Any) -> PolyCollection:
    """Return bars at 1, 2, ... as one artist, which is drawn in a tenth of the time of one for each of many bars."""
    from matplotlib.collections import PolyCollection

    bars = zip(range(1, len(part) + 1), start, part, strict=True)
    left, right = -BAR / 2, BAR / 2
    corners = [
        ((place + left, low), (place + right, low), (place + right, low + high), (place + left, low + high))
        for place, low, high in bars
        if high
    ]
    return PolyCollection(corners, **looks)


def _room(axes: Axes, largest: float, named: bool) -> None:
    """Room behind the longest bar, for its figure; bars begin at the axis."""
    if largest:
        (axes.set_xlim if named else axes.set_ylim)(0, largest * (1.18 if named else 1.05))


def _largest(rows: Sequence[Layer], values: Sequence[float], unit: str) -> str:
    """The two layers with the largest values, for plots that have no room for names."""
    if len(rows) <= MOST_NAMES:
        return ""
    names = layer_names(rows)
    top = sorted(range(len(rows)), key=lambda i: -values[i])[:2]
    parts = [f"{_called(rows[i])}{shorten(names[i], NAME_WIDTH)} ({si(values[i], unit)})" for i in top]
    return f"largest: {'; '.join(parts)}"


def _called(layer: Layer) -> str:
    return f"layer {layer.number}, " if layer.number else ""


def _finish(axes: Axes, rows: Sequence[Layer], title: str, note: str, quantity: str) -> None:
    named = len(rows) <= MOST_NAMES
    axes.grid(True, axis="x" if named else "y")
    axes.set_title(title, pad=20 if note else 6)
    if note:
        subtitle(axes, note)
    if named:
        axes.set_xlabel(quantity)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_ylabel(quantity)


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


def latency(run: Run) -> Figure:
    """Return what each layer adds to the latency, its time on the critical path, split by what it went to."""
    rows = lines(layers(run))
    parts = [layer.reasons for layer in rows]
    keys = [key for key in KEYS if any(part.get(key) for part in parts)]
    series = {key: [part.get(key, 0) * FS for part in parts] for key in keys}
    fig, (axes,) = _layer_figure(rows)
    unit = _stacked(axes, rows, series, REASON_LOOKS, key_labels(run), "s")
    note = _largest(rows, [layer.added_fs * FS for layer in rows], "s")
    title = f"Latency per layer: together {si(run.seconds, 's')}"
    _finish(axes, rows, title, note, f"time that the layer adds to the run ({unit})")
    below(fig, axes)
    return fig


def energy(run: Run) -> Figure:
    """Energy of each layer by category: with its share of the static power, and without where that is worth it."""
    rows = lines(layers(run))
    total, static = sum(layer.energy_J for layer in rows), sum(map(_static_J, rows))
    left_out = static >= STATIC_WORTH * total and static < total
    fig, panels = _layer_figure(rows, 2 if left_out else 1)
    _energy_panel(panels[0], rows, CATEGORY_NAMES, f"Energy per layer: together {si(total, 'J')}")
    if left_out:
        dynamic = [name for name in CATEGORY_NAMES if name != STATIC]
        _energy_panel(panels[1], rows, dynamic, f"Without static power: {si(total - static, 'J')}")
    below(fig, panels[0])
    return fig


def _static_J(layer: Layer) -> float:
    return layer.energy_by_category_J.get(STATIC, 0.0)


def _energy_panel(axes: Axes, rows: Sequence[Layer], categories: Iterable[str], title: str) -> None:
    keys = [key for key in categories if any(layer.energy_by_category_J.get(key) for layer in rows)]
    series = {key: [layer.energy_by_category_J.get(key, 0.0) for layer in rows] for key in keys}
    unit = _stacked(axes, rows, series, CATEGORY_LOOKS, {key: key for key in keys}, "J")
    values = [sum(parts) for parts in zip(*series.values(), strict=True)] or [0.0] * len(rows)
    _finish(axes, rows, title, _largest(rows, values, "J"), f"energy ({unit})")


def has_dynamic_energy(run: Run) -> bool:
    """Return whether any layer used energy to compute or to move data."""
    return any(
        layer.energy_by_category_J.get(kind) for layer in layers(run) for kinds, *_ in MARKS for kind in kinds
    )


MARKS = (
    (("MAC",), "o", BLUE, "computing: multiply and add"),
    (("PE registers", "PE network", "on-chip SRAM"), "^", GREEN, "moving on the chip: SRAM and registers"),
    (("off-chip memory", "link"), "s", VERMILLION, "moving off the chip: memory and links"),
)


def moving_data(run: Run) -> Figure:
    """Energy of computing, of on-chip and of off-chip data movement per layer, on a logarithmic axis."""
    rows = lines(layers(run))
    fig, (axes,) = _layer_figure(rows)
    named = len(rows) <= MOST_NAMES
    sums = [
        [sum(layer.energy_by_category_J.get(kind, 0.0) for kind in kinds) for layer in rows]
        for kinds, *_ in MARKS
    ]
    factor, unit = prefixed([value for values in sums for value in values], "J")
    for (_, marker, color, label), joules in zip(MARKS, sums, strict=True):
        where = [place for place, value in enumerate(joules, 1) if value]
        values = [value * factor for value in joules if value]
        xy = (values, where) if named else (where, values)
        axes.plot(
            *xy, linestyle="none", marker=marker, color=color, markersize=6 if named else 4, label=label
        )
    _connect(axes, [[values[i] * factor for values in sums] for i in range(len(rows))], named)
    if any(map(any, sums)):
        (axes.set_xscale if named else axes.set_yscale)("log")
        log_axis(axes.xaxis if named else axes.yaxis)
    _finish(axes, rows, "Energy of moving data against computing", access_note(run),
            f"energy of the layer ({unit}, logarithmic)")  # fmt: skip
    below(fig, axes)
    return fig


def _connect(axes: Axes, triples: list[list[float]], named: bool) -> None:
    present = [(place, [value for value in values if value]) for place, values in enumerate(triples, 1)]
    spans = [(place, min(values), max(values)) for place, values in present if len(values) > 1]
    if spans:
        (axes.hlines if named else axes.vlines)(
            *zip(*spans, strict=True), color="#cccccc", linewidth=1, zorder=1
        )


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
        has_dynamic_energy,
    ),
)
"""What the registry has from here."""
