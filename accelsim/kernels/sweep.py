"""A kernel while one of its sizes grows: the staircase of waves and tiles, and what its steps cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.errors import UsageError, count_of, nearest
from accelsim.kernels.explain import Ends, ends
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.table import several
from accelsim.spec.chip import Chip
from accelsim.types import Floats, Ints
from accelsim.units import show

MOST = 20_000
"""Kernels of a sweep at the most."""
FORM = "NAME=FIRST:LAST or NAME=FIRST:LAST:STEP"


class Range(NamedTuple):
    """Sizes that are tried of the size ``name``."""

    name: str
    sizes: Sequence[int]


class Sweep(NamedTuple):
    """Kernels by a size: ``name`` and ``sizes``, what is predicted of each, its interval."""

    name: str
    sizes: Ints
    kernels: Kernels
    found: Prediction
    ends: Ends

    @property
    def share(self) -> Floats:
        """Return the fraction of the time that the stated peaks would need."""
        share: Floats = self.found.times.bound / self.found.seconds
        return share


def parsed(text: str, names: Sequence[str]) -> Range:
    """Read a range of a size, one of ``names``, from a text. Raises UsageError."""
    found = re.fullmatch(r"(\w+)=([0-9]{1,12}):([0-9]{1,12})(?::([0-9]{1,12}))?", text)
    if found is None:
        raise UsageError(f"no range of sizes: {text!r}", "--sweep", FORM)
    name, first, last, step = found[1], int(found[2]), int(found[3]), int(found[4] or 0)
    if name not in names:
        raise UsageError(f"no size {name!r}", "--sweep", ", ".join(names), nearest(name, names))
    if first < 1 or last <= first:
        raise UsageError(f"{first} to {last}", "--sweep", "a first size of 1 or more, and a larger last one")
    sizes = range(first, last + 1, step or max(1, (last - first) // 256))
    if not 1 < len(sizes) <= MOST:
        raise UsageError(f"{count_of(len(sizes), 'kernel')}", "--sweep", f"2 to {MOST:,}: another STEP")
    return Range(name, sizes)


def swept(op: str, dtype: str, cells: Mapping[str, str], over: Range, chip: Chip) -> Sweep:
    """Predict the kernel at each size. Raises UsageError."""
    kernels = Kernels(several(op, dtype, [{**cells, over.name: str(size)} for size in over.sizes]), chip)
    found = kernels.predicted(chip)
    return Sweep(over.name, np.array(over.sizes), kernels, found, ends(kernels, found))


def sentences(sweep: Sweep) -> list[str]:
    """Return where the time jumps most, and where the peaks are used best and worst."""
    seconds, sizes, waves = sweep.found.seconds, sweep.sizes, sweep.found.times.waves
    texts = []
    rise = seconds[1:] / seconds[:-1]
    step = int(np.argmax(rise))
    if rise[step] > 1:
        text = (
            f"The steepest step: from {sweep.name} = {sizes[step]:,} to {sizes[step + 1]:,} the time grows by "
            f"{rise[step] - 1:.1%} ({show(float(seconds[step]), 's', 3)} to {show(float(seconds[step + 1]), 's', 3)})"
        )
        texts.append(text + (f", from {waves[step]:.3g} to {waves[step + 1]:.3g} waves." if waves[step] > 0 else "."))
    falls = int(np.sum(rise < 1))
    if falls:
        texts.append(f"At {falls:,} of {len(rise):,} steps the larger kernel is faster, because it gets another tile.")
    best, worst = int(np.argmax(sweep.share)), int(np.argmin(sweep.share))
    texts.append(
        f"A roofline with the stated peaks comes nearest at {sweep.name} = {sizes[best]:,}, with "
        f"{sweep.share[best]:.0%} of the time, and is furthest at {sizes[worst]:,}, with {sweep.share[worst]:.0%}."
    )
    return texts
