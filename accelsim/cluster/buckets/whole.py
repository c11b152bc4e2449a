"""Full fusion: all gradients (of a format) in one bucket, behind the backward."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.buckets.base import Formed, Fusion, Gradient, Policy, last_ready


def _form(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    by_format: dict[str, list[int]] = {}
    for index, gradient in enumerate(gradients):
        by_format.setdefault(gradient.dtype, []).append(index)
    end_fs = last_ready(gradients, range(len(gradients)))
    return [Formed(tuple(members), end_fs) for members in by_format.values()]


POLICY = Policy(
    "whole", "full fusion: one bucket behind the backward", _form, source="the limit of large buckets", rank=4
)
