"""Fit the factors of whole things that ship again: ``python -m tests.validation.shipped_whole``.

Rows are those of ``whole_rows``, predicted by the constants that ship at that time; two of three, by a hash of what they
are, tell the factor: the smallest that holds nine of ten, rows of one lab together weighing the square root of their
number, with the correction for few rows of split-conformal intervals. ``hwspecs/intervals/whole.yaml`` is written again;
the third that is left is what ``accelsim validate coverage`` compares.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil, exp
from pathlib import Path
from textwrap import wrap

import numpy as np

from accelsim.fit.validation import LEVEL
from accelsim.types import Floats
from tests.validation.measured import folder
from tests.validation.whole_rows import SETS, Row

FILE = Path(__file__).resolve().parents[2] / "hwspecs" / "intervals" / "whole.yaml"
AS_OF = "2026-11"


@cache
def every(data: Path) -> tuple[Row, ...]:
    """Return all rows, predicted once in a process."""
    return tuple(row for rows_of in SETS for row in _told(rows_of.__name__, rows_of(data)))


def _told(name: str, rows: Iterator[Row]) -> list[Row]:
    found = list(rows)
    print(name, len(found), file=sys.stderr, flush=True)
    return found


def by_key(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """Return the rows of each key, by name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return dict(sorted(found.items()))


def sizes(rows: Sequence[Row]) -> Floats:
    """Return sizes of the logarithms of measured over predicted."""
    return np.abs(np.log([row.measured / row.predicted for row in rows]))


def factor(rows: Sequence[Row]) -> float:
    """Return the factor that holds nine of ten rows, each lab weighing the square root of its number."""
    many = Counter(row.lab for row in rows)
    weights = np.array([many[row.lab] ** -0.5 for row in rows])
    found = sizes(rows)
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    level = min(1.0, ceil((len(rows) + 1) * LEVEL) / len(rows))
    return float(exp(found[order][min(int(np.searchsorted(reached, level - 1e-12)), len(rows) - 1)]))


def held(rows: Sequence[Row], whole: float) -> Floats:
    """Return 1 for each row within the wider of a factor and the interval of its kernels, 0 for the others."""
    widths = np.maximum(np.log(whole), np.log([row.kernels for row in rows]))
    return (sizes(rows) <= widths + 1e-12).astype(float)


def blocks(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the lines of each key of the file."""
    found = {}
    for key, own in by_key(rows).items():
        seen, out = ([row for row in own if row.unseen is unseen] for unseen in (False, True))
        width = float(f"{factor(seen):.3g}")
        figures = {"factor": f"{width:g}", "rows": len(seen), "unseen": len(out)}
        figures |= {"inside": f"{float(held(out, width).mean()):.3f}"} if out else {}
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
  The factor that holds nine of ten of the rows, predicted by the constants that ship; a third of all rows, by a hash of
  what they are, had no part. python -m tests.validation.shipped_whole writes this file again.
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
