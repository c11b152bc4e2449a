"""No fusion: each gradient is sent alone, as soon as it is ready."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.buckets.base import Formed, Fusion, Gradient, Policy


def _form(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    return [Formed((index,), gradient.ready_fs) for index, gradient in enumerate(gradients)]


POLICY = Policy("each", "no fusion: each gradient alone", _form, source="the limit of small buckets", rank=3)
