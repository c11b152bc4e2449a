"""A processor that runs one command at a time, each for a time of its own, and the lowering of its nodes."""

from __future__ import annotations

from typing import cast

from accelsim.engines.base import Lowering, Reason
from accelsim.engines.clocked import Unclocked
from accelsim.engines.device import Activity, Device, Yields, activities
from accelsim.errors import ModelError
from accelsim.program.actions import HOST_OP, READ, WRITE, Action
from accelsim.program.commands import OUTSIDE, Command, Effect
from accelsim.program.roles import HOST, HOST_OWN_MEMORY
from accelsim.program.work import Duration
from accelsim.program.writing.layout import Layout, Place
from accelsim.spec.chip import Processor
from accelsim.time import FS_PER_S
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import node_work


class Cpu(Unclocked):
    """The host of a chip, or the chip itself."""

    type = "cpu"
    asks_spaces = True
    rank = 3
    reasons = (Reason("host", "host", "the host", "host", "#f0e442", "xxxx"),)
    pieces = (("host", "the host works"),)
    hue = "yellow"

    def lower(self, lowering: Lowering) -> None:
        """Write transfers of operands to its memory, and one command. Raises ModelError on a chip without a host."""
        lower_host(lowering.layout, lowering.index, lowering.node)

    def carry_out(self, device: Device, command: Command) -> Yields[tuple[int, int]]:
        """Work for the stated time."""
        yield from ()
        start = int(device.env.now)
        device.begin(command, start)
        return start, start + cast(Duration, command.work).fs

    def activities(self, command: Command) -> tuple[Activity, ...]:
        """Return the work of the host."""
        return activities(("host",), "host")


ENGINE = Cpu()


def lower_host(layout: Layout, op: int, node: Node) -> None:
    """Move operands to the host's memory, compute the node there. Raises ModelError on a chip without a host."""
    roles, graph = layout.roles, layout.graph
    home = roles.host_home
    if node.attrs.get(OUTSIDE) and (state := _state_of(layout, node)):
        home = layout.facts.state_home(state)
    sources = [(name, _at_home(layout, op, node, name, home)) for name in layout.facts.activations(node)]
    outs = graph.outs(node)
    read_B = sum(tensor.nbytes for tensor in graph.ins(node))
    write_B = sum(tensor.nbytes for tensor in outs)
    targets = []
    for tensor in outs:
        region = layout.off_chip(home, tensor.name, layout.facts.room_B(tensor))
        layout.places[tensor.name] = Place(home=region)
        targets.append((region, "whole"))
    work = node_work(graph, node)
    actions = [
        Action(HOST, HOST_OP, "", 2 * work.macs + work.ops),
        Action(HOST_OWN_MEMORY, READ, "", read_B),
        Action(HOST_OWN_MEMORY, WRITE, "", write_B),
    ]
    effect = Effect("node", operands=tuple(sources), last=True)
    if node.attrs.get(OUTSIDE):
        layout.builder.engines.setdefault(HOST, "cpu")  # of a chip without one, somebody else's
        duration, actions = Duration(0), []
    else:
        duration = Duration(host_fs(roles.chip.host, graph, node, read_B + write_B))
    layout.builder.emit("Host", HOST, op, node.name, duration, effect, [(r, "src") for _, r in sources], targets,
                        [action for action in actions if action.count])  # fmt: skip


def _state_of(layout: Layout, node: Node) -> str:
    """The next value of the state that a conversion before or after the run makes codes or numbers, '' for no state."""
    graph = layout.graph
    return graph.states.get(node.outputs[0]) or (node.inputs[0] if node.inputs[0] in layout.facts.staying else "")


def _at_home(layout: Layout, op: int, node: Node, tensor: str, home: str) -> int:
    """Return the place from which a host node reads a tensor. States stay in place before and after the run."""
    place = layout.place(tensor)
    if node.attrs.get(OUTSIDE):
        if place.home is not None and _state_of(layout, node):
            return place.home
        op = layout.makers.get(tensor, op)  # who made a result also stores it
    return layout.store_whole(op, tensor, home)


def host_fs(host: Processor | None, graph: Graph, node: Node, moved_B: int) -> int:
    """Return the time of a node on the host processor, fs: dispatch plus the larger of arithmetic and memory traffic.

    Raises ModelError when the chip has no host.
    """
    if host is None:
        raise ModelError(f"{node.op} must run on a host processor and the chip has none", node.name)
    work = node_work(graph, node)
    fmt = graph.tensors[node.writes[0]].dtype
    peak = host.peak.get(fmt, host.peak.get("fp32", next(iter(host.peak.values()))))
    arithmetic = (2 * work.macs + work.ops) / (peak * host.efficiency)
    memory = moved_B / host.memory.rate_Bps
    return round((host.overhead + max(arithmetic, memory)) * FS_PER_S)
