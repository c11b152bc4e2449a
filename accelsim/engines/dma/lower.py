"""Lowering of what grows in place: new rows behind those that are there."""

from __future__ import annotations

from accelsim.engines.cpu.lower import host_fs
from accelsim.program.actions import WAYS, Action
from accelsim.program.commands import Effect
from accelsim.program.roles import HOST, HOST_OWN_MEMORY
from accelsim.program.work import Duration
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Node


def lower_append(layout: Layout, op: int, node: Node) -> None:
    """New rows go into the memory of their state, behind those that are there, and nothing else moves.

    On a chip whose state lies in the memory of a plain host the host copies them.
    """
    graph, builder = layout.graph, layout.builder
    (past, name), out = node.inputs, node.writes[0]
    home, new = layout.place(past).home, graph.tensors[name]
    assert home is not None
    memory = builder.regions[home].memory
    if memory in layout.roles.chip.memories:
        source = layout.source(op, name)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        layout.transfers.store(op, source, home, out, new.nbytes, effect)
    else:
        source = layout.store_whole(op, name, memory)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        fs = host_fs(layout.roles.chip.host, graph, node, 2 * new.nbytes)
        actions = [Action(HOST_OWN_MEMORY, way, out, new.nbytes) for way in WAYS]
        builder.emit("Host", HOST, op, node.name, Duration(fs), effect, [(source, "src")], [(home, "whole")], actions)
    layout.places[out] = Place(home=home)
