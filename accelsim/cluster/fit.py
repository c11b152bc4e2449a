"""Constants of a communication library fitted to measured collectives: ``accelsim calibrate CLUSTER --data FILE``.

A row is a collective of some bytes over some ranks on some nodes, and its time. The constants are those that the block
``collectives:`` of the cluster states; each is turned within a range of its own until the errors of all rows are small.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.reach import Reach, reach
from accelsim.cluster.collectives.software import KINDS, called_eagerly, planned, protocol_times, serving
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError, nearest
from accelsim.fit.search import ROBUST, Knob, Values, fit
from accelsim.fit.validation import left_out
from accelsim.spec.collectives import Collectives, Host, Protocol
from accelsim.types import Floats, Ints

PARTS = 5
"""Parts of the cross-validation."""
RANGES: Mapping[str, tuple[float, float]] = {
    "launch": (0, 60e-6), "share": (0.01, 1), "share_between": (0.01, 1), "flow": (0.2e9, 100e9),
    "tree_flow": (0.2e9, 100e9), "base": (0, 100e-6),
    "inside": (0, 30e-6), "between": (0, 200e-6), "tree_base": (0, 100e-6), "tree_inside": (0, 30e-6),
    "tree_between": (0, 200e-6), "fill": (0, 4), "least": (0, 100e-6), "lane": (0.2e9, 500e9),
    "copy_rate": (10e9, 10e12),
}  # fmt: skip
"""Constant -> the widest range in which it is fitted, in s, B/s or as a share."""
FACTOR = 4.0
"""A constant that is not 0 stays within this factor of what is stated, so that protocols do not change places."""
CALLED: Mapping[str, str] = {"allreduce": "all_reduce", "sendrecv": "send_recv"}
"""Other names that tables give to kinds."""


HOST = "host"
"""Name of the constants of an eager host, as if it were a protocol."""


class Sort(NamedTuple):
    """Key of rows of one sort: kind, ranks, ranks on one node, number format ('': not known), and whether an eager host
    calls."""

    kind: str
    ranks: int
    per_node: int
    dtype: str = ""
    eager: bool = False

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return -(-self.ranks // self.per_node)

    def __str__(self) -> str:
        on = "" if self.nodes == 1 else f" on {self.nodes} nodes"
        by = ", called eagerly" if self.eager else ""
        return f"{self.kind}, {self.ranks} ranks{on}{by}"


class Measured(NamedTuple):
    """Measured collectives: sort and device of each row, bytes, s."""

    sorts: Sequence[Sort]
    devices: Sequence[str]
    nbytes: Ints
    seconds: Floats

    def only(self, rows: Sequence[int]) -> Measured:
        """Return some rows, in their order."""
        chosen = list(rows)
        sorts, devices = ([column[row] for row in chosen] for column in (self.sorts, self.devices))
        return Measured(sorts, devices, self.nbytes[chosen], self.seconds[chosen])  # type: ignore[arg-type]

    def select(self, kinds: Sequence[str], nodes: int | None = None, ranks: Sequence[int] = ()) -> Measured:
        """Return rows of some kinds, on ``nodes`` nodes, over ``ranks`` (any where not given)."""
        chosen = [
            sort.kind in kinds and nodes in (None, sort.nodes) and (not ranks or sort.ranks in ranks)
            for sort in self.sorts
        ]
        return self.only(np.flatnonzero(chosen).tolist())


def read_collectives(path: Path, device: str | None = None) -> Measured:
    """Read a table of measured collectives, only those of ``device`` where it is given.

    Columns: ``op`` (a kind), ``bytes``, ``n_devices`` or ``ranks``, ``devices_per_node`` or ``nodes`` (absent: one
    node), ``device``, ``dtype``, ``caller`` ('eager' or 'graph', the default), and ``time_us_min``, ``time_us`` or
    ``time_ms``, the first that the row has. Raises UsageError with every row that is wrong.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read it: {error}", str(path), "a CSV file") from None
    problems, found = list[Problem](), list[tuple[Sort, str, int, float]]()
    for line, row in enumerate(rows, start=2):
        try:
            found.append(_row(row))
        except (KeyError, ValueError, TypeError) as error:
            problems.append(Problem(f"no collective: {error}", f"{path}:{line}", "op, bytes, ranks, time_us"))
    if problems:
        raise UsageError(problems[:20])
    chosen = [each for each in found if device in (None, each[1])]
    if not chosen:
        known = list(dict.fromkeys(each[1] for each in found))
        expected = f"one of: {', '.join(known)}" if known else "rows"
        raise UsageError(f"no rows of {device}", str(path), expected, nearest(device or "", known))
    sorts, devices, nbytes, seconds = zip(*chosen, strict=True)
    return Measured(list(sorts), list(devices), np.array(nbytes), np.array(seconds))


def _row(row: Mapping[str, str]) -> tuple[Sort, str, int, float]:
    """Sort, device, bytes and seconds of a row. KeyError, ValueError for what it lacks."""
    op = row["op"].strip()
    kind = CALLED.get(op, op)
    if kind not in KINDS:
        raise ValueError(f"op {op!r}")
    ranks = int(row.get("n_devices") or row["ranks"])
    nodes = int(row.get("nodes") or 1)
    per_node = int(row.get("devices_per_node") or -(-ranks // nodes))
    times = [(row.get(name), unit) for name, unit in (("time_us_min", 1e-6), ("time_us", 1e-6), ("time_ms", 1e-3))]
    text, unit = next((each for each in times if each[0]), (None, 1.0))
    if text is None:
        raise ValueError("no time")
    nbytes, seconds = int(row["bytes"]), float(text) * unit
    if ranks < 2 or not 1 <= per_node <= ranks or nbytes < 1 or seconds <= 0:
        raise ValueError(f"{ranks} ranks, {per_node} on a node, {nbytes} bytes in {seconds:g} s")
    eager = ("graph", "eager").index(row.get("caller") or "graph") == 1
    return Sort(kind, ranks, per_node, row.get("dtype") or "", eager), row.get("device", ""), nbytes, seconds


def group_of(topology: Topology, sort: Sort) -> tuple[int, ...]:
    """Return the devices for a sort of rows: the first of each of the first nodes. Raises UsageError if the cluster has
    fewer."""
    nodes: dict[int, list[int]] = {}
    for rank, node in enumerate(topology.groups):
        nodes.setdefault(node, []).append(rank)
    chosen = list(nodes.values())[: sort.nodes]
    group = tuple(rank for each in chosen for rank in each[: sort.per_node])[: sort.ranks]
    if len(group) < sort.ranks or len(chosen) < sort.nodes:
        what = f"{topology.name} has no place for {sort}"
        raise UsageError(what, "", "a cluster with as many devices")
    return group


def placed(rows: Measured, topology: Topology, data: Path) -> Measured:
    """Return the rows that the cluster has devices for. Raises UsageError, which names ``data``, without any."""

    def fits(sort: Sort) -> bool:
        with suppress(UsageError):
            return bool(group_of(topology, sort))
        return False

    known = {sort: fits(sort) for sort in set(rows.sorts)}
    chosen = [row for row, sort in enumerate(rows.sorts) if known[sort]]
    if not chosen:
        raise UsageError(f"{topology.name} is too small for every row", str(data), "more nodes: '2x-...'")
    return rows.only(chosen)


class Model:
    """Times of measured rows on a topology, from the constants of a library."""

    def __init__(self, rows: Measured, topology: Topology, software: Collectives) -> None:
        self.rows, self.software = rows, software
        self._parts: list[tuple[Sort, Reach, Ints]] = []
        for sort in dict.fromkeys(rows.sorts):
            own = np.flatnonzero([each == sort for each in rows.sorts])
            self._parts.append((sort, reach(topology, group_of(topology, sort)), own))

    def seconds(self, software: Collectives | None = None) -> Floats:
        """Return the time of every row, s."""
        software = software or self.software
        found = np.empty(len(self.rows.nbytes))
        for sort, rings, rows in self._parts:
            taken = planned(rings, software, sort.kind, self.rows.nbytes[rows])
            for algorithm in sorted(set(taken.tolist())):
                of_it = rows[taken == algorithm]
                for sizes, protocols in self._served(software, sort, of_it):
                    nbytes = self.rows.nbytes[sizes]
                    every = (protocol_times(rings, software.launch, sort.kind, nbytes, each) for each in protocols)
                    times = [took for each in every for name, _, took in each if algorithm in ("", name)]
                    found[sizes] = np.min(times, axis=0)
            if sort.eager:
                found[rows] = called_eagerly(software, found[rows], self.rows.nbytes[rows])
        return found

    def with_values(self, values: Values, chosen: Ints) -> Floats:
        """Return the times of some rows by other constants, s."""
        return self.seconds(with_constants(self.software, values))[chosen]

    def _served(self, software: Collectives, sort: Sort, rows: Ints) -> Iterator[tuple[Ints, list[Protocol]]]:
        """Rows by the protocols that may run them."""
        limits = sorted({each.largest for each in software.protocols.values() if each.largest is not None})
        limit_of = np.searchsorted(np.array(limits, dtype=float), self.rows.nbytes[rows])
        for limit in sorted(set(limit_of.tolist())):
            own = rows[limit_of == limit]
            size = int(self.rows.nbytes[own[0]])
            yield own, [each for _, each in serving(software, sort.kind, size, sort.dtype)]


def constants(software: Collectives) -> dict[str, float]:
    """Return constant ('launch', 'simple.share') -> value, of those that the block states."""
    found = {"launch": software.launch} if "launch" in software.model_fields_set else {}
    blocks: dict[str, Protocol | Host] = {**software.protocols}
    if software.host is not None:
        blocks[HOST] = software.host
    for name, block in blocks.items():
        for field in RANGES:
            value = getattr(block, field, None)
            if field in block.model_fields_set and value is not None:
                found[f"{name}.{field}"] = value
    return found


def with_constants(software: Collectives, values: Mapping[str, float]) -> Collectives:
    """Return the library with other constants."""
    changes: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        protocol, _, field = name.rpartition(".")
        changes.setdefault(protocol, {})[field] = value
    protocols = {
        name: protocol.model_copy(update=changes[name]) if name in changes else protocol
        for name, protocol in software.protocols.items()
    }
    changed = {**changes.get("", {}), "protocols": protocols}
    if software.host is not None:
        changed[HOST] = software.host.model_copy(update=changes.get(HOST, {}))
    return software.model_copy(update=changed)


@dataclass(frozen=True)
class Fitted:
    """A library with fitted constants, their ``values``; times of all ``rows`` by it, and of each row by a fit to the
    other four fifths."""

    software: Collectives
    values: Mapping[str, float]
    rows: Measured
    seconds: Floats
    left_out: Floats


def calibrate(
    rows: Measured, topology: Topology, software: Collectives, names: Sequence[tuple[str, ...]] = (), seed: int = 0
) -> Fitted:
    """Fit constants to measured rows.

    ``names``: which, those in one tuple share a value; absent: each that the block states and that rows of these kinds
    and callers depend on. Raises UsageError for unknown names and for fewer rows than constants.
    """
    knobs = _knobs(software, names or _dependable(rows, software))
    model, every = Model(rows, topology, software), np.arange(len(rows.nbytes))

    values = fit(lambda found: model.with_values(found, every), rows.seconds, knobs, seed, ROBUST)
    fitted = with_constants(software, values)
    out = held_out(Model(rows, topology, fitted), [knob.names for knob in knobs], seed)
    return Fitted(fitted, values, rows, model.seconds(fitted), out)


def _dependable(rows: Measured, software: Collectives) -> list[tuple[str, ...]]:
    """Stated constants of protocols that serve a kind of the rows, and of the host where a host calls."""
    serve = {"", *([HOST] if any(sort.eager for sort in rows.sorts) else [])}
    for sort in set(rows.sorts):
        for nbytes in (int(max(rows.nbytes)), 0):
            serve |= {name for name, _ in serving(software, sort.kind, nbytes, sort.dtype)}
    return [(name,) for name in constants(software) if name.rpartition(".")[0] in serve]


def held_out(model: Model, names: Sequence[tuple[str, ...]], seed: int = 0) -> Floats:
    """Return the time of each row, s, by constants fitted to the other parts alone, starting from the model's."""
    knobs = _knobs(model.software, names)
    return left_out(model.with_values, model.rows.seconds, knobs, PARTS, seed, ROBUST, near=True)


def _knobs(software: Collectives, names: Sequence[tuple[str, ...]]) -> list[Knob]:
    known = constants(software)
    groups = list(names) or [(name,) for name in known]
    wrong = [name for group in groups for name in group if name not in known]
    if wrong:
        raise UsageError(
            Problem(f"no constant {name!r} is stated", "collectives", ", ".join(known), nearest(name, known))
            for name in wrong
        )
    knobs = []
    for group in groups:
        stated = known[group[0]]
        low, high = RANGES[group[0].rpartition(".")[2]]
        if stated:
            low, high = max(low, stated / FACTOR), min(high, stated * FACTOR)
        knobs.append(Knob(group, low, high, stated))
    return knobs
