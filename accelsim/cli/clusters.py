"""``accelsim clusters``: what clusters there are, what one is made of, ways through it, its picture."""

from __future__ import annotations

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import counted, option, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim clusters",
    "accelsim clusters 4x-edu --set chip.count=6 --plot edu.svg",
    "accelsim clusters dgx1-v100 --routes node0.gpu0 node0.gpu7",
    "accelsim clusters 16x-dgx-a100 --json",
    outputs="csv plot json",
)
@click.argument("name", required=False)
@set_option()
@option("--routes", "Show the route from device A to device B (ranks or labels).", nargs=2, metavar="A B")
def clusters(gather: Gather, name: str | None, overrides: tuple[str, ...], routes: tuple[str, str] | None) -> Answer:
    """List the clusters that can follow --on beside chips, or show the parts of NAME.

    A number may stand before a name: 16x-dgx-a100 has sixteen nodes, 64x-tpu-v4-pod sixty-four devices. Bandwidths are
    payload of one direction.
    """
    from accelsim.report import clusters as said
    from accelsim.spec.yaml.clusters import load_cluster

    if name is not None:
        cluster = gather.read(lambda: load_cluster(name, overrides))
        return said.way(cluster, routes) if routes else said.made_of(cluster)
    plot = click.get_current_context().params["plot"]
    for named, given in (("--set", overrides), ("--routes", routes), ("--plot", plot)):
        gather.refuse(given, "it is about one cluster", named, "the name of a cluster")
    gather.done()
    return said.clusters(lambda names: counted(names, str))
