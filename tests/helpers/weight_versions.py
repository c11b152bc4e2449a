"""Which version of the weights each op uses (rule R6), and whether the order of ops allows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.cluster.schedules.base import Op, Schedule, WeightRule
from accelsim.errors import Problem
from accelsim.types import Ints


class Used(NamedTuple):
    """Versions by stage and microbatch, two arrays of shape (stages, microbatches)."""

    forward: Ints
    backward: Ints


def weight_versions(schedule: Schedule, stages: int, microbatches: int, per_update: int = 1) -> Used:
    """The version that forward and backward of each microbatch use on each stage.

    Version n: the weights of the stage after n updates. ``microbatches``: all that the schedule is given.
    ``per_update``: microbatches of a batch, where the schedule updates by batches.
    """
    rule = schedule.weights
    forward, backward = (
        np.array([[at(s, stages, i, per_update) for i in range(microbatches)] for s in range(stages)], np.int64)
        for at in (rule.forward, rule.backward)
    )
    return Used(forward, backward)


def staleness(schedule: Schedule, stages: int, per_update: int = 1) -> list[int]:
    """Updates of each stage, in the steady state, between those that the forward of a minibatch saw and its own.

    p - 1 - s on stage s with weight stashing, p - 1 with vertical sync, 1 with PipeDream-2BW, 0 with a flush.
    """
    rule = schedule.weights
    minibatch = 2 * stages * per_update
    own = [minibatch if rule.per_update == "microbatch" else minibatch // per_update] * stages
    return [count - rule.forward(s, stages, minibatch, per_update) for s, count in enumerate(own)]


class _Seen(NamedTuple):
    op: Op
    version: int
    updates: int
    oldest: int


def _walk(rule: WeightRule, ops: Sequence[Op], stage: int, stages: int, per_update: int) -> Iterator[_Seen]:
    """Each F and B of a stage with its version, the updates before it, the oldest version still in use."""
    each = per_update if rule.per_update == "batch" else 1
    done, flying = 0, {}
    for op in ops:
        if op.kind == "W":
            continue
        use = rule.forward if op.kind == "F" else rule.backward
        version = use(stage, stages, op.microbatch, per_update)
        flying[op.microbatch, op.chunk] = version
        yield _Seen(op, version, done // each, min(flying.values()))
        if op.kind == "B":
            del flying[op.microbatch, op.chunk]
            done += 1


def version_problems(schedule: Schedule, orders: Sequence[Sequence[Op]], per_update: int = 1) -> list[Problem]:
    """Where forward and backward of a microbatch use different versions, or one that is not made yet: one per stage.

    ``orders`` of a schedule without replicas. Empty for all schedules but 'pipedream-nostash'.
    """
    rule, stages, problems = schedule.weights, len(orders), []
    for stage, ops in enumerate(orders):
        forwards: dict[tuple[int, int], int] = {}
        for op, version, updates, _ in _walk(rule, ops, stage, stages, per_update):
            where = f"stage {stage}, {op}"
            if version > updates:
                problems.append(
                    Problem(f"uses version {version} after {updates} updates", where, "a version that is made")
                )
                break
            if version != forwards.setdefault((op.microbatch, op.chunk), version):
                forward = forwards[op.microbatch, op.chunk]
                what = f"backward uses version {version} of the weights, its forward version {forward}"
                problems.append(Problem(what, where, "the same version (weight stashing)"))
                break
    return problems


def versions_held(schedule: Schedule, orders: Sequence[Sequence[Op]], per_update: int = 1) -> list[int]:
    """Most versions of the weights that each stage holds at one time: from the oldest in use to the newest."""
    return [
        max(seen.updates - seen.oldest + 1
            for seen in _walk(schedule.weights, ops, stage, len(orders), per_update))
        for stage, ops in enumerate(orders)
    ]  # fmt: skip
