"""Horovod's tensor fusion: each cycle, what is ready goes into buffers up to a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from accelsim.cluster.buckets.base import MIB, Formed, Fusion, Gradient, Policy, filled


def _form(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """At the end of each cycle all that is ready, in order, as few buckets as the threshold and formats allow.

    Without a cycle time each moment is a cycle of its own.
    """
    limit_B, cycle_fs, formed = POLICY.limit_B(fusion), fusion.cycle_fs, []

    def cycle_end_fs(index: int) -> int:
        ready_fs = gradients[index].ready_fs
        return -(-ready_fs // cycle_fs) * cycle_fs if cycle_fs else ready_fs

    for end_fs, members in groupby(range(len(gradients)), key=cycle_end_fs):
        formed += [Formed(bucket, end_fs) for bucket in filled(gradients, list(members), limit_B)]
    return formed


POLICY = Policy(
    "horovod", "Horovod: what is ready at the end of a cycle, up to a threshold", _form,
    source="Sergeev and Del Balso, Horovod, 1802.05799, section 4; horovod/horovod docs/tensor-fusion.rst",
    threshold_B=128 * MIB, rank=1, reads=("threshold_B", "cycle_fs"),
)  # fmt: skip
