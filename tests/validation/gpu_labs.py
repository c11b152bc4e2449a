"""Check ``gpu-labs``: GPUs at another place than that of the measurements that their constants come of.

A place is a chip whose kernels a second lab measured: another board and cooler, driver, library, way of timing and
operands. All of its rows are predicted by the constants that ship, without a site, and so with the interval that covers
the spread between labs (``hwspecs/intervals/kernels.yaml``). The T4 was fitted to two labs together; here it is
fitted to each of them alone and compared with the other. V100 and A100 SXM boards have the constants of the PCIe board
of the same die where they have none of their own kernels, the H100 those of the H200.

A row is a kind of kernels. It agrees where at least eight of ten kernels lie within their intervals, each place
weighing alike, and also where each place has the spread that the others alone tell.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.kernels.table import Table, several
from accelsim.kernels.whole import lab_spread
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, with_values
from accelsim.spec.site import with_site
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.load import load_chip
from tests.validation.base import Check, check
from tests.validation.gpu import Shipped, compared, shipped
from tests.validation.measured import ABSENT, folder
from tests.validation.shipped import BENCH, EAGER, GOLDEN, Source, in_graph, plain_chip, selected, table, with_fitted

KEPT = 0.8
"""Share of the kernels of other labs that intervals should hold at least."""
FUNCTIONS = ("softmax", "layernorm", "gelu", "silu", "relu", "add", "mul")
"""Functions that were measured on the H100 for this project."""
TABLES: Mapping[str, str] = {"a100_sxm": "a100-80-sxm", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm"}
"""Systems of vLLM's kernel tables -> chips."""


class Place(NamedTuple):
    """Rows of a second lab, and the chip as it ships."""

    name: str
    rows: Table
    chip: Chip


def linear_layers(data: Path, system: str) -> Table:
    """Products in BF16 of vLLM, replayed from a CUDA graph."""
    with gzip.open(data / "serving" / "kernels" / "gemm_public.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["system"] == system and r["gemm_dtype"] == "bfloat16"]
    seconds = np.array([float(row["latency"]) * 1e-3 for row in rows])
    cells = [{"M": row["m"], "K": row["k"], "N": row["n"]} for row in rows]
    return replace(several("gemm", "bf16", cells), measured=seconds)


def places(data: Path) -> Iterator[Place]:
    """Every chip that two labs measured."""
    for system, name in TABLES.items():
        yield Place(f"vLLM's layers on {name}, bf16", linear_layers(data, system), in_graph(load_chip(name)))
    golden, h100 = table(GOLDEN / "h100" / "kernels.csv"), load_chip("h100-sxm")
    for dtype in ("fp16", "fp32"):
        rows = [row for row, cells in enumerate(golden.cells) if (golden.ops[row], cells["dtype"]) == ("gemm", dtype)]
        yield Place(f"own products on h100-sxm, {dtype}", golden.only(rows), in_graph(h100))
    of_h200 = in_graph(borrowed("h100-sxm", "h200-sxm"))
    for op in FUNCTIONS:
        rows = [row for row, name in enumerate(golden.ops) if name == op]
        yield Place(f"own {op} on h100-sxm", golden.only(rows), of_h200)
    eager = load_site("pytorch-eager")
    for op, constants_of in (("matmul", A100), ("softmax", PCIE), ("layernorm", PCIE), ("gelu", PCIE)):
        chip = with_site(borrowed(A100, constants_of), eager)
        yield Place(f"LLMCompass's {op} on {A100}", table(data / "llmcompass" / f"{op}_A100.csv"), chip)
    p100, v100 = load_chip("p100-pcie"), borrowed("v100-sxm2-16", "v100-pcie")
    for source in (BENCH[0], BENCH[2]):
        for chip in (p100, v100):
            yield Place(f"{source.file.split('.')[0]} on {chip.name}", selected(data, chip, source), chip)
    for own, other in ((EAGER, BENCH), (BENCH, EAGER)):
        yield from _of_t4(data, own, other)


A100, PCIE = "a100-80-sxm", "a100-80-pcie"


def borrowed(name: str, of: str) -> Chip:
    """A board with the constants of another one of its die."""
    chip = load_chip(name)
    if name == of:
        return chip
    plain, block = plain_chip(name), load_chip(of).calibration
    assert block is not None
    known = constants(plain)
    values = {each: known[each].read(text) for each, text in block.values.items() if each in known}
    return with_values(plain, values, known).model_copy(update={"calibration": block})


def _of_t4(data: Path, own: Sequence[Source], other: Sequence[Source]) -> Iterator[Place]:
    """The T4 fitted to one lab, products and convolutions in FP32 of the other."""
    site = load_site("pytorch-eager") if other is EAGER else None
    chip = with_fitted(data, "t4", own)
    for source in other:
        if source.precision in ("", "fp32") and "vector" not in source.file:
            yield Place(
                f"{source.file.split('.')[0]} on t4 by {own[0].lab}", selected(data, chip, source),
                with_site(chip, site) if site is not None else chip,
            )  # fmt: skip


LEVEL = 0.9
"""Share of the rows of all places that intervals are made for."""


def spread(found: Sequence[Shipped], narrow: Sequence[Shipped]) -> float:
    """The factor that, with the intervals of one lab, holds nine of ten kernels of other labs, each place weighing
    alike."""
    beyond, weights = [], []
    for each, own in zip(found, narrow, strict=True):
        size = np.abs(np.log(each.predicted / each.measured))
        beyond.append(np.sqrt(np.maximum(0.0, size**2 - np.log(own.factor) ** 2)))
        weights.append(np.full(len(size), 1 / len(size)))
    sizes, weight = np.concatenate(beyond), np.concatenate(weights)
    order = np.argsort(sizes)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(np.exp(sizes[order][np.searchsorted(reached, LEVEL)]))


def kind_of(place: Place) -> str:
    """The kind of its kernels."""
    return place.rows.groups[0].family


def narrowed(chip: Chip) -> Chip:
    """The chip with the intervals of the lab that measured it."""
    block = chip.calibration
    assert block is not None
    return chip.model_copy(update={"calibration": block.model_copy(update={"elsewhere": False})})


class Kind(NamedTuple):
    """Kernels of a kind in other labs: places, rows, the mean share of a place within its intervals, and with the spread
    of the other places alone; the spread that all tell."""

    kind: str
    places: int
    rows: int
    held: float
    out: float
    spread: float


@cache
def _elsewhere(data: Path) -> tuple[list[Place], list[Shipped], list[Shipped]]:
    """Every place, with the intervals of any lab and of that of the fit."""
    every = list(places(data))
    return (
        every,
        [shipped(each.rows, each.chip) for each in every],
        [shipped(each.rows, narrowed(each.chip)) for each in every],
    )


def spreads(data: Path) -> list[Kind]:
    """Return what intervals hold in other labs, by kind of kernels."""
    every, found, narrow = _elsewhere(data)
    kinds, told = [kind_of(each) for each in every], list[Kind]()
    for kind in dict.fromkeys(kinds):
        mine = [index for index, each in enumerate(kinds) if each == kind]
        held = float(np.mean([found[index].inside.mean() for index in mine]))
        out = float(np.mean([_held(index, mine, found, narrow) for index in mine]))
        whole = spread([found[index] for index in mine], [narrow[index] for index in mine])
        many = sum(len(found[index].inside) for index in mine)
        told.append(Kind(kind, len(mine), many, held, out, whole))
    return told


@check("gpu-labs")
def gpu_labs() -> Check:
    """Coverage at every place, and what the spreads would be by the other places alone."""
    what, data = ("kernels of GPUs in other labs than that of their constants, by intervals that ship", folder())
    if data is None:
        return Check("gpu-labs", what, 0, 0, np.zeros(0), [ABSENT])
    every, found, narrow = _elsewhere(data)
    kinds = spreads(data)
    told = [
        f"{each.kind}s at {each.places} places: {each.held:.1%} within their intervals, {each.out:.1%} with the spread "
        f"that the other places tell; spread by all x {each.spread:.2f}, used x {lab_spread(each.kind):g}"
        for each in kinds
    ]
    agree = sum(min(each.held, each.out) >= KEPT for each in kinds)
    told += [_said(each, own, small) for each, own, small in zip(every, found, narrow, strict=True)]
    errors = np.concatenate([each.error for each in found])
    return Check(
        "gpu-labs", what, len(kinds), agree, errors, told, f"{KEPT:.0%} within their intervals",
        unclaimed=len(every), compared=[compared(p.name, f) for p, f in zip(every, found, strict=True)],
    )  # fmt: skip


def _held(index: int, mine: Sequence[int], found: Sequence[Shipped], narrow: Sequence[Shipped]) -> float:
    """Share of a place's kernels within intervals by the spread of the other places of its kind."""
    others = [each for each in mine if each != index]
    beyond = spread([found[each] for each in others], [narrow[each] for each in others])
    own = found[index]
    width = np.hypot(np.log(narrow[index].factor), np.log(beyond))
    return float((np.abs(np.log(own.predicted / own.measured)) <= width).mean())


def _said(place: Place, found: Shipped, narrow: Shipped) -> str:
    own = found.residuals
    return (
        f"{place.name}: {own.rows:,} rows, mean {own.mean:.1%}, median {own.median:.1%}, the middle "
        f"{np.median(found.error):+.1%}; {found.inside.mean():.1%} within the interval of any lab (/ and x "
        f"{np.median(found.factor):.2f}), {narrow.inside.mean():.1%} within that of the lab of the fit"
    )
