"""The constants of the GPUs that come with the tool, fitted to measured kernels: ``python -m tests.validation.shipped
[CHIP...]`` writes the block ``calibration:`` of their specs again.

Each chip has one fit over all kinds of kernels that were measured of it, whoever measured them. Of each table two rows
of three are fitted, by a hash of what they are of (op, format, device and sizes, so that a kernel that was measured
twice is on one side); the third has no part in any constant or interval, and is what the checks ``gpu-*`` compare.
Rows of one kind and format of one file weigh together the square root of their number times what their kind weighs
(``WEIGHTS``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim import units
from accelsim.engines.simt.spec import Simt
from accelsim.fit.chips import knobs
from accelsim.fit.search import ROBUST, Knob, Values, fit
from accelsim.fit.validation import left_out, residuals
from accelsim.kernels.calibrate import LIKELY, PARTS, balanced, kinds_and_regimes, regimes
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, read_table
from accelsim.spec.chip import Chip
from accelsim.spec.constants import Calibration, Constant, Residual, constants, with_values
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Array, Floats, Ints
from tests.validation.measured import folder

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ROOT / "hwspecs" / "chips"
GOLDEN = ROOT / "tests" / "golden"
AS_OF = "2026-11"
VIDUR, NEUSIGHT, DEEPBENCH = "Vidur, profiles of language models", "NeuSight, PyTorch eager", "DeepBench"
OWN = "measured for this project, CUDA graphs (tests/golden)"
TENSOR = "fp16_in_fp32_acc_tensorcore"
WEIGHTS: Mapping[str, float] = {"product": 1.0, "function": 1.0, "attention": 0.1, "convolution": 0.1}
"""Kind -> what its rows weigh. Attention and convolutions are least explained: with more they would tell products how
fast these are."""
HOST = Knob(("host",), 0.0, 100e-6, 30e-6)
"""Time of an eager framework's host for a kernel, s: of the site, fitted along."""


class Source(NamedTuple):
    """A file of measured kernels: of ``precision`` where it has several, of ``ops``. ``host``: 'eager' where a framework
    asks for each, 'graph' where they follow each other in a graph, 'none' else."""

    file: str
    lab: str
    host: str = "none"
    precision: str = ""
    ops: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()


EAGER = [Source(f"neusight_{kind}.csv", NEUSIGHT, "eager") for kind in ("gemm", "vector", "conv")]
BENCH = [
    Source(f"deepbench_{kind}.csv", DEEPBENCH, precision=name) for kind in ("gemm", "conv") for name in ("fp32", TENSOR)
]
VIDUR_GEMM = Source("vidur_llm_gemm_fp16.csv", VIDUR)
"""What several chips were measured by: products, functions and convolutions of NeuSight; products and convolutions of
DeepBench in two formats each; products of Vidur."""
SOURCES: Mapping[str, Sequence[Source]] = {
    "a100-40-pcie": EAGER[:2],
    "a100-80-pcie": EAGER,
    "a100-80-sxm": [VIDUR_GEMM],
    "h100-sxm": [VIDUR_GEMM, EAGER[0], Source("h100", OWN, "graph", ops=frozenset({"attention"}))],
    "h200-sxm": [Source("h200", OWN, "graph", formats=frozenset({"fp16", "bf16", "tf32", "fp8_e4m3fn", "fp64", "fp32"}))],
    "mi100": EAGER[:2],
    "mi25": [BENCH[0], BENCH[2]],
    "p100-pcie": EAGER,
    "p4": EAGER,
    "t4": [*EAGER, *BENCH],
    "v100-pcie": EAGER,
    "v100-sxm2-16": BENCH,
}  # fmt: skip
"""Chip -> what it was measured by. INT8 of the H200 was measured by ``torch._int_mm``, a slow call: it has the constants
of FP8, which are those of cuBLASLt (``torch._scaled_mm``), as every format of one rate has those of the first."""


class OfDie(NamedTuple):
    """A chip of the same die whose calibration another one takes over: constants and intervals of some formats."""

    chip: str
    formats: tuple[str, ...]


SAME_DIE: Mapping[str, OfDie] = {
    "a100-40-sxm": OfDie("a100-80-sxm", ("fp16",)),
    "a100-40-pcie": OfDie("a100-80-sxm", ("fp16",)),
}
"""Chip -> the chip on whose rows some formats of it were fitted."""


@cache
def table(path: Path) -> Table:
    """A file, read once."""
    return read_table(path, timed=True)


def path_of(source: Source, data: Path) -> Path:
    """Place of a file: among other people's measurements, or in the checkout."""
    return GOLDEN / source.file / "kernels.csv" if source.lab == OWN else data / source.file


def selected(data: Path, chip: Chip, source: Source) -> Table:
    """The rows of a source on a chip."""
    whole, called = table(path_of(source, data)), {chip.name, *chip.also}
    return whole.only([
        row
        for row, cells in enumerate(whole.cells)
        if (source.lab == OWN or whole.devices[row] in called)
        and source.precision in ("", cells.get("precision"))
        and (not source.ops or whole.ops[row] in source.ops)
        and (not source.formats or cells.get("dtype") in source.formats)
    ])  # fmt: skip


SAME = frozenset(
    [
        "op",
        "dtype",
        "precision",
        "device",
        "B",
        "M",
        "K",
        "N",
        "rows",
        "cols",
        "C_in",
        "C_out",
        "kernel",
        "H_W",
        "stride",
        "padding",
        "m",
        "n",
        "k",
        "a_t",
        "b_t",
        "w",
        "h",
        "c",
        "filter_w",
        "filter_h",
        "pad_w",
        "pad_h",
        "stride_w",
        "stride_h",
        "direction",
        "tokens",
        "kv",
        "heads",
        "kv_heads",
        "head_dim",
        "batch",
        "causal",
        "elements",
        "bytes",
    ]
)
"""Columns that say of what a row is."""


def is_test(cells: Mapping[str, str]) -> bool:
    """Return whether a row has no part in a fit: one of three, by a hash; of a table with a column ``part`` those that
    are not ``fit``."""
    if cells.get("part"):
        return cells["part"] != "fit"
    text = "|".join(f"{name}={cells[name]}" for name in sorted(SAME & set(cells)))
    return sha256(text.encode()).digest()[0] % 3 == 2


def split(rows: Table) -> tuple[Table, Table]:
    """The rows of a table that are fitted, and those that are not."""
    out = [is_test(cells) for cells in rows.cells]
    return (
        rows.only([row for row, test in enumerate(out) if not test]),
        rows.only([row for row, test in enumerate(out) if test]),
    )


def plain_chip(name: str) -> Chip:
    """A chip with the defaults that all share, whatever it was calibrated to."""
    return load_chip(name, ["calibration=null"])


def in_graph(chip: Chip) -> Chip:
    """The chip whose kernels follow each other in a graph."""
    name, spec = next((name, unit) for name, unit in chip.engines.items() if isinstance(unit, Simt))
    return with_values(chip, {f"{name}.launch": min(float(spec.launch), float(spec.follow))})


class Measured(NamedTuple):
    """The rows of a source that are fitted, and their kernels on the chip."""

    source: Source
    rows: Table
    kernels: Kernels

    def at(self, chip: Chip, host_s: float, known: Mapping[str, Constant]) -> Chip:
        """The chip as the host of the source uses it."""
        names = {name.rsplit(".", 1)[-1]: name for name in known if name.count(".") == 1}
        if self.source.host == "eager":
            return with_values(chip, {names["dispatch"]: host_s}, known)
        spec = next(unit for unit in chip.engines.values() if isinstance(unit, Simt))
        if self.source.host == "graph":
            return with_values(chip, {names["launch"]: min(float(spec.launch), float(spec.follow))}, known)
        return chip


@dataclass(frozen=True)
class Fit:
    """A chip with what is fitted of it to its sources; ``values``: constant -> value, and ``host``."""

    chip: Chip
    sets: Sequence[Measured]

    @cached_property
    def known(self) -> Mapping[str, Constant]:
        """Its constants."""
        return constants(self.chip)

    @cached_property
    def measured(self) -> Floats:
        """Seconds of all rows."""
        return np.concatenate([each.rows.measured for each in self.sets])

    @cached_property
    def weights(self) -> Floats:
        """Return what each row weighs: rows of a kind and format in a file together the square root of their number,
        times the weight of the kind."""
        found = []
        for each in self.sets:
            weights = balanced(each.rows)
            for group in each.rows.groups:
                weights[group.rows] *= WEIGHTS[group.family]
            found.append(weights)
        every = np.concatenate(found)
        return every / float(every.mean())

    @cached_property
    def groups(self) -> list[tuple[str, ...]]:
        """Constants that its rows tell, but for those of a host; the launch only where something runs without one."""
        eager = all(each.source.host == "eager" for each in self.sets)
        found: dict[str, tuple[str, ...]] = {}
        for group in (group for each in self.sets for group in each.kernels.constants):
            last = group[0].rsplit(".", 1)[-1]
            if last != "dispatch" and not (eager and last == "launch") and not set(group) & set(found):
                found |= dict.fromkeys(group, group)
        return list(dict.fromkeys(found.values()))

    @cached_property
    def knobs(self) -> list[Knob]:
        """Return what is turned. Where all kernels follow each other in graphs, a launch longer than that tells
        nothing."""
        hosts = {each.source.host for each in self.sets}
        found = knobs(self.chip, self.groups)
        if hosts == {"graph"}:
            spec = next(unit for unit in self.chip.engines.values() if isinstance(unit, Simt))
            short = float(spec.follow)
            found = [
                each._replace(high=short, start=short) if each.names[0].endswith(".launch") else each for each in found
            ]
        return [*found, HOST] if "eager" in hosts else found

    def at(self, values: Values) -> Chip:
        """The chip with these constants."""
        return with_values(self.chip, {name: value for name, value in values.items() if name != "host"}, self.known)

    def seconds(self, kernels: Sequence[Kernels], values: Values) -> Floats:
        """Predict all rows."""
        chip, host = self.at(values), values.get("host", 0.0)
        return np.concatenate([
            own.predicted(each.at(chip, host, self.known)).seconds
            for each, own in zip(self.sets, kernels, strict=True)
        ])  # fmt: skip

    def likely(self, values: Values) -> list[Kernels]:
        """The kernels of each set with their likely candidates."""
        return [each.kernels.likely(self.at(values), LIKELY) for each in self.sets]

    def names(self, values: Values) -> Array:
        """Kind and regime of each row."""
        chip, host = self.at(values), values.get("host", 0.0)
        return np.concatenate([regimes(each.kernels.predicted(each.at(chip, host, self.known))) for each in self.sets])


class Found(NamedTuple):
    """Outcome of a fit: values, and predictions of its rows by fits that had not seen them, s."""

    values: Mapping[str, float]
    left_out: Floats


def fitted(what: Fit) -> Found:
    """Fit all constants together, from the defaults and two random starts; then again among the likely candidates of
    what was found, in whole and with each fifth of the rows left out."""
    turned = what.knobs
    few = what.likely({})
    first = fit(lambda values: what.seconds(few, values), what.measured, turned, 0, ROBUST, weights=what.weights)
    few = what.likely(first)
    near = [knob._replace(start=first[knob.names[0]]) for knob in turned]
    values = fit(lambda found: what.seconds(few, found), what.measured, near, 0, ROBUST, True, what.weights)
    near = [knob._replace(start=values[knob.names[0]]) for knob in turned]

    def model(found: Values, rows: Ints) -> Floats:
        return what.seconds(few, found)[rows]

    return Found(values, left_out(model, what.measured, near, PARTS, 0, ROBUST, near=True, weights=what.weights))


def prepared(data: Path, name: str, sources: Sequence[Source]) -> Fit:
    """A chip with the rows of sources that are fitted."""
    chip = plain_chip(name)
    tables = [(source, split(selected(data, chip, source))[0]) for source in sources]
    return Fit(chip, [Measured(source, rows, Kernels(rows, chip)) for source, rows in tables if rows.ops])


def block_of(data: Path, name: str, sources: Sequence[Source] = ()) -> Calibration:
    """The block ``calibration:`` of a chip, fitted to all of its sources or to some."""
    what = prepared(data, name, sources or SOURCES[name])
    found = fitted(what)
    texts = {each: what.known[each].spell(value) for each, value in found.values.items() if each != "host"}
    names = what.names(found.values)
    kinds = sorted({str(each).split(":")[0] for each in names})
    every = [row for each in what.sets for row in regimes_of(each.rows)]
    return Calibration(
        fitted_on=_basis(what), mechanism=Simt.mechanism, elsewhere=True, rows=len(what.measured), kinds=kinds,
        host=units.spell(found.values["host"], "s") if "host" in found.values else None,
        intervals=kinds_and_regimes(found.left_out, what.measured, names), values=texts,
        residual=_residual(found.left_out, what.measured, np.array(every, dtype=object)),
    )  # fmt: skip


def with_fitted(data: Path, name: str, sources: Sequence[Source]) -> Chip:
    """A chip that comes with the tool as it would be, had it been fitted to some of its sources alone: one descent from
    the defaults, and the intervals that it has."""
    what, block = prepared(data, name, sources), load_chip(name).calibration
    assert block is not None
    few = what.likely({})
    values = fit(lambda found: what.seconds(few, found), what.measured, what.knobs, 0, ROBUST, True, what.weights)
    texts = {each: what.known[each].spell(value) for each, value in values.items() if each != "host"}
    host = units.spell(values["host"], "s") if "host" in values else None
    blocks = {"calibration": Calibration(**{**block.model_dump(), "values": texts, "host": host})}
    return what.at({each: what.known[each].read(text) for each, text in texts.items()}).model_copy(update=blocks)


def regimes_of(rows: Table) -> list[str]:
    """Kind of each row."""
    names = [""] * len(rows.ops)
    for group in rows.groups:
        for row in group.rows:
            names[int(row)] = group.family
    return names


def _residual(out: Floats, measured: Floats, kinds: Array) -> Residual:
    left = residuals(out, measured)
    means = "; ".join(
        f"{kind}s mean {residuals(out[kinds == kind], measured[kinds == kind]).mean:.3f}" for kind in sorted(set(kinds))
    )
    note = f"rows left out of their fit, in {PARTS} parts: {means}"
    return Residual(rows=left.rows, median=round(left.median, 4), p90=round(left.p90, 4), note=note)


def _basis(what: Fit) -> str:
    """Source, and how many rows of what it measured."""
    labs: dict[str, list[str]] = {}
    for each in what.sets:
        for group in each.rows.groups:
            labs.setdefault(each.source.lab, []).append(f"{len(group.rows):,} {group.family}s in {group.format}")
    told = "; ".join(f"{lab}: {', '.join(parts)}" for lab, parts in labs.items())
    return f"{told}, two thirds of the rows of each table, by a hash of their sizes (tests/validation/shipped.py)"


def _lines(block: Calibration) -> Iterator[str]:
    """The block as text, as its file has it."""
    content = block.model_dump(mode="json", exclude_none=True)
    yield "calibration:"
    yield "  fitted_on: >-"
    yield from _wrapped(block.fitted_on, "    ")
    yield f"  mechanism: {block.mechanism}"
    yield "  elsewhere: true"
    if block.host is not None:
        yield f"  host: {float(block.host) * 1e6:.3g} us"
    yield f"  rows: {block.rows}"
    left = content["residual"]
    yield "  residual:"
    yield from (f"    {name}: {left[name]}" for name in ("rows", "median", "p90"))
    yield "    note: >-"
    yield from _wrapped(left["note"], "      ")
    yield f"  kinds: [{', '.join(block.kinds)}]"
    yield "  intervals:"
    yield from (
        f"    '{name}': {{factor: {each.factor:g}, rows: {each.rows}}}" for name, each in block.intervals.items()
    )
    yield "  values:"
    yield from (f"    {name}: {text}" for name, text in block.values.items())
    yield f"  as_of: {AS_OF}"


def _wrapped(text: str, indent: str, width: int = 125) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(indent) + len(line) + 1 + len(word) > width:
            yield indent + line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield indent + line


def write(name: str, block: Calibration) -> Path:
    """Put a block into the file of a chip, in place of the one that is there."""
    path = CHIPS / f"{name}.yaml"
    text = re.sub(r"^calibration:\n(?:[ ].*\n)+", "", path.read_text(encoding="utf-8"), flags=re.M)
    before, source, after = text.partition("\nsource:")
    path.write_text(f"{before}\n{chr(10).join(_lines(block))}{source}{after}", encoding="utf-8")
    return path


def of_die(data: Path, name: str) -> Calibration:
    """The block of a chip with what it takes over from another of its die."""
    die = SAME_DIE[name]
    other = load_chip(die.chip).calibration
    assert other is not None
    own = block_of(data, name) if name in SOURCES else None
    said = (
        f"Products in {', '.join(die.formats)} as fitted on the {load_chip(die.chip).title}, which has the same die: "
    )
    if own is None:
        return other.model_copy(update={"fitted_on": f"{said}{other.fitted_on}"})
    taken = {key: text for key, text in other.values.items() if any(f".formats.{each}." in key for each in die.formats)}
    return own.model_copy(update={
        "fitted_on": f"{own.fitted_on}. {said}{other.fitted_on}", "values": {**own.values, **taken},
    })  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Fit chips again, all of them where none is named, those that take over last."""
    data = folder()
    if data is None:
        raise SystemExit("no measured rows: name their folder by ACCELSIM_MEASURED")
    every = [*(name for name in SOURCES if name not in SAME_DIE), *SAME_DIE]
    for name in names or every:
        block = of_die(data, name) if name in SAME_DIE else block_of(data, name)
        print(write(name, block), block.rows, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
