"""``accelsim dram``: accesses on one DRAM alone, several DRAMs side by side, lessons."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import example, option, progress
from accelsim.cli.dram_compare import compare, lessons, list_
from accelsim.cli.dram_options import FOLDER, controller_options, preset, spec_of
from accelsim.cli.groups import Grouped
from accelsim.digits import whole
from accelsim.errors import Gather, Problem, SpecError, UsageError
from accelsim.report.answer import Answer
from accelsim.spec.status import UNSTATED

if TYPE_CHECKING:
    from accelsim.spec.dram import Dram

MOST_CLOCKS = 1 << 50
"""Clocks of a trace are below this."""

EXAMPLES = example(
    "accelsim dram ddr4-3200 --trace tile3 --mapping rorabachcobg",
    "accelsim dram hbm2-2000 --trace rand_read --set organisation.channels=4 --out reports/hbm2-random",
    "accelsim dram ddr4-3200 --trace run.npz --memory pcie_memory",
    "accelsim dram compare ddr3-1600 ddr4-3200 hbm2-2000",
    "accelsim dram list",
)


class DramGroup(click.Group):
    """Its commands; every other word is the name of a memory, on which a trace is replayed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or the replay on the memory of that name."""
        known = super().get_command(ctx, cmd_name)
        return known if known is not None or cmd_name.startswith("-") else replay_on(cmd_name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of a replay, then the commands."""
        replay_on("DRAM").format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=DramGroup, subcommand_metavar="DRAM [OPTIONS] | COMMAND [ARGS]...", epilog=EXAMPLES)
def dram() -> None:
    """Replay accesses on one DRAM (a name from 'accelsim dram list', or a YAML file), or compare DRAMs.

    Prints bandwidth, latency, row hits, commands, energy by part, and in plain words what limits it.
    """


def replay_on(name: str) -> click.Command:
    """The command that replays a trace on the memory of that name."""
    return Grouped(
        name,
        callback=functools.partial(_replay.callback, name=name),
        params=_replay.params,
        epilog=EXAMPLES,
        help=f"Replay a trace on {name} alone.",
    )


@answers(outputs="out csv plot json", helps={"out": FOLDER})
@option(
    "--trace",
    "A file of accesses (text, or of 'accelsim run "
    "--save-trace'), or seq_read, seq_write, tile3, stream3, rand_read, rand_mix, conflict, "
    "chase.",
    "seq_read",
)
@option("--memory", "Which memory of a saved run, if it had several.", "", metavar="NAME")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="")
@option("--outstanding", "Accesses in flight; 1: each waits for the one before.", type=click.IntRange(1, 1000000))
@option("--injection", "Accesses accepted per clock; default: one per channel.", type=click.IntRange(1, 1000000))
@option("--clocks", "Window of the picture of bank activity (with --out).", metavar="A:B")
@option("--channel", "Channel of that picture.", 0, least=0)
@controller_options
def _replay(
    gather: Gather,
    name: str,
    trace: str,
    memory: str,
    rest: tuple[str, ...],
    clocks: str | None,
    channel: int,
    **asked: Any,
) -> Answer:
    """Replay a trace on one memory; everything that is wrong is told before anything runs."""
    from accelsim.dram.traces import NAMED
    from accelsim.explore import dram_replay
    from accelsim.report import dram as said
    from accelsim.spec.dram_device import device

    expected = "one DRAM; 'accelsim dram compare' takes several"
    gather.refuse(rest, f"unexpected: {' '.join(rest)}", "", expected)
    with gather.also():
        dram_replay.check_trace(trace, memory)
    with gather.also():
        dram_replay.checked_model(asked["model"])
    window: tuple[int, int] | None = None
    with gather.also():
        window = _clocks(clocks, click.get_current_context().params["out"])
    spec = gather.read(lambda: _spec(name, asked))
    offer = None
    if asked["outstanding"] or asked["injection"]:
        own = NAMED[trace].outstanding if trace in NAMED else None
        offer = dram_replay.Offer(asked["outstanding"] or own, asked["injection"])
    with progress(1) as stage:
        stage("simulate", 0.0)
        made, status = device(spec, preset(name)), spec.energy_status or UNSTATED
        found = dram_replay.run(made, status, trace, asked["model"], offer, asked["limit"], memory)
    return said.replay(found, window, channel)


def _spec(name: str, asked: dict[str, Any]) -> Dram:
    """The spec; when there is none of that name, the command that it looks like is said too."""
    from accelsim.errors import nearest

    try:
        return spec_of(name, asked)
    except SpecError as error:
        near = nearest(name, dram.commands)
        if not near or near[0] != name[0]:
            raise
        hint = Problem(f"no command {name!r}", "", "a DRAM, or a command", near)
        raise SpecError([hint, *error.problems]) from error


def _clocks(text: str | None, out: Path | None) -> tuple[int, int] | None:
    """'100:400' -> (100, 400); UsageError for anything else."""
    if text is None:
        return None
    begin, end = (whole(part) for part in text.partition(":")[::2])
    problems = []
    if begin is None or end is None or begin >= end or end >= MOST_CLOCKS:
        problems.append(Problem(f"--clocks {text!r}", "", "A:B, two clocks with A < B, such as 0:300"))
    if out is None:
        problems.append(Problem("--clocks without --out", "", "--out DIR, where the picture goes"))
    if begin is None or end is None or problems:
        raise UsageError(problems)
    return begin, end


for command in (list_, compare, lessons):
    dram.add_command(command)
