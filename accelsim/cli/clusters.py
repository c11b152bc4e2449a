"""``accelsim clusters``: what clusters there are, what one is made of, ways through it, its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_outputs,
    counted,
    csv_option,
    example,
    flat,
    json_option,
    plot_option,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, count_of, nearest

if TYPE_CHECKING:
    from accelsim.cluster.network.topology import Topology
    from accelsim.cluster.shapes.facts import Facts
    from accelsim.spec.cluster import ClusterSpec

COLUMNS = (
    "cluster",
    "nodes x devices",
    "chip",
    "inside a node",
    "between nodes",
    "per device: inside",
    "between",
)
WIRES = ("link", "wires", "rate", "latency", "energy")
HOPS = ("from", "to", "link", "rate", "latency")
PROBE_B = 1 << 20
"""Bytes of the message whose time is told of a way."""


@click.command(
    epilog=example(
        "accelsim clusters",
        "accelsim clusters 4x-edu --set chip.count=6 --plot edu.svg",
        "accelsim clusters dgx1-v100 --routes node0.gpu0 node0.gpu7",
        "accelsim clusters 16x-dgx-a100 --json",
    )
)
@click.argument("name", required=False)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@click.option(
    "--routes", nargs=2, metavar="A B", help="Show the route from device A to device B (ranks or labels)."
)
@csv_option
@plot_option
@json_option
def clusters(name: str | None, overrides: tuple[str, ...], routes: tuple[str, str] | None,
             table: Path | None, plot: Path | None, as_json: bool) -> None:  # fmt: skip
    """List the clusters that can follow --on beside chips, or show the parts of NAME.

    A number may stand before a name: 16x-dgx-a100 has sixteen nodes, 64x-tpu-v4-pod sixty-four devices. Bandwidths are
    payload of one direction.
    """
    check_outputs(plot, table)
    if name is None:
        _refuse_without_name(overrides, routes, plot)
        _list(table, as_json)
        return
    _one(name, overrides, routes, table, plot, as_json)


def _refuse_without_name(overrides: tuple[str, ...], routes: object, plot: object) -> None:
    given = [
        option for option, value in (("--set", overrides), ("--routes", routes), ("--plot", plot)) if value
    ]
    if given:
        raise UsageError(
            [Problem("it is about one cluster", option, "the name of a cluster") for option in given]
        )


def _list(table: Path | None, as_json: bool) -> None:
    """All clusters as a table."""
    from accelsim.report.table import text_table
    from accelsim.spec.yaml.where import listing

    rows = listing("clusters", _every_row)
    save_csv(table, [flat(row) for row in rows])
    if as_json:
        show_json(rows)
    else:
        show(text_table(list(COLUMNS), [_cells(row) for row in rows], width()))


def _every_row() -> list[dict[str, Any]]:
    """Return a row for JSON of every cluster."""
    from accelsim.cluster.shapes.facts import facts
    from accelsim.spec.yaml.clusters import clusters as names
    from accelsim.spec.yaml.clusters import load_cluster

    return [_row(facts(load_cluster(name))) for name in counted(names(), str)]


def _row(found: Facts) -> dict[str, Any]:
    """A row for JSON; units at the end of the keys."""
    return {
        "name": found.name, "title": found.title, "nodes": found.nodes, "devices": found.devices,
        "chips": [f"{count}x {chip}" for chip, count in found.chips.items()], "fabrics": list(found.fabrics),
        "networks": list(found.networks), "inside_Bps": float(found.inside_Bps),
        "between_Bps": float(found.between_Bps), "software": found.software,
    }  # fmt: skip


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """The same row for a person."""
    from accelsim.report.text import MISSING, si

    nodes, devices = row["nodes"], row["devices"]
    each, rest = divmod(devices, nodes)
    size = f"{nodes} x {each}" if not rest else f"{nodes}, {devices} devices"
    rates = [si(row[key], "B/s") if row[key] else MISSING for key in ("inside_Bps", "between_Bps")]
    chips = ", ".join(chip.partition(" ")[2] for chip in row["chips"])
    shapes = (", ".join(row[key]) or MISSING for key in ("fabrics", "networks"))
    return row["name"], size, chips, *shapes, *rates


def _one(name: str, overrides: tuple[str, ...], routes: tuple[str, str] | None,
         table: Path | None, plot: Path | None, as_json: bool) -> None:  # fmt: skip
    """One cluster: its row, its wires, or a way through it."""
    from accelsim.cluster.shapes.building import build
    from accelsim.spec.yaml.clusters import load_cluster

    cluster = load_cluster(name, overrides)
    topology = build(cluster)
    told = _way(topology, routes) if routes else _made_of(cluster, topology)
    rows = told["hops"] if routes else told["wires"]
    save_csv(table, rows)
    save_plot(plot, lambda: _picture(topology))
    if as_json:
        show_json(told)
    elif routes:
        _tell_way(told)
    else:
        _tell(told)


def _picture(topology: Topology) -> Any:
    from accelsim.report.cluster.topology import draw

    return draw(topology)


def _made_of(cluster: ClusterSpec, topology: Topology) -> dict[str, Any]:
    """The row of a cluster, its bisection and its sorts of wires."""
    from accelsim.cluster.shapes.facts import bisection_Bps, facts
    from accelsim.report.cluster.topology import others_text
    from accelsim.time import FS_PER_S

    sorts: dict[tuple[Any, ...], int] = {}
    for wire in topology.wires:
        key = (wire.link, wire.rate, wire.latency_fs, wire.energy_J_per_B)
        sorts[key] = sorts.get(key, 0) + 1
    wires = [
        {
            "link": link,
            "wires": count,
            "rate_Bps": float(rate),
            "latency_s": fs / FS_PER_S,
            "energy_J_per_B": energy,
        }
        for (link, rate, fs, energy), count in sorts.items()
    ]
    return {
        **_row(facts(cluster)), "vertices": len(topology.labels), "besides": others_text(topology),
        "bisection_Bps": float(bisection_Bps(topology)), "forwarding": topology.forwarding, "wires": wires,
    }  # fmt: skip


def _tell(told: dict[str, Any]) -> None:
    """Return what a cluster is made of, for a person."""
    from accelsim.report.table import text_table
    from accelsim.report.text import MISSING, si

    inside, between, cut = (
        si(told[key] or None, "B/s") for key in ("inside_Bps", "between_Bps", "bisection_Bps")
    )
    click.echo(f"{told['name']}: {told['title']}")
    click.echo(
        f"{count_of(told['nodes'], 'node')}, {count_of(told['devices'], 'device')} ({', '.join(told['chips'])}), "
        f"{told['besides']}, {told['forwarding']}"
    )
    click.echo(f"each device: {inside} inside its node, {between} to other nodes; bisection {cut}")
    click.echo(f"software of collectives: {told['software']}")
    rows = [
        (row["link"], str(row["wires"]), si(row["rate_Bps"], "B/s"), si(row["latency_s"], "s") if row["latency_s"]
         else MISSING, f"{row['energy_J_per_B'] * 1e12:.3g} pJ/B")
        for row in told["wires"]
    ]  # fmt: skip
    show(text_table(list(WIRES), rows, width()))


def _way(topology: Topology, routes: tuple[str, str]) -> dict[str, Any]:
    """The wires from one device to another, and what a mebibyte takes on them."""
    from accelsim.time import FS_PER_S

    a, b = _ranks(topology, routes)
    hops = [
        {"from": topology.labels[wire.source], "to": topology.labels[wire.target], "link": wire.link,
         "rate_Bps": float(wire.rate), "latency_s": wire.latency_fs / FS_PER_S}
        for wire in (topology.wires[number] for number in topology.route(a, b))
    ]  # fmt: skip
    time_s = topology.message_fs(a, b, PROBE_B) / FS_PER_S
    return {
        "from": topology.labels[a],
        "to": topology.labels[b],
        "hops": hops,
        "bytes": PROBE_B,
        "time_s": time_s,
    }


def _ranks(topology: Topology, texts: Sequence[str]) -> list[int]:
    """Devices by rank or label. UsageError with the nearest label, for all of them at once."""
    devices = topology.labels[: topology.ranks]
    known = {str(rank): rank for rank in range(topology.ranks)} | {name: r for r, name in enumerate(devices)}
    expected = f"0 to {topology.ranks - 1}, or {devices[0]} to {devices[-1]}"
    problems = [
        Problem(f"no device {text!r}", "--routes", expected, nearest(text, devices))
        for text in texts
        if text not in known
    ]
    if problems:
        raise UsageError(problems)
    return [known[text] for text in texts]


def _tell_way(told: dict[str, Any]) -> None:
    """A way, for a person."""
    from accelsim.report.table import text_table
    from accelsim.report.text import MISSING, si

    rows = [
        (hop["from"], hop["to"], hop["link"], si(hop["rate_Bps"], "B/s"),
         si(hop["latency_s"], "s") if hop["latency_s"] else MISSING)
        for hop in told["hops"]
    ]  # fmt: skip
    show(text_table(list(HOPS), rows, width()))
    click.echo(
        f"{told['from']} to {told['to']}: {count_of(len(rows), 'wire')}; 1 MiB alone takes {si(told['time_s'], 's')}"
    )
