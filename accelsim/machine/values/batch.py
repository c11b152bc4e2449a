"""The batch of a run, shared out over cores and put together again along the first axis.

What has no axis (a scalar) is a vector with one entry per core for the whole chip.
"""

from __future__ import annotations

import numpy as np

from accelsim.types import Array


def batch_shape(shape: tuple[int, ...], cores: int) -> tuple[int, ...]:
    """Shape, for all cores together, of a tensor that has ``shape`` on each of them."""
    if cores == 1:
        return shape
    return (cores * shape[0], *shape[1:]) if shape else (cores,)


def part_of_batch(value: Array, core: int, cores: int, shape: tuple[int, ...]) -> Array:
    """The part of one core, of ``shape``."""
    return value if cores == 1 else np.asarray(np.split(value, cores)[core]).reshape(shape)


def whole_batch(parts: list[Array]) -> Array:
    """All parts together."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.atleast_1d(part) for part in parts])
