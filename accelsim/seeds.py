"""Random numbers: who draws them, and from which seed. No generator is made elsewhere, and none without a seed.

What one seed of a user is for must not draw the same numbers twice: inputs and the data that ranges are chosen from
would otherwise be one batch. So each use has a seed of its own, made of the user's here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator

OF_CORES = 1000
"""Distance of the seeds of two cores of a chip, each of which has a batch of its own."""
SPLIT = 0
"""Seed of the parting of a data set into training and test samples, the same in every run."""
SUMS = 1
"""Seed of the text of sums, the same in every run."""


def generator(*seed: int) -> Generator:
    """NumPy's default generator of a seed, or of several numbers (a user's seed, and whose turn it is)."""
    from numpy.random import default_rng  # a run without values draws nothing

    return default_rng(seed[0] if len(seed) == 1 else list(seed))


def of_inputs(seed: int, core: int = 0) -> int:
    """Seed of the inputs of a run on one core."""
    return seed + OF_CORES * core


def of_ranges(seed: int) -> int:
    """Seed of samples that ranges and scales are learnt from: a drawn batch, or the order in which a trained model is
    trained again for a narrow format."""
    return seed + 1
