"""``accelsim calibrate CLUSTER``: constants of its communication library fitted to measured collectives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import paragraphs, save_csv, show, show_json, width
from accelsim.errors import Problem, UsageError, count_of

if TYPE_CHECKING:
    from accelsim.cluster.fit import Fitted, Measured, Sort
    from accelsim.cluster.network.topology import Topology
    from accelsim.fit.validation import Residuals
    from accelsim.spec.cluster import ClusterSpec


class Wanted(NamedTuple):
    """What ``calibrate`` was asked for: the table of measured collectives, the device of its rows, changes of the
    cluster, constants (those joined by + share a value), seed, where the spec goes, outputs."""

    data: Path
    device: str | None
    overrides: Sequence[str]
    site: str | None
    constants: str | None
    seed: int
    as_of: str
    out: Path | None
    table: Path | None
    as_json: bool


def calibrate_cluster(name: str, wanted: Wanted) -> None:
    """Fit, write and print. Raises UsageError for --site, rows that are none and constants that are not stated."""
    from accelsim.cluster.fit import calibrate, constants, read_collectives
    from accelsim.cluster.shapes.building import build
    from accelsim.spec.yaml.clusters import load_cluster

    if wanted.site:
        raise UsageError(Problem("--site of a cluster", expected="a chip, whose kernels are measured"))
    cluster = load_cluster(name, wanted.overrides)
    topology = build(cluster)
    rows, others = _placed(read_collectives(wanted.data, wanted.device), topology, wanted)
    before = constants(cluster.collectives)
    found = calibrate(rows, topology, cluster.collectives, _groups(wanted.constants), wanted.seed)
    if wanted.out is not None:
        _write(cluster, found, wanted)
    errors = _by_sort(found)
    save_csv(wanted.table, [{"rows of": name, **each._asdict()} for name, each in errors.items()])
    if wanted.as_json:
        show_json(_facts(cluster, found, errors, others))
        return
    _print(cluster, found, before, errors, others)
    if wanted.out is not None:
        click.echo(f"\nspec: {wanted.out}")


def _groups(text: str | None) -> list[tuple[str, ...]]:
    groups = [group for group in (text or "").split(",") if group.strip()]
    return [tuple(part.strip() for part in group.split("+")) for group in groups]


def _placed(rows: Measured, topology: Topology, wanted: Wanted) -> tuple[Measured, int]:
    """The rows that the cluster has a place for, and how many it has not."""
    from accelsim.cluster.fit import group_of

    def fits(sort: Sort) -> bool:
        try:
            return bool(group_of(topology, sort))
        except UsageError:
            return False

    known = {sort: fits(sort) for sort in set(rows.sorts)}
    chosen = [row for row, sort in enumerate(rows.sorts) if known[sort]]
    if not chosen:
        raise UsageError(
            Problem(f"{topology.name} is too small for every row", str(wanted.data), "more nodes: '2x-...'")
        )
    return rows.only(chosen), len(rows.sorts) - len(chosen)


def _by_sort(found: Fitted) -> dict[str, Residuals]:
    """Errors on rows that were left out: of all, then by sort."""
    from accelsim.fit.validation import residuals

    sorts = sorted(set(found.rows.sorts), key=lambda each: (each.kind, each.nodes, each.ranks))
    rows = {
        name: [row for row, each in enumerate(found.rows.sorts) if str(each) == name]
        for name in dict.fromkeys(map(str, sorts))
    }
    return {
        name: residuals(found.left_out[chosen], found.rows.seconds[chosen])
        for name, chosen in {"all": list(range(len(found.rows.sorts))), **rows}.items()
    }


def _spelled(name: str, value: float) -> str:
    """A constant with its unit."""
    from accelsim.units import spell

    rates = dict.fromkeys(("flow", "tree_flow", "lane", "copy_rate"), "B/s")
    units = {**rates, "share": "", "share_between": "", "fill": ""}
    unit = units.get(name.rpartition(".")[2], "s")
    return spell(value, unit) if unit else f"{value:.3g}"


def _write(cluster: ClusterSpec, found: Fitted, wanted: Wanted) -> None:
    from accelsim import files
    from accelsim.fit.validation import residuals
    from accelsim.spec.yaml.load import show as spec_text

    left = residuals(found.left_out, found.rows.seconds)
    said = (
        f"{count_of(left.rows, 'row')} of {wanted.data.name} ({wanted.as_of}); of rows left out of the fit, in "
        f"five parts: median {left.median:.1%}, mean {left.mean:.1%}, 90th percentile {left.p90:.1%}."
    )
    software = found.software.model_copy(update={"fitted_on": said})
    assert wanted.out is not None
    name = wanted.out.stem
    files.write_file(
        wanted.out, files.text(spec_text(cluster.model_copy(update={"name": name, "collectives": software})))
    )


def _facts(cluster: ClusterSpec, found: Fitted, errors: dict[str, Residuals], others: int) -> dict[str, Any]:
    return {
        "cluster": cluster.name, "rows": len(found.rows.sorts), "rows_without_place": others,
        "values": dict(found.values), "errors": {name: each._asdict() for name, each in errors.items()},
    }  # fmt: skip


def _print(
    cluster: ClusterSpec, found: Fitted, before: dict[str, float], errors: dict[str, Residuals], others: int
) -> None:
    from accelsim.report.table import text_table

    rows = [
        (name, _spelled(name, before[name]), _spelled(name, value)) for name, value in found.values.items()
    ]
    show(text_table(("constant", "was", "fitted"), rows, width()), width())
    click.echo()
    table = [
        (name, f"{each.rows:,}", f"{each.mean:.1%}", f"{each.median:.1%}", f"{each.p90:.1%}")
        for name, each in errors.items()
    ]
    show(
        text_table(("collectives left out of the fit", "rows", "mean", "median", "p90"), table, width()),
        width(),
    )
    told = [
        f"{cluster.title}: {count_of(len(found.rows.sorts), 'row')}, each predicted by a fit that had not seen it."
    ]
    if others:
        told.append(f"{count_of(others, 'row')} more need devices that this cluster does not have.")
    click.echo("\n" + paragraphs(told))
