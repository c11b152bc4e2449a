"""Laws of one fabric: its shape, what it takes and needs, how many ends it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from accelsim.errors import count_of, nearest
from accelsim.spec.cluster import MOST_DIRECT, OPTIONAL, SHAPES, Fabric, bundled
from accelsim.spec.laws.finding import Finding
from accelsim.spec.laws.link import link_findings
from accelsim.spec.link import Link
from accelsim.spec.yaml.tree import PathTo

CUBE = 8
"""Devices of a hybrid cube mesh."""


def fabric_findings(fabric: Fabric, ends: Sequence[str], path: PathTo, alone: bool = False) -> Iterator[Finding]:
    """Yield what is wrong with a fabric of these ends; ``alone``: it may have a single one, for which nothing is
    built."""
    yield from _fields(fabric, path)
    yield from _links(fabric, path)
    check = ENDS.get(fabric.shape)
    if check is not None and not (alone and len(ends) == 1):
        yield from (each._replace(path=(*path, *each.path)) for each in check(fabric, ends))


def _fields(fabric: Fabric, path: PathTo) -> Iterator[Finding]:
    """A shape has its own fields and no other's."""
    shape = SHAPES[fabric.shape]
    for name in OPTIONAL:
        given = getattr(fabric, name)
        if name not in shape.takes and given != Fabric.model_fields[name].default and given != []:
            yield Finding(
                (*path, name), f"a {fabric.shape} has no {name}", f"without it, or a shape that has: {_with(name)}"
            )
        if name in shape.needs and given is None:
            yield Finding(path, f"a {fabric.shape} without {name}", str(Fabric.model_fields[name].description))


def _with(field: str) -> str:
    """Shapes that take a field."""
    return ", ".join(name for name, shape in SHAPES.items() if field in shape.takes)


def _links(fabric: Fabric, path: PathTo) -> Iterator[Finding]:
    """Links are full duplex, and their numbers agree."""
    stated: list[tuple[PathTo, Link | None]] = [
        ((*path, name), getattr(fabric, name)) for name in ("link", "uplink", "root_link")
    ]
    stated += [((*path, "along", index), link) for index, link in enumerate(fabric.along or ())]
    stated += [((*path, "wires", index, "link"), join.link) for index, join in enumerate(fabric.wires or ())]
    for place, link in stated:
        if link is not None:
            yield from cluster_link(link, place)


def cluster_link(link: Link, path: PathTo) -> Iterator[Finding]:
    """Yield what is wrong with a link of a cluster."""
    if not link.full_duplex:
        yield Finding((*path, "duplex"), "half duplex", "full: each direction is a wire")
    yield from (each._replace(path=(*path, *each.path)) for each in link_findings(link))


def _budget(fabric: Fabric, wires: int) -> Iterator[Finding]:
    """A device has no more links than its link bundles."""
    have = bundled(fabric.link)
    used = wires * (have if fabric.links is None else fabric.links)
    if have > 1 and used > have:
        each = "all" if fabric.links is None else str(fabric.links)
        what = f"{wires} wire{'s' if wires > 1 else ''} of {each} of the {have} links that a device has"
        yield Finding(("links",), what, f"{have // wires or 1} each at the most")


def _fully_connected(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    if len(ends) > MOST_DIRECT:
        yield Finding(("shape",), f"{len(ends):,} ends, each wired to each other", f"{MOST_DIRECT} at the most")
    yield from _budget(fabric, len(ends) - 1)


def _pairs(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    if len(ends) % 2:
        yield Finding(("shape",), f"{len(ends)} ends do not come in pairs", "an even number of them")
    yield from _budget(fabric, 1)


def _cube(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    if len(ends) != CUBE:
        yield Finding(("shape",), f"{len(ends)} ends in a hybrid cube mesh", f"{CUBE} of them")


def _torus(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    if fabric.dims is not None and prod(fabric.dims) != len(ends):
        shown = " x ".join(map(str, fabric.dims))
        yield Finding(
            ("dims",),
            f"{shown} are {count_of(prod(fabric.dims), 'place')} for {count_of(len(ends), 'device')}",
            f"{len(ends):,}",
        )
    if fabric.along is not None and len(fabric.along) != len(fabric.dims or ()):
        stated, dims = count_of(len(fabric.along), "link"), len(fabric.dims or ())
        yield Finding(("along",), f"{stated} for {count_of(dims, 'dimension')}", f"{dims}, one along each")
    for index, dimension in enumerate(fabric.open):
        if dimension >= len(fabric.dims or ()):
            yield Finding(("open", index), f"no dimension {dimension}", f"0 to {len(fabric.dims or ()) - 1}")
    yield from _budget(fabric, sum(min(2, size - 1) for size in fabric.dims or ()))


def _tree(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    parts = -(-len(ends) // fabric.members) if fabric.members else len(ends)
    if parts < fabric.roots:
        yield Finding(("roots",), f"{fabric.roots} root complexes for {parts} ports", "no more than there are ports")
    if fabric.roots > 1 and fabric.root_link is None:
        yield Finding(("roots",), "nothing joins the root complexes", "root_link: a link")


def _listed(fabric: Fabric, ends: Sequence[str]) -> Iterator[Finding]:
    known = [*ends, *fabric.switches]
    for switch in fabric.switches:
        if switch in ends:
            yield Finding(("switches",), f"{switch!r} is a device", "another name")
    for index, join in enumerate(fabric.wires or ()):
        for place, label in enumerate(join.ends):
            if label not in known:
                expected = ", ".join(known[:MOST_NAMED]) + (", ..." if len(known) > MOST_NAMED else "")
                where = ("wires", index, "ends", place)
                yield Finding(where, f"no device or switch {label!r}", expected, nearest(label, known))
        have, used = bundled(join.link or fabric.link), join.links or 1
        if have > 1 and used > have:
            yield Finding(("wires", index, "links"), f"{used} of {have} links", f"{have} at the most")


MOST_NAMED = 12
"""Ends that a message names."""
ENDS: dict[str, Callable[[Fabric, Sequence[str]], Iterator[Finding]]] = {
    "fully-connected": _fully_connected,
    "ring": lambda fabric, ends: _budget(fabric, min(2, len(ends) - 1)),
    "switch": lambda fabric, ends: _budget(fabric, 1),
    "pairs": _pairs,
    "hybrid-cube-mesh": _cube,
    "torus": _torus,
    "pcie-tree": _tree,
    "list": _listed,
}
"""Shape -> what its ends must be."""


def listed_parts(fabric: Fabric, ends: Sequence[str]) -> list[list[str]]:
    """Groups of ends that a fabric joins: all of them, pairs, or those of each listed wire with what it leads to."""
    if fabric.shape == "pairs":
        return [list(ends[index : index + 2]) for index in range(0, len(ends), 2)]
    if fabric.shape != "list":
        return [list(ends)]
    groups = united([set(join.ends) for join in fabric.wires or ()])
    return [[label for label in ends if label in group] for group in groups]


def united(groups: Iterable[Iterable[str]]) -> list[set[str]]:
    """Groups that share a member made one, in the order of their first members."""
    made: list[set[str]] = []
    for group in map(set, groups):
        touched = [each for each in made if not each.isdisjoint(group)]
        for each in touched[1:]:
            made.remove(each)
        if touched:
            touched[0].update(group, *touched[1:])
        else:
            made.append(group)
    return made
