"""Gradients sent while the backward goes on: when each bucket goes, and how much the step waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from accelsim.cluster.buckets.base import Fusion, Gradient
from accelsim.cluster.buckets.policies import policy
from accelsim.errors import Problem, UsageError

FEMTOSECONDS = 10**15
Cost = Callable[[int], int]
"""Time of the all-reduce of some bytes, fs."""


class Bucket(NamedTuple):
    """A bucket that was sent: numbers of its gradients; their bytes, and those on the network.

    ``ready_fs``: when it could go; ``start_fs``, ``end_fs``: on the stream; ``copy_fs``: what copies and casts take of
    this.
    """

    members: tuple[int, ...]
    nbytes: int
    sent_B: int
    ready_fs: int
    start_fs: int
    end_fs: int
    copy_fs: int


@dataclass(frozen=True)
class Overlapped:
    """Buckets in the order in which they were sent, beside a backward that takes ``backward_fs``."""

    buckets: tuple[Bucket, ...]
    backward_fs: int

    @cached_property
    def finish_fs(self) -> int:
        """Return when the last bucket has arrived, or the backward is done."""
        return max((bucket.end_fs for bucket in self.buckets), default=0)

    @property
    def exposed_fs(self) -> int:
        """Return how long the step waits for the buckets behind its backward."""
        return max(0, self.finish_fs - self.backward_fs)

    @property
    def busy_fs(self) -> int:
        """Time that the stream is at work."""
        return sum(bucket.end_fs - bucket.start_fs for bucket in self.buckets)

    @property
    def sent_B(self) -> int:
        """Bytes given to all-reduces."""
        return sum(bucket.sent_B for bucket in self.buckets)

    def efficiency(self, step_fs: int) -> Fraction:
        """T_1 / (T_1 + exposed): of weak scaling, where one device takes ``step_fs`` for its step."""
        return Fraction(step_fs, step_fs + self.exposed_fs)


def overlap(
    gradients: Sequence[Gradient], backward_fs: int, cost: Cost, fusion: Fusion | None = None
) -> Overlapped:
    """Buckets of the gradients on one stream, one after the other, none before its last member is ready (R8).

    ``cost``: bytes -> fs of an all-reduce on the whole group, asked once per size. ``gradients`` may stand in any
    order; those that are ready at one time keep theirs. UsageError: a gradient of less than a byte, or ready behind
    the backward.
    """
    chosen = fusion or Fusion()
    _check(gradients, backward_fs)
    order = sorted(range(len(gradients)), key=lambda index: gradients[index].ready_fs)
    known_fs: dict[int, int] = {}
    buckets, free_fs = [], 0
    for formed in policy(chosen.policy).form([gradients[index] for index in order], chosen):
        members = tuple(order[index] for index in formed.members)
        nbytes = sum(gradients[index].nbytes for index in members)
        sent_B, copy_fs = _packed(gradients, members, chosen)
        if sent_B not in known_fs:
            known_fs[sent_B] = cost(sent_B)
        start_fs = max(free_fs, formed.ready_fs)
        free_fs = start_fs + copy_fs + known_fs[sent_B]
        buckets.append(Bucket(members, nbytes, sent_B, formed.ready_fs, start_fs, free_fs, copy_fs))
    return Overlapped(tuple(buckets), backward_fs)


def _check(gradients: Sequence[Gradient], backward_fs: int) -> None:
    problems = [
        Problem(f"{gradient.nbytes} B", gradient.name, "a gradient of at least a byte")
        for gradient in gradients if gradient.nbytes < 1
    ] + [
        Problem(f"ready at {gradient.ready_fs} fs", gradient.name, f"a time within the backward, 0 to {backward_fs} fs")
        for gradient in gradients if not 0 <= gradient.ready_fs <= backward_fs
    ]  # fmt: skip
    if problems or not gradients:
        raise UsageError(problems or Problem("no gradients", "gradients", "at least one"))


def _packed(gradients: Sequence[Gradient], members: tuple[int, ...], fusion: Fusion) -> tuple[int, int]:
    """Bytes on the network, and time of copies and casts, of a bucket of one format."""
    nbytes = sum(gradients[index].nbytes for index in members)
    sent_B = fusion.sent_B(nbytes, gradients[members[0]].dtype)
    moved_B = 2 * sent_B if len(members) > 1 and policy(fusion.policy).copies else 0
    if sent_B < nbytes:
        moved_B += 2 * (nbytes + sent_B)
    if fusion.memory_Bps is None:
        return sent_B, 0
    return sent_B, moved_B * FEMTOSECONDS // fusion.memory_Bps


def finish_fs(ready_fs: Sequence[int], cost_fs: Sequence[int]) -> int:
    """max over k of r_k + the costs of bucket k and of all behind it: when one stream in order is done (max-plus)."""
    behind = list(accumulate(reversed(cost_fs)))[::-1]
    return max((ready + rest for ready, rest in zip(ready_fs, behind, strict=True)), default=0)
