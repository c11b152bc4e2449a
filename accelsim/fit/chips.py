"""Constants of a chip fitted to measurements, and the spec that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.files import text, write_file
from accelsim.fit.search import Knob, fit
from accelsim.fit.validation import cross_validated
from accelsim.spec.chip import Chip
from accelsim.spec.constants import Calibration, Residual, constants, with_values
from accelsim.types import Floats, Ints

ModelOfChip = Callable[[Chip, Ints], Floats]
"""Predicts the rows of measurements with these numbers for a chip, > 0."""


def knobs(chip: Chip, names: Iterable[str | Sequence[str]]) -> list[Knob]:
    """A knob for each constant of the chip that is named; constants named together share one value.

    It starts at the value that the (first) constant has, and moves in the range that all of them have. Raises
    UsageError for what is no constant of the chip, with the nearest name, and for one that is named twice.
    """
    known = constants(chip)
    groups = [(each,) if isinstance(each, str) else tuple(each) for each in names]
    flat = [name for group in groups for name in group]
    problems = [
        Problem(f"{chip.name} has no constant {name!r}", "", ", ".join(known) or "none", nearest(name, known))
        for name in flat
        if name not in known
    ]
    problems += [Problem(f"{name} is named twice", "") for name in dict.fromkeys(flat) if flat.count(name) > 1]
    UsageError.raise_for(problems)
    made = []
    for group in groups:
        alike = [known[name] for name in group]
        low, high = max(each.mark.low for each in alike), min(each.mark.high for each in alike)
        made.append(Knob(group, low, high, alike[0].value, any(each.whole for each in alike)))
    return made


def calibrate(
    chip: Chip,
    names: Iterable[str | Sequence[str]],
    model: ModelOfChip,
    measured: Floats,
    fitted_on: str,
    as_of: str,
    parts: int = 5,
    seed: int = 0,
) -> Chip:
    """The chip with constants fitted to ``measured``, and with the calibration that says so.

    ``names`` as in ``knobs``; ``measured``: one time (or another quantity, > 0) per row; ``fitted_on``: whose
    measurements these are; ``as_of``: of when. The residual is that of rows left out, in ``parts``. Raises UsageError.
    """
    turned = knobs(chip, names)
    left = cross_validated(lambda values, rows: model(with_values(chip, values), rows), measured, turned, parts, seed)
    rows = np.arange(len(measured))
    values = fit(lambda found: model(with_values(chip, found), rows), measured, turned, seed)
    known = constants(chip)
    texts = {name: known[name].spell(value) for name, value in values.items()}
    fitted = with_values(chip, {name: known[name].read(spelled) for name, spelled in texts.items()})
    note = f"cross-validation in {parts} parts, of rows left out; mean {left.mean:.3f}"
    residual = Residual(rows=left.rows, median=round(left.median, 4), p90=round(left.p90, 4), note=note)
    mechanism = max((known[name].mechanism for name in values), default=1)
    block = Calibration(
        fitted_on=fitted_on, mechanism=mechanism, rows=len(measured), residual=residual, values=texts, as_of=as_of
    )
    return fitted.model_copy(update={"calibration": block})


def write_spec(chip: Chip, path: str | Path) -> Path:
    """Write a chip as one file of its own, which ``load_chip`` reads. UsageError where it cannot be written."""
    from accelsim.spec.yaml.load import show

    return write_file(path, text(show(chip)))
