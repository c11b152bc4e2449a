"""``accelsim collective``: time, bandwidth, traffic and energy of a collective on a cluster, by algorithm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import (
    byte_sizes,
    check_outputs,
    counted,
    csv_option,
    example,
    json_option,
    paragraphs,
    plot_option,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError
from accelsim.spec.counts import MOST_DEVICES

if TYPE_CHECKING:
    from accelsim.cluster.collectives.choice import Called
    from accelsim.cluster.network.topology import Topology
    from accelsim.spec.cluster import ClusterSpec
    from accelsim.spec.collectives import Collectives

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
            raise UsageError(Problem(f"{part.strip()!r}", "--group", "devices by number: '0-7' or '0,8,16'"))
        found += range(first, last + 1)
    return tuple(found)


@click.command(epilog=example(
    "accelsim collective all_reduce --on dgx-a100 --size 1GB",
    "accelsim collective all_reduce --on 2x-dgx-a100 --size 64MiB --algorithm hierarchical",
    "accelsim collective all_reduce --on dgx-h100 --size 1MiB --library vllm --caller eager",
    "accelsim collective all_reduce --on dgx-h100 --sweep --plot sweep.png",
))  # fmt: skip
@click.argument("kind")
@click.option(
    "--on",
    "cluster",
    required=True,
    metavar="CLUSTER",
    help="A cluster: a name ('16x-dgx-a100') or a YAML file.",
)
@click.option("--size", "texts", multiple=True, metavar="SIZE",
              help="Size of a device's whole buffer: '1GB'. Repeatable with --sweep; 64 MiB without.")  # fmt: skip
@click.option("--algorithm", default="", metavar="NAME",
              help="library, auto (the fastest on the wires), or one by name; without: library where the cluster "
              "states its constants, else auto.")  # fmt: skip
@click.option("--library", "library", default="", metavar="NAME",
              help="A communication library of the cluster: nccl, vllm, nccl-pytorch; without: its own.")  # fmt: skip
@click.option("--caller", type=click.Choice(["graph", "eager"]), default="graph",
              help="Who starts it: a CUDA graph or kernels before it, or a host call by call (eager).")  # fmt: skip
@click.option("--dtype", default="", metavar="FORMAT", help="Number format that is summed, of which a library's choice "
              "may depend; without: any.")  # fmt: skip
@click.option(
    "--group",
    "devices",
    metavar="DEVICES",
    help="Devices that take part, in order: '0-7' or '0,8,16'; without: all.",
)
@click.option("--chunks", type=click.IntRange(1, 4096), help="Chunks of the buffer that follow each other.")
@click.option("--conventions", type=click.Choice(["astrasim", "astrasim-aware"]),
              help="Also the time that ASTRA-sim gives, unaware or aware of congestion; needs a checkout.")  # fmt: skip
@click.option("--routes", "with_routes", is_flag=True, help="Show the route from each device to the next.")
@click.option("--sweep", "swept", is_flag=True, help="Bus bandwidth against size, for every algorithm.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@csv_option
@plot_option
@json_option
def collective(
    kind: str, cluster: str, texts: tuple[str, ...], algorithm: str, library: str, caller: str, dtype: str,
    devices: str | None, chunks: int | None, conventions: str | None, with_routes: bool, swept: bool,
    overrides: tuple[str, ...], table: Path | None, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Time, bandwidth, bytes per link and joules of a collective on a cluster.

    KIND: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all or send_recv. Bandwidths as nccl-tests
    defines them. A picture always shows a sweep.
    """
    from accelsim.cluster.collectives.choice import Called
    from accelsim.cluster.shapes.building import build
    from accelsim.report import collectives as said
    from accelsim.units import show as spelled

    asked = (kind, cluster, texts, algorithm, library, caller, dtype)
    spec, software, sizes, group = _checked(*asked, devices, swept, overrides, table, plot)
    topology = build(spec)
    how = (algorithm, group, chunks, Called(dtype, caller == "eager"))
    members = tuple(range(topology.ranks)) if group is None else group
    rows: list[dict[str, Any]] = []
    size, aware = (sizes or (DEFAULT_B,))[0], conventions == "astrasim-aware"
    theirs = None
    if conventions:
        astrasim = from_checkout("tests.validation.astrasim", "accelsim collective --conventions")
        theirs = astrasim.by_astrasim(spec, topology, kind, size, algorithm, aware)
    if swept or plot is not None:
        swept_B = counted(
            sizes if swept and sizes else said.SWEPT_B, lambda size: spelled(size, "B", 4, binary=True)
        )
        rows = said.sweep(topology, software, kind, swept_B, *how)
    save_plot(plot, lambda: _picture(kind, topology, len(members), rows))
    if swept:
        facts: dict[str, Any] = {"cluster": topology.name, "kind": kind, "ranks": len(members), "sweep": rows}
        save_csv(table, rows)
    else:
        facts, rows = _one(software, topology, kind, size, *how)
        save_csv(table, rows or facts["links"])
    if theirs is not None:
        facts["astrasim"] = theirs
    if with_routes:
        facts["routes"] = said.routes(topology, members[:MOST_ROUTES])
    if as_json:
        show_json({key: value for key, value in facts.items() if key != "said"})
        return
    _print(facts)


DEFAULT_B = 64 * 2**20
"""Size where none is given, bytes."""


def _checked(
    kind: str, cluster: str, texts: tuple[str, ...], algorithm: str, library: str, caller: str, dtype: str,
    devices: str | None, swept: bool, overrides: tuple[str, ...], table: Path | None, plot: Path | None,
) -> tuple[ClusterSpec, Collectives, tuple[int, ...], tuple[int, ...] | None]:  # fmt: skip
    """The cluster, its library, sizes and the devices of the group; all problems at once."""
    from accelsim.cluster.collectives.base import KINDS
    from accelsim.cluster.collectives.choice import LIBRARY, library_of
    from accelsim.errors import Gather, known
    from accelsim.formats.table import get
    from accelsim.spec.yaml.clusters import load_cluster

    gather = Gather()
    specs: list[ClusterSpec] = []
    libraries: list[Collectives] = []
    sizes: list[int] = []
    group: list[int] = []
    with gather.also():
        specs.append(load_cluster(cluster, overrides))
        libraries.append(library_of(specs[0], library))
    with gather.also():
        if dtype:
            get(dtype)
    with gather.also():
        if algorithm not in ("", LIBRARY) and (library or caller == "eager"):
            raise UsageError(
                Problem(f"--algorithm {algorithm} with --library or --caller", "", "one of the two")
            )
    with gather.also():
        known("kind of collective", kind, KINDS)
    with gather.also():
        sizes += byte_sizes(texts)
    with gather.also():
        group += _group(devices) if devices is not None else ()
    with gather.also():
        if len(texts) > 1 and not swept:
            raise UsageError(Problem(f"{len(texts)} sizes", "--size", "one, or --sweep"))
    with gather.also():
        check_outputs(plot, table)
    gather.done()
    return specs[0], libraries[0], tuple(sizes), None if devices is None else tuple(group)


def _one(
    software: Collectives, topology: Topology, kind: str, size: int, algorithm: str, group: tuple[int, ...] | None,
    chunks: int | None, called: Called,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """One collective: its facts, and where no algorithm is named what the others take."""
    from accelsim.cluster.collectives.choice import answer
    from accelsim.report import collectives as said

    found = answer(topology, software, kind, size, algorithm, group, chunks, called)
    others = [] if algorithm else said.alternatives(found, software, kind, size, group, chunks, called)
    facts = said.facts(found, software, called) | {"algorithms": others}
    return facts | {"said": said.sentences(found, software, called)}, others


def _picture(kind: str, topology: Topology, ranks: int, rows: list[dict[str, Any]]) -> Any:
    from accelsim.report.collective_plots import bus_bandwidths
    from accelsim.report.collectives import crossovers

    return bus_bandwidths(kind, topology.name, ranks, rows, crossovers(rows))


def _print(facts: dict[str, Any]) -> None:
    from accelsim.report.collectives import crossovers

    if "sweep" in facts:
        show(_sweep_table(facts["sweep"]))
        click.echo("\nbus bandwidth (GB/s) by size of the buffer")
        click.echo(paragraphs([crossovers(facts["sweep"])]))
    else:
        click.echo(paragraphs(facts["said"]))
        for table in (_links_table(facts["links"]), _algorithms_table(facts["algorithms"])):
            if table is not None:
                click.echo()
                show(table)
    if "astrasim" in facts:
        click.echo()
        click.echo(paragraphs([facts["astrasim"]["said"]]))
    if "routes" in facts:
        click.echo()
        show(_routes_table(facts["routes"]))


def _links_table(rows: list[dict[str, Any]]) -> Any:
    from accelsim.report.table import text_table
    from accelsim.report.text import percent, si

    cells = [
        (row["link"], f"{row['wires']:,}", si(row["rate_Bps"], "B/s"), si(row["most_B"], "B"), si(row["total_B"], "B"),
         percent(row["busy"]), si(row["energy_J"], "J"))
        for row in rows
    ]  # fmt: skip
    headers = ["link", "wires", "rate", "most on one", "all", "busy", "energy"]
    return text_table(headers, cells, width()) if rows else None


def _algorithms_table(rows: list[dict[str, Any]]) -> Any:
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    cells = [
        (row["algorithm"], si(row["time_s"], "s"), si(row["bus_Bps"], "B/s"), si(row["most_B"], "B"),
         si(row["energy_J"], "J"), row["about"])
        for row in rows
    ]  # fmt: skip
    headers = ["algorithm", "time", "bus bandwidth", "most on a wire", "energy", "how"]
    return text_table(headers, cells, width()) if rows else None


def _sweep_table(rows: list[dict[str, Any]]) -> Any:
    from accelsim.report.table import text_table
    from accelsim.report.text import si
    from accelsim.units import show as spelled

    names = sorted(dict.fromkeys(row["algorithm"] for row in rows))
    sizes = list(dict.fromkeys(row["size_B"] for row in rows))
    found = {(row["size_B"], row["algorithm"]): row["bus_Bps"] for row in rows}
    cells = [(name, *(si(_giga(found.get((size, name)))) for size in sizes)) for name in names]
    return text_table(["algorithm", *(spelled(size, "B", 4, binary=True) for size in sizes)], cells, width())


def _giga(value: float | None) -> float | None:
    return None if value is None else value * 1e-9


def _routes_table(rows: list[dict[str, Any]]) -> Any:
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    cells = [
        (row["from"], row["to"], ", ".join(row["over"]) or "no switch", ", ".join(dict.fromkeys(row["links"])),
         si(row["latency_s"], "s"), si(row["rate_Bps"], "B/s"))
        for row in rows
    ]  # fmt: skip
    return text_table(["from", "to", "over", "links", "latency", "slowest wire"], cells, width())
