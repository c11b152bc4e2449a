"""Buckets as PyTorch's DistributedDataParallel has them: fixed before the first step, sent when their last is ready."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.buckets.base import MIB, Formed, Fusion, Gradient, Policy, filled, last_ready

FIRST_B = MIB
"""The first bucket is small, so that something is sent early."""


def _form(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Filled in the order in which gradients are ready; the cycle time says nothing here.

    A bucket is closed when it has reached the threshold, the first one at 1 MiB. Gradients are views of their bucket
    (gradient_as_bucket_view; Megatron-LM has one buffer for all), so that nothing is copied.
    """
    limit_B = POLICY.limit_B(fusion)
    everything = range(len(gradients))
    first = next(filled(gradients, everything, min(FIRST_B, limit_B), closes=True), ())
    rest = filled(gradients, everything[len(first) :], limit_B, closes=True)
    buckets = [bucket for bucket in (first, *rest) if bucket]
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


POLICY = Policy(
    "ddp", "PyTorch DDP: fixed buckets, sent when the last member is ready", _form,
    source="Li et al., PyTorch Distributed, VLDB 2020, section 3.2", threshold_B=25 * MIB, rank=2,
    reads=("threshold_B",), copies=False,
)  # fmt: skip
