"""PipeDream with vertical sync: a minibatch uses one version of the weights on all stages."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Schedule, WeightRule
from accelsim.cluster.schedules.pipedream import asynchronous


def entered(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """The newest version of the first stage when the minibatch entered the pipeline."""
    return max(0, microbatch - (stages - 1))


VERTICAL = WeightRule(
    "vertical", "vertical sync: one version for a minibatch on all stages",
    "W(t+1) = W(t) - lr grad(W(t-p+1))",
    "microbatch", entered, entered, lambda stage, stages: stages,
)  # fmt: skip

SCHEDULE = Schedule(
    "pipedream-vertical", "PipeDream with vertical sync", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3", weights=VERTICAL, replicated=True, rank=6,
)  # fmt: skip
