"""``accelsim export-trace``: a trace of DRAM accesses or commands in the format of another simulator."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_file_target, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim export-trace run.npz --format dramsim3 --memory dram --out run.trace",
    "accelsim export-trace stream3 --on ddr4-3200 --format ramulator2 --out stream3.trace",
    "accelsim export-trace run.npz --format drampower --channel 0 --out channel0.csv",
    outputs="",
    name="export-trace",
)
@click.argument("source", metavar="SOURCE")
@option("--format form", "dramsim3, ramulator2, drampower or drampower4.", required=True, metavar="NAME")
@option("--memory", "Which memory of the run, if it had several.", "", metavar="NAME")
@option(
    "--on dram",
    "The DRAM: needed for a named trace, and for commands unless the run's file names it.",
    "",
    metavar="DRAM",
)
@option("--channel", "Which channel's commands (drampower).", 0)
@option("--out", "The file to write; stdout without it.", type=OUT)
def export_trace(
    gather: Gather, source: str, form: str, memory: str, dram: str, channel: int, out: Path | None
) -> Answer:
    """Write a trace for DRAMsim3, Ramulator 2 or DRAMPower.

    SOURCE is the file that `accelsim run --save-trace` wrote (or a directory that holds one), a text file of accesses,
    or a named trace such as seq_read. DRAMsim3 and Ramulator 2 get the addresses; DRAMPower gets the commands that
    the bank-level model issues for them.
    """
    from accelsim.dram.export import format_named
    from accelsim.explore.trace_export import exported
    from accelsim.files import text

    gather.check(out, check_file_target, last=True)
    chosen = gather.read(lambda: format_named(form))
    chunks = exported(source, chosen, memory, dram, channel)
    if out is not None:
        return Answer(None, other_files={out: text(chunks)})
    for chunk in chunks:
        click.echo(chunk, nl=False)
    return Answer(None)
