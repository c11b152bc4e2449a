"""The batch of a run, shared out over cores and put together again (along the first axis)."""

from __future__ import annotations

import numpy as np

from accelsim.workload.graph import Array


def part_of_batch(value: Array, core: int, cores: int) -> Array:
    """The part of one core."""
    return value if cores == 1 else np.array_split(value, cores)[core]


def whole_batch(parts: list[Array]) -> Array:
    """All parts together."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
