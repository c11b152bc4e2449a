"""PipeDream without weight stashing: the backward uses other weights than its forward did (rule R6 is broken)."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Schedule, WeightRule
from accelsim.cluster.schedules.pipedream import asynchronous, stashed


def newest(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """All updates of the minibatches before this one."""
    return microbatch


NONE = WeightRule(
    "none", "one version that changes under the minibatches in flight",
    "no gradient of any weights: forward and backward see different ones",
    "microbatch", stashed, newest, lambda stage, stages: 1,
)  # fmt: skip

SCHEDULE = Schedule(
    "pipedream-nostash", "PipeDream without weight stashing", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3 (the naive pipeline)",
    weights=NONE, replicated=True, rank=7,
)  # fmt: skip
