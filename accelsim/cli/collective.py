"""``accelsim collective``: time, bandwidth, traffic and energy of a collective on a cluster, by algorithm."""

from __future__ import annotations

import re
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import byte_sizes, counted, flag, option
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer
from accelsim.spec.counts import MOST_DEVICES

PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
"""A device of --group, or a range of them."""
MOST_ROUTES = 64
"""Ways that --routes lists."""


def _group(text: str) -> tuple[int, ...]:
    """'0-3,8' as (0, 1, 2, 3, 8)."""
    found: list[int] = []
    for part in text.split(","):
        match = PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < MOST_DEVICES:
            raise UsageError(f"{part.strip()!r}", "--group", "devices by number: '0-7' or '0,8,16'")
        found += range(first, last + 1)
    return tuple(found)


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
    "Size of a device's whole buffer: '1GB'. Repeatable with --sweep; 64 MiB without.",
    multiple=True,
    metavar="SIZE",
)
@option(
    "--algorithm",
    "library, auto (the fastest on the wires), or one by name; without: library where the cluster "
    "states its constants, else auto.",
    "",
    metavar="NAME",
)
@option(
    "--library library",
    "A communication library of the cluster: nccl, vllm, nccl-pytorch; without: its own.",
    "",
    metavar="NAME",
)
@click.option(
    "--caller",
    type=click.Choice(["graph", "eager"]),
    default="graph",
    help="Who starts it: a CUDA graph or kernels before it, or a host call by call (eager).",
)
@option(
    "--dtype",
    "Number format that is summed, of which a library's choice may depend; without: any.",
    "",
    metavar="FORMAT",
)
@option("--group devices", "Devices that take part, in order: '0-7' or '0,8,16'; without: all.", metavar="DEVICES")
@option("--chunks", "Chunks of the buffer that follow each other.", type=click.IntRange(1, 4096))
@option(
    "--conventions",
    "Also the time that ASTRA-sim gives, unaware or aware of congestion; needs a checkout.",
    type=click.Choice(["astrasim", "astrasim-aware"]),
)
@flag("--routes with_routes", "Show the route from each device to the next.")
@flag("--sweep swept", "Bus bandwidth against size, for every algorithm.")
@option("--set overrides", "Change a field. Repeatable.", multiple=True, metavar="PATH=VALUE")
def collective(
    gather: Gather, kind: str, algorithm: str, caller: str, dtype: str, chunks: int | None, conventions: str | None,
    with_routes: bool, swept: bool, **asked: Any,
) -> Answer:  # fmt: skip
    """Time, bandwidth, bytes per link and joules of a collective on a cluster.

    KIND: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all or send_recv. Bandwidths as nccl-tests
    defines them. A picture always shows a sweep.
    """
    from accelsim.cluster.collectives.base import KINDS
    from accelsim.cluster.collectives.choice import LIBRARY, Asked, Called, library_of
    from accelsim.cluster.shapes.building import build
    from accelsim.errors import known
    from accelsim.formats.table import get
    from accelsim.report import collectives as said
    from accelsim.spec.yaml.clusters import load_cluster
    from accelsim.units import show as spelled

    plain = algorithm not in ("", LIBRARY)
    both = f"--algorithm {algorithm} with --library or --caller"
    with gather.also():
        spec = load_cluster(asked["cluster"], asked["overrides"])
        software = library_of(spec, asked["library"])
    with gather.also():
        if dtype:
            get(dtype)
    gather.refuse(plain and (asked["library"] or caller == "eager"), both, "", "one of the two")
    with gather.also():
        known("kind of collective", kind, KINDS)
    with gather.also():
        sizes = byte_sizes(asked["texts"])
    with gather.also():
        group = None if asked["devices"] is None else _group(asked["devices"])
    many = len(asked["texts"])
    gather.refuse(many > 1 and not swept, f"{many} sizes", "--size", "one, or --sweep")
    gather.done()
    topology, size = build(spec), (sizes or (DEFAULT_B,))[0]
    wanted = Asked(topology, software, kind, algorithm, group, chunks, Called(dtype, caller == "eager"))
    rows: list[dict[str, Any]] = []
    if swept or click.get_current_context().params["plot"] is not None:
        swept_B = counted(sizes if swept and sizes else said.SWEPT_B, lambda size: spelled(size, "B", 4, binary=True))
        rows = said.sweep(wanted, swept_B)
    theirs = None
    if conventions:
        astrasim = from_checkout("tests.validation.astrasim", "accelsim collective --conventions")
        aware = conventions == "astrasim-aware"
        theirs = astrasim.by_astrasim(spec, topology, kind, size, algorithm, aware)
    routes = said.routes(topology, wanted.members[:MOST_ROUTES]) if with_routes else None
    return said.report(wanted, None if swept else size, rows, theirs, routes)


DEFAULT_B = 64 * 2**20
"""Size where none is given, bytes."""
