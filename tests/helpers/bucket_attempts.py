"""Choices of threshold and cycle time for gradients beside a backward pass alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from accelsim.cluster.buckets import Cost, Fusion, Gradient, overlap
from accelsim.cluster.step.fusing import Attempt, Trial


def attempts(gradients: Sequence[Gradient], backward_fs: int, cost: Cost, fusion: Fusion | None = None) -> Attempt:
    def attempt(threshold_B: int | None, cycle_fs: int) -> Trial:
        tried = replace(fusion or Fusion(), threshold_B=threshold_B, cycle_fs=cycle_fs)
        found = overlap(gradients, backward_fs, cost, tried)
        return Trial(tried, found.exposed_fs, len(found.buckets))

    return attempt


def finish_fs(ready_fs: Sequence[int], cost_fs: Sequence[int]) -> int:
    """max over k of r_k + the costs of bucket k and of all behind it: when one stream in order is done (max-plus)."""
    behind = list(accumulate(reversed(cost_fs)))[::-1]
    return max((ready + rest for ready, rest in zip(ready_fs, behind, strict=True)), default=0)
