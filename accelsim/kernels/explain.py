"""Explanations of predicted kernels: intervals, and why a kernel takes as long as it does, each computed from its
times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.fit.validation import POOLED
from accelsim.kernels.calibrate import regimes
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.whole import calibrated, in_other_labs, uncalibrated
from accelsim.spec.chip import Chip
from accelsim.spec.constants import outdated
from accelsim.types import Array, Floats

SPREAD = ("uncalibrated", "any lab", "this lab")
"""Kinds of intervals: for a chip that no lab has measured, for a chip that another lab has measured, or for the scatter
of kernels in the lab that measured the chip."""


class Ends(NamedTuple):
    """Ends of the intervals in s, whether each comes from a calibration of this chip, and what it covers."""

    low: Floats
    high: Floats
    calibrated: Array
    spread: Array


def ends(kernels: Kernels, found: Prediction) -> Ends:
    """Return the intervals within which nine of ten kernels lie: by the calibration of the chip where its constants are
    calibrated, or by what their own constants state, else by the errors on chips without a part in the defaults."""
    chip, names = kernels.chip, regimes(found)
    own = np.zeros(len(names), bool)
    for part in kernels.parts:
        own[part.rows] = calibrated(chip, part.prepared.constants)
    block = chip.calibration
    known = {name: each.factor for name, each in block.intervals.items()} if block is not None else {}
    family, kinds = found.family, block.kinds if block is not None else []
    own &= np.isin(family.astype(str), kinds)
    elsewhere = block is not None and block.elsewhere
    rows = list(zip(names.tolist(), family.tolist(), own.tolist(), strict=True))
    by_row = {
        (name, kind, mine): _factor(known, name, kind, elsewhere) if mine else uncalibrated(kind)
        for name, kind, mine in set(rows)
    }
    factor = np.array([by_row[each] for each in rows])
    stated = (found.times.factor > 0) & ~own
    factor = np.where(stated, found.times.factor, factor)
    spread = np.array(SPREAD, dtype=object)[np.where(own, 1 if elsewhere else 2, np.where(stated, 2, 0))]
    return Ends(found.seconds / factor, found.seconds * factor, own | stated, spread)


def _factor(known: Mapping[str, float], name: str, kind: str, elsewhere: bool) -> float:
    factor = known.get(name, known.get(kind, known.get(POOLED, 1.0)))
    return in_other_labs(kind, factor) if elsewhere else factor


def interval_sentences(chip: Chip, spread: str) -> list[str]:
    """Return what an interval covers, and why a calibration does not count."""
    own = f"Your own measurements: accelsim calibrate {chip.name} --data MEASURED.csv."
    covers = (
        "Uncalibrated: the constants are defaults shared by all GPUs; the interval is that of chips that had no part "
        f"in their fit. {own}",
        "The interval holds in any lab. In the lab that measured the chip (--site calibration-lab), or with a record "
        "of yours (accelsim calibrate --site), it is narrower.",
        "The interval is that of the lab that measured the chip.",
    )
    before = outdated(chip)
    return [*([before] if before else []), covers[SPREAD.index(spread)]]


LONGEST = {"products": "Computation takes", "memory": "Memory access takes"}
"""Part of the time that binds a kernel -> beginning of a sentence. The longest part may be below half."""


def sentences(kernels: Kernels, found: Prediction, row: int) -> list[str]:
    """Return why a kernel takes as long as it does."""
    times, chip = found.times, kernels.chip
    seconds, bound, overhead = (float(each[row]) for each in (times.seconds, times.bound, times.overhead))
    longest, share = str(times.binds[row]), overhead / seconds
    took = _percent(share, 1)
    if longest == "launch":
        texts = [f"Launch and host take longest: {took} of the time."]
    else:
        texts = [f"{LONGEST[longest]} longest; launch and host take {took} of the time."]
    if bound > 0:
        texts.append(
            f"A roofline with the stated peaks of {chip.title} and a warm L2 cache gives "
            f"{_percent(bound / seconds, 0)} of this time."
        )
    waves = float(times.waves[row])
    if waves > 0:
        texts.append(_waves(waves))
    return texts


def _percent(share: float, digits: int) -> str:
    """A share, never rounded to nothing."""
    least = 10.0 ** -(digits + 2)
    return f"{share:.{digits}%}" if share >= least / 2 else f"less than {least:.{digits}%}"


MANY_WAVES = 1000
"""Waves from which on the last one does not matter."""


def _waves(waves: float) -> str:
    rest = waves - np.floor(waves)
    if waves < 1:
        return f"Its thread blocks occupy {_percent(waves, 0)} of the multiprocessors."
    if rest == 0 or waves >= MANY_WAVES:
        return f"Its thread blocks fill {waves:,.0f} waves."
    return f"Its thread blocks fill {waves:,.2f} waves; the last wave occupies {rest:.0%} of the multiprocessors."


def columns(kernels: Kernels) -> list[Mapping[str, object]]:
    """Return the table with its predictions, one record a row: every column as it was, then
    ``predicted_us``, ``low_us``, ``high_us``, ``tile``, ``split``, ``waves``, ``binds``, ``interval``."""
    found = kernels.predicted(kernels.chip)
    interval, times = ends(kernels, found), found.times
    rows: list[Mapping[str, object]] = []
    for index, cells in enumerate(kernels.table.cells):
        added = {
            "predicted_us": _us(times.seconds[index]),
            "low_us": _us(interval.low[index]),
            "high_us": _us(interval.high[index]),
            "tile": str(times.tile[index]),
            "split": int(times.splits[index]),
            "waves": f"{times.waves[index]:.4g}",
            "binds": str(times.binds[index]),
            "interval": str(interval.spread[index]),
        }
        rows.append({**{name: cells[name] for name in kernels.table.header}, **added})
    return rows


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.6g}"
