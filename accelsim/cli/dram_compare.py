"""``accelsim dram list``, ``compare`` and ``lessons``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import (
    OUT,
    check_folder,
    check_outputs,
    csv_option,
    example,
    flat,
    json_option,
    paragraphs,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.cli.dram_options import controller_options, preset, print_files, spec_of
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from accelsim.explore.dram_compare import Row


OF_EACH_KIND = ("ddr3-1600", "ddr4-3200", "lpddr4-2400", "gddr6-14000", "hbm2-2000", "hbm3-6400")
LESSONS_FOLDER = Path("reports/dram-lessons")


@click.command("list", epilog=example("accelsim dram list", "accelsim dram list --json"))
@csv_option
@json_option
def list_(table: Path | None, as_json: bool) -> None:
    """List every DRAM that can be named: standard, rate of a pin, peak, capacity, trust in its energies."""
    from accelsim.report.table import text_table
    from accelsim.report.text import si
    from accelsim.spec.dram_device import device
    from accelsim.spec.yaml.load_dram import list_drams, load_dram
    from accelsim.units import show as quantity

    check_outputs(None, table)
    facts: list[dict[str, Any]] = []
    for name in list_drams():
        spec = load_dram(name)
        made = device(spec)
        facts.append({
            "name": name, "standard": spec.standard, "rate_per_s": float(spec.rate), "peak_Bps": made.peak_Bps,
            "capacity_B": made.geometry.capacity_B, "energy_status": spec.energy_status or "none",
        })  # fmt: skip
    save_csv(table, facts)
    if as_json:
        show_json(facts)
        return
    rows = [
        (row["name"], row["standard"], si(row["rate_per_s"], "T/s"), si(row["peak_Bps"], "B/s"),
         quantity(row["capacity_B"], "B", 4, binary=True), row["energy_status"])
        for row in facts
    ]  # fmt: skip
    show(text_table(["name", "standard", "rate", "peak", "capacity", "energies"], rows, width()))


@click.command(epilog=example("accelsim dram compare ddr3-1600 ddr4-3200 lpddr4-2400 hbm2-2000 hbm3"))
@click.argument("names", nargs=-1, metavar="[DRAM]...")
@controller_options
def compare(
    names: tuple[str, ...], as_json: bool, out: Path | None, table: Path | None, plot: Path | None, **asked: Any
) -> None:  # fmt: skip
    """Replay traces on several DRAMs (default: one of each kind): share of the peak, latency, energy per bit."""
    from accelsim.errors import Gather
    from accelsim.explore import dram_compare
    from accelsim.explore.dram_replay import checked_model

    gather, specs = Gather(), dict[str, Any]()
    for name in dict.fromkeys(names or OF_EACH_KIND):
        with gather.also():
            full = preset(name)
            specs[name if full in specs else full] = spec_of(name, asked)
    with gather.also():
        if checked_model(asked["model"]) == "ideal":
            raise UsageError(
                Problem("--model 'ideal' takes no time, so nothing can be compared", "", "bank, pattern")
            )
    with gather.also():
        check_folder(out)
    with gather.also():
        check_outputs(plot, table)
    gather.done()
    with progress(1) as stage:
        rows = dram_compare.compare(specs, asked["model"], asked["limit"], stage)
    files = _write_compare(rows, out)
    facts = [row.as_dict() for row in rows]
    save_csv(table, [flat(row) for row in facts])
    if plot is not None:
        from accelsim.report.dram_plots import utilisation

        save_plot(plot, lambda: utilisation(rows))
    if as_json:
        show_json(facts)
    else:
        _print_compare(rows)
        print_files(files)


def _write_compare(rows: list[Row], out: Path | None) -> list[Path]:
    if out is None:
        return []
    from accelsim.report.dram_files import write_compare

    return write_compare(rows, out)


def _print_compare(rows: list[Row]) -> None:
    from accelsim.report.dram_words import compare_sentences, compare_table

    show(compare_table(rows, width()))
    click.echo("\n" + paragraphs(list(compare_sentences(rows))))


@click.command(epilog=example("accelsim dram lessons --out reports/dram-lessons"))
@click.option(
    "--out",
    type=OUT,
    default=LESSONS_FOLDER,
    show_default=True,
    help="Directory for summary.md and a picture for each lesson.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N accesses of each trace.")
def lessons(out: Path, limit: int | None) -> None:
    """Measure what DRAM lessons teach: one picture and one table for each lesson; needs a checkout."""
    check_folder(out)
    command = f"accelsim dram lessons --out {out}" + (f" --limit {limit}" if limit else "")
    plots = from_checkout("tests.validation.dram_lesson_plots", "accelsim dram lessons")
    with progress(1) as stage:
        for path in plots.measure_and_write(out, command, limit, partial(stage, "simulate")):
            click.echo(str(path))
