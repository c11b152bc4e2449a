"""Policies of fusion, by name: each forms buckets of the gradients of a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from accelsim.cluster.buckets.base import MIB, Formed, Fusion, Gradient, Policy, filled, last_ready
from accelsim.errors import known


def _horovod(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """At the end of each cycle all that is ready, in order, as few buckets as the threshold and formats allow.

    Without a cycle time each moment is a cycle of its own.
    """
    limit_B, cycle_fs, formed = HOROVOD.limit_B(fusion), fusion.cycle_fs, []

    def cycle_end_fs(index: int) -> int:
        ready_fs = gradients[index].ready_fs
        return -(-ready_fs // cycle_fs) * cycle_fs if cycle_fs else ready_fs

    for end_fs, members in groupby(range(len(gradients)), key=cycle_end_fs):
        formed += [Formed(bucket, end_fs) for bucket in filled(gradients, list(members), limit_B)]
    return formed


HOROVOD = Policy(
    "horovod", "Horovod: what is ready at the end of a cycle, up to a threshold", _horovod,
    source="Sergeev and Del Balso, Horovod, 1802.05799, section 4; horovod/horovod docs/tensor-fusion.rst",
    threshold_B=128 * MIB, reads=("threshold_B", "cycle_fs"),
)  # fmt: skip


def _horovod_ahead(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Fill as few buckets as the threshold and formats allow, each sent when its last member is ready.

    Where kernels take longer than the host takes to ask for them, Horovod is handed all gradients before the device
    has made the first; it agrees on them in order, fills its buffer to the threshold, and waits for the device then.
    So the cycle time says nothing, and what the last bucket holds is sent behind the backward pass.
    """
    buckets = filled(gradients, range(len(gradients)), HOROVOD_AHEAD.limit_B(fusion))
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


HOROVOD_AHEAD = Policy(
    "horovod-ahead", "Horovod, its host ahead of the device: up to a threshold, sent when the last is ready",
    _horovod_ahead,
    source="horovod/horovod v0.13 horovod/common/operations.cc: tensors are fused when asked for, their ready events "
    "waited for afterwards",
    threshold_B=128 * MIB, reads=("threshold_B",),
)  # fmt: skip

FIRST_B = MIB
"""Bytes of DDP's first bucket, which is small so that something is sent early."""


def _ddp(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Filled in the order in which gradients are ready; the cycle time says nothing here.

    A bucket is closed when it has reached the threshold, the first one at 1 MiB. Gradients are views of their bucket
    (gradient_as_bucket_view; Megatron-LM has one buffer for all), so that nothing is copied.
    """
    limit_B = DDP.limit_B(fusion)
    everything = range(len(gradients))
    first = next(filled(gradients, everything, min(FIRST_B, limit_B), closes=True), ())
    rest = filled(gradients, everything[len(first) :], limit_B, closes=True)
    buckets = [bucket for bucket in (first, *rest) if bucket]
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


DDP = Policy(
    "ddp", "PyTorch DDP: fixed buckets, sent when the last member is ready", _ddp,
    source="Li et al., PyTorch Distributed, VLDB 2020, section 3.2", threshold_B=25 * MIB,
    reads=("threshold_B",), copies=False,
)  # fmt: skip


def _each(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Each gradient alone, as soon as it is ready."""
    return [Formed((index,), gradient.ready_fs) for index, gradient in enumerate(gradients)]


EACH = Policy("each", "no fusion: each gradient alone", _each, source="the limit of small buckets")


def _whole(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """All gradients of a format in one bucket, after the backward pass."""
    by_format: dict[str, list[int]] = {}
    for index, gradient in enumerate(gradients):
        by_format.setdefault(gradient.dtype, []).append(index)
    end_fs = last_ready(gradients, range(len(gradients)))
    return [Formed(tuple(members), end_fs) for members in by_format.values()]


WHOLE = Policy(
    "whole", "full fusion: one bucket behind the backward", _whole, source="the limit of large buckets"
)

POLICIES: dict[str, Policy] = {each.name: each for each in (HOROVOD, HOROVOD_AHEAD, DDP, EACH, WHOLE)}
"""Name -> policy."""


def policy(name: str) -> Policy:
    """Return the policy of a name; UsageError with the nearest one."""
    return POLICIES[known("fusion policy", name, POLICIES)]
