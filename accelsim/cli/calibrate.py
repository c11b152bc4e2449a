"""``accelsim calibrate``: the constants of a chip fitted to measured kernels, of a cluster to measured collectives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option, progress, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


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
@set_option(" of the chip")
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
    asked["day"] = asked.pop("as_of") or datetime.now(UTC).strftime("%Y-%m")
    named = [group.split("+") for group in (asked.pop("constants") or "").split(",") if group.strip()]
    asked["groups"] = [tuple(name.strip() for name in group) for group in named]
    cluster, tables = gather.read(lambda: is_cluster(asked["chip"])), len(asked["sources"])
    gather.refuse(cluster and tables > 1, f"{tables} tables of a cluster", "", "one --data FILE")
    gather.refuse(cluster and asked["site"], "--site of a cluster", "", "a chip, whose kernels are measured")
    both = "one of them: a site has two numbers of its own"
    gather.refuse(named and asked["site"], "--constants with --site", "", both)
    gather.done()
    from accelsim.report import calibrated as said

    if cluster:
        return said.cluster_answer(out, **asked)
    with progress(1) as stage:
        return said.chip_answer(out, lambda text: stage(text, 0.0), **asked)
