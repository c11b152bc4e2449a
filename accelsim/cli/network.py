"""``accelsim link`` and ``accelsim noc``: what a link makes of its bandwidth, what a network on a chip can carry."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    OUT,
    byte_sizes,
    check_folder,
    check_outputs,
    csv_option,
    example,
    json_option,
    plot_option,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, count_of

if TYPE_CHECKING:
    from accelsim.network.noc.sweep import Sweep
    from accelsim.spec.link import Link
    from accelsim.spec.network import Noc

SIZES = tuple(4**power for power in range(3, 15))
"""Transfer sizes of the table, B: 64 B to 256 MiB."""

PLOTTED = tuple(2**power for power in range(6, 29))


def _sizes(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    return byte_sizes(texts)


@click.command(epilog=example(
    "accelsim link pcie-gen4-x16",
    "accelsim link pcie-gen4-x16 --set pcie.tags=32 --size '4 KiB' --size '1 MiB'",
    "accelsim link nvlink-gen3 --out reports/nvlink",
))  # fmt: skip
@click.argument("name", metavar="LINK")
@click.option(
    "--size", "sizes", multiple=True, callback=_sizes, help="Size of a transfer: '4 KiB'. Repeatable."
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@click.option("--out", type=OUT, help="Directory for the table and the plot.")
@csv_option
@plot_option
@json_option
def link(
    name: str, sizes: tuple[int, ...], overrides: tuple[str, ...], out: Path | None, table: Path | None,
    plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Time and bandwidth of transfers over LINK (a name or a YAML file), by their size.

    Back to back: a stream of transfers of one size. Alone: one transfer, latency included.
    """
    from accelsim.spec.link import Link as Model
    from accelsim.spec.yaml.parts import load_part

    made: Link = _checked(out, plot, table, lambda: load_part(name, "links", Model, overrides))
    rows = [_link_row(made, size) for size in sizes or SIZES]
    facts = _link_facts(name, made) | {"transfers": rows}
    if out is not None:
        _save(out, facts, {"rates": lambda: _link_plot(name, made)})
    save_csv(table, rows)
    save_plot(plot, lambda: _link_plot(name, made))
    if as_json:
        show_json(facts)
        return
    _print_link(name, made, rows)


def _checked(out: Path | None, plot: Path | None, table: Path | None, read: Callable[[], Any]) -> Any:
    """Return what ``read`` gives; its problems and those of the directory ``out`` and both files at once."""
    from accelsim.request.job import Gather

    gather, made = Gather(), []
    with gather.also():
        made.append(read())
    with gather.also():
        check_folder(out)
    with gather.also():
        check_outputs(plot, table)
    gather.done()
    return made[0]


def _link_row(made: Link, size: int) -> dict[str, Any]:
    from accelsim.network.link import effective_Bps, transfer
    from accelsim.time import FS_PER_S

    row: dict[str, Any] = {"size_B": size}
    for write, way in ((False, "read"), (True, "write")):
        time = transfer(made, size, write)
        row |= {
            f"{way}_wire_B": time.wire_B,
            f"{way}_Bps": effective_Bps(made, size, write),
            f"{way}_alone_Bps": effective_Bps(made, size, write, alone=True),
            f"{way}_s": time.total_fs / FS_PER_S,
        }
    return row | {"energy_J": size * made.energy}


def _link_facts(name: str, made: Link) -> dict[str, Any]:
    from accelsim.network.link import framing, half_size_B

    return {
        "link": name, "kind": made.kind, "payload_Bps": made.bandwidth, "latency_s": made.latency,
        "wire_Bps": float(framing(made, True).wire_Bps), "half_rate_from_B": half_size_B(made, False),
        "energy_J_per_B": made.energy, "energy_status": made.energy_status,
    }  # fmt: skip


def _print_link(name: str, made: Link, rows: list[dict[str, Any]]) -> None:
    from accelsim.report.table import text_table
    from accelsim.report.text import si
    from accelsim.units import show as spelled

    facts = _link_facts(name, made)
    click.echo(
        f"{name}: {si(facts['wire_Bps'], 'B/s', 4)} each way for packets, at most {si(made.bandwidth, 'B/s', 4)} of it "
        f"for data; latency {si(made.latency, 's')}, {si(made.energy / 8, 'J')}/bit ({made.energy_status or 'guess'})"
    )
    headers = [
        "transfer",
        "read",
        "write",
        "read alone",
        "write alone",
        "time of a read",
        "time of a write",
        "energy",
    ]
    cells = [
        (spelled(row["size_B"], "B", 4, binary=True), si(row["read_Bps"], "B/s"), si(row["write_Bps"], "B/s"),
         si(row["read_alone_Bps"], "B/s"), si(row["write_alone_Bps"], "B/s"), si(row["read_s"], "s"),
         si(row["write_s"], "s"), si(row["energy_J"], "J"))
        for row in rows
    ]  # fmt: skip
    show(text_table(headers, cells, width()))


def _link_plot(name: str, made: Link) -> Any:
    from accelsim.report.network_plots import link_rates

    return link_rates(name, made, PLOTTED)


def _save(out: Path, facts: dict[str, Any], plots: dict[str, Any]) -> None:
    """The figures as JSON and each plot as PNG and SVG in ``out``."""
    from accelsim.files import text, write_folder
    from accelsim.report.dram_files import pictures

    drawn = pictures({name: draw() for name, draw in plots.items()})
    write_folder(out, {"figures.json": text(json.dumps(facts, indent=2) + "\n"), **drawn})


@click.command(epilog=example(
    "accelsim noc mesh-8x8 --traffic uniform",
    "accelsim noc torus 8 8 --traffic transpose --packet-flits 4 --out reports/torus",
    "accelsim noc fat-tree 4 3 --load 0.1 --load 0.5",
))  # fmt: skip
@click.argument("name", metavar="NAME|TOPOLOGY")
@click.argument("shape", nargs=-1, type=click.IntRange(1), metavar="[SIZE]...")
@click.option("--traffic", "pattern", default="uniform", show_default=True,
              help="uniform, transpose, neighbour, hotspot or bit-complement.")  # fmt: skip
@click.option("--load", "loads", multiple=True, type=float,
              help="Offered load, flits per clock and node. Repeatable; without: a sweep up to the bound.")  # fmt: skip
@click.option(
    "--packet-flits", type=click.IntRange(1), default=1, show_default=True, help="Flits of a packet."
)
@click.option(
    "--clocks",
    type=click.IntRange(100, 10_000_000),
    default=2000,
    show_default=True,
    help="Clocks of a simulation.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the packets.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field. Repeatable.")
@click.option("--out", type=OUT, help="Directory for the figures and the plots.")
@csv_option
@plot_option
@json_option
def noc(
    name: str, shape: tuple[int, ...], pattern: str, loads: tuple[float, ...], packet_flits: int, clocks: int | None,
    seed: int, overrides: tuple[str, ...], out: Path | None,
    table: Path | None, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Latency and throughput of a network on a chip under a traffic pattern.

    A NAME or YAML file of a network, or a TOPOLOGY (bus, crossbar, ring, mesh, torus, tree, fat-tree) with its SIZE:
    nodes, columns and rows, or arity and levels.
    """
    from accelsim.network.noc.sweep import sweep

    made: Noc = _checked(out, plot, table, lambda: _noc(name, shape, overrides))
    with progress(1) as stage:
        found = sweep(
            made, pattern, packet_flits, loads, clocks, seed, lambda share: stage("simulate", share)
        )
    facts = _noc_facts(name, found)
    if out is not None or plot is not None:
        from accelsim.report.network_plots import channel_loads, load_latency

        if out is not None:
            _save(
                out, facts, {"latency": lambda: load_latency(found), "channels": lambda: channel_loads(found)}
            )
        save_plot(plot, lambda: load_latency(found))
    save_csv(table, facts["points"])
    if as_json:
        show_json(facts)
        return
    _print_noc(facts)


EXAMPLE = "mesh-4x4"
"""The network whose clock, flits, routers and wires a bare topology takes."""


def _noc(name: str, shape: tuple[int, ...], overrides: tuple[str, ...]) -> Noc:
    """A network by name or file, or a topology and shape with the routers of ``EXAMPLE``."""
    from accelsim.network.noc.topology import TOPOLOGIES
    from accelsim.spec.network import SHAPES, Noc
    from accelsim.spec.yaml.parts import load_part

    if name not in TOPOLOGIES:
        if shape:
            raise UsageError(
                Problem(f"a size beside {name!r}", expected="a topology: " + ", ".join(TOPOLOGIES))
            )
        return load_part(name, "networks", Noc, overrides)
    if len(shape) != len(SHAPES[name]):
        wanted = " and ".join(SHAPES[name])
        raise UsageError(Problem(f"{name} with {len(shape)} sizes", expected=wanted))
    chosen = (f"topology={name}", f"shape={list(shape)}")
    return load_part(EXAMPLE, "networks", Noc, (*chosen, *overrides))


def _noc_facts(name: str, found: Sweep) -> dict[str, Any]:
    from accelsim.network.noc.energy import traffic_J_per_bit

    node_Bps = found.bound * found.noc.flit * float(found.noc.clock)
    return {
        "network": name, "topology": found.network.name, "shape": list(found.network.shape),
        "nodes": found.network.nodes, "links": len(found.network.links), "traffic": found.pattern,
        "packet_flits": found.packet_flits, "mean_links": found.mean_hops, "zero_load_clocks": found.zero_load,
        "zero_load_s": found.zero_load / float(found.noc.clock), "bound_flits": found.bound, "bound_Bps": node_Bps,
        "energy_J_per_bit": traffic_J_per_bit(found.noc, found.network, found.traffic),
        "points": [
            {"load": each.load, "latency_clocks": _finite(each.latency), "estimate_clocks": _finite(estimate),
             "accepted_mean": float(each.accepted.mean()), "accepted_least": float(each.accepted.min()),
             "packets": each.packets}
            for each, estimate in zip(found.measured, found.estimated, strict=True)
        ],
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _print_noc(facts: dict[str, Any]) -> None:
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    size = " x ".join(map(str, facts["shape"]))
    click.echo(
        f"{facts['topology']} {size}: {count_of(facts['nodes'], 'node')}, {count_of(facts['links'], 'link')}; "
        f"{facts['traffic']} traffic, packets of {count_of(facts['packet_flits'], 'flit')}\n"
        f"empty network {facts['zero_load_clocks']:.2f} clocks ({si(facts['zero_load_s'], 's')}), "
        f"{facts['mean_links']:.2f} links on average, {si(facts['energy_J_per_bit'], 'J')}/bit\n"
        f"bound {facts['bound_flits']:.4g} flit{'s' * (facts['bound_flits'] != 1)} per clock and node "
        f"({si(facts['bound_Bps'], 'B/s')} each)"
    )
    headers = ["load", "packets", "latency", "formula", "accepted", "least of a node"]
    cells = [
        (f"{row['load']:.4g}", f"{row['packets']:,}", _clocks(row["latency_clocks"], row["packets"]),
         _clocks(row["estimate_clocks"]), f"{row['accepted_mean']:.3f}", f"{row['accepted_least']:.3f}")
        for row in facts["points"]
    ]  # fmt: skip
    show(text_table(headers, cells, width()))
    click.echo("\nload, accepted: flits per clock and node; packets: those whose latency was measured")
    if not all(row["packets"] for row in facts["points"]):
        click.echo(
            "no packet: none was sent while it was measured; more --clocks, or a higher load, would help"
        )


def _clocks(value: float | None, packets: int = 1) -> str:
    """A latency, or why there is none."""
    if value is None:
        return "saturated" if packets else "no packet"
    return f"{value:.2f} clocks"
