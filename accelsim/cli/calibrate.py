"""``accelsim calibrate``: the constants of a chip fitted to measured kernels, of a cluster to measured collectives."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.common import (
    FILE,
    OUT,
    check_file_target,
    check_outputs,
    csv_option,
    example,
    json_option,
    paragraphs,
    progress,
    save_csv,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, count_of, nearest

if TYPE_CHECKING:
    from accelsim.kernels.calibrate import Calibrated
    from accelsim.kernels.table import Table
    from accelsim.spec.chip import Chip


@click.command(epilog=example(
    "accelsim calibrate a100-80-sxm --data measured.csv --out my-a100.yaml",
    "accelsim calibrate t4 --data measured.csv --device 'Tesla T4' --out my-t4.yaml",
    "accelsim calibrate a100-80-sxm --data measured.csv --site mysite --out mysite.yaml",
    "accelsim calibrate t4 --data products.csv --data functions.csv --out my-t4.yaml",
    "accelsim calibrate 2x-dgx-a100 --data collectives.csv --out my-cluster.yaml",
))  # fmt: skip
@click.argument("chip")
@click.option(
    "--data",
    "sources",
    type=FILE,
    required=True,
    multiple=True,
    metavar="FILE",
    help="Measured kernels: op, dtype, sizes, time_us; of a cluster measured collectives: op, n_devices, "
    "devices_per_node, bytes, time_us; one a row. Repeatable: all kinds of kernels are fitted together.",
)
@click.option("--device", metavar="NAME", help="Use rows of this device; default: the names of the chip.")
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field of the chip. Repeatable."
)
@click.option(
    "--site",
    metavar="NAME",
    help="Fit the two numbers of a site (clock under load, host), and leave the chip as it is.",
)
@click.option(
    "--constants", metavar="A,B+C", help="The constants to fit; constants joined by + share a value."
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of random starts and of the rows that are left out.",
)
@click.option("--as-of", metavar="YYYY-MM", help="When the rows were measured; default: this month.")
@click.option("--out", type=OUT, metavar="FILE", help="The file to write the spec (or the site) to.")
@csv_option
@json_option
def calibrate(
    chip: str, sources: tuple[Path, ...], device: str | None, overrides: tuple[str, ...], site: str | None,
    constants: str | None, seed: int, as_of: str | None, out: Path | None, table: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Fit constants of a chip to measured kernels, or those of a cluster's communication library to measured
    collectives, robustly, and report the error on rows that were left out.

    Three constants are fitted from 30 rows on, eight from 80 rows on; a kind and format of kernels weighs the square
    root of its rows. Rows faster than the stated peaks of the chip allow are refused and listed.
    """  # fmt: skip
    from accelsim.cli.calibrate_cluster import Wanted, calibrate_cluster
    from accelsim.kernels.calibrate import calibrate as fitted
    from accelsim.kernels.table import joined, read_table
    from accelsim.spec.yaml.clusters import is_cluster
    from accelsim.spec.yaml.load import load_chip

    if out is not None:
        check_file_target(out, (".yaml",))
    check_outputs(None, table)
    day = as_of or datetime.now(UTC).strftime("%Y-%m")
    if is_cluster(chip):
        if len(sources) > 1:
            raise UsageError(Problem(f"{len(sources)} tables of a cluster", "", "one --data FILE"))
        wanted = Wanted(sources[0], device, overrides, site, constants, seed, day, out, table, as_json)
        calibrate_cluster(chip, wanted)
        return
    loaded = load_chip(chip, overrides)
    rows = _rows(joined([read_table(each, timed=True) for each in sources]), loaded, device)
    names = _groups(constants, loaded, site)
    devices = ", ".join(dict.fromkeys(name or "no device named" for name in rows.devices))
    basis = f"{count_of(len(rows.ops), 'kernel')} of {', '.join(each.name for each in sources)} ({devices})"
    with progress(1) as stage:
        stage(
            f"fit {count_of(len(names), 'group')} of constants to {count_of(len(rows.ops), 'kernel')}"
            if names
            else "fit constants",
            0.0,
        )
        found = fitted(rows, loaded, basis, day, names, seed)
    if out is not None:
        _write(found, site, out)
    save_csv(table, [{"kernels": name, **each._asdict()} for name, each in found.errors.items()])
    if as_json:
        show_json(_facts(found))
    else:
        _print(found, loaded, site)
        if out is not None:
            click.echo(f"\n{'site' if site else 'spec'}: {out}")


def _rows(table: Table, chip: Chip, device: str | None) -> Table:
    """The rows of the device. Raises UsageError where there are none."""
    called = {device} if device else {chip.name, *chip.also}
    rows = [row for row, name in enumerate(table.devices) if name in called or (not device and not name)]
    if not rows:
        there = list(dict.fromkeys(table.devices))
        asked = device or chip.name
        raise UsageError(
            Problem(
                f"no rows of {asked}",
                str(table.path),
                f"--device with one of: {', '.join(there)}",
                nearest(asked, there),
            )
        )
    return table.only(rows)


def _groups(text: str | None, chip: Chip, site: str | None) -> list[tuple[str, ...]]:
    from accelsim.spec.constants import constants
    from accelsim.spec.site import FIELDS

    if text and site:
        raise UsageError(
            Problem("--constants with --site", expected="one of them: a site has two numbers of its own")
        )
    if text:
        return [
            tuple(part.strip() for part in group.split("+")) for group in text.split(",") if group.strip()
        ]
    return [(name,) for name in constants(chip) if name.rsplit(".", 1)[-1] in FIELDS] if site else []


def _write(found: Calibrated, site: str | None, out: Path) -> None:
    from accelsim import files
    from accelsim.fit.chips import write_spec
    from accelsim.spec.site import FIELDS
    from accelsim.units import spell

    if site is None:
        write_spec(found.chip, out)
        return
    values = {name.rsplit(".", 1)[-1]: value for name, value in found.values.items()}
    clock, dispatch = (values.get(field, 1.0 if field == FIELDS[0] else 0.0) for field in FIELDS)
    block = found.chip.calibration
    assert block is not None
    lines = [
        f"name: {site}", f"sustained_clock: {clock:g}", f"dispatch: {spell(dispatch, 's')}", "measured: true",
        f"fitted_on: {block.fitted_on}", f"source: accelsim calibrate on {found.table.path.name}",
        f"as_of: {block.as_of}",
    ]  # fmt: skip
    files.write_file(out, files.text("\n".join(lines) + "\n"))


def _facts(found: Calibrated) -> dict[str, object]:
    block = found.chip.calibration
    assert block is not None
    return {
        "chip": found.chip.name, "rows": block.rows, "values": dict(block.values),
        "errors": {name: each._asdict() for name, each in found.errors.items()}, "coverage": found.coverage._asdict(),
        "intervals": {name: each.factor for name, each in block.intervals.items()},
    }  # fmt: skip


def _print(found: Calibrated, before: Chip, site: str | None) -> None:
    from accelsim.fit.validation import residuals
    from accelsim.report.table import text_table
    from accelsim.spec.constants import constants

    block, known = found.chip.calibration, constants(before)
    assert block is not None
    rows = [(name, known[name].spell(known[name].value), text) for name, text in block.values.items()]
    show(text_table(("constant", "was", "fitted"), rows, width()), width())
    every = residuals(found.left_out, found.table.measured)
    table = [("all", every), *found.errors.items()]
    factors = {name: f"{each.factor:.2f}" for name, each in block.intervals.items()}
    click.echo()
    show(
        text_table(
            ("kernels left out of the fit", "rows", "mean", "median", "p90", "90 % interval"),
            [
                (name, f"{each.rows:,}", f"{each.mean:.1%}", f"{each.median:.1%}", f"{each.p90:.1%}",
                 f"/ and x {factors.get(name, factors['all'])}")
                for name, each in table
            ],
            width(),
        ),
        width(),
    )  # fmt: skip
    share = found.coverage.share
    told = [
        f"{'The site' if site else before.title}: {count_of(block.rows, 'row')}, each predicted by a fit that had not "
        "seen it.",
        f"Intervals from four parts of the rows held {share:.1%} of the fifth, of 90 % that they are made for.",
    ]
    click.echo("\n" + paragraphs(told))
