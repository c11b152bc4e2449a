"""``accelsim dram DRAM``: accesses on one DRAM alone."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import option, progress
from accelsim.cli.dram_options import FOLDER, controller_options, preset, spec_of
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(outputs="out csv plot json", helps={"out": FOLDER})
@option(
    "--trace",
    "A file of accesses (text, or of 'accelsim run --save-trace'), or seq_read, seq_write, tile3, stream3, rand_read, "
    "rand_mix, conflict, chase.",
    "seq_read",
)
@option("--memory", "Which memory of a saved run, if it had several.", "", metavar="NAME")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="")
@option("--outstanding", "Accesses in flight; 1: each waits for the one before.", type=click.IntRange(1, 1000000))
@option("--injection", "Accesses accepted per clock; default: one per channel.", type=click.IntRange(1, 1000000))
@option("--clocks", "Window of the picture of bank activity (with --out).", metavar="A:B")
@option("--channel", "Channel of that picture.", 0, least=0)
@controller_options
def replay(gather: Gather, name: str, trace: str, memory: str, rest: tuple[str, ...], **asked: Any) -> Answer:
    """Replay a trace on one memory; everything that is wrong is told before anything runs."""
    from accelsim.explore import dram_replay
    from accelsim.report import dram as said
    from accelsim.spec.dram_device import device
    from accelsim.spec.status import UNSTATED

    gather.refuse(rest, f"unexpected: {' '.join(rest)}", "", "one DRAM; 'accelsim dram compare' takes several")
    with gather.also():
        dram_replay.check_trace(trace, memory)
    with gather.also():
        dram_replay.checked_model(asked["model"])
    window = None
    with gather.also():
        window = said.window(asked["clocks"], click.get_current_context().params["out"] is not None)
    spec = gather.read(lambda: spec_of(name, asked, ("list", "compare", "lessons")))
    offer = dram_replay.offered(trace, asked["outstanding"], asked["injection"])
    with progress(1) as stage:
        stage("simulate", 0.0)
        made, status = device(spec, preset(name)), spec.energy_status or UNSTATED
        found = dram_replay.run(made, status, trace, asked["model"], offer, asked["limit"], memory)
    return said.replay(found, window, asked["channel"])
