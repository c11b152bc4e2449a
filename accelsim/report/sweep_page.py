"""Declares what the page of a sweep explores: its columns, a front of each pair of objectives, points that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from accelsim.explore.sweep.fronts import OBJECTIVES
from accelsim.explore.sweep.point import DONE
from accelsim.explore.sweep.study import Study
from accelsim.report.page.data import section
from accelsim.report.page.form import Section
from accelsim.report.page.points import Column, Front, Points
from accelsim.request.recording import command_of

FIGURES = re.compile(r"\d[\d.,e+-]*")
"""Numbers in messages: those that differ in them alone are one kind."""
MOST_TEXT = 300
"""Characters of a message that are shown."""
EFFECTS = (
    "What each axis changes",
    "Bars go from 1 to the ratio of the worst to the best value of an axis, by geometric means over all points.",
)
"""Title and caption of the picture of effects."""


def explored(study: Study, titles: Mapping[str, str], colours: Sequence[str]) -> Points:
    """Return what a page explores of a study; ``titles``: short names of its axes."""
    seen = _seen(study)
    columns = [Column("number", "point"), *(Column(axis, titles[axis]) for axis in study.axes)]
    for name in seen:
        columns.append(Column(OBJECTIVES[name].key, name, OBJECTIVES[name].unit, 1 if OBJECTIVES[name].most else -1))
    columns += [Column("limit", "waits mostly for"), Column("front", "on the front")]
    failed = _failed(study, titles)
    if failed["rows"]:
        columns.append(Column("status", "status"))
    drawn = [*(OBJECTIVES[name].key for name in dict.fromkeys((*study.objectives, *seen))), "number"]
    return Points(
        title=f"{study.name}: {len(study.members):,} points",
        columns=columns,
        axes=list(study.axes),
        drawn=(drawn[0], drawn[1]),
        tint="limit",
        colours=colours,
        commands=[command_of(member.point.request) for member in study.members],
        fronts=dict(_fronts(study, seen)),
        limits={OBJECTIVES[name].key: limit for name, limit in study.limits.items()},
        pictures={"effects": EFFECTS},
        sections=[failed] if failed["rows"] else [],
    )


def _seen(study: Study) -> list[str]:
    """Return the objectives with figures, without those that equal one before them, such as energy per sample."""
    found: dict[bytes, str] = {}
    for name in OBJECTIVES:
        values = study.values(name)
        if name in study.objectives or not np.isnan(values).all():
            found.setdefault(values.tobytes(), name)
    return [name for name in OBJECTIVES if name in found.values() or name in study.objectives]


def _fronts(study: Study, names: Sequence[str]) -> Iterator[tuple[tuple[str, str], Front]]:
    """Yield the front of each pair of objectives within the limits of the study."""
    for pair in combinations(names, 2):
        own = replace(study, objectives=pair)
        if own.front:
            yield (OBJECTIVES[pair[0]].key, OBJECTIVES[pair[1]].key), Front(own.front, own.knee)


def _failed(study: Study, titles: Mapping[str, str]) -> Section:
    """Return the points that gave no figures by kind of message, the most frequent kind first."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for at, member in enumerate(study.members):
        found = member.outcome
        if found is None or found.status != DONE:
            status, error = ("not run", "") if found is None else (found.status, found.error)
            kinds.setdefault((status, FIGURES.sub("#", error)), []).append(at)
    rows = []
    for (status, _), own in sorted(kinds.items(), key=lambda item: -len(item[1])):
        found = study.members[own[0]].outcome
        text = "" if found is None else " ".join(found.error.split())
        message = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
        rows.append((status, f"{len(own):,}", message, _shared(study, own, titles)))
    note = "Points whose messages differ in numbers alone are one row, with the message of the first."
    heads = ("status", "points", "message", "all of them have")
    return section("Points without figures", heads, rows, (1,), behind=[note])


def _shared(study: Study, own: Sequence[int], titles: Mapping[str, str]) -> str:
    """Return the values of axes that all of these points have."""
    values = {axis: {column[at] for at in own} for axis, column in study.axes.items()}
    return ", ".join(f"{titles[axis]} {min(found)}" for axis, found in values.items() if len(found) == 1)
