"""Effects of the axes of a sweep: main effects, effects around a base point, elementary effects by Morris."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelsim.explore.sweep.designs import DESIGNS
from accelsim.explore.sweep.fronts import Effect
from accelsim.explore.sweep.study import Study
from accelsim.report.answer import Field, Part, Table
from accelsim.report.picture import Axis, Panel, Picture, bars, note, points
from accelsim.report.style import BLUE

MEANS = "of geometric means over all points with that value"
AROUND = "around the first point, from which all others differ in one axis"
WIDE = 5
"""Ratio from which bars are drawn on a logarithmic scale."""
ROUNDING = 1e-9
"""Change that is none."""


def short(axis: str) -> str:
    """Return the last parts of the names of an axis; a capacity with its memory, since a chip has several."""
    return ", ".join(".".join(name.rsplit(".", 2)[-1 - name.endswith(".capacity") :]) for name in axis.split(","))


def elementary_rows(study: Study) -> list[dict[str, object]]:
    """Return the elementary effects as records; none for other designs than 'morris'."""
    return [
        {"objective": name, "axis": axis, "mu_star": each.mean, "sigma": each.spread}
        for name in study.objectives
        for axis, each in study.elementary(name)[0].items()
    ]


def effects_shown(
    study: Study, found: Mapping[str, Sequence[Effect]], changes: Sequence[Mapping[str, object]]
) -> list[Part]:
    """Return the table of effects; by the design 'morris' that of elementary effects, or why there is none."""
    if study.design == "morris":
        return [*_left_out(study), *([_elementary_table(changes)] if changes else [])]
    records = [
        {"objective": name, "axis": each.axis, "best": each.best, "worst": each.worst, "ratio": each.ratio}
        for name, own in found.items()
        for each in own
    ]
    fields = (
        Field("objective", "objective"),
        Field("axis", "axis", short),
        Field("best", "best at"),
        Field("worst", "worst at"),
        Field("ratio", "worst / best", "{:.3g}".format, meaning=AROUND if study.design == "one-at-a-time" else MEANS),
    )
    return [Table(fields, records, legend="Effects")]


def _left_out(study: Study) -> list[str]:
    if not DESIGNS["morris"].is_there:
        return ["Elementary effects need SALib: 'pip install accelsim[sweep]'."]
    found = {name: study.elementary(name)[1] for name in study.objectives}
    return [
        f"{name}: {count:,} trajectories are left out, as points of them have no figure."
        for name, count in found.items()
        if count
    ]


def _elementary_table(changes: Sequence[Mapping[str, object]]) -> Table:
    fields = (
        Field("objective", "objective"),
        Field("axis", "axis", short),
        Field("mu_star", "mu*", "{:.3g}".format, meaning="mean change of the natural logarithm over the whole axis"),
        Field("sigma", "sigma", "{:.3g}".format, meaning="its spread: large where the change depends on other axes"),
    )
    return Table(fields, changes, legend="Elementary effects (Morris)")


def tornado(found: dict[str, list[Effect]]) -> Picture | None:
    """Draw one bar for each axis and objective: how much its values change the mean."""
    panels = []
    for name, own in found.items():
        if own:
            places = [float(at) for at in range(len(own))]
            longer = [each.ratio - 1 for each in own]
            marks = [bars(places, longer, look=BLUE, base=[1.0] * len(own), flat=True)]
            for at, each in zip(places, own, strict=True):
                marks.append(note(each.ratio, at, _ends(each), (4, 0)))
            names = Axis(names=[short(each.axis) for each in own])
            ratio = Axis(f"{name} at the worst value / at the best", scale="log" if own[0].ratio > WIDE else "linear")
            panels.append(Panel(f"{name}: what each axis changes", marks, ratio, names, page={"right": 200}))
    return Picture(1.2 + 0.5 * sum(len(own) for own in found.values()), panels) if panels else None


def _ends(effect: Effect) -> str:
    if effect.best == effect.worst or effect.ratio - 1 < ROUNDING:
        return "no change"
    return f"best at {effect.best}, worst at {effect.worst}"


def morris_plot(changes: Sequence[Mapping[str, object]]) -> Picture | None:
    """Draw mu* and sigma of each axis, a panel for each objective; None where there are no elementary effects."""
    panels = []
    for name in dict.fromkeys(row["objective"] for row in changes):
        own = [row for row in changes if row["objective"] == name]
        places: dict[tuple[float, float], list[str]] = {}
        for row in own:
            at = float(str(row["mu_star"])), float(str(row["sigma"]))
            places.setdefault(at, []).append(short(str(row["axis"])))
        x, y = zip(*places, strict=True)
        marks = [points(x, y, color=BLUE), *(note(*at, ", ".join(axes), (5, 5)) for at, axes in places.items())]
        panels.append(
            Panel(
                f"{name}: what each axis changes",
                marks,
                Axis("mu*: size of the change"),
                Axis("sigma: spread"),
                grid="both",
            )
        )
    return Picture(2.6 * len(panels), panels) if panels else None
