"""``accelsim dram list``, ``compare`` and ``lessons``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import OUT, check_folder, example, option, progress
from accelsim.cli.dram_options import FOLDER, controller_options, preset, spec_of
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer

OF_EACH_KIND = ("ddr3-1600", "ddr4-3200", "lpddr4-2400", "gddr6-14000", "hbm2-2000", "hbm3-6400")
LESSONS_FOLDER = Path("reports/dram-lessons")


@answers("accelsim dram list", "accelsim dram list --json", name="list")
def list_(gather: Gather) -> Answer:
    """List every DRAM that can be named: standard, rate of a pin, peak, capacity, trust in its energies."""
    from accelsim.report.lists import drams

    return gather.read(drams)


@answers(
    "accelsim dram compare ddr3-1600 ddr4-3200 lpddr4-2400 hbm2-2000 hbm3",
    outputs="out csv plot json",
    helps={"out": FOLDER},
)
@click.argument("names", nargs=-1, metavar="[DRAM]...")
@controller_options
def compare(gather: Gather, names: tuple[str, ...], **asked: Any) -> Answer:
    """Replay traces on several DRAMs (default: one of each kind): share of the peak, latency, energy per bit."""
    from accelsim.explore import dram_compare
    from accelsim.explore.dram_replay import checked_model
    from accelsim.report import dram as said

    specs: dict[str, Any] = {}
    for name in dict.fromkeys(names or OF_EACH_KIND):
        with gather.also():
            full = preset(name)
            specs[name if full in specs else full] = spec_of(name, asked)
    with gather.also():
        if checked_model(asked["model"]) == "ideal":
            raise UsageError("--model 'ideal' takes no time, so nothing can be compared", "", "bank, pattern")
    gather.done()
    with progress(1) as stage:
        return said.compare(dram_compare.compare(specs, asked["model"], asked["limit"], stage))


@click.command(epilog=example("accelsim dram lessons --out reports/dram-lessons"))
@option("--out", "Directory for summary.md and a picture for each lesson.", LESSONS_FOLDER, type=OUT)
@option("--limit", "Only the first N accesses of each trace.", least=1, metavar="N")
def lessons(out: Path, limit: int | None) -> None:
    """Measure what DRAM lessons teach: one picture and one table for each lesson; needs a checkout."""
    check_folder(out)
    command = f"accelsim dram lessons --out {out}" + (f" --limit {limit}" if limit else "")
    plots = from_checkout("tests.validation.dram_lesson_plots", "accelsim dram lessons")
    with progress(1) as stage:
        for path in plots.measure_and_write(out, command, limit, partial(stage, "simulate")):
            click.echo(str(path))
