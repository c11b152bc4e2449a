"""Figures of a collective: its time by algorithm and by size, its links, the routes that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.choice import LIBRARY, Asked, stated
from accelsim.cluster.collectives.timing import SWITCH, SWITCHED, CollectiveTime
from accelsim.cluster.network.topology import Topology
from accelsim.errors import UsageError
from accelsim.spec.collectives import Collectives
from accelsim.spec.counts import MOST_DEVICES
from accelsim.time import FS
from accelsim.types import Ints

PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
"""A device of a group, or a range of them."""
SWEPT_B = tuple(2**power for power in range(10, 32, 3))
"""Sizes of a sweep, bytes: 1 KiB to 2 GiB."""
MOST_SWEPT = 40_000
"""Messages of an algorithm up to which a sweep plays it at every size."""


def parsed_group(text: str) -> tuple[int, ...]:
    """'0-3,8' -> (0, 1, 2, 3, 8). Raises UsageError."""
    found: list[int] = []
    for part in text.split(","):
        match = PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < MOST_DEVICES:
            raise UsageError(f"{part.strip()!r}", "--group", "devices by number: '0-7' or '0,8,16'")
        found += range(first, last + 1)
    return tuple(found)


def links(found: CollectiveTime) -> list[dict[str, Any]]:
    """Return by the name of a link and its rate: how many wires carry something, their bytes, the share of the time
    that the busiest is busy, joules."""
    wires, rows = found.topology.wires, []
    used = [wire for wire in range(len(wires)) if found.wire_B[wire]]
    for name, rate in dict.fromkeys((wires[wire].link, wires[wire].rate) for wire in used):
        mine = np.array([wire for wire in used if (wires[wire].link, wires[wire].rate) == (name, rate)])
        carried: Ints = found.wire_B[mine]
        prices = np.array([wires[wire].energy_J_per_B for wire in mine])
        rows.append(
            {
                "link": name,
                "wires": len(mine),
                "rate_Bps": float(rate),
                "total_B": int(carried.sum()),
                "most_B": int(carried.max()),
                "busy": float(found.busy_fs[mine].max() / max(1, found.time_fs)),
                "energy_J": float(carried @ prices),
            }
        )
    return rows


def alternatives(asked: Asked, answered: CollectiveTime) -> list[dict[str, Any]]:
    """Return what every algorithm takes, fastest first; the library's answer among them where it is one."""
    found = asked.others(answered.nbytes) + [answered] * (answered.played == LIBRARY)
    rows = [
        {
            "algorithm": LIBRARY if each.played == LIBRARY else each.algorithm,
            "about": _about(each, asked.software),
            "time_s": each.seconds,
            "bus_Bps": each.bus_Bps,
            "most_B": int(each.wire_B.max(initial=0)),
            "energy_J": each.energy_J,
        }
        for each in found
    ]
    return sorted(rows, key=lambda row: row["time_s"])


def _about(found: CollectiveTime, software: Collectives) -> str:
    if found.played == LIBRARY:
        return f"{software.title}: {found.algorithm}, protocol {found.protocol}"
    title = SWITCHED if found.algorithm == SWITCH else COLLECTIVES[found.algorithm].title
    return f"{title} ({found.chunks} chunks)" if found.chunks > 1 else title


def sweep(asked: Asked, sizes_B: Iterable[int]) -> list[dict[str, Any]]:
    """Return time and bus bandwidth at each size: of one algorithm, or of all and the library."""
    rows = []
    for size in sizes_B:
        if asked.algorithm:
            found = [asked.timed(size)]
        else:
            found = asked.others(size, MOST_SWEPT)
            if stated(asked.software) and len(found[0].group) > 1:
                found.append(replace(asked, algorithm=LIBRARY, chunks=None).timed(size))
        rows += [
            {
                "size_B": size,
                "algorithm": LIBRARY if each.played == LIBRARY else each.algorithm,
                "time_s": each.seconds,
                "alg_Bps": each.alg_Bps,
                "bus_Bps": each.bus_Bps,
                "energy_J": each.energy_J,
            }
            for each in found
        ]
    return rows


def routes(topology: Topology, group: Sequence[int]) -> list[dict[str, Any]]:
    """The way from each device of a group to the next: what it passes, latency, the slowest wire."""
    rows = []
    for a, b in zip(group, [*group[1:], group[0]], strict=True):
        way = [topology.wires[wire] for wire in topology.route(a, b)]
        rows.append(
            {
                "from": topology.labels[a],
                "to": topology.labels[b],
                "over": [topology.labels[wire.target] for wire in way[:-1]],
                "links": [wire.link for wire in way],
                "latency_s": topology.message_fs(a, b, 0) * FS,
                "rate_Bps": float(min((wire.rate for wire in way), default=0)),
            }
        )
    return rows
