"""``accelsim clusters``: what clusters there are, what one is made of, ways through it, its picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import counted, option
from accelsim.errors import Gather, Problem, UsageError, nearest
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.cluster.network.topology import Topology


@answers(
    "accelsim clusters",
    "accelsim clusters 4x-edu --set chip.count=6 --plot edu.svg",
    "accelsim clusters dgx1-v100 --routes node0.gpu0 node0.gpu7",
    "accelsim clusters 16x-dgx-a100 --json",
    outputs="csv plot json",
)
@click.argument("name", required=False)
@option("--set overrides", "Change a field. Repeatable.", multiple=True, metavar="PATH=VALUE")
@option("--routes", "Show the route from device A to device B (ranks or labels).", nargs=2, metavar="A B")
def clusters(gather: Gather, name: str | None, overrides: tuple[str, ...], routes: tuple[str, str] | None) -> Answer:
    """List the clusters that can follow --on beside chips, or show the parts of NAME.

    A number may stand before a name: 16x-dgx-a100 has sixteen nodes, 64x-tpu-v4-pod sixty-four devices. Bandwidths are
    payload of one direction.
    """
    if name is None:
        return _all(gather, overrides, routes)
    from accelsim.cluster.shapes.building import build
    from accelsim.report import clusters as said
    from accelsim.spec.yaml.clusters import load_cluster

    cluster = gather.read(lambda: load_cluster(name, overrides))
    topology = build(cluster)
    return said.way(topology, *_ranks(topology, routes)) if routes else said.made_of(cluster, topology)


def _all(gather: Gather, overrides: tuple[str, ...], routes: object) -> Answer:
    """Every cluster; UsageError for options that are about one."""
    from accelsim.report import clusters as said
    from accelsim.spec.yaml.where import listing

    plot = click.get_current_context().params["plot"]
    about = (("--set", overrides), ("--routes", routes), ("--plot", plot))
    given = [option for option, value in about if value]
    with gather.also():
        if given:
            raise UsageError(Problem("it is about one cluster", option, "the name of a cluster") for option in given)
    gather.done()
    return said.clusters(listing("clusters", _every_row))


def _every_row() -> list[dict[str, Any]]:
    """Return a row for JSON of every cluster."""
    from accelsim.cluster.shapes.facts import facts
    from accelsim.report.clusters import record
    from accelsim.spec.yaml.clusters import clusters as names
    from accelsim.spec.yaml.clusters import load_cluster

    return [record(facts(load_cluster(name))) for name in counted(names(), str)]


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
