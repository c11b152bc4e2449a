"""Answer of a sweep: the front, its knee, what limits points, what each axis changes, points that gave nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from accelsim.errors import UsageError, count_of
from accelsim.explore.sweep.fronts import OBJECTIVES
from accelsim.explore.sweep.point import DONE
from accelsim.explore.sweep.study import Study
from accelsim.report.answer import Answer, Field, Part, Table
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points, rule
from accelsim.report.prices import usd
from accelsim.report.style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from accelsim.report.sweep_effects import effects_shown, sensitivity_plot, sensitivity_rows, short, tornado
from accelsim.report.sweep_page import explored
from accelsim.report.text import si

COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GREY)
"""Colours of what limits points, the most frequent first."""
SPELLED = {
    "cost": "cost of 1,000 samples", "hour": "price of an instance", "ttft": "time to first token",
    "tpot": "time per token", "throughput": "samples per second, more is better",
    "tokens": "tokens per second, more is better",
}  # fmt: skip
"""Objectives that an axis spells out."""
MOST_ROWS = 40
"""Points of the front that are listed; all of them are in --csv."""
MOST_NAMED = 5
"""Chips that a sentence names."""


def sweep(study: Study, ran: int, sensitivity: bool) -> Answer:
    """Report a study, of which ``ran`` points were run just now."""
    front, best = study.front, study.knee
    among = frozenset(front)
    rows = [_row(study, at, at in among) for at in range(len(study.members))]
    found, changes = study.effects, sensitivity_rows(study)
    told = [*_counts(study, ran), *_sentences(study, front, best)]
    facts = {
        "study": study.name,
        "points": len(study.members),
        "ran": ran,
        "objectives": list(study.objectives),
        "limits": dict(study.limits),
        "front": [rows[at] for at in front],
        "knee": None if best is None else rows[best],
        "effects": {name: [each._asdict() for each in own] for name, own in found.items()},
        "elementary": changes,
        "failed": _failed(study),
        "sentences": told,
    }
    shown: list[Part] = [" ".join(told)]
    if front:
        shown += ["", Table(_fields(study), [rows[at] for at in front[:MOST_ROWS]])]
    if sensitivity:
        shown += ["", *effects_shown(study, found, changes)]
    pictures = {
        "front": partial(_scatter, study, front, best),
        "effects": partial(sensitivity_plot, changes) if changes else partial(tornado, found),
    }
    order = ("effects", "front") if sensitivity else ("front", "effects")
    titles = {axis: short(axis) for axis in study.axes}
    return Answer(
        facts, shown, rows, {name: pictures[name] for name in order}, points=partial(explored, study, titles, COLORS),
        fails=False if front else _without_front(study),
    )  # fmt: skip


def _without_front(study: Study) -> UsageError:
    """Say why no point is on the front."""
    if not any(member.outcome is not None and member.outcome.status == DONE for member in study.members):
        return UsageError("no point gave figures", study.name, "another sweep; --csv has the reason of each point")
    if np.isnan([study.values(name) for name in study.objectives]).any(axis=0).all():
        return UsageError(f"no point has {' and '.join(study.objectives)}", study.name, "other objectives (--pareto)")
    return UsageError("no point keeps the limits", study.name, "other limits")


def _row(study: Study, at: int, front: bool) -> dict[str, object]:
    """One point for JSON and CSV: axes, figures, status."""
    member = study.members[at]
    found = member.outcome
    facts = {} if found is None else {key: value for key, value in found.facts.items() if key != "critical_path_s"}
    return {
        "number": member.number,
        **{axis: values[at] for axis, values in study.axes.items()},
        **{each.key: None for each in OBJECTIVES.values()},
        "limit": "",
        **facts,
        "front": front,
        "status": "not run" if found is None else found.status,
        "error": "" if found is None else found.error,
    }


def _fields(study: Study) -> list[Field]:
    """The axes, the objectives and the limit of a point."""
    chosen = [Field(axis, short(axis)) for axis in study.axes]
    chosen += [Field(OBJECTIVES[name].key, name, partial(_spelled, name)) for name in study.objectives]
    return [*chosen, Field("limit", "waits mostly for")]


def _counts(study: Study, ran: int) -> list[str]:
    done = sum(member.outcome is not None and member.outcome.status == DONE for member in study.members)
    told = [f"{count_of(len(study.members), 'point')}, {ran:,} run now; {done:,} gave figures."]
    failed = _failed(study)
    if failed:
        told.append("The others: " + ", ".join(f"{count:,} {status}" for status, count in failed.items()) + ".")
        if first := next((each.outcome.error for each in study.members if each.outcome and each.outcome.error), ""):
            told.append(f"The first of these: {first.splitlines()[0].rstrip('.?')}.")
    told += _missing(study)
    if study.limits and study.within.any():
        told.append(f"{int(study.within.sum()):,} keep the limits.")
    return told


def _missing(study: Study) -> list[str]:
    """Objectives and limits of which points that ran have no figure, and the chips of these points."""
    told = []
    for name in dict.fromkeys([*study.objectives, *study.limits]):
        values = study.values(name)
        lacking = [
            member.point.on
            for member, value in zip(study.members, values, strict=True)
            if np.isnan(value) and member.outcome is not None and member.outcome.status == DONE
        ]
        if lacking:
            on = list(dict.fromkeys(lacking))
            chips = ", ".join(on[:MOST_NAMED]) + (f" and {len(on) - MOST_NAMED:,} more" if len(on) > MOST_NAMED else "")
            what = "price" if name in ("cost", "hour") else name
            told.append(f"No {what} for {chips}: {_points(len(lacking), 'has', 'have')} no {name}.")
    return told


def _points(count: int, one: str, several: str) -> str:
    return f"1 point {one}" if count == 1 else f"{count:,} points {several}"


def _failed(study: Study) -> dict[str, int]:
    states = Counter("not run" if each.outcome is None else each.outcome.status for each in study.members)
    return {status: count for status, count in sorted(states.items()) if status != DONE}


def _sentences(study: Study, front: Sequence[int], best: int | None) -> list[str]:
    """Describe the ends of the front and its knee."""
    if not front:
        return [_nothing(study)] if study.limits else []
    names = " and ".join(study.objectives)
    told = [f"No other point beats {len(front):,} of them in {names}."]
    for name in study.objectives:
        values = study.small(name)
        at = min(front, key=lambda each: values[each])
        told.append(f"Best {name}: {_figure(study, name, at)} ({_where(study, at)}).")
    if best is not None:
        figures = ", ".join(f"{name} {_figure(study, name, best)}" for name in study.objectives)
        told.append(f"At the knee: {figures} ({_where(study, best)}).")
    return told


def _nothing(study: Study) -> str:
    """The nearest miss where no point keeps the limits."""
    over = np.max(list(study.over.values()), axis=0)
    if np.isnan(over).all():
        return "No point gave the figures that the limits ask for."
    at = int(np.nanargmin(over))
    lacks = [f"{name} {_figure(study, name, at)} of {_spelled(name, limit)}" for name, limit in study.limits.items()]
    return f"No point keeps the limits; the nearest has {', '.join(lacks)} ({_where(study, at)})."


def _figure(study: Study, name: str, at: int) -> str:
    return _spelled(name, float(study.values(name)[at]))


def _spelled(name: str, value: float | None) -> str:
    """A figure of an objective in engineering units, or in digits where it is money."""
    unit = OBJECTIVES[name].unit
    return f"{usd(value)} {unit}" if unit.startswith("USD") and value is not None else si(value, unit)


def _where(study: Study, at: int) -> str:
    return ", ".join(f"{short(axis)} {values[at]}" for axis, values in study.axes.items()) or "the only point"


def _scatter(study: Study, front: Sequence[int], best: int | None) -> Picture | None:
    """All points over the first two objectives, coloured by what they wait for; the front as a line."""
    if len(study.objectives) < 2 or not study.within.any():
        return None
    x, y = (study.values(name) for name in study.objectives[:2])
    there = ~np.isnan(x) & ~np.isnan(y)
    limits = ["" if each.outcome is None else str(each.outcome.facts.get("limit", "")) for each in study.members]
    often = [
        name for name, _ in Counter(limit for limit, kept in zip(limits, there, strict=True) if kept).most_common()
    ]
    marks: list[Mark] = []
    for name, color in zip(often[: len(COLORS)], COLORS, strict=False):
        own = there & np.array([limit == name for limit in limits])
        marks.append(points(x[own], y[own], name, color, markersize=3, alpha=0.6))
    rest = there & np.array([limit in often[len(COLORS) :] for limit in limits])
    if rest.any():
        marks.append(points(x[rest], y[rest], "others", FAINT, markersize=3))
    if len(study.objectives) == 2:
        marks.append(
            line(
                x[list(front)],
                y[list(front)],
                "front",
                INK,
                marker="o",
                markersize=5,
                markerfacecolor="none",
                linewidth=1,
            )
        )
    else:
        at = list(front)
        label = f"front in {', '.join(study.objectives[:-1])} and {study.objectives[-1]}"
        marks.append(points(x[at], y[at], label, INK, markersize=7, markerfacecolor="none"))
    if best is not None:
        marks += [points([x[best]], [y[best]], "", INK, "*", markersize=11), note(x[best], y[best], "knee", (8, 8))]
    for name in study.objectives[:2]:
        if (limit := study.limits.get(name)) is not None:
            at_x = name == study.objectives[0]
            marks.append(rule(limit if at_x else None, None if at_x else limit, f"limit of {name}", linestyle="--"))
    across, up = (Axis(SPELLED.get(name, name), OBJECTIVES[name].unit, "log") for name in study.objectives[:2])
    title = f"{study.name}: {study.objectives[1]} over {study.objectives[0]} of {count_of(int(there.sum()), 'point')}"
    small = "colour: what a point mostly waits for" if any(often) else ""
    return Picture(4.6, [Panel(title, marks, across, up, small, grid="both")], legend=4)
