"""``accelsim link`` and ``accelsim noc``: what a link makes of its bandwidth, what a network on a chip can carry."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import option, progress, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer

SIZES = tuple(4**power for power in range(3, 15))
"""Transfer sizes of the table, B: 64 B to 256 MiB."""


def _sizes(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    from accelsim.units import byte_sizes

    return byte_sizes(texts)


@answers(
    "accelsim link pcie-gen4-x16",
    "accelsim link pcie-gen4-x16 --set pcie.tags=32 --size '4 KiB' --size '1 MiB'",
    "accelsim link nvlink-gen3 --out reports/nvlink",
    outputs="out csv plot json",
    helps={"out": "Directory for the table and the plot."},
)
@click.argument("name", metavar="LINK")
@option("--size sizes", "Size of a transfer: '4 KiB'. Repeatable.", multiple=True, callback=_sizes)
@set_option()
def link(gather: Gather, name: str, sizes: tuple[int, ...], overrides: tuple[str, ...]) -> Answer:
    """Time and bandwidth of transfers over LINK (a name or a YAML file), by their size.

    Back to back: a stream of transfers of one size. Alone: one transfer, latency included.
    """
    from accelsim.report.network import link_answer
    from accelsim.spec.link import Link
    from accelsim.spec.yaml.parts import load_part

    made = gather.read(lambda: load_part(name, "links", Link, overrides))
    return link_answer(name, made, sizes or SIZES)


@answers(
    "accelsim noc mesh-8x8 --traffic uniform",
    "accelsim noc torus 8 8 --traffic transpose --packet-flits 4 --out reports/torus",
    "accelsim noc fat-tree 4 3 --load 0.1 --load 0.5",
    outputs="out csv plot json",
    helps={"out": "Directory for the figures and the plots."},
)
@click.argument("name", metavar="NAME|TOPOLOGY")
@click.argument("shape", nargs=-1, type=click.IntRange(1), metavar="[SIZE]...")
@option("--traffic pattern", "uniform, transpose, neighbour, hotspot or bit-complement.", "uniform")
@option("--load loads", "Offered flits per clock and node. Repeatable; without: a sweep.", multiple=True, type=float)
@option("--packet-flits", "Flits of a packet.", 1, least=1)
@option("--clocks", "Clocks of a simulation.", 2000, type=click.IntRange(100, 10000000))
@option("--seed", "Seed of the packets.", 1, least=0)
@set_option()
def noc(gather: Gather, name: str, shape: tuple[int, ...], overrides: tuple[str, ...], **asked: Any) -> Answer:
    """Latency and throughput of a network on a chip under a traffic pattern.

    A NAME or YAML file of a network, or a TOPOLOGY (bus, crossbar, ring, mesh, torus, tree, fat-tree) with its SIZE:
    nodes, columns and rows, or arity and levels.
    """
    from accelsim.network.noc.sweep import load_noc, sweep
    from accelsim.report.network import noc_answer

    made = gather.read(lambda: load_noc(name, shape, overrides))
    with progress(1) as stage:
        found = sweep(made, **asked, told=lambda share: stage("simulate", share))
    return noc_answer(name, found)
