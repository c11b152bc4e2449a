"""PipeDream: 1F1B without a flush. Its schedules differ in the versions of weights that minibatches in flight see."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Orders, Schedule, Shape, WeightRule, alternate, ops_of
from accelsim.errors import Problem, count_of


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
    """Return the newest version when the forward began: p - 1 - s updates are still on their way."""
    return max(0, microbatch - (stages - 1 - stage))


STASHING = WeightRule(
    "stashing", "weight stashing: the backward uses the version of its forward",
    "W_s(t+1) = W_s(t) - lr dL/dW_s(W_0(t-p+1), W_1(t-p+2), ..., W_{p-1}(t))",
    "microbatch", stashed, stashed, lambda stage, stages: stages - stage,
)  # fmt: skip

PIPEDREAM = Schedule(
    "pipedream", "PipeDream: asynchronous 1F1B with weight stashing", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, sections 3.2 and 3.3", weights=STASHING, replicated=True,
)  # fmt: skip


def entered(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """Return the newest version of the first stage when the minibatch entered the pipeline: all stages use it."""
    return max(0, microbatch - (stages - 1))


VERTICAL = WeightRule(
    "vertical", "vertical sync: one version for a minibatch on all stages",
    "W(t+1) = W(t) - lr grad(W(t-p+1))",
    "microbatch", entered, entered, lambda stage, stages: stages,
)  # fmt: skip

PIPEDREAM_VERTICAL = Schedule(
    "pipedream-vertical", "PipeDream with vertical sync", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3", weights=VERTICAL, replicated=True,
)  # fmt: skip


def newest(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """Return all updates of the minibatches before this one, so the backward uses other weights than its forward."""
    return microbatch


NONE = WeightRule(
    "none", "one version that changes under the minibatches in flight",
    "no gradient of any weights: forward and backward see different ones",
    "microbatch", stashed, newest, lambda stage, stages: 1,
)  # fmt: skip

PIPEDREAM_NOSTASH = Schedule(
    "pipedream-nostash", "PipeDream without weight stashing", False, asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3 (the naive pipeline)",
    weights=NONE, replicated=True,
)  # fmt: skip


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

PIPEDREAM_2BW = Schedule(
    "pipedream-2bw", "PipeDream-2BW: asynchronous 1F1B with two versions of the weights", False, asynchronous,
    source="Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.1",
    weights=DOUBLE, laws=(_enough,),
)  # fmt: skip
