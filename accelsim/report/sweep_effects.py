"""Effects of the axes of a sweep: main effects, those around a base point, elementary effects, Sobol's indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelsim.explore.sweep.designs import DESIGNS, METHODS
from accelsim.explore.sweep.fronts import Effect
from accelsim.explore.sweep.study import Study
from accelsim.report.answer import Field, Part, Table
from accelsim.report.picture import Axis, Panel, Picture, bars, note, points
from accelsim.report.style import BLUE, FAINT

MEANS = "of geometric means over all points with that value"
AROUND = "around the first point, from which all others differ in one axis"
WIDE = 5
"""Ratio from which bars are drawn on a logarithmic scale."""
ROUNDING = 1e-9
"""Change that is none."""


def short(axis: str) -> str:
    """Return the last parts of the names of an axis; a capacity with its memory, since a chip has several."""
    return ", ".join(".".join(name.rsplit(".", 2)[-1 - name.endswith(".capacity") :]) for name in axis.split(","))


def sensitivity_rows(study: Study) -> list[dict[str, object]]:
    """Return sensitivities as records; none for other designs than 'morris' and 'sobol'."""
    return [
        {"objective": name, "axis": axis, **figures}
        for name in study.objectives
        for axis, figures in study.sensitivities(name)[0].items()
    ]


def effects_shown(
    study: Study, found: Mapping[str, Sequence[Effect]], changes: Sequence[Mapping[str, object]]
) -> list[Part]:
    """Return the table of effects; by the designs 'morris' and 'sobol' that of their figures, or why there is none."""
    if study.design in METHODS:
        columns, legend = FIGURES[study.design]
        fields = (Field("objective", "objective"), Field("axis", "axis", short), *columns)
        return [*_left_out(study), *([Table(fields, changes, legend=legend)] if changes else [])]
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
    if not DESIGNS[study.design].is_there:
        return ["Sensitivities need SALib: 'pip install accelsim[sweep]'."]
    found = {name: study.sensitivities(name)[1] for name in study.objectives}
    return [
        f"{name}: {count:,} groups of points are left out, as some of them have no figure."
        for name, count in found.items()
        if count
    ]


DIGITS = "{:.3g}".format
FIGURES: Mapping[str, tuple[Sequence[Field], str]] = {
    "morris": (
        (
            Field("mu_star", "mu*", DIGITS, meaning="mean change of the natural logarithm over the whole axis"),
            Field("sigma", "sigma", DIGITS, meaning="its spread: large where the change depends on other axes"),
        ),
        "Elementary effects (Morris)",
    ),
    "sobol": (
        (
            Field("first", "first order", DIGITS, meaning="share of the variance of the logarithm by this axis alone"),
            Field("first_plus_minus", "+-", DIGITS, meaning="half of the 90 % interval"),
            Field("total", "total order", DIGITS, meaning="share with all that it does together with other axes"),
            Field("total_plus_minus", " +-", DIGITS),
        ),
        "Sobol's indices",
    ),
}
"""Design -> columns of its figures, and the legend of their table."""


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


def sensitivity_plot(changes: Sequence[Mapping[str, object]]) -> Picture | None:
    """Draw the figures of a design of ``METHODS``."""
    return morris_plot(changes) if "mu_star" in changes[0] else _sobol_plot(changes)


def _sobol_plot(changes: Sequence[Mapping[str, object]]) -> Picture:
    """Draw total and first order of each axis as bars, a panel for each objective."""
    panels = []
    for name in dict.fromkeys(row["objective"] for row in changes):
        own = [row for row in changes if row["objective"] == name]
        places = [float(at) for at in range(len(own))]
        marks = [
            bars(places, [float(str(row[key])) for row in own], title, look, wide=wide, flat=True)
            for key, title, look, wide in (("total", "total order", FAINT, 0.75), ("first", "first order", BLUE, 0.4))
        ]
        names = Axis(names=[short(str(row["axis"])) for row in own])
        panels.append(Panel(f"{name}: what each axis changes", marks, Axis("share of the variance"), names))
    return Picture(1.6 + 0.5 * len(changes), panels, legend=2)


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
