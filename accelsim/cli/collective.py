"""``accelsim collective``: time, bandwidth, traffic and energy of a collective on a cluster, by algorithm."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import counted, flag, option, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim collective all_reduce --on dgx-a100 --size 1GB",
    "accelsim collective all_reduce --on 2x-dgx-a100 --size 64MiB --algorithm hierarchical",
    "accelsim collective all_reduce --on dgx-h100 --size 1MiB --library vllm --caller eager",
    "accelsim collective all_reduce --on dgx-h100 --sweep --plot sweep.png",
    outputs="csv plot json",
)
@click.argument("kind")
@option("--on cluster", "A cluster: a name ('16x-dgx-a100') or a YAML file.", required=True, metavar="CLUSTER")
@option(
    "--size texts",
    "Size of each device's buffer; default: 64 MiB. Repeatable with --sweep.",
    multiple=True,
    metavar="SIZE",
)
@option(
    "--algorithm",
    "library, auto (the fastest on the wires), or one by name; default: library where the cluster states its "
    "constants, else auto.",
    "",
    metavar="NAME",
)
@option("--library", "Library of the cluster: nccl, vllm, nccl-pytorch; default: its own.", "", metavar="NAME")
@click.option(
    "--caller",
    type=click.Choice(["graph", "eager"]),
    default="graph",
    help="Who starts it: a CUDA graph or kernels before it, or a host call by call (eager).",
)
@option("--dtype", "Format that is summed; the library may choose by it; default: any.", "", metavar="FORMAT")
@option("--group devices", "Devices that take part, in order: '0-7' or '0,8,16'; default: all.", metavar="DEVICES")
@option("--chunks", "Chunks of the buffer that follow each other.", type=click.IntRange(1, 4096))
@option(
    "--conventions",
    "Also the time that ASTRA-sim gives, unaware or aware of congestion; needs a checkout.",
    type=click.Choice(["astrasim", "astrasim-aware"]),
)
@flag("--routes with_routes", "Show the route from each device to the next.")
@flag("--sweep swept", "Bus bandwidth against size, for every algorithm.")
@set_option()
def collective(gather: Gather, kind: str, conventions: str | None, **asked: Any) -> Answer:
    """Time, bandwidth, bytes per link and joules of a collective on a cluster.

    KIND: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all or send_recv. Bandwidths as nccl-tests
    defines them. A picture always shows a sweep.
    """
    from accelsim.report.collectives import collective
    from accelsim.units import show

    asked["drawn"] = click.get_current_context().params["plot"] is not None
    asked["counted"] = lambda sizes: counted(sizes, lambda size: show(size, "B", 4, binary=True))
    if conventions:
        way = (asked["algorithm"], conventions == "astrasim-aware")
        asked["theirs"] = lambda spec, topology, size: from_checkout(
            "tests.validation.astrasim", "accelsim collective --conventions"
        ).by_astrasim(spec, topology, kind, size, *way)
    return collective(gather, kind, **asked)
