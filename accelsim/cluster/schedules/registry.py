"""Pipeline schedules that flush before each update (GPipe, 1F1B, interleaved 1F1B, ZB-H1), and PipeDream's."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Kind, Op, Orders, Schedule, Shape, WeightRule, alternate, ops_of
from accelsim.errors import Problem, count_of, known

GPIPE = Schedule(
    "gpipe",
    "GPipe: all forwards, then all backwards",
    True,
    lambda shape: [
        ops_of("F", range(shape.microbatches)) + ops_of("B", range(shape.microbatches)[::-1])
        for _ in range(shape.stages)
    ],
    source="Huang et al., GPipe, NeurIPS 2019, section 2.3 and figure 2c",
)


def one_f_one_b(shape: Shape) -> Orders:
    """Return 1F1B orders: a stage begins backwards as soon as it can, so it holds few activations.

    Stage s: p - 1 - s forwards, then a forward and a backward in turn, then the backwards that are left.
    """
    forwards, backwards = (ops_of(kind, range(shape.microbatches)) for kind in ("F", "B"))
    return [alternate(forwards, backwards, shape.stages - 1 - stage) for stage in range(shape.stages)]


ONE_F_ONE_B = Schedule(
    "1f1b",
    "1F1B: one forward, one backward in turn, with a flush",
    True,
    one_f_one_b,
    source="Narayanan et al., PipeDream-Flush, ICML 2021, section 3; Megatron-LM, SC 2021, section 2.2.1",
)


def _ops(kind: Kind, shape: Shape) -> list[Op]:
    """Groups of p microbatches pass the chunks in turn, backwards from the last chunk to the first."""
    p, v = shape.stages, shape.chunks
    ops = []
    for k in range(shape.microbatches * v):
        chunk = k // p % v
        microbatch = k // (p * v) * p + k % p
        ops.append(Op(kind, microbatch, chunk if kind == "F" else v - 1 - chunk))
    return ops


def _interleaved(shape: Shape) -> Orders:
    p, m, v = shape.stages, shape.microbatches, shape.chunks
    if v == 1:
        return one_f_one_b(shape)
    forwards, backwards = _ops("F", shape), _ops("B", shape)
    warm_up = [m * v if m == p else 2 * (p - stage - 1) + (v - 1) * p for stage in range(p)]
    return [alternate(forwards, backwards, count) for count in warm_up]


def _whole_groups(shape: Shape) -> Problem | None:
    p, m = shape.stages, shape.microbatches
    near = f"{m // p * p} or {m // p * p + p}" if m >= p else str(p)
    expected = f"a multiple of the stages for interleaved 1F1B, such as {near}"
    return Problem(f"{m} microbatches on {p} stages", "microbatches", expected) if m % p else None


INTERLEAVED = Schedule(
    "interleaved",
    "interleaved 1F1B: several model chunks per device",
    True,
    _interleaved,
    source="Narayanan et al., Megatron-LM, SC 2021, section 2.2.2 and figure 4",
    laws=(_whole_groups,),
    chunked=True,
)


def _with_weights(ops: list[Op], stage: int, microbatches: int) -> list[Op]:
    """Put W(i) right after B(i + s), and at the end what has no such B."""
    made: list[Op] = []
    for op in ops:
        made.append(op)
        if op.kind == "B" and op.microbatch >= stage:
            made.append(Op("W", op.microbatch - stage))
    return made + [Op("W", left) for left in range(max(0, microbatches - stage), microbatches)]


ZB_H1 = Schedule(
    "zb-h1",
    "ZB-H1: 1F1B with gradients of the weights in the bubble",
    True,
    lambda shape: [_with_weights(ops, s, shape.microbatches) for s, ops in enumerate(one_f_one_b(shape))],
    source="Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 3.1",
    splits=True,
)


def asynchronous(shape: Shape) -> Orders:
    """Return 1F1B orders over all minibatches; replicas of a stage take them in turn (1F1B-RR).

    A replica has (workers of this stage and of all later ones - 1) // (replicas of this stage) forwards ahead, so
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
    """Return the weight version that was newest when the forward pass began: p - 1 - s updates are still to come."""
    return max(0, microbatch - (stages - 1 - stage))


def entered(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """Return the newest version of the first stage when the minibatch entered the pipeline: all stages use it."""
    return stashed(0, stages, microbatch, per_update)


def delayed(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """Return the version before the one that the microbatches of the last batch are still making."""
    return max(0, microbatch // per_update - 1)


STASHING = WeightRule("microbatch", stashed, stashed, lambda stage, stages: stages - stage)
"""Weight stashing: the backward uses the version of its forward.
W_s(t+1) = W_s(t) - lr dL/dW_s(W_0(t-p+1), W_1(t-p+2), ..., W_{p-1}(t))."""

PIPEDREAM = Schedule(
    "pipedream",
    "PipeDream: asynchronous 1F1B with weight stashing",
    False,
    asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, sections 3.2 and 3.3",
    weights=STASHING,
    replicated=True,
)


VERTICAL = WeightRule("microbatch", entered, entered, lambda stage, stages: stages)
"""Vertical sync: one version for a minibatch on all stages. W(t+1) = W(t) - lr grad(W(t-p+1))."""

PIPEDREAM_VERTICAL = Schedule(
    "pipedream-vertical",
    "PipeDream with vertical sync",
    False,
    asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3",
    weights=VERTICAL,
    replicated=True,
)


NONE = WeightRule(
    "microbatch", stashed, lambda stage, stages, microbatch, per_update: microbatch, lambda stage, stages: 1
)
"""One version that changes under the minibatches in flight: forward and backward see different weights."""

PIPEDREAM_NOSTASH = Schedule(
    "pipedream-nostash",
    "PipeDream without weight stashing",
    False,
    asynchronous,
    source="Narayanan et al., PipeDream, SOSP 2019, section 3.3 (the naive pipeline)",
    weights=NONE,
    replicated=True,
)


def _enough(shape: Shape) -> Problem | None:
    if shape.microbatches >= shape.stages:
        return None
    what = f"{shape.microbatches} microbatches per update on {count_of(shape.stages, 'stage')}"
    return Problem(what, "microbatches", f"at least {shape.stages} for PipeDream-2BW")


DOUBLE = WeightRule("batch", delayed, delayed, lambda stage, stages: 2)
"""Double-buffered weights: a delay of one update on every stage. W(t+1) = W(t) - lr grad(W(t-1))."""

PIPEDREAM_2BW = Schedule(
    "pipedream-2bw",
    "PipeDream-2BW: asynchronous 1F1B with two versions of the weights",
    False,
    asynchronous,
    source="Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.1",
    weights=DOUBLE,
    laws=(_enough,),
)


SCHEDULES: dict[str, Schedule] = {each.name: each for each in (
    GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1,
    PIPEDREAM, PIPEDREAM_VERTICAL, PIPEDREAM_NOSTASH, PIPEDREAM_2BW,
)}  # fmt: skip
"""Name -> schedule."""


def schedule(name: str) -> Schedule:
    """Return the schedule of a name; UsageError with the nearest one."""
    return SCHEDULES[known("schedule", name, SCHEDULES)]
