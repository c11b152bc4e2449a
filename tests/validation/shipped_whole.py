"""Fit the factors of whole things that ship again: ``python -m tests.validation.shipped_whole``.

Rows are those of ``whole_rows``, predicted by the constants that ship at that time; two of three, by a hash of what they
are, tell the factors: the narrowest that hold nine of ten, rows of one lab together weighing the square root of their
number, with the correction for few rows of split-conformal intervals. Both are equal unless there are enough rows for
different ones and these make the interval a tenth narrower. ``hwspecs/intervals/whole.yaml`` is written again; the third that
is left is what ``accelsim validate coverage`` compares. Predictions are kept in the user's cache until a source, a spec
or a measurement changes, so that the check need not make them again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import ceil, exp
from pathlib import Path
from textwrap import wrap

import numpy as np

from accelsim.fit.validation import LEVEL
from accelsim.types import Floats
from accelsim.usercache import remembered
from tests.validation.measured import folder
from tests.validation.whole_rows import SETS, Row, plans

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "hwspecs" / "intervals" / "whole.yaml"
AS_OF = "2026-11"
APART, NARROWER = 40, 0.8
"""Rows from which on both ends may have factors of their own; how wide an interval of these may be at most, as a share of
that of one factor, in logarithms: where a prediction is hardly biased, one factor is the steadier."""
CHOSEN = 2
"""Rows more that an interval with two factors has to hold, since the narrowest of many flatters: one for each end."""
Ends = tuple[float, float]
"""Factors by which a prediction is divided and multiplied for the ends of its interval."""
NEVER_PREDICT = ("claims", "coverage", "money", "ranking", "shipped_whole", "report", "report_texts")
"""Modules of this folder that no prediction depends on."""


@cache
def every(data: Path) -> tuple[Row, ...]:
    """Return all rows, predicted once for the same sources."""
    found = [row for rows_of in SETS for row in known_rows(rows_of, data)]
    return (*found, *plans(found))


def known_rows(rows_of: Callable[[Path], Iterator[Row]], data: Path) -> list[Row]:
    """Return the rows of a set, from the user's cache where nothing that they depend on has changed."""
    files = sorted(
        path
        for pattern in ("hwspecs/**/*.yaml", "tests/validation/*.py", "tests/golden/*/*.csv")
        for path in ROOT.glob(pattern)
        if path != FILE and path.stem not in NEVER_PREDICT
    )
    files += sorted(data.rglob("*.csv"))
    name = f"whole-{rows_of.__name__}"
    found = [Row(*each) for each in remembered(name, lambda: files, lambda: list(rows_of(data)))]
    print(rows_of.__name__, len(found), file=sys.stderr, flush=True)
    return found


def by_key(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """Return the rows of each key, by name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return dict(sorted(found.items()))


def logs(rows: Sequence[Row]) -> Floats:
    """Return logarithms of measured over predicted."""
    return np.log([row.measured / row.predicted for row in rows])


def factors(rows: Sequence[Row]) -> Ends:
    """Return the factors between which nine of ten rows lie, each lab weighing the square root of its number."""
    found, many = logs(rows), Counter(row.lab for row in rows)
    weights = np.array([many[row.lab] ** -0.5 for row in rows])

    def share(more: int = 0) -> float:
        return min(1.0, (ceil((len(rows) + 1) * LEVEL) + more) / len(rows)) * float(weights.sum()) - 1e-12

    _, both = _shortest(np.abs(found), weights, share(), first=1)
    low, high = _shortest(found, weights, share(CHOSEN))
    if len(rows) < APART or max(0.0, -low) + max(0.0, high) > NARROWER * 2 * both:
        return exp(both), exp(both)
    return exp(max(0.0, -low)), exp(max(0.0, high))


def _shortest(values: Floats, weights: Floats, share: float, first: int = 0) -> tuple[float, float]:
    """Return the ends of the shortest range with values of a weight of ``share``; with ``first`` of those that begin
    with so many of the smallest values."""
    order = np.argsort(values, kind="stable")
    ordered, reached = values[order], np.cumsum(weights[order])
    before = (reached - weights[order])[: first or None]
    ends = np.searchsorted(reached, before + share)
    able = np.flatnonzero(ends < len(values))
    at = able[np.argmin(ordered[ends[able]] - ordered[able])]
    return float(ordered[at]), float(ordered[ends[at]])


def held(rows: Sequence[Row], whole: Ends) -> Floats:
    """Return 1 for each row within the wider of the interval of wholes and that of its kernels, 0 for the others."""
    found, kernels = logs(rows), np.log([row.kernels for row in rows])
    below, above = np.log(whole)
    wider = 2 * kernels >= below + above
    low, high = np.where(wider, kernels, below), np.where(wider, kernels, above)
    return ((found >= -low - 1e-12) & (found <= high + 1e-12)).astype(float)


def blocks(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the lines of each key of the file."""
    found = {}
    for key, own in by_key(rows).items():
        seen, out = ([row for row in own if row.unseen is unseen] for unseen in (False, True))
        below, above = (float(f"{each:.3g}") for each in factors(seen))
        figures = {"below": f"{below:g}", "above": f"{above:g}", "rows": len(seen), "unseen": len(out)}
        figures |= {"inside": f"{float(held(out, (below, above)).mean()):.3f}"} if out else {}
        many = sorted(Counter(row.lab for row in seen).items(), key=lambda each: -each[1])
        labs = ", ".join(f"{lab} ({count:,})" for lab, count in many)
        found[key] = [
            f"  '{key}':",
            *(f"    {name}: {value}" for name, value in figures.items()),
            "    fitted_on: >-",
            *(f"      {line}" for line in wrap(labs, 110)),
        ]
    return found


HEAD = "name: whole\nwholes:\n"
TAIL = """source: >-
  Our own fit to published figures of whole steps, networks and generations, of vTrain, MosaicML, Megatron-LM, NeuSight,
  NVIDIA DeepLearningExamples, MLPerf, TensorRT-LLM and InferenceX, and to networks that were measured for this project:
  tests/validation/whole_rows.py.
as_of: {as_of}
note: >-
  Factors between which nine of ten of the rows lie, predicted by the constants that ship; a third of all rows, by a
  hash of what they are, had no part. python -m tests.validation.shipped_whole writes this file again.
"""


def text(rows: Sequence[Row]) -> str:
    """Return the file for some rows."""
    lines = [line for own in blocks(rows).values() for line in own]
    return HEAD + "\n".join(lines) + "\n" + TAIL.format(as_of=AS_OF)


def main() -> None:
    """Write the factors again."""
    data = folder()
    if data is None:
        raise SystemExit("no measured rows: name their folder by ACCELSIM_MEASURED")
    FILE.write_text(text(every(data)), encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
