"""``accelsim calibrate``: the constants of a chip fitted to measured kernels, of a cluster to measured collectives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option, progress
from accelsim.errors import Gather, UsageError, count_of, nearest
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.cluster.fit import Measured, Sort
    from accelsim.cluster.network.topology import Topology
    from accelsim.kernels.table import Table
    from accelsim.spec.chip import Chip


@answers(
    "accelsim calibrate a100-80-sxm --data measured.csv --out my-a100.yaml",
    "accelsim calibrate t4 --data measured.csv --device 'Tesla T4' --out my-t4.yaml",
    "accelsim calibrate a100-80-sxm --data measured.csv --site mysite --out mysite.yaml",
    "accelsim calibrate t4 --data products.csv --data functions.csv --out my-t4.yaml",
    "accelsim calibrate 2x-dgx-a100 --data collectives.csv --out my-cluster.yaml",
)
@click.argument("chip")
@option(
    "--data sources",
    "Measured kernels: op, dtype, sizes, time_us; of a cluster measured collectives: op, n_devices, "
    "devices_per_node, bytes, time_us; one a row. Repeatable: all kinds of kernels are fitted together.",
    type=FILE,
    required=True,
    multiple=True,
    metavar="FILE",
)
@option("--device", "Use rows of this device; default: the names of the chip.", metavar="NAME")
@option("--set overrides", "Change a field of the chip. Repeatable.", multiple=True, metavar="PATH=VALUE")
@option(
    "--site", "Fit the two numbers of a site (clock under load, host), and leave the chip as it is.", metavar="NAME"
)
@option("--constants", "The constants to fit; constants joined by + share a value.", metavar="A,B+C")
@option("--seed", "Seed of random starts and of the rows that are left out.", 0, type=int)
@option("--as-of", "When the rows were measured; default: this month.", metavar="YYYY-MM")
@option("--out", "The file to write the spec (or the site) to.", type=OUT, metavar="FILE")
def calibrate(gather: Gather, out: Path | None, **asked: Any) -> Answer:
    """Fit constants of a chip to measured kernels, or those of a cluster's communication library to measured
    collectives, robustly, and report the error on rows that were left out.

    Three constants are fitted from 30 rows on, eight from 80 rows on; a kind and format of kernels weighs the square
    root of its rows. Rows faster than the stated peaks of the chip allow are refused and listed.
    """
    from accelsim.spec.yaml.clusters import is_cluster

    gather.check(out, lambda file: check_file_target(file, (".yaml",)), last=True)
    asked["day"] = asked["as_of"] or datetime.now(UTC).strftime("%Y-%m")
    named = [group.split("+") for group in (asked["constants"] or "").split(",") if group.strip()]
    asked["groups"] = [tuple(name.strip() for name in group) for group in named]
    cluster, tables = gather.read(lambda: is_cluster(asked["chip"])), len(asked["sources"])
    gather.refuse(cluster and tables > 1, f"{tables} tables of a cluster", "", "one --data FILE")
    gather.refuse(cluster and asked["site"], "--site of a cluster", "", "a chip, whose kernels are measured")
    both = "one of them: a site has two numbers of its own"
    gather.refuse(asked["constants"] and asked["site"], "--constants with --site", "", both)
    gather.done()
    return _cluster(out, asked) if cluster else _chip(out, asked)


def _chip(out: Path | None, asked: dict[str, Any]) -> Answer:
    from accelsim.kernels.calibrate import calibrate as fitted
    from accelsim.kernels.table import joined, read_table
    from accelsim.report.calibrated import chip_answer
    from accelsim.spec.constants import constants
    from accelsim.spec.site import FIELDS
    from accelsim.spec.yaml.load import load_chip

    chip, groups = load_chip(asked["chip"], asked["overrides"]), asked["groups"]
    rows = _rows(joined([read_table(each, timed=True) for each in asked["sources"]]), chip, asked["device"])
    if asked["site"]:
        groups = [(each,) for each in constants(chip) if each.rsplit(".", 1)[-1] in FIELDS]
    devices = ", ".join(dict.fromkeys(each or "no device named" for each in rows.devices))
    kernels = count_of(len(rows.ops), "kernel")
    basis = f"{kernels} of {', '.join(each.name for each in asked['sources'])} ({devices})"
    what = f"{count_of(len(groups), 'group')} of constants to {kernels}" if groups else "constants"
    with progress(1) as stage:
        stage(f"fit {what}", 0.0)
        found = fitted(rows, chip, basis, asked["day"], groups, asked["seed"])
    return chip_answer(found, chip, asked["site"], out)


def _rows(table: Table, chip: Chip, device: str | None) -> Table:
    """The rows of the device. Raises UsageError where there are none."""
    called = {device} if device else {chip.name, *chip.also}
    rows = [row for row, name in enumerate(table.devices) if name in called or (not device and not name)]
    if not rows:
        there = list(dict.fromkeys(table.devices))
        asked, expected = device or chip.name, f"--device with one of: {', '.join(there)}"
        raise UsageError(f"no rows of {asked}", str(table.path), expected, nearest(asked, there))
    return table.only(rows)


def _cluster(out: Path | None, asked: dict[str, Any]) -> Answer:
    from accelsim.cluster.fit import calibrate, read_collectives
    from accelsim.cluster.shapes.building import build
    from accelsim.report.calibrated import cluster_answer
    from accelsim.spec.yaml.clusters import load_cluster

    cluster, (data,) = load_cluster(asked["chip"], asked["overrides"]), asked["sources"]
    topology, every = build(cluster), read_collectives(data, asked["device"])
    rows = _placed(every, topology, data)
    found = calibrate(rows, topology, cluster.collectives, asked["groups"], asked["seed"])
    others = len(every.sorts) - len(rows.sorts)
    return cluster_answer(found, cluster, others, f"{data.name} ({asked['day']})", out)


def _placed(rows: Measured, topology: Topology, data: Path) -> Measured:
    """The rows that the cluster has a place for. Raises UsageError where there are none."""
    from accelsim.cluster.fit import group_of

    def fits(sort: Sort) -> bool:
        try:
            return bool(group_of(topology, sort))
        except UsageError:
            return False

    known = {sort: fits(sort) for sort in set(rows.sorts)}
    chosen = [row for row, sort in enumerate(rows.sorts) if known[sort]]
    if not chosen:
        raise UsageError(f"{topology.name} is too small for every row", str(data), "more nodes: '2x-...'")
    return rows.only(chosen)
