"""A cluster as ASTRA-sim would be told of it: one dimension inside the nodes, one between them."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError
from accelsim.spec.cluster import ClusterSpec, Fabric
from tests.validation.astrasim_settings import Dimension

SHAPES = {"switch": "Switch", "leaf-spine": "Switch", "ring": "Ring", "fully-connected": "FullyConnected"}
"""Shape of a fabric -> of a dimension."""
USUAL = {"Switch": "halvingDoubling", "Ring": "ring", "FullyConnected": "direct"}
"""Shape of a dimension -> its algorithm where none is named."""
NAMED = {
    "ring": "ring", "rings": "ring", "direct": "direct", "halving_doubling": "halvingDoubling",
    "tree": "doubleBinaryTree",
}  # fmt: skip
"""Algorithm of this package -> what ASTRA-sim calls it."""
NS_PER_FS = 1e-6


def dimensions(cluster: ClusterSpec, topology: Topology, algorithm: str = "") -> list[Dimension]:
    """The dimensions of a cluster of equal nodes, all devices taking part. UsageError with what ASTRA-sim lacks."""
    counts = {topology.groups.count(group) for group in set(topology.groups)}
    node = next(iter(cluster.nodes.values()))
    fabrics = [*node.fabrics.values()][:1] if max(counts) > 1 else []
    network = cluster.networks.get(cluster.network_of(node))
    fabrics += [network] if network is not None and len(set(topology.groups)) > 1 else []
    problems = [
        Problem(f"a fabric of shape {each.shape!r}", cluster.name, f"one of {', '.join(SHAPES)} for ASTRA-sim")
        for each in fabrics
        if each.shape not in SHAPES
    ]
    if len(cluster.nodes) > 1 or len(counts) > 1 or cluster.wide_area is not None or not fabrics:
        problems.append(Problem("nodes that differ, several sites or a single device", cluster.name, "equal nodes"))
    if algorithm and algorithm not in NAMED:
        problems.append(Problem(f"{algorithm} by ASTRA-sim's conventions", "", f"one of {', '.join(NAMED)}"))
    if problems:
        raise UsageError(problems)
    pairs = zip(fabrics, _members(topology), strict=True)
    return [_dimension(topology, each, members, algorithm) for each, members in pairs]


def _members(topology: Topology) -> list[list[int]]:
    """The devices of the first node, and the first of each node; only where there are several."""
    inside = [rank for rank, group in enumerate(topology.groups) if group == topology.groups[0]]
    across = [topology.groups.index(group) for group in dict.fromkeys(topology.groups)]
    return [each for each in (inside, across) if len(each) > 1]


def _dimension(topology: Topology, fabric: Fabric, members: Sequence[int], algorithm: str) -> Dimension:
    """Latency of a hop: that of an empty message to the next over the hops that ASTRA-sim counts."""
    shape = SHAPES[fabric.shape]
    a, b = members[0], members[1]
    rate = min(topology.wires[wire].rate for wire in topology.route(a, b))
    hops = 2 if shape == "Switch" else 1
    latency_ns = topology.message_fs(a, b, 0) * NS_PER_FS / hops
    return Dimension(shape, len(members), float(rate) / 2**30, latency_ns, NAMED.get(algorithm, USUAL[shape]))
