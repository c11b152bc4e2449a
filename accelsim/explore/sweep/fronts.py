"""Fronts and effects: points that no other beats in all objectives, the knee among them, what each axis changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.types import Bools, Floats

Record = Mapping[str, object]


class Objective(NamedTuple):
    """Something to make small: its ``key`` in the figures of a point, its unit, or large where ``most``."""

    key: str
    unit: str
    most: bool = False


OBJECTIVES = {
    "latency": Objective("latency_s", "s"),
    "throughput": Objective("throughput_per_s", "/s", True),
    "energy": Objective("energy_J", "J"),
    "energy per sample": Objective("energy_per_sample_J", "J"),
    "ttft": Objective("ttft_s", "s"),
    "tpot": Objective("tpot_s", "s"),
    "tokens": Objective("tokens_per_s", "/s", True),
    "days": Objective("days", ""),
    "power": Objective("power_W", "W"),
    "area": Objective("area_m2", "m²"),
    "chip cost": Objective("chip_cost_USD", "USD"),
    "cost": Objective("thousand_samples_USD", "USD"),
    "hour": Objective("hour_USD", "USD/h"),
}
"""Objectives by the names that users write; `cost` is that of 1,000 samples, `hour` the price of an instance."""


UNITS = {name: each.unit or "d" for name, each in OBJECTIVES.items()}
"""Units of limits by objective; ``days`` have none in a figure."""


def on_front(values: Floats) -> Bools:
    """Return which rows no other row beats: as small in every column and smaller in one. Equal rows all stay.

    ``values``: points x objectives, small is good; rows with NaN are on no front.
    """
    kept = np.asarray(~np.isnan(values).any(axis=1), dtype=np.bool_)
    rows, back = np.unique(values[kept], axis=0, return_inverse=True)  # in order: no row is beaten by a later one
    if rows.shape[1] == 2 and len(rows):
        found = np.append(True, rows[1:, 1] < np.minimum.accumulate(rows[:-1, 1]))
    else:
        front: list[int] = []
        for at, row in enumerate(rows):
            if not np.any(np.all(rows[front] <= row, axis=1)):
                front.append(at)
        found = np.isin(np.arange(len(rows)), front)
    kept[kept] = found[back.reshape(-1)]
    return kept


def knee(values: Floats) -> int:
    """Return the row of a front that lies farthest from the plane through the best of each objective, on logarithmic
    axes from 0 to 1; the first of equals.

    ``values``: points x objectives, small is good, above 0.
    """
    logs = np.log(values)
    low, high = logs.min(axis=0), logs.max(axis=0)
    scaled = (logs - low) / np.where(high > low, high - low, 1.0)
    return int(np.argmin(np.round(scaled.sum(axis=1), 12)))


class Effect(NamedTuple):
    """Effect of an axis on an objective: the value with the smallest and the largest mean, and their ratio."""

    axis: str
    best: str
    worst: str
    ratio: float


def effects(columns: Mapping[str, Sequence[str]], objective: Floats, around: int | None = None) -> list[Effect]:
    """Return the main effect of each axis, the largest first: geometric means of ``objective`` over all points that
    have a value of the axis; points without a figure are left out.

    ``around``: number of a point; then only points count that differ from it in the one axis.
    """
    there = ~np.isnan(objective)
    differs = [np.array([each != values[around or 0] for each in values]) for values in columns.values()]
    elsewhere = np.sum(differs, axis=0) if columns else np.zeros(len(objective))
    logs = np.log(np.where(there, objective, 1.0))
    found = []
    for (axis, values), own_differs in zip(columns.items(), differs, strict=True):
        means: dict[str, float] = {}
        near = there if around is None else there & (elsewhere == own_differs)
        for value in dict.fromkeys(values):
            own = near & np.array([each == value for each in values])
            if own.any():
                means[value] = float(logs[own].mean())
        if len(means) > 1:
            best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            found.append(Effect(axis, best, worst, float(np.exp(means[worst] - means[best]))))
    return sorted(found, key=lambda each: (-each.ratio, each.axis))
