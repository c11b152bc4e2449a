"""Horovod where the host runs ahead of its device: order and threshold alone decide what is fused."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.buckets.base import MIB, Formed, Fusion, Gradient, Policy, filled, last_ready


def _form(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """As few buckets as the threshold and formats allow, each sent when its last member is ready.

    Where kernels take longer than the host takes to ask for them, Horovod is handed all gradients before the device
    has made the first; it agrees on them in order, fills its buffer to the threshold, and waits for the device then.
    So the cycle time says nothing, and what the last bucket holds is sent behind the backward pass.
    """
    buckets = filled(gradients, range(len(gradients)), POLICY.limit_B(fusion))
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


POLICY = Policy(
    "horovod-ahead", "Horovod, its host ahead of the device: up to a threshold, sent when the last is ready", _form,
    source="horovod/horovod v0.13 horovod/common/operations.cc: tensors are fused when asked for, their ready events "
    "waited for afterwards",
    threshold_B=128 * MIB, rank=1, reads=("threshold_B",),
)  # fmt: skip
