"""Check ``gpu-serving``: kernels of LLM serving under vLLM on six GPUs, against the constants that are shipped.

The rows that no fit saw are written as a table and predicted as ``accelsim kernel --csv`` does; a row of the check is a
kind of kernel in a format on a GPU. Beside it stand a fit to two thirds of all rows of a set, for each third, and the
constants that a GPU has that nobody measured: medians over the families of the others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.serving import KINDS, row
from accelsim.fit.search import ROBUST
from accelsim.fit.validation import left_out, residuals
from accelsim.kernels.explain import ends
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import read_table
from accelsim.kernels.whole import uncalibrated
from accelsim.spec.serving import Measured
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Array, Floats
from tests.validation.base import Check, check
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT
from tests.validation.serving_fit import CHOICES, Set, constants_of, device_of, knobs_of, model, set_of
from tests.validation.serving_rows import SYSTEMS, Row, rows, tables

PARTS = 3
"""Parts of the cross-validation."""
LEAST, SPREADS = 0.8, 2
"""Share of the rows that intervals must hold, and standard deviations of it below which a small set may be."""
CLAIMED: Mapping[str, Mapping[str, float]] = {
    "layer bf16": {"a100-80-sxm": 0.1, "h100-sxm": 0.065, "h200-sxm": 0.065, "b200-sxm": 0.085, "l40s": 0.135,
        "rtx-pro-6000-server": 0.095},
    "layer fp8_e4m3fn": {"h100-sxm": 0.1, "h200-sxm": 0.115, "b200-sxm": 0.12, "l40s": 0.2,
        "rtx-pro-6000-server": 0.1},
    "layer nvfp4": {"b200-sxm": 0.07, "rtx-pro-6000-server": 0.1},
    "prefill bf16": {"a100-80-sxm": 0.095, "h100-sxm": 0.115, "h200-sxm": 0.115, "b200-sxm": 0.11,
        "l40s": 0.185, "rtx-pro-6000-server": 0.105},
    "prefill fp8_e4m3fn": {"h100-sxm": 0.125, "h200-sxm": 0.12, "b200-sxm": 0.175, "l40s": 0.19,
        "rtx-pro-6000-server": 0.16},
    "decode bf16": {"a100-80-sxm": 0.075, "h100-sxm": 0.105, "h200-sxm": 0.11, "b200-sxm": 0.085,
        "l40s": 0.115, "rtx-pro-6000-server": 0.095},
    "decode fp8_e4m3fn": {"h100-sxm": 0.095, "h200-sxm": 0.1, "b200-sxm": 0.095, "l40s": 0.115,
        "rtx-pro-6000-server": 0.12},
    "experts bf16": {"a100-80-sxm": 0.19, "h100-sxm": 0.115, "h200-sxm": 0.115, "b200-sxm": 0.125,
        "l40s": 0.16, "rtx-pro-6000-server": 0.12},
    "experts fp8_block": {"h100-sxm": 0.11, "h200-sxm": 0.115, "b200-sxm": 0.13, "l40s": 0.16},
    "experts fp8_e4m3fn": {"h100-sxm": 0.125, "h200-sxm": 0.125, "b200-sxm": 0.12, "l40s": 0.245,
        "rtx-pro-6000-server": 0.14},
    "experts int4xbf16": {"h100-sxm": 0.125, "h200-sxm": 0.135, "b200-sxm": 0.15, "l40s": 0.125,
        "rtx-pro-6000-server": 0.115},
    "experts mxfp4xbf16": {"h100-sxm": 0.18, "h200-sxm": 0.18, "b200-sxm": 0.105, "l40s": 0.175,
        "rtx-pro-6000-server": 0.165},
    "experts mxfp4xmxfp8_e4m3": {"b200-sxm": 0.13},
    "experts nvfp4": {"b200-sxm": 0.15, "rtx-pro-6000-server": 0.14},
}  # fmt: skip
"""Kind and format -> chip -> mean error that is claimed of the rows that no fit saw: a little more than what it is."""


class Predicted(NamedTuple):
    """Rows of a chip as the tool predicts them, s; within their intervals; their regimes."""

    seconds: Floats
    inside: Array
    regime: Array


def predicted(chip: str, found: Sequence[Row]) -> Predicted:
    """The rows by ``accelsim kernel --csv``."""
    names = list(dict.fromkeys(name for each in found for name in each.cells))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, restval="")
            writer.writeheader()
            writer.writerows(each.cells for each in found)
        table, loaded = read_table(path, timed=True), load_chip(chip)
    kernels = Kernels(table, loaded)
    made = kernels.predicted(loaded)
    interval = ends(kernels, made)
    inside = (interval.low <= table.measured) & (table.measured <= interval.high)
    return Predicted(made.seconds, inside, made.times.regime)


class Outcome(NamedTuple):
    """A kind and format on a chip: seconds measured and predicted of rows that no fit saw, within their intervals, by
    regime; mean errors by cross-validation and by the other families, and the share within the interval of these."""

    chip: str
    name: str
    measured: Floats
    seconds: Floats
    inside: Array
    regime: Array
    by_parts: float
    by_defaults: float
    held: float

    @property
    def claimed(self) -> float:
        """Mean error that is claimed, 0 for none."""
        return CLAIMED.get(self.name, {}).get(self.chip, 0.0)

    @property
    def agrees(self) -> bool:
        """Return whether the mean error is no larger than is claimed, and intervals hold what they should."""
        spread = SPREADS * float(np.sqrt(LEAST * (1 - LEAST) / len(self.measured)))
        near = residuals(self.seconds, self.measured).mean <= self.claimed
        return near and float(self.inside.mean()) >= LEAST - spread

    @property
    def said(self) -> str:
        """The outcome in a sentence."""
        left = residuals(self.seconds, self.measured)
        claimed = f" (claimed: {self.claimed:.1%})" if self.claimed else ""
        return (
            f"{self.chip}, {self.name}: {left.rows:,} rows that no fit saw, mean {left.mean:.1%}{claimed}, median "
            f"{left.median:.1%}, 90th percentile {left.p90:.1%}, {self.inside.mean():.0%} within their intervals; fitted "
            f"again to two thirds of all rows, three times: mean {self.by_parts:.1%}; by the other families of GPUs "
            f"{self.by_defaults:.1%}, {self.held:.0%} within the interval of a GPU that nobody measured"
        )


def outcomes(data: Path) -> Iterator[Outcome]:
    """Every kind and format of every chip."""
    for chip in SYSTEMS.values():
        own = [each for each in rows(data) if each.chip == chip]
        unseen = [each for each in own if not each.seen]
        found = predicted(chip, unseen)
        names = np.array([name_of(each) for each in unseen], dtype=object)
        measured = np.array([float(each.cells["time_ms"]) * 1e-3 for each in unseen])
        for name in sorted(set(names.tolist())):
            here = names == name
            errors, defaults, held = _again(chip, [each for each in own if name_of(each) == name])
            yield Outcome(
                chip, name, measured[here], found.seconds[here], found.inside[here], found.regime[here], errors, defaults,
                held,
            )  # fmt: skip


def name_of(each: Row) -> str:
    """Return kind and format, whatever the library."""
    return f"{each.kind} {each.key.partition('/')[0]}"


def _again(chip: str, found: Sequence[Row]) -> tuple[float, float, float]:
    """Mean errors of all rows by fits to the other two thirds, and by the other families; the share of the rows within
    the interval of a chip that nobody measured."""
    errors, defaults = [], []
    kind = found[0].kind
    for key in dict.fromkeys(each.key for each in found):
        each = set_of(load_chip(chip), kind, [row for row in found if row.key == key])
        errors.append(_by_parts(chip, kind, key, each) / each.measured)
        plain = without(chip, kind)
        defaults.append(each.seconds(plain, np.arange(len(each.measured))) / each.measured)
    ratios, plain_ratios = np.concatenate(errors), np.concatenate(defaults)
    held = np.abs(np.log(plain_ratios)) <= np.log(uncalibrated(kind))
    return float(np.abs(ratios - 1).mean()), float(np.abs(plain_ratios - 1).mean()), float(held.mean())


FAMILY: Mapping[str, str] = {"h200-sxm": "h100-sxm"}
"""Chip -> the one of its family that is measured too."""


def without(chip: str, kind: str) -> Measured:
    """The constants of a chip that nobody measured: medians over the other families of GPUs."""
    block, families = KINDS[kind].block, dict[str, list[Measured]]()
    for other in SYSTEMS.values():
        serving = device_of(load_chip(other)).spec.serving
        families.setdefault(FAMILY.get(other, other), []).extend(getattr(serving, block).values())
    del families[FAMILY.get(chip, chip)]
    values: dict[str, float] = {}
    for name in constants_of(KINDS[kind]):
        stated = [[getattr(row, name) for row in own if name in row.model_fields_set] for own in families.values()]
        values[name] = median(median(own) for own in stated if own)
    return KINDS[kind].model.model_construct(None, **values)


def _by_parts(chip: str, kind: str, key: str, each: Set) -> Floats:
    """Seconds of each row by constants fitted to the other parts, from those that are shipped."""
    shipped = row(device_of(load_chip(chip)), KINDS[kind], key)
    chosen = {name: getattr(shipped, name) for name in CHOICES[kind]}
    turned = [knob._replace(start=float(getattr(shipped, knob.names[0]))) for knob in knobs_of(each, kind, chosen)]
    return left_out(
        lambda now, at: each.seconds(model(each, {**chosen, **now}), at), each.measured, turned, PARTS, 0, ROBUST,
        near=True,
    )  # fmt: skip


@check("gpu-serving")
def gpu_serving() -> Check:
    """All kinds and formats against the constants that are shipped."""
    what = "kernels of LLM serving on six GPUs against measured times, as shipped, on rows that no fit saw"
    data = tables()
    if data is None:
        return Check("gpu-serving", what, 0, 0, np.zeros(0), [ABSENT])
    found = list(outcomes(data))
    claimed = [each for each in found if each.claimed]
    errors = np.concatenate([each.seconds / each.measured - 1 for each in found])
    return Check(
        "gpu-serving", what, len(claimed), sum(each.agrees for each in claimed), errors,
        [each.said for each in (*claimed, *(each for each in found if not each.claimed))],
        "mean error and coverage as claimed", len(found) - len(claimed),
        compared=[Compared(f"{each.chip}, {each.name}", each.measured, each.seconds, each.regime) for each in claimed],
    )  # fmt: skip
