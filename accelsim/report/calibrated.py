"""Answers about fitted constants, of a chip and of a cluster's communication library: values, errors, the spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim import files
from accelsim.errors import count_of
from accelsim.fit.validation import Residuals, residuals
from accelsim.kernels.calibrate import Calibrated, calibrate
from accelsim.kernels.table import joined, read_table
from accelsim.report.answer import Answer, Field, Table
from accelsim.spec.constants import constants
from accelsim.spec.site import FIELDS
from accelsim.spec.yaml.load import load_chip, show
from accelsim.units import spell

if TYPE_CHECKING:
    from accelsim.cluster.fit import Fitted
    from accelsim.spec.cluster import ClusterSpec

CONSTANTS = (Field("name", "constant"), Field("was", "was"), Field("fitted", "fitted"))
ERRORS = (
    Field("rows", "rows", "{:,}".format),
    *(Field(key, key, "{:.1%}".format) for key in ("mean", "median", "p90")),
)
UNITS = {
    **dict.fromkeys(("flow", "tree_flow", "lane", "copy_rate"), "B/s"),
    "share": "",
    "share_between": "",
    "fill": "",
}
"""Units of constants of a communication library; the others are times."""


def _tables(
    values: Iterable[tuple[str, str, str]], of: str, errors: Mapping[str, Residuals], factors: Mapping[str, str]
) -> list[Table]:
    """Constants before and after, and errors on rows that were left out of the fit, with intervals where there are."""
    fields = [Field("name", f"{of} left out of the fit"), *ERRORS]
    if factors:
        fields.append(Field("name", "90 % interval", lambda name: f"/ and x {factors.get(name, factors['all'])}"))
    fitted = [{"name": name, "was": was, "fitted": now} for name, was, now in values]
    return [
        Table(CONSTANTS, fitted),
        Table(fields, [{"name": name, **each._asdict()} for name, each in errors.items()]),
    ]


def _seen(title: str, rows: int) -> str:
    return f"{title}: {count_of(rows, 'row')}, each predicted by a fit that had not seen it."


def chip_answer(
    out: Path | None,
    told: Callable[[str], None] = lambda text: None,
    *,
    chip: str,
    sources: Sequence[Path],
    day: str,
    device: str | None = None,
    overrides: Sequence[str] = (),
    site: str | None = None,
    groups: Sequence[tuple[str, ...]] = (),
    seed: int = 0,
) -> Answer:
    """Fit constants of a chip (or of a ``site`` that has it) to the kernels in tables, and report them.

    ``out``: the file of the spec; ``told`` hears what is fitted; ``day``: when it was measured; ``device``: whose rows
    (None: those of the chip); ``groups``: constants that share a value each ((): those that the rows tell). Raises
    UsageError and SpecError.
    """
    before = load_chip(chip, overrides)
    rows = joined([read_table(each, timed=True) for each in sources]).of_device(device, (before.name, *before.also))
    if site:
        groups = [(each,) for each in constants(before) if each.rsplit(".", 1)[-1] in FIELDS]
    devices = ", ".join(dict.fromkeys(each or "no device named" for each in rows.devices))
    kernels = count_of(len(rows.ops), "kernel")
    basis = f"{kernels} of {', '.join(each.name for each in sources)} ({devices})"
    what = f"{count_of(len(groups), 'group')} of constants to {kernels}" if groups else "constants"
    told(f"fit {what}")
    found = calibrate(rows, before, basis, day, groups, seed)
    block, known = found.chip.calibration, constants(before)
    assert block is not None
    facts = {
        "chip": found.chip.name,
        "rows": block.rows,
        "values": dict(block.values),
        "errors": {name: each._asdict() for name, each in found.errors.items()},
        "coverage": found.coverage._asdict(),
        "intervals": {name: each.factor for name, each in block.intervals.items()},
    }
    values = ((name, known[name].spell(known[name].value), text) for name, text in block.values.items())
    errors = {"all": residuals(found.left_out, found.table.measured), **found.errors}
    factors = {name: f"{each.factor:.2f}" for name, each in block.intervals.items()}
    fitted, left = _tables(values, "kernels", errors, factors)
    said = (
        f"{_seen('The site' if site else before.title, block.rows)} Intervals from four parts of the rows held "
        f"{found.coverage.share:.1%} of the fifth, of 90 % that they are made for."
    )
    kinds = [{"kernels": name, **each._asdict()} for name, each in found.errors.items()]
    text = show(found.chip) if site is None else _site(found, site)
    return Answer(facts, [fitted, "", left, "", said], kinds, other_files={out: files.text(text)} if out else {})


def _site(found: Calibrated, name: str) -> str:
    """The file of a site."""
    values = {each.rsplit(".", 1)[-1]: value for each, value in found.values.items()}
    clock, dispatch = (values.get(field, 1.0 if field == FIELDS[0] else 0.0) for field in FIELDS)
    block = found.chip.calibration
    assert block is not None
    return (
        f"name: {name}\nsustained_clock: {clock:g}\ndispatch: {spell(dispatch, 's')}\nmeasured: true\n"
        f"fitted_on: {block.fitted_on}\nsource: accelsim calibrate on {found.table.path.name}\nas_of: {block.as_of}\n"
    )


def cluster_answer(
    out: Path | None,
    *,
    chip: str,
    sources: Sequence[Path],
    day: str,
    device: str | None = None,
    overrides: Sequence[str] = (),
    site: None = None,
    groups: Sequence[tuple[str, ...]] = (),
    seed: int = 0,
) -> Answer:
    """Fit constants of the communication library of a cluster, ``chip``, to measured collectives, and report them.

    Arguments are those of ``chip_answer``, with one table. Raises UsageError and SpecError.
    """
    from accelsim.cluster.fit import calibrate, placed, read_collectives
    from accelsim.cluster.fit import constants as stated
    from accelsim.cluster.shapes.building import build
    from accelsim.spec.yaml.clusters import load_cluster

    cluster, (table,) = load_cluster(chip, overrides), sources
    topology, every = build(cluster), read_collectives(table, device)
    found = calibrate(placed(every, topology, table), topology, cluster.collectives, groups, seed)
    others, data = len(every.sorts) - len(found.rows.sorts), f"{table.name} ({day})"
    errors, before = _by_sort(found), stated(cluster.collectives)
    facts = {
        "cluster": cluster.name,
        "rows": len(found.rows.sorts),
        "rows_without_place": others,
        "values": dict(found.values),
        "errors": {name: each._asdict() for name, each in errors.items()},
    }
    values = ((name, _spelled(name, before[name]), _spelled(name, value)) for name, value in found.values.items())
    fitted, left = _tables(values, "collectives", errors, {})
    told = _seen(cluster.title, len(found.rows.sorts))
    if others:
        told += f" {count_of(others, 'row')} more need devices that this cluster does not have."
    rows = [{"rows of": name, **each._asdict()} for name, each in errors.items()]
    made = {out: files.text(_spec(found, cluster, errors["all"], data, out.stem))} if out else {}
    return Answer(facts, [fitted, "", left, "", told], rows, other_files=made)


def _by_sort(found: Fitted) -> dict[str, Residuals]:
    """Errors on rows that were left out: of all, then by sort."""
    sorts = sorted(set(found.rows.sorts), key=lambda each: (each.kind, each.nodes, each.ranks))
    chosen: dict[str, list[int]] = {"all": list(range(len(found.rows.sorts))), **{str(each): [] for each in sorts}}
    for row, sort in enumerate(found.rows.sorts):
        chosen[str(sort)].append(row)
    return {name: residuals(found.left_out[rows], found.rows.seconds[rows]) for name, rows in chosen.items()}


def _spelled(name: str, value: float) -> str:
    unit = UNITS.get(name.rpartition(".")[2], "s")
    return spell(value, unit) if unit else f"{value:.3g}"


def _spec(found: Fitted, cluster: ClusterSpec, left: Residuals, data: str, name: str) -> str:
    """The file of a cluster with fitted constants."""
    said = (
        f"{count_of(left.rows, 'row')} of {data}; of rows left out of the fit, in five parts: median {left.median:.1%},"
        f" mean {left.mean:.1%}, 90th percentile {left.p90:.1%}."
    )
    software = found.software.model_copy(update={"fitted_on": said})
    return show(cluster.model_copy(update={"name": name, "collectives": software}))
