"""``accelsim energy``: energy per action by source, and a published split of energy made again."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import OUT, check_folder, example, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@click.group(epilog=example("accelsim energy table", "accelsim energy eyeriss --out reports/eyeriss-alexnet"))
def energy() -> None:
    """Show the energy of each action, its source, and how far to trust it.

    A run on a chip adds these up. A run on a cluster does so of its devices and links, and tells apart what their
    servers draw at the wall.
    """


@answers(
    "accelsim energy table",
    "accelsim energy table --node 16",
    "accelsim energy table --json",
    "accelsim energy table --out reports/energy",
    outputs="out csv plot json",
    helps={"out": "Directory for the figures as CSV and JSON, and the picture of them."},
    make=energy.command,
)
@option("--node", "Only this process node, scaled if need be.", type=click.FloatRange(min=1), metavar="NM")
def table(gather: Gather, node: float | None) -> Answer:
    """Energy per action: arithmetic by format, registers, SRAM, wires, DRAM, links; by node and by source.

    Figures come from the spec files (tables, memories, DRAMs, links) and from publications, each with its status.
    """
    from accelsim.account.energy_figures import figures
    from accelsim.report.energy import energies

    return energies(gather.read(lambda: figures(node)))


@energy.command(epilog=example("accelsim energy eyeriss --out reports/eyeriss-alexnet"))
@option("--out", "Directory for the page, the table and the picture.", type=OUT, required=True)
def eyeriss(out: Path) -> None:
    """AlexNet under the relative energies of Eyeriss (ISCA 2016): which level takes how much, layer by layer."""
    report = from_checkout("tests.validation.eyeriss_report", "accelsim energy eyeriss")
    check_folder(out)
    report.write(out, f"accelsim energy eyeriss --out {out}")
    click.echo(f"Report: {out / 'README.md'}")
