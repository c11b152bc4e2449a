"""ASTRA-sim's conventions: the times that its analytical backends give, to the nanosecond.

They differ from those of this package on purpose (astra-sim/astra-sim at 518bd51, 2026-03, run and read):

- Time is whole nanoseconds: each message, aware of congestion each of its hops, is rounded down. 1 GB/s is 2^30 bytes
  per 10^9 ns.
- Unaware of congestion a message takes hops x latency + bytes / bandwidth, whatever else is under way. Aware, each link
  takes one message at a time and passes it on when it has all of it; so a switch, two hops, costs twice.
- Each step waits ``endpoint_ns`` before it sends, and a collective once more before it is done. A step that adds takes
  three accesses of its bytes to the local memory, each rounded down; the first one of halving and doubling, none.
- Of all_gather the size is that of one device's part. An all_to_all around a ring is n (n - 1) / 2 messages in turn;
  one by halving and doubling is direct. A double binary tree of one split is one tree, without chunks.
- Several dimensions: an all-reduce in each in turn (baseline), or reduce-scatters up to the last one, the all-reduce
  there, all-gathers back (localBWAware). Splits follow each other through the dimensions, each of which takes one at a
  time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

from accelsim.cluster.collectives.choice import LIBRARY
from accelsim.cluster.collectives.timing import AUTO
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError, known
from accelsim.spec.cluster import ClusterSpec
from tests.validation.astrasim_cluster import dimensions
from tests.validation.astrasim_played import played_ns
from tests.validation.astrasim_settings import ALGORITHMS, SHAPES, Dimension, Settings

ASTRASIM = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
"""Kinds that ASTRA-sim has."""


def astrasim_ns(kind: str, nbytes: int, dimensions: Sequence[Dimension], settings: Settings) -> int:
    """Time of a collective of ``nbytes`` as ASTRA-sim tells it, ns, of the device that is done last.

    UsageError for unknown shapes and algorithms, and for several dimensions aware of congestion, which it refuses too.
    """
    for each in dimensions:
        known("shape", each.shape, SHAPES)
        known("algorithm", each.algorithm, ALGORITHMS)
    if settings.aware and len(dimensions) > 1:
        raise UsageError(Problem(f"{len(dimensions)} dimensions aware of congestion", "ASTRA-sim", "one"))
    part = nbytes // settings.splits
    if settings.aware:
        return played_ns(kind, part, dimensions[0], settings)
    return _pipeline(_phases(kind, part, dimensions, settings), len(dimensions), settings)


Phase = tuple[int, int]
"""Dimension, time in ns."""


def _phases(kind: str, nbytes: int, dimensions: Sequence[Dimension], settings: Settings) -> list[Phase]:
    """Return what one split does in which dimension, in order."""
    order: list[tuple[str, int]]
    up = range(len(dimensions))
    if kind == "all_reduce" and not settings.baseline:
        last = len(dimensions) - 1
        order = [("reduce_scatter", d) for d in range(last)] + [("all_reduce", last)]
        order += [("all_gather", d) for d in reversed(range(last))]
    else:
        order = [(kind, d) for d in (reversed(up) if kind == "all_gather" else up)]
    phases, size = [], nbytes
    for what, d in order:
        phases.append((d, _unaware(what, size, dimensions[d], settings)))
        size = size // dimensions[d].devices if what == "reduce_scatter" else size
        size = size * dimensions[d].devices if what == "all_gather" else size
    return phases


def _unaware(kind: str, nbytes: int, dimension: Dimension, settings: Settings) -> int:
    """One phase: its steps, each as if alone."""
    steps = _steps(kind, nbytes, dimension)
    moving = sum(
        dimension.message_ns(size, hops) + (settings.adding_ns(size) if adds else 0) for size, hops, adds in steps
    )
    return moving + (len(steps) + 1) * settings.endpoint_ns


Step = tuple[int, int, bool]
"""Bytes of a message, hops, whether they are added."""


def _steps(kind: str, nbytes: int, dimension: Dimension) -> list[Step]:
    """The steps that follow each other on a device."""
    many, next_hops = dimension.devices, dimension.hops(1)
    part, how = nbytes // many, dimension.algorithm
    if kind == "all_to_all":
        turns = many * (many - 1) // 2 if how == "ring" else 1
        return [(part, next_hops, False)] * turns
    if how == "doubleBinaryTree":
        return [(nbytes, next_hops, up) for up in (True, False) for _ in range(int(log2(many)))]
    size = nbytes if kind == "all_gather" else part
    if how == "ring":
        one = {adds: [(size, next_hops, adds)] * (many - 1) for adds in (True, False)}
    elif how == "direct":
        one = {adds: [(size, next_hops, adds)] for adds in (True, False)}
    else:
        doubled = [1 << k for k in range(int(log2(many)))]
        one = {
            adds: [(size * (many // 2 // d), dimension.hops(d), adds and d > 1) for d in doubled]
            for adds in (True, False)
        }
    return [*(one[True] if kind != "all_gather" else []), *(one[False] if kind != "reduce_scatter" else [])]


def _pipeline(phases: Sequence[Phase], dimensions: int, settings: Settings) -> int:
    """All splits through all phases: a dimension takes the split that came to it first."""
    free = [0] * dimensions
    queue = [(0, split, 0) for split in range(settings.splits)]
    end = 0
    while queue:
        queue.sort()
        begun, split, at = queue.pop(0)
        d, time = phases[at]
        free[d] = max(begun, free[d]) + time
        end = max(end, free[d])
        if at + 1 < len(phases):
            queue.append((free[d], split, at + 1))
    return end


def by_astrasim(
    spec: ClusterSpec, topology: Topology, kind: str, nbytes: int, algorithm: str, aware: bool
) -> dict[str, Any]:
    """The same among all devices by ASTRA-sim's conventions, and a sentence that says of what."""
    if kind not in ASTRASIM:
        raise UsageError(Problem(f"{kind} by ASTRA-sim's conventions", "", f"one of {', '.join(ASTRASIM)}"))
    along = dimensions(spec, topology, "" if algorithm in (LIBRARY, AUTO) else algorithm)
    size = nbytes // topology.ranks if kind == "all_gather" else nbytes
    time_ns = astrasim_ns(kind, size, along, Settings(aware=aware))
    shown = "; ".join(
        f"{each.shape} of {each.devices}, {each.GBps:.4g} GB/s (2^30), {each.latency_ns:.4g} ns, {each.algorithm}"
        for each in along
    )
    how = "aware" if aware else "unaware"
    said = f"By ASTRA-sim's conventions, {how} of congestion: {time_ns:,} ns ({shown})."
    return {"time_s": time_ns * 1e-9, "dimensions": [vars(each) for each in along], "aware": aware, "said": said}
