"""GPipe: all forwards, then all backwards, then the update."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Orders, Schedule, Shape, ops_of


def _make(shape: Shape) -> Orders:
    m = shape.microbatches
    return [ops_of("F", range(m)) + ops_of("B", range(m - 1, -1, -1)) for _ in range(shape.stages)]


SCHEDULE = Schedule(
    "gpipe", "GPipe: all forwards, then all backwards", True, _make,
    source="Huang et al., GPipe, NeurIPS 2019, section 2.3 and figure 2c", rank=1,
)  # fmt: skip
