"""Roofline: the rate of each layer against its intensity (Williams, Waterman, Patterson, CACM 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from accelsim.account.latency import Layer, layers, main_format
from accelsim.account.spans import peak_mac_rate
from accelsim.machine.run import Run
from accelsim.spec.levels import home, home_behind
from accelsim.spec.memory import Attachment
from accelsim.time import FS_PER_S

OPS_PER_MAC = 2


@dataclass(frozen=True)
class Point:
    """One layer: operations per byte of the memory (``inf`` when it moved none), and per second."""

    layer: int
    name: str
    intensity_ops_per_B: float
    achieved_ops_per_s: float


@dataclass(frozen=True)
class Roofline:
    """The roof of one memory and the layers under it. A MAC counts as two operations throughout."""

    memory: str
    kind: str
    holds: tuple[str, ...]
    peak_ops_per_s: float
    bandwidth_Bps: float
    points: tuple[Point, ...]

    @property
    def knee_ops_per_B(self) -> float:
        """Intensity from which on the memory no longer limits."""
        return self.peak_ops_per_s / self.bandwidth_Bps

    def roof(self, intensity_ops_per_B: float) -> float:
        """Highest rate that the memory and the matrix unit allow at that intensity, operations per second."""
        return min(self.peak_ops_per_s, self.bandwidth_Bps * intensity_ops_per_B)


def rooflines(run: Run) -> list[Roofline]:
    """One roofline per attached memory and level, that of the weights first; empty when the matrix unit did no work."""
    mac_format = main_format(run)
    if not mac_format:
        return []
    rows = [layer for layer in layers(run) if layer.utilisation is not None]
    weights = home(run.chip, "weights")
    peak = OPS_PER_MAC * peak_mac_rate(run.chip, mac_format)
    return [_roofline(run, name, peak, rows) for name in sorted(run.chip.memories, key=lambda name: name != weights)]


def _roofline(run: Run, memory: str, peak: float, rows: list[Layer]) -> Roofline:
    attached = run.chip.memories[memory]
    kind = attached.memory.kind + (f" over {attached.link.kind}" if attached.link is not None else "")
    points = []
    for layer in rows:
        nbytes, ops = _passed_B(attached, memory, layer), OPS_PER_MAC * layer.macs
        rate = ops * FS_PER_S / layer.own_fs
        points.append(Point(layer.index, layer.name, ops / nbytes if nbytes else inf, rate))
    holds = attached.holds or run.chip.memories[home_behind(run.chip, memory)].holds
    return Roofline(memory, kind, tuple(holds), peak, attached.rate_Bps, tuple(points))


def _passed_B(attached: Attachment, memory: str, layer: Layer) -> int:
    """Bytes of a layer through the port of a memory; of a cache without what it fetched and wrote back."""
    read, write = layer.traffic_B.get(memory) or layer.level_B.get(memory, (0, 0))
    if attached.cache is None:
        return read + write
    fetched, stored = layer.traffic_B.get(attached.fed_by or "", (0, 0))
    passes = attached.cache.policy == "write_through"
    return read + stored if passes else read + write - fetched - stored
