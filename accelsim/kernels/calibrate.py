"""Constants of a chip fitted to a table of measured kernels, with errors on rows that were left out, and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.errors import Problem, UsageError, count_of
from accelsim.fit.chips import knobs
from accelsim.fit.search import ROBUST, Values, fit
from accelsim.fit.validation import POOLED, Coverage, Residuals, coverage, intervals, left_out, residuals
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.table import Table, shortened
from accelsim.seeds import generator
from accelsim.spec.chip import Chip
from accelsim.spec.constants import Calibration, IntervalOf, Residual, constants, outdated, with_values
from accelsim.types import Array, Floats, Ints

MOST_CONSTANTS, ROWS_EACH = 8, 10
"""Constants that are fitted at the most, and rows that each must have."""
FEWEST_ROWS = 12
"""Rows of which three constants and an idea of what they leave may come."""
PARTS = 5
"""Parts of the cross-validation."""
LIKELY = 16
"""Candidates of a kernel that a fit looks at: those that take the least at its start."""
SLACK = 0.97
"""A measured time below this share of the bound of the stated peaks cannot be; boost clocks make up for the rest."""


@dataclass(frozen=True)
class Calibrated:
    """Result of a calibration. ``chip``: with the constants and its block; ``table``: the rows that were
    used; ``fitted``: predictions of the fit; ``left_out``: of rows by fits that had not seen them,
    s; ``errors`` of these by kind and regime; ``coverage`` of intervals of the other parts."""

    chip: Chip
    table: Table
    values: Mapping[str, float]
    fitted: Prediction
    left_out: Floats
    errors: Mapping[str, Residuals]
    coverage: Coverage


def regimes(prediction: Prediction) -> Array:
    """Return the kind and regime of each row, as calibrations name their intervals."""
    pairs = zip(prediction.family, prediction.times.regime, strict=True)
    found: Array = np.array([f"{family}: {regime}" for family, regime in pairs], dtype=object)
    return found


def impossible(kernels: Kernels) -> list[int]:
    """Return the rows whose measured time lies below what the stated peaks of the chip allow."""
    bound = kernels.predicted(kernels.chip).times.bound
    return [int(row) for row in np.flatnonzero(kernels.table.measured < SLACK * bound)]


def calibrate(
    table: Table, chip: Chip, fitted_on: str, as_of: str, names: Sequence[tuple[str, ...]] = (), seed: int = 0
) -> Calibrated:
    """Fit constants of a chip to a table, each row of which has a time.

    ``names``: the constants, several in a tuple share a value; else those that such kernels tell, 3 to 8 by the number
    of rows. All kinds and formats of kernels in the table are fitted together (``balanced``). What a chip
    knows by kernels of other kinds stays, unless the new rows tell one of the constants better (functions the share of
    the memory's peak): then these kinds lose their intervals, and a table of all kinds gives them back. Raises
    UsageError: too few rows, rows that cannot be (all are listed), unknown constants.
    """
    if len(table.ops) < FEWEST_ROWS:
        what = f"{count_of(len(table.ops), 'row')} of {chip.name}"
        raise UsageError(what, str(table.path), f"at least {FEWEST_ROWS} to fit on")
    kernels = Kernels(table, chip)
    _check(kernels)
    kept = _of_other_kinds(chip, table)
    chosen = list(names) or _free(kernels, set(kept.values) if kept else set())
    turned = knobs(chip, chosen)
    every, few, known = np.arange(len(table.ops)), kernels.likely(chip, LIKELY), constants(chip)

    def model(values: Values, rows: Ints) -> Floats:
        return few.predicted(with_values(chip, values, known)).seconds[rows]

    weights = balanced(table)
    found = fit(lambda values: model(values, every), table.measured, turned, seed, ROBUST, weights=weights)
    texts = {name: known[name].spell(value) for name, value in found.items()}
    values = {name: known[name].read(text) for name, text in texts.items()}
    near = [knob._replace(start=values[knob.names[0]]) for knob in turned]
    parts = min(PARTS, len(table.ops))
    out = left_out(model, table.measured, near, parts, seed, ROBUST, near=True, weights=weights)
    fitted = kernels.predicted(with_values(chip, values))
    names_of = regimes(fitted)
    block = _block(table, texts, out, names_of, fitted_on, as_of)
    block = block.model_copy(update={"mechanism": known[chosen[0][0]].mechanism})
    if kept is not None:
        block = _beside(kept, block, set(texts))
    part = generator(seed).permutation(len(every)) % parts
    kinds = {name: names_of == name for name in sorted(set(names_of.tolist()))}
    errors = {name: residuals(out[rows], table.measured[rows]) for name, rows in kinds.items()}
    return Calibrated(
        with_values(chip, values).model_copy(update={"calibration": block}),
        table,
        values,
        fitted,
        out,
        errors,
        coverage(out, table.measured, names_of, part),
    )


def _free(kernels: Kernels, known_before: set[str]) -> list[tuple[str, ...]]:
    """The constants that rows tell, without those that other kinds told, but for the most telling of each kind here:
    functions tell the share of the memory's peak, whatever products made of it."""
    first = {part.prepared.constants[0] for part in kernels.parts}
    free = [group for group in kernels.constants if group in first or not known_before & set(group)]
    return free[: max(3, min(MOST_CONSTANTS, len(kernels.table.ops) // ROWS_EACH))]


def balanced(table: Table) -> Floats:
    """Return weights with which a kind and format of kernels counts as the square root of its rows: more rows tell
    more, but do not drown the others."""
    weights = np.empty(len(table.ops))
    for group in table.groups:
        weights[group.rows] = len(group.rows) ** -0.5
    return weights


def _check(kernels: Kernels) -> None:
    table, wrong = kernels.table, impossible(kernels)
    if not kernels.constants:
        what = f"the spec of {kernels.chip.name} has no constants of {', '.join(dict.fromkeys(table.ops))}"
        expected = "those of another chip to start from: --set sm.serving=serving/vllm-h100-sxm"
        raise UsageError(what, str(table.path), expected)
    if wrong:
        bound = kernels.predicted(kernels.chip).times.bound
        problems = [
            Problem(
                f"{table.ops[row]} in {table.measured[row] * 1e6:.4g} us",
                table.where(row),
                f"at least {bound[row] * 1e6:.4g} us, the bound of the peaks of {kernels.chip.name}",
            )
            for row in wrong
        ]
        raise UsageError(shortened(problems, table.path))


def _block(
    table: Table, texts: Mapping[str, str], out: Floats, names: Array, fitted_on: str, as_of: str
) -> Calibration:
    """The block ``calibration:``."""
    left = residuals(out, table.measured)
    note = f"of rows left out, in {PARTS} parts; mean {left.mean:.3f}"
    residual = Residual(rows=left.rows, median=round(left.median, 4), p90=round(left.p90, 4), note=note)
    return Calibration(
        fitted_on=fitted_on,
        rows=len(table.ops),
        residual=residual,
        values=dict(texts),
        kinds=sorted({group.family for group in table.groups}),
        intervals=kinds_and_regimes(out, table.measured, names),
        as_of=as_of,
    )


def kinds_and_regimes(out: Floats, measured: Floats, names: Array) -> dict[str, IntervalOf]:
    """Return intervals of all rows, of each kind where there are several, and of each regime with enough rows, from
    predictions by fits that had not seen them. ``all`` is the widest of the kinds."""
    kinds = np.array([str(name).split(":")[0] for name in names], dtype=object)
    found = intervals(out, measured, names)
    several = sorted(set(kinds.tolist()))
    of_kind = {
        kind: intervals(out[kinds == kind], measured[kinds == kind], kinds[kinds == kind])[POOLED] for kind in several
    }
    widest = max(of_kind.values(), key=lambda each: each.factor)
    every = {POOLED: widest, **(of_kind if len(several) > 1 else {}), **{n: e for n, e in found.items() if n != POOLED}}
    return {name: IntervalOf(factor=float(f"{each.factor:.4g}"), rows=each.rows) for name, each in every.items()}


def _of_other_kinds(chip: Chip, table: Table) -> Calibration | None:
    """The block of a chip that was calibrated to kernels none of which is of a kind in the table."""
    block, kinds = chip.calibration, {group.family for group in table.groups}
    if block is None or not block.kinds or kinds & set(block.kinds) or outdated(chip):
        return None
    return block


def _beside(before: Calibration, new: Calibration, fitted: set[str]) -> Calibration:
    """Both blocks as one: what was fitted anew counts, every kind keeps its intervals, and ``all`` is the widest. Where
    a constant of those before was fitted anew, their kinds are gone."""
    if fitted & set(before.values):
        return new
    widest = max((before.intervals[POOLED], new.intervals[POOLED]), key=lambda each: each.factor)
    intervals_of = {POOLED: widest}
    for block in (before, new):
        intervals_of |= {kind: block.intervals[POOLED] for kind in block.kinds if kind not in block.intervals}
        intervals_of |= {name: each for name, each in block.intervals.items() if name != POOLED}
    return new.model_copy(
        update={
            "fitted_on": f"{before.fitted_on}; {new.fitted_on}",
            "rows": before.rows + new.rows,
            "kinds": sorted({*before.kinds, *new.kinds}),
            "intervals": intervals_of,
            "values": {**before.values, **new.values},
        }
    )
