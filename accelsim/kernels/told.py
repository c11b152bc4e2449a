"""What is said of predicted kernels: intervals, and why a kernel takes as long as it does, each computed from its
times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from accelsim.fit.validation import POOLED
from accelsim.kernels.calibrate import regimes
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.uncalibrated import UNCALIBRATED
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, is_calibrated
from accelsim.types import Array, Floats


class Ends(NamedTuple):
    """Both ends of the intervals, s; whether each comes of a calibration of this chip."""

    low: Floats
    high: Floats
    calibrated: Array


def ends(kernels: Kernels, found: Prediction) -> Ends:
    """Nine of ten kernels take no less and no more: by the calibration of the chip where its constants are those that
    it gave, or by what their own constants state, else by how far off other chips are that had no part in the
    defaults."""
    chip, names = kernels.chip, regimes(found)
    own = np.zeros(len(names), bool)
    for part in kernels.parts:
        own[part.rows] = calibrated(chip, part.prepared.constants)
    block = chip.calibration
    known = {name: each.factor for name, each in block.intervals.items()} if block is not None else {}
    family, kinds = found.family, block.kinds if block is not None else []
    own &= np.isin(family.astype(str), kinds)
    factor = np.array(
        [
            known.get(name, known.get(kind, known.get(POOLED, 1.0))) if mine else UNCALIBRATED[kind]
            for name, kind, mine in zip(names, family, own, strict=True)
        ]
    )
    stated = found.times.factor
    if stated is not None:
        by_row = (stated > 0) & ~own
        factor, own = np.where(by_row, stated, factor), own | by_row
    return Ends(found.seconds / factor, found.seconds * factor, own)


def calibrated(chip: Chip, groups: Any) -> bool:
    """Return whether the calibration of a chip gives the most telling constants of some kernels: the first two
    groups."""
    known = constants(chip)
    return all(is_calibrated(chip, known[name]) for group in groups[:2] for name in group)


LONGEST = {"products": "Computation takes", "memory": "Memory access takes"}
"""Part of the time that binds a kernel -> beginning of a sentence. The longest part may be below half."""


def sentences(kernels: Kernels, found: Prediction, row: int) -> list[str]:
    """Return why a kernel takes as long as it does."""
    times, chip = found.times, kernels.chip
    seconds, bound, overhead = (float(each[row]) for each in (times.seconds, times.bound, times.overhead))
    told = []
    longest, share = str(times.binds[row]), overhead / seconds
    took = f"{share:.1%}" if share >= 0.0005 else "less than 0.1%"
    if longest == "launch":
        told.append(f"Launch and host take longest: {took} of the time.")
    else:
        told.append(f"{LONGEST[longest]} longest; launch and host take {took} of the time.")
    if bound > 0:
        told.append(
            f"A roofline with the stated peaks of {chip.title} and a warm L2 cache gives {bound / seconds:.0%} of this "
            "time."
        )
    waves = float(times.waves[row])
    if waves > 0:
        told.append(_waves(waves))
    return told


def _waves(waves: float) -> str:
    rest = waves - np.floor(waves)
    if waves < 1:
        return f"Its thread blocks occupy {waves:.0%} of the multiprocessors."
    if rest == 0:
        return f"Its thread blocks fill {waves:,.0f} waves."
    return f"Its thread blocks fill {waves:,.2f} waves; the last wave occupies {rest:.0%} of the multiprocessors."


def columns(kernels: Kernels) -> list[Mapping[str, Any]]:
    """The table with what is predicted, one record a row: every column as it was, then ``predicted_us``, ``low_us``,
    ``high_us``, ``tile``, ``split``, ``waves``, ``binds``."""
    found = kernels.predicted(kernels.chip)
    interval, times = ends(kernels, found), found.times
    rows: list[Mapping[str, Any]] = []
    for index, cells in enumerate(kernels.table.cells):
        added = {
            "predicted_us": _us(times.seconds[index]), "low_us": _us(interval.low[index]),
            "high_us": _us(interval.high[index]), "tile": str(times.tile[index]), "split": int(times.splits[index]),
            "waves": f"{times.waves[index]:.4g}", "binds": str(times.binds[index]),
        }  # fmt: skip
        rows.append({**{name: cells[name] for name in kernels.table.header}, **added})
    return rows


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.6g}"
