"""Constants that several devices share: fitted to all of them together, for a device that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.fit.chips import knobs
from accelsim.fit.search import ROBUST, Knob, Misfit, Values, fit
from accelsim.kernels.calibrate import LIKELY
from accelsim.kernels.predict import Kernels
from accelsim.seeds import generator
from accelsim.spec.chip import Chip
from accelsim.spec.constants import with_values
from accelsim.types import Floats

MOST_ROWS = 300
"""Rows of a device that a fit looks at, so that no device has more of a say than others."""


class Measured(NamedTuple):
    """Kernels of one family on a chip, with their times."""

    chip: Chip
    kernels: Kernels


def shared(devices: Sequence[Measured], kept: Sequence[int], misfit: Misfit = ROBUST, seed: int = 0) -> list[float]:
    """Values of the constants at these places of ``Kernels.constants`` that all devices share."""
    draw = generator(seed)
    rows = [_drawn(each, draw) for each in devices]
    measured = np.concatenate([each.kernels.table.measured[own] for each, own in zip(devices, rows, strict=True)])
    few = [each.kernels.likely(each.chip, LIKELY) for each in devices]
    first = knobs(devices[0].chip, [devices[0].kernels.constants[place] for place in kept])
    turned = [Knob((str(place),), *knob[1:]) for place, knob in zip(kept, first, strict=True)]

    def model(values: Values) -> Floats:
        return np.concatenate(
            [
                kernels.predicted(at(each, kept, values)).seconds[own]
                for each, kernels, own in zip(devices, few, rows, strict=True)
            ]
        )

    found = fit(model, measured, turned, seed, misfit, near=True)
    return [found[str(place)] for place in kept]


def _drawn(each: Measured, draw: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    count = len(each.kernels.table.ops)
    return np.sort(draw.choice(count, min(count, MOST_ROWS), replace=False))


def at(each: Measured, kept: Sequence[int], values: Mapping[str, float]) -> Chip:
    """The chip with the shared values, by the places of the constants."""
    named = {name: values[str(place)] for place in kept for name in each.kernels.constants[place]}
    return with_values(each.chip, named)


def left_out(
    devices: Sequence[Measured], kept: Sequence[int], misfit: Misfit = ROBUST, dies: bool = False
) -> list[Floats]:
    """Predictions of each set by constants that the others share, s; ``dies``: that those of other dies share."""
    found = []
    for index, each in enumerate(devices):
        others = [
            other
            for place, other in enumerate(devices)
            if place != index and not (dies and die(other.chip) == die(each.chip))
        ]
        values = shared(others, kept, misfit)
        named = dict(zip(map(str, kept), values, strict=True))
        found.append(each.kernels.predicted(at(each, kept, named)).seconds)
    return found


def die(chip: Chip) -> str:
    """Return what boards of one die have in common of their names: 'v100' of PCIe and SXM."""
    return chip.name.split("-")[0]
