"""Numbers and names of a cluster that must agree: a table of laws, each a function from a cluster to what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from accelsim.errors import SpecError, count_of, nearest
from accelsim.spec.cluster import ClusterSpec, Node, device_labels
from accelsim.spec.counts import MOST_DEVICES
from accelsim.spec.laws.fabric import cluster_link, fabric_findings, listed_parts, united
from accelsim.spec.laws.finding import Finding
from accelsim.spec.yaml import where
from accelsim.spec.yaml.tree import PathTo

Law = Callable[[ClusterSpec], Iterator[Finding]]
HUBS = ("switch", "leaf-spine")
"""Shapes of networks that have a switch to which a wide-area link can go."""


def not_too_large(cluster: ClusterSpec) -> Iterator[Finding]:
    """No more than ``MOST_DEVICES``."""
    if cluster.size > MOST_DEVICES:
        yield Finding(("nodes",), f"{cluster.size:,} devices", f"{MOST_DEVICES:,} at the most")


def chips_are_there(cluster: ClusterSpec) -> Iterator[Finding]:
    """Each chip is a name or a file that there is."""
    for kind, node in cluster.nodes.items():
        for name, each in node.devices.items():
            try:
                where.resolve(each.chip)
            except SpecError as error:
                found = error.problems[0]
                path = ("nodes", kind, "devices", name, "chip")
                yield Finding(path, found.what, found.expected, found.nearest)


def names_have_no_number(cluster: ClusterSpec) -> Iterator[Finding]:
    """Kinds of nodes and devices are numbered, so their names do not end in a digit, and no device is a card."""
    for kind, node in cluster.nodes.items():
        for path in (("nodes", kind), *(("nodes", kind, "devices", name) for name in node.devices)):
            if path[-1][-1].isdigit():
                what = f"{path[-1]!r} ends in a digit, and {path[-1]}0 is its first"
                yield Finding(path, what, "a name that a number may follow")
            if path[-1] == "nic":
                yield Finding(path, "'nic' is what a network card is called", "another name")


def networks_are_there(cluster: ClusterSpec) -> Iterator[Finding]:
    """A node is on a network that there is, says which of several, and a network has a node."""
    used = {cluster.network_of(node) for node in cluster.nodes.values()}
    for kind, node in cluster.nodes.items():
        path = ("nodes", kind)
        if node.network is not None and node.network not in cluster.networks:
            what, known = f"no network {node.network!r}", cluster.networks
            expected = f"one of {', '.join(known)}" if known else "networks: with it"
            yield Finding((*path, "network"), what, expected, nearest(node.network, known))
        if node.network is None and len(cluster.networks) > 1:
            yield Finding(path, "there are several networks", f"network: one of {', '.join(cluster.networks)}")
    for name in cluster.networks.keys() - used:
        yield Finding(("networks", name), "no node is on it", "a node with this network")


def cards_fit(cluster: ClusterSpec) -> Iterator[Finding]:
    """Devices share cards evenly, or each has as many; cards lead to a network, and shared ones over PCIe."""
    for kind, node in cluster.nodes.items():
        nics, path = node.nics, ("nodes", kind, "nics")
        if nics is None:
            continue
        if node.size % nics.count and nics.count % node.size:
            what = f"{count_of(nics.count, 'card')} for {count_of(node.size, 'device')}"
            yield Finding((*path, "count"), what, "as many for each device, or as many devices for each card")
        if nics.pcie is None and nics.count < node.size:
            yield Finding(path, "devices share a card, and nothing leads to it", "pcie: a link")
        if not cluster.networks:
            yield Finding(path, "cards without a network", "networks: with one")
        for name in ("link", "pcie"):
            link = getattr(nics, name)
            if link is not None:
                yield from cluster_link(link, (*path, name))


def fabrics_fit(cluster: ClusterSpec) -> Iterator[Finding]:
    """Each fabric has what its shape asks for, and as many ends."""
    for kind, node in cluster.nodes.items():
        for name, fabric in node.fabrics.items():
            yield from fabric_findings(fabric, device_labels(node), ("nodes", kind, "fabrics", name))
    for name, fabric in cluster.networks.items():
        if cluster.size <= MOST_DEVICES:
            yield from fabric_findings(fabric, network_ends(cluster, name), ("networks", name), alone=True)


def network_ends(cluster: ClusterSpec, network: str) -> list[str]:
    """Labels of what is on a network, in the order of ranks: cards with PCIe before them, else devices."""
    return [
        end
        for label, node in cluster.each_node()
        if cluster.network_of(node) == network
        for end in _node_ends(node, label)
    ]


def _node_ends(node: Node, label: str) -> list[str]:
    if node.nics is None or node.nics.pcie is None:
        return device_labels(node, label)
    return [f"{label}.nic{index}" for index in range(min(node.nics.count, node.size))]


def sites_are_joined(cluster: ClusterSpec) -> Iterator[Finding]:
    """A wide area joins two networks or more, each of which has a switch for it."""
    if cluster.wide_area is None:
        return
    if len(cluster.networks) < 2:
        yield Finding(("wide_area",), f"it joins {len(cluster.networks)} network", "networks: two or more")
    for name, fabric in cluster.networks.items():
        if fabric.shape not in HUBS:
            what = f"a {fabric.shape} has no switch that the wide area could be joined to"
            yield Finding(("networks", name, "shape"), what, " or ".join(HUBS))
    yield from fabric_findings(cluster.wide_area, list(cluster.networks), ("wide_area",))


def speeds_are_of_devices(cluster: ClusterSpec) -> Iterator[Finding]:
    """Each label in ``speeds`` is that of a device."""
    if not cluster.speeds or cluster.size > MOST_DEVICES:
        return
    labels = [each for label, node in cluster.each_node() for each in device_labels(node, label)]
    for label in cluster.speeds.keys() - set(labels):
        expected = f"{labels[0]} to {labels[-1]}"
        yield Finding(("speeds", label), f"no device {label!r}", expected, nearest(label, labels[:MOST_LABELS]))


MOST_LABELS = 256
"""Labels among which a misspelt one is looked for."""


def connected(cluster: ClusterSpec) -> Iterator[Finding]:
    """Check that a route leads from any device to any other; else name two that cannot reach each other."""
    for kind, node in cluster.nodes.items():
        parts = _parts_of(cluster, node)
        if len(parts) > 1:
            a, b = (f"{kind}0.{part[0]}" for part in parts[:2])
            yield Finding(("nodes", kind), f"no way leads from {a} to {b}", "a fabric or a network between them")
    nodes = list(cluster.each_node()) if cluster.size <= MOST_DEVICES else []
    lonely = [label for label, node in nodes if not cluster.network_of(node)]
    if lonely and len(nodes) > 1:
        yield _apart(("nodes",), *_two(nodes, lonely[0]), "networks: between the nodes")
    if len(cluster.networks) > 1 and cluster.wide_area is None and not lonely:
        first = nodes[0] if nodes else None
        far = next((each for each in nodes if cluster.network_of(each[1]) != cluster.network_of(nodes[0][1])), None)
        if first and far:
            yield _apart(("networks",), first, far, "wide_area: between the networks")


def _two(nodes: Sequence[tuple[str, Node]], lonely: str) -> tuple[tuple[str, Node], tuple[str, Node]]:
    """The lonely node and one that is not it, in the order of ranks."""
    alone = next(each for each in nodes if each[0] == lonely)
    other = next(each for each in nodes if each[0] != lonely)
    return (alone, other) if nodes.index(alone) < nodes.index(other) else (other, alone)


def _apart(path: PathTo, a: tuple[str, Node], b: tuple[str, Node], expected: str) -> Finding:
    """No way leads from the first device of one node to that of another."""
    one, other = (device_labels(node, label)[0] for label, node in (a, b))
    return Finding(path, f"no way leads from {one} to {other}", expected)


def _parts_of(cluster: ClusterSpec, node: Node) -> list[list[str]]:
    """Devices of a node in groups that reach each other, over its fabrics or its network."""
    labels = device_labels(node)
    if _outward(cluster, node):
        return [labels]
    joined = united(part for fabric in node.fabrics.values() for part in listed_parts(fabric, labels))
    reached = set().union(*joined)
    alone = [[label] for label in labels if label not in reached]
    return [[label for label in labels if label in group] for group in joined] + alone


def _outward(cluster: ClusterSpec, node: Node) -> bool:
    """Return whether devices of a node also reach each other over its network, which is built and joins all its
    ends."""
    network = cluster.networks.get(cluster.network_of(node))
    alike = sum(each.count for each in cluster.nodes.values() if cluster.network_of(each) == cluster.network_of(node))
    if network is None or (alike == 1 and cluster.wide_area is None):
        return False
    return network.shape not in ("list", "pairs")


LAWS: tuple[Law, ...] = (
    not_too_large, chips_are_there, names_have_no_number, networks_are_there, cards_fit, fabrics_fit,
    sites_are_joined, speeds_are_of_devices, connected,
)  # fmt: skip
"""Every law, in the order in which they are tried."""


def cluster_findings(cluster: ClusterSpec) -> Iterator[Finding]:
    """All that is wrong with a complete cluster."""
    for law in LAWS:
        yield from law(cluster)
