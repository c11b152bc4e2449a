"""PipeDream-2BW: gradients of m microbatches make an update; two versions of the weights are enough."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Schedule, Shape, WeightRule
from accelsim.cluster.schedules.pipedream import asynchronous
from accelsim.errors import Problem, count_of


def delayed(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """The version before the one that the microbatches of the last batch are still making."""
    return max(0, microbatch // per_update - 1)


def _enough(shape: Shape) -> Problem | None:
    if shape.microbatches >= shape.stages:
        return None
    what = f"{shape.microbatches} microbatches per update on {count_of(shape.stages, 'stage')}"
    return Problem(what, "microbatches", f"at least {shape.stages} for PipeDream-2BW")


DOUBLE = WeightRule(
    "2bw", "double-buffered weights: a delay of one update on every stage",
    "W(t+1) = W(t) - lr grad(W(t-1))",
    "batch", delayed, delayed, lambda stage, stages: 2,
)  # fmt: skip

SCHEDULE = Schedule(
    "pipedream-2bw", "PipeDream-2BW: asynchronous 1F1B with two versions of the weights", False, asynchronous,
    source="Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.1",
    weights=DOUBLE, laws=(_enough,), rank=8,
)  # fmt: skip
