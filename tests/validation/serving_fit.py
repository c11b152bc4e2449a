"""Fit the constants of serving kernels: ``python -m tests.validation.serving_fit [CHIP ...]`` writes
``hwspecs/serving/vllm-CHIP.yaml`` from the rows that a fit may see (``serving_rows``). The same rows give the same file.

What no constant says, such as whether blocks pack heads, is what leaves the smallest error of these rows. Intervals come
of a cross-validation in five parts; the mean error is of the rows that no fit saw.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.serving import KINDS, Kind, regimes_of, unused
from accelsim.engines.simt.serving_layers import Peak
from accelsim.fit.search import ROBUST, Knob, Model, fit
from accelsim.fit.validation import Residuals, intervals, left_out, residuals
from accelsim.kernels.table import several
from accelsim.spec.base import declared, defaults
from accelsim.spec.chip import Chip
from accelsim.spec.constants import Fitted
from accelsim.spec.serving import Measured, Served, served
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Array, Floats, Ints
from accelsim.units import spell
from tests.validation.serving_rows import SYSTEMS, Row, rows, tables

HWSPECS = Path(__file__).parents[2] / "hwspecs" / "serving"
CHOICES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "layer": {},
    "prefill": {"packs": (True, False), "queries": (128, 64)},
    "decode": {"lone": (False, True)},
    "experts": {"everywhere": (True, False)},
}
"""Kind -> fields that are no numbers, and what they may be, the default first."""
STACK = {"a100-80-sxm": "vLLM 0.14.0"}
"""Chip -> stack, where it is not that of the others."""
USUAL_STACK = "vLLM 0.24.0"
PARTS, EACH = 5, 6
"""Parts of the cross-validation, and rows that each constant must have."""


class Set(NamedTuple):
    """Rows of one chip, kind and key, as columns."""

    kind: Kind
    form: Served
    peak: Peak
    columns: Mapping[str, Floats]
    measured: Floats
    seen: Array

    def seconds(self, model: Measured, at: Ints) -> Floats:
        """Seconds of some rows by constants."""
        columns = {name: values[at] for name, values in self.columns.items()}
        return self.kind.cost(model, self.form, self.peak, columns).seconds

    def regimes(self, model: Measured) -> Array:
        """Regimes of all rows by constants."""
        cost = self.kind.cost(model, self.form, self.peak, self.columns)
        return regimes_of(cost.seconds / np.maximum(cost.launch, 1e-9))


def device_of(chip: Chip) -> Device:
    """The multiprocessors of a chip."""
    return Device(chip, next(iter(chip.engines)))


def set_of(chip: Chip, kind: str, found: Sequence[Row]) -> Set:
    """The rows of one key on a chip."""
    dtype = found[0].cells["dtype"]
    table = several(found[0].cells["op"], dtype, [row.cells for row in found])
    (group,) = table.groups
    form, device = served(group.format), device_of(chip)
    assert form is not None
    measured = np.array([float(row.cells["time_ms"]) * 1e-3 for row in found])
    of = KINDS[kind]
    return Set(
        of, form, device.peak(form.arithmetic), of.prepared(group.columns), measured,
        np.array([row.seen for row in found]),
    )  # fmt: skip


def knobs_of(each: Set, kind: str, chosen: Mapping[str, Any]) -> list[Knob]:
    """The constants that the rows of a set that fits may see can tell with these choices, from their defaults."""
    no_use = unused(each.form, model(each, chosen))
    most = max(2, int(each.seen.sum()) // EACH)
    found = [
        Knob((name,), mark.low, mark.high, float(declared(each.kind.model, name).default))
        for name, mark in constants_of(each.kind).items()
        if name not in no_use
    ]
    return found[:most]


def constants_of(kind: Kind) -> dict[str, Fitted]:
    """The constants of a kind with the ranges in which fits look for them."""
    marks = ((name, declared(kind.model, name).marks) for name in defaults(kind.model))
    return {name: mark for name, found in marks for mark in found if isinstance(mark, Fitted)}


class Fit(NamedTuple):
    """Constants and choices of a set; its cross-validated predictions of rows that fits may see."""

    values: Mapping[str, Any]
    loss: float
    knobs: Sequence[Knob]


def fitted(each: Set, kind: str) -> Fit:
    """The constants and choices that leave the smallest error of the rows that a fit may see."""
    at = np.flatnonzero(each.seen)
    tried = []
    for values in product(*CHOICES[kind].values()):
        chosen = dict(zip(CHOICES[kind], values, strict=True))
        turned = knobs_of(each, kind, chosen)
        found = fit(_model_of(each, chosen, at), each.measured[at], turned, 0, ROBUST)
        errors = each.seconds(model(each, {**chosen, **found}), at) / each.measured[at] - 1
        tried.append(Fit({**chosen, **found}, float(np.mean(ROBUST.counted(errors))), turned))
    return min(tried, key=lambda one: one.loss)


def _model_of(each: Set, chosen: Mapping[str, Any], at: Ints) -> Model:
    """Seconds of some rows by the constants that a fit tries, with these choices."""
    return lambda now: each.seconds(model(each, {**chosen, **now}), at)


def model(each: Set, values: Mapping[str, Any]) -> Measured:
    """A row of constants."""
    return each.kind.model.model_construct(None, **values)


def row_of(each: Set, kind: str) -> tuple[dict[str, Any], Residuals]:
    """A row of the spec, and its errors on rows that no fit saw."""
    best = fitted(each, kind)
    at, rest = np.flatnonzero(each.seen), np.flatnonzero(~each.seen)
    fixed = {name: best.values[name] for name in CHOICES[kind]}
    near = [knob._replace(start=best.values[knob.names[0]]) for knob in best.knobs]
    out = left_out(
        lambda now, rows: each.seconds(model(each, {**fixed, **now}), at[rows]), each.measured[at], near, PARTS, 0,
        ROBUST, near=True,
    )  # fmt: skip
    made = model(each, best.values)
    unseen = residuals(each.seconds(made, rest), each.measured[rest])
    known = intervals(out, each.measured[at], each.regimes(made)[at])
    texts = {name: _text(each.kind, name, value) for name, value in best.values.items()}
    factors = {name: {"factor": float(f"{one.factor:.3g}"), "rows": one.rows} for name, one in sorted(known.items())}
    about = {"rows": len(at), "unseen": len(rest), "mean": round(unseen.mean, 3), "intervals": factors}
    return {**texts, **about}, unseen


def _text(of: Kind, name: str, value: Any) -> Any:
    """A value as a spec has it."""
    mark = next((each for each in declared(of.model, name).marks if isinstance(each, Fitted)), None)
    if mark is None:
        return value
    return spell(value, mark.unit) if mark.unit else float(f"{value:.3g}")


def sets(chip: str) -> Iterator[tuple[str, str, Set]]:
    """Kind, key and rows of every set of a chip, those with most rows of a format first."""
    data = tables()
    assert data is not None
    loaded = load_chip(chip)
    for kind in KINDS:
        own = [row for row in rows(data) if row.chip == chip and row.kind == kind]
        keys = dict.fromkeys(row.key for row in own)
        for key in sorted(keys, key=lambda key: (key.split("/")[0], -sum(row.key == key for row in own))):
            yield kind, key, set_of(loaded, kind, [row for row in own if row.key == key])


def main(names: Sequence[str]) -> None:
    """Write the files of some chips, or of all."""
    for chip in names or list(SYSTEMS.values()):
        blocks: dict[str, dict[str, Any]] = {}
        for kind, key, each in sets(chip):
            content, unseen = row_of(each, kind)
            blocks.setdefault(KINDS[kind].block, {})[key] = content
            print(f"{chip} {kind} {key}: {unseen.rows} unseen rows, mean {unseen.mean:.1%}, median {unseen.median:.1%}, "
                  f"90th percentile {unseen.p90:.1%}", flush=True)  # fmt: skip
        _write(chip, blocks)


def _write(chip: str, blocks: Mapping[str, Mapping[str, Any]]) -> None:
    stack = STACK.get(chip, USUAL_STACK)
    lines = [f"title: {stack}", f"device: {chip}"]
    for block, keys in blocks.items():
        lines.append(f"{block}:")
        for key, content in keys.items():
            text = yaml.safe_dump(content, default_flow_style=True, sort_keys=False, width=110)
            lines.append(f"  {key}:")
            lines += [f"    {line}" for line in text.rstrip().splitlines()]
    lines += [
        "source: >-",
        f"  Fitted with accelsim (tests/validation/serving_fit.py) to two thirds of the rows of {stack} in the kernel tables of",
        "  aiconfigurator (Apache-2.0); the other third is what `unseen` and `mean` speak of.",
        "as_of: 2026-11",
    ]
    (HWSPECS / f"vllm-{chip}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
