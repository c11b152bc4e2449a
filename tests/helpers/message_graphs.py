"""Graphs of messages made by hand, or of several others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.algorithms import algorithm as named
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.collectives.timing import collective
from accelsim.cluster.network.play import MessageGraph, starts
from accelsim.cluster.network.topology import Topology


def plain_messages(
    source: Sequence[int], target: Sequence[int], nbytes: Sequence[int],
    needs: Sequence[Sequence[int]] = (),
) -> MessageGraph:  # fmt: skip
    """Messages that carry no elements, from lists; ``needs``: for each message those before it, none without."""
    after = needs or [()] * len(source)
    count = np.array([len(each) for each in after], np.int64)
    none = np.zeros(len(source), np.int64)
    return MessageGraph(
        np.array(source, np.int64), np.array(target, np.int64), np.array(nbytes, np.int64),
        starts(count), np.array([number for each in after for number in each], np.int64),
        none, none, none, none.astype(bool), np.arange(len(source), dtype=np.int64),
    )  # fmt: skip


def side_by_side(graphs: Sequence[MessageGraph]) -> MessageGraph:
    """Several graphs as one, none waiting for another; rounds of the same number at once."""
    sizes = [len(graph) for graph in graphs]
    shifts = np.cumsum([0, *sizes])[:-1]
    counts = np.concatenate([np.diff(graph.needs_start) for graph in graphs])
    needs = np.concatenate([graph.needs + shift for graph, shift in zip(graphs, shifts, strict=True)])
    columns = {
        name: np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("source", "target", "nbytes", "begin", "end", "into", "reduces", "round")
    }
    return MessageGraph(**columns, needs_start=starts(counts), needs=needs)


def message_graph(
    topology: Topology, kind: str, nbytes: int, algorithm: str, group: Sequence[int], chunks: int | None = None
) -> MessageGraph:
    """The messages of a collective between devices of a topology, as ``collective`` plays them."""
    members = tuple(group)
    count = chunks or collective(topology, kind, nbytes, algorithm, members).chunks
    who = Members(len(members), tuple(topology.groups[rank] for rank in members))
    return messages(named(algorithm, kind).rounds(kind, who, count), nbytes).on(members)
