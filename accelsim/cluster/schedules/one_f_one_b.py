"""1F1B with a flush: a stage begins backwards as soon as it can, so it holds few activations."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Orders, Schedule, Shape, alternate, ops_of


def one_f_one_b(shape: Shape) -> Orders:
    """Stage s: p - 1 - s forwards, then a forward and a backward in turn, then the backwards that are left."""
    forwards, backwards = (ops_of(kind, range(shape.microbatches)) for kind in ("F", "B"))
    return [alternate(forwards, backwards, shape.stages - 1 - stage) for stage in range(shape.stages)]


SCHEDULE = Schedule(
    "1f1b", "1F1B: one forward, one backward in turn, with a flush", True, one_f_one_b,
    source="Narayanan et al., PipeDream-Flush, ICML 2021, section 3; Megatron-LM, SC 2021, section 2.2.1", rank=2,
)  # fmt: skip
