"""PipeDream: 1F1B without a flush, each minibatch an update; weights of minibatches in flight are stashed."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Orders, Schedule, Shape, WeightRule, alternate, ops_of


def asynchronous(shape: Shape) -> Orders:
    """1F1B over all minibatches; replicas of a stage take them in turn (1F1B-RR).

    A replica has (workers of this stage and of all behind it - 1) // (replicas of this stage) forwards ahead, so
    that the first stage admits ceil(workers / its replicas) minibatches (NOAM, section 3.2).
    """
    replicas = shape.replicas or (1,) * shape.stages
    orders = []
    for stage, count in enumerate(replicas):
        ahead = (sum(replicas[stage:]) - 1) // count
        for replica in range(count):
            mine = range(replica, shape.microbatches, count)
            orders.append(alternate(ops_of("F", mine), ops_of("B", mine), ahead))
    return orders


def stashed(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """The newest version when the forward began: p - 1 - s updates are still on their way."""
    return max(0, microbatch - (stages - 1 - stage))


STASHING = WeightRule(
    "stashing", "weight stashing: the backward uses the version of its forward",
    "W_s(t+1) = W_s(t) - lr dL/dW_s(W_0(t-p+1), W_1(t-p+2), ..., W_{p-1}(t))",
    "microbatch", stashed, stashed, lambda stage, stages: stages - stage,
)  # fmt: skip

SCHEDULE = Schedule(
    "pipedream", "PipeDream: asynchronous 1F1B with weight stashing", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, sections 3.2 and 3.3", weights=STASHING, replicated=True, rank=5,
)  # fmt: skip
