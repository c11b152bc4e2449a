"""``accelsim dram``: accesses on one DRAM alone, several DRAMs side by side, lessons."""

from __future__ import annotations

import functools

import click

from accelsim.cli.common import example
from accelsim.cli.dram_compare import compare, lessons, list_
from accelsim.cli.dram_replay import replay
from accelsim.cli.groups import Grouped

EXAMPLES = example(
    "accelsim dram ddr4-3200 --trace tile3 --mapping rorabachcobg",
    "accelsim dram hbm2-2000 --trace rand_read --set organisation.channels=4 --out reports/hbm2-random",
    "accelsim dram ddr4-3200 --trace run.npz --memory pcie_memory",
    "accelsim dram compare ddr3-1600 ddr4-3200 hbm2-2000",
    "accelsim dram list",
)


class DramGroup(click.Group):
    """A group in which a word that is no command names a memory, on which a trace is replayed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name, or the replay on the memory of that name."""
        known = super().get_command(ctx, cmd_name)
        return known if known is not None or cmd_name.startswith("-") else replay_on(cmd_name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of a replay, then the commands."""
        replay_on("DRAM").format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=DramGroup, subcommand_metavar="DRAM [OPTIONS] | COMMAND [ARGS]...", epilog=EXAMPLES)
def dram() -> None:
    """Replay accesses on one DRAM (a name from 'accelsim dram list', or a YAML file), or compare DRAMs.

    Prints bandwidth, latency, row hits, commands, energy by part, and in plain words what limits it.
    """


def replay_on(name: str) -> click.Command:
    """Return the command that replays a trace on the memory of a name."""
    return Grouped(
        name,
        callback=functools.partial(replay.callback, name=name),
        params=replay.params,
        epilog=EXAMPLES,
        help=f"Replay a trace on {name} alone.",
    )


for command in (list_, compare, lessons):
    dram.add_command(command)
