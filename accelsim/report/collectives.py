"""Report on a collective: figures by kind of link, sentences, a table of algorithms, sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from accelsim.cluster.collectives.base import KINDS
from accelsim.cluster.collectives.choice import IN_GRAPH, LIBRARY, Asked, Called, library_of
from accelsim.cluster.collectives.figures import SWEPT_B, alternatives, links, parsed_group, routes, sweep
from accelsim.cluster.collectives.timing import CollectiveTime
from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.errors import Gather, count_of, known
from accelsim.formats.table import get
from accelsim.report.answer import Answer, Field, Lines, Part, Table, binary, in_unit
from accelsim.report.picture import Axis, Panel, Picture, line
from accelsim.report.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION
from accelsim.report.text import Facts, ends_text, percent, si
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.collectives import Collectives
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.units import byte_sizes

DEFAULT_B = 64 * 2**20
"""Size where none is given, bytes."""
MOST_ROUTES = 64
"""Routes that are listed at most."""
BINDS = 0.5
"""Share of the time from which on a wire is said to bind."""


LINKS = (
    Field("link", "link"),
    Field("wires", "wires", "{:,}".format),
    Field("rate_Bps", "rate", in_unit("B/s")),
    Field("most_B", "most on one", in_unit("B")),
    Field("total_B", "all", in_unit("B")),
    Field("busy", "busy", percent),
    Field("energy_J", "energy", in_unit("J")),
)
ALGORITHMS = (
    Field("algorithm", "algorithm"),
    Field("time_s", "time", in_unit("s")),
    Field("bus_Bps", "bus bandwidth", in_unit("B/s")),
    Field("most_B", "most on a wire", in_unit("B")),
    Field("energy_J", "energy", in_unit("J")),
    Field("about", "how"),
)
ROUTES = (
    Field("from", "from"),
    Field("to", "to"),
    Field("over", "over", lambda over: ", ".join(over) or "no switch"),
    Field("links", "links", lambda links: ", ".join(dict.fromkeys(links))),
    Field("latency_s", "latency", in_unit("s")),
    Field("rate_Bps", "slowest wire", in_unit("B/s")),
)


def collective(
    gather: Gather,
    kind: str,
    *,
    cluster: str,
    overrides: Sequence[str] = (),
    texts: Sequence[str] = (),
    algorithm: str = "",
    library: str = "",
    caller: str = "graph",
    dtype: str = "",
    devices: str | None = None,
    chunks: int | None = None,
    with_routes: bool = False,
    swept: bool = False,
    drawn: bool = False,
    counted: Callable[[Sequence[int]], Iterable[int]] = iter,
    theirs: Callable[[ClusterSpec, Topology, int], Facts] | None = None,
) -> Answer:
    """Report a collective on a cluster at one size, or with ``swept`` over the sizes; a picture shows a sweep.

    ``texts``: sizes such as '1 GB'; ``devices``: '0-7' or '0,8,16'; ``counted`` sees the sizes of a sweep one after the
    other; ``theirs``: another simulator's time, beside it. Raises all that is wrong and all that ``gather`` holds.
    """
    plain = algorithm not in ("", LIBRARY)
    with gather.also():
        spec = load_cluster(cluster, overrides)
        software = library_of(spec, library)
    with gather.also():
        if dtype:
            get(dtype)
    both = f"--algorithm {algorithm} with --library or --caller"
    gather.refuse(plain and (library or caller == "eager"), both, "", "one of the two")
    with gather.also():
        known("kind of collective", kind, KINDS)
    with gather.also():
        sizes = byte_sizes(texts)
    with gather.also():
        group = None if devices is None else parsed_group(devices)
    gather.refuse(len(texts) > 1 and not swept, f"{len(texts)} sizes", "--size", "one, or --sweep")
    gather.done()
    topology, size, called = build(spec), (sizes or (DEFAULT_B,))[0], Called(dtype, caller == "eager")
    asked = Asked(topology, software, kind, algorithm, group, chunks, called)
    rows = sweep(asked, counted(sizes if swept and sizes else SWEPT_B)) if swept or drawn else []
    facts, shown, table = _swept(asked, rows) if swept else _one(asked, size)
    if theirs is not None:
        facts["astrasim"] = theirs(spec, topology, size)
        shown += ["", facts["astrasim"]["said"]]
    if with_routes:
        facts["routes"] = routes(topology, asked.members[:MOST_ROUTES])
        shown += ["", Table(ROUTES, facts["routes"])]
    who = (asked.kind, asked.topology.name, len(asked.members))
    return Answer(facts, shown, table, {"sweep": lambda: bus_bandwidths(*who, rows, crossovers(rows))})


Reported: TypeAlias = "tuple[Facts, list[Part], list[Facts]]"
"""Facts, parts for a terminal, rows of the CSV file."""


def _swept(asked: Asked, rows: list[Facts]) -> Reported:
    """Return the bus bandwidth of every algorithm by size."""
    sizes = dict.fromkeys(row["size_B"] for row in rows)
    fields = [Field("algorithm", "algorithm"), *(Field(str(size), binary(size), in_unit()) for size in sizes)]
    found = {(row["size_B"], row["algorithm"]): row["bus_Bps"] * 1e-9 for row in rows}
    names = sorted(dict.fromkeys(row["algorithm"] for row in rows))
    wide = [{"algorithm": name, **{str(size): found.get((size, name)) for size in sizes}} for name in names]
    facts = {"cluster": asked.topology.name, "kind": asked.kind, "ranks": len(asked.members), "sweep": rows}
    return facts, [Table(fields, wide), Lines("\nbus bandwidth (GB/s) by size of the buffer"), crossovers(rows)], rows


def _one(asked: Asked, nbytes: int) -> Reported:
    """Return one collective and, where no algorithm is named, the time of the others."""
    found, software, called = asked.timed(nbytes), asked.software, asked.called
    others = [] if asked.algorithm else alternatives(asked, found)
    told = facts(found, software, called) | {"algorithms": others}
    tables = [Table(LINKS, told["links"]), Table(ALGORITHMS, others)]
    shown: list[Part] = [" ".join(sentences(found, software, called))]
    shown += [part for table in tables if table.records for part in ("", table)]
    return told, shown, others or told["links"]


def facts(found: CollectiveTime, software: Collectives, called: Called = IN_GRAPH) -> Facts:
    """Return the figures of one collective for JSON."""
    return {
        "cluster": found.topology.name, "kind": found.kind, "size_B": found.nbytes, "ranks": len(found.group),
        "group": list(found.group), "algorithm": found.algorithm, "protocol": found.protocol or None,
        "chunks": found.chunks, "time_from": found.played,
        "library": software.title if found.played == LIBRARY else None,
        "caller": ("eager" if called.eager else "graph") if found.played == LIBRARY else None,
        "time_s": found.seconds, "interval_s": found.interval_s,
        "alg_Bps": found.alg_Bps, "bus_Bps": found.bus_Bps, "energy_J": found.energy_J, "links": links(found),
    }  # fmt: skip


def sentences(found: CollectiveTime, software: Collectives, called: Called = IN_GRAPH) -> list[str]:
    """Return what it takes and by what, and which links bind."""
    size = si(found.nbytes, "B")
    who = f"{found.kind} of {size} among {count_of(len(found.group), 'device')} of {found.topology.name}"
    by = f"by {found.algorithm}"
    if found.played == LIBRARY:
        by += f" with protocol {found.protocol} ({software.title})"
    elif found.chunks > 1:
        by += f" in {found.chunks} chunks"
    text = (
        f"{who} takes {si(found.seconds, 's')}{ends_text(found.interval_s)} {by}: algorithm bandwidth "
        f"{si(found.alg_Bps, 'B/s')}, bus bandwidth {si(found.bus_Bps, 'B/s')}, {si(found.energy_J, 'J')} on links."
    )
    notes = _library_notes(found, software, called) if found.played == LIBRARY else []
    return [text, *notes, binding(found)]


def _library_notes(found: CollectiveTime, software: Collectives, called: Called) -> list[str]:
    """Return what the interval of a library's time is based on, then the share of the host in that time."""
    notes = []
    if not found.factor:
        why = "those of the library are of collectives inside a node"
        if not software.intervals:
            why = "no measured times were left out of the fit of this library's constants"
        notes.append(f"It has no interval: {why}.")
    elif any(each is software.elsewhere for each in software.intervals.values()):
        notes.append("The interval is that of chips on which the library was not measured.")
    if called.eager and software.host is not None:
        least, rate = si(software.host.least, "s"), software.host.copy_rate
        copy = f" and a copy of the buffer at {si(rate, 'B/s')}" if rate else ""
        notes.append(f"A host calls it by itself (eager), which takes at least {least}{copy}.")
    elif software.includes:
        notes.append(f"The time includes {software.includes}.")
    return notes


def binding(found: CollectiveTime) -> str:
    """Return which links bind, in a sentence."""
    rows = sorted(links(found), key=lambda row: -row["busy"])
    if not rows:
        return "No link carries data."
    top = rows[0]
    wires = found.binding
    labels = found.topology.labels
    first = found.topology.wires[wires[0]]
    example = f"{labels[first.source]} to {labels[first.target]}"
    where = f"{top['link']} (such as {example})"
    share = f"{percent(top['busy'])} of the time"
    if top["busy"] < BINDS:
        return f"No link binds: the busiest, {where}, carries data for {share}; latency and waits take the rest."
    many = f"{count_of(len(wires), 'wire')} of {where}"
    verb = "binds. It carries" if len(wires) == 1 else "bind. Each carries"
    return f"{many} {verb} {si(top['most_B'], 'B')} and is busy for {share}."


def crossovers(rows: Sequence[Facts]) -> str:
    """Return which algorithm is the fastest from which size on, in a sentence; the library is not asked."""
    best: list[tuple[int, str]] = []
    for size in dict.fromkeys(row["size_B"] for row in rows):
        those = [row for row in rows if row["size_B"] == size and row["algorithm"] != LIBRARY]
        if not those:
            return ""
        name = min(those, key=lambda row: row["time_s"])["algorithm"]
        if not best or best[-1][1] != name:
            best.append((size, name))
    first, *rest = best
    if not rest:
        return f"Fastest on the wires: {first[1]} at every size."
    then = "".join(f", from {si(size, 'B')} on {name}" for size, name in rest)
    return f"Fastest on the wires: {first[1]} at {si(first[0], 'B')}{then}."


LOOKS = tuple(zip((BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY), "os^DvPX", strict=True))
"""Colour and mark of one algorithm after the other."""


def bus_bandwidths(kind: str, cluster: str, ranks: int, rows: Sequence[Facts], said: str = "") -> Picture:
    """Draw bus bandwidth against size, a line for each algorithm; ``rows``: of ``sweep``; ``said``: below the title."""
    marks = []
    names = {row["algorithm"] for row in rows}
    for index, name in enumerate(sorted(names, key=lambda name: (name == LIBRARY, name))):
        mine, own = [row for row in rows if row["algorithm"] == name], name == LIBRARY
        color, marker = LOOKS[index % len(LOOKS)]
        dash, wide = "-" if own or index < len(LOOKS) else "--", 2.2 if own else 1.3
        sizes, rates = ([row[key] for row in mine] for key in ("size_B", "bus_Bps"))
        marks.append(line(sizes, rates, name, INK if own else color, dash, marker=marker, ms=4, linewidth=wide))
    x, y = Axis("size of the buffer", scale="log2", text=binary), Axis("bus bandwidth", "B/s", "log")
    title = f"{kind} among {count_of(ranks, 'device')} of {cluster}"
    return Picture(4.6, [Panel(title, marks, x, y, said, "both")], legend=5)
