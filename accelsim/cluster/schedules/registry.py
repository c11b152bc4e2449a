"""The pipeline schedules, by name."""

from __future__ import annotations

from accelsim.cluster.schedules import flushed, pipedream
from accelsim.cluster.schedules.base import Schedule
from accelsim.errors import known

SCHEDULES: dict[str, Schedule] = {each.name: each for each in (
    flushed.GPIPE, flushed.ONE_F_ONE_B, flushed.INTERLEAVED, flushed.ZB_H1,
    pipedream.PIPEDREAM, pipedream.PIPEDREAM_VERTICAL, pipedream.PIPEDREAM_NOSTASH, pipedream.PIPEDREAM_2BW,
)}  # fmt: skip
"""Name -> schedule."""


def schedule(name: str) -> Schedule:
    """Return the schedule of a name; UsageError with the nearest one."""
    return SCHEDULES[known("schedule", name, SCHEDULES)]
