"""Figures of a memory that states only its DRAM: they follow from the DRAM and the ``bank`` model.

- kind, capacity, channels, bandwidth of a channel: the standard, the geometry, pseudo-channels x width x rate.
- beat: one burst. Latency: a read of a closed bank until its first data, tRCD + CL clocks, without a controller's own.
- efficiency: share of the peak that a stream of reads gets, refreshes included. The stream goes over addresses that
  follow each other, ``REFRESHES`` refresh intervals long, within ``BURSTS``; an address mapping that keeps it in one
  channel or bank group costs what it costs.
- read and write energy: a burst, the interface where it is known, and the share of an activation that the same stream
  needs. Static power: every rank with a bank open, and its refreshes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from accelsim import usercache
from accelsim.dram.bank import Bank
from accelsim.dram.device import Device
from accelsim.spec.dram import Dram
from accelsim.spec.dram_device import device
from accelsim.spec.laws.dram import broken, capacity_B
from accelsim.spec.status import UNSTATED, Status
from accelsim.time import FS

REFRESHES, BURSTS = 4, (4096, 2**18)
"""Refresh intervals that a stream lasts at the peak rate, and the least and most bursts that it has."""
FEW = 50_000
"""Bursts that plain Python serves before a compiler would be loaded."""
DIGITS = 4
"""Digits of an efficiency: the stream is as long as it is."""


_KNOWN = usercache.Table("drams", 256)
"""Figures by DRAM: its stream takes a third of a second."""


class FromDram(NamedTuple):
    """Figures of a memory, under the names of its fields; SI units. Energies are None where the DRAM states none."""

    kind: str
    capacity: int
    channels: int
    bandwidth: float
    efficiency: float
    beat: int
    latency: float
    read_energy: float | None
    write_energy: float | None
    static_power: float
    energy_status: Status


def figures(spec: Dram) -> FromDram:
    """The memory that a DRAM makes. The spec must break no law (``dram_laws.broken``)."""
    return _figures(spec.model_dump_json())


def completed(spec: Dram, stated: Iterable[str]) -> dict[str, object]:
    """Fields of a memory with this DRAM but for those that are stated; zeros where the DRAM breaks its laws.

    Nobody uses such a memory: whoever loads a spec tells the laws that are broken.
    """
    if broken(spec):
        zero: dict[str, object] = {"kind": spec.standard, "capacity": 1, "bandwidth": 1.0, "latency": 0.0}
        found = zero | {"read_energy": 0.0, "write_energy": 0.0}
    else:
        found = figures(spec)._asdict()
    own = set(stated)
    return {name: value for name, value in found.items() if name not in own}


@lru_cache(maxsize=64)
def _figures(content: str) -> FromDram:
    """Return the figures of a DRAM that is written as JSON, from the user's cache where they are known."""
    key = sha256(content.encode()).hexdigest()
    known = _KNOWN.get(key) if usercache.folder() else None
    if isinstance(known, list) and len(known) == len(FromDram._fields):
        return FromDram(*known)
    made = _computed(content)
    _KNOWN.put(key, list(made))
    return made


def _computed(content: str) -> FromDram:
    spec = Dram.model_validate_json(content)
    made, org = device(spec), spec.organisation
    efficiency, activations = _stream(made)
    burst_B, energy = made.geometry.access_B, made.energy
    read = write = None
    static_W = 0.0
    if energy is not None:
        shared = activations * energy.act_J
        read = (energy.read_J + energy.io_read_J + shared) / burst_B
        write = (energy.write_J + energy.io_write_J + shared) / burst_B
        each, _ = made.refreshes
        each_s = each * made.clock_fs * FS
        ranks = made.geometry.channels * made.geometry.ranks
        static_W = ranks * (energy.open_W + (energy.refresh_J / each_s if each else 0.0))
    return FromDram(
        kind=spec.standard,
        capacity=capacity_B(spec),
        channels=org.channels,
        bandwidth=float(org.pseudo_channels * org.bus_width * spec.rate / 8),
        efficiency=efficiency,
        beat=burst_B,
        latency=(made.unloaded_read - made.burst) * made.clock_fs * FS,
        read_energy=read,
        write_energy=write,
        static_power=static_W,
        energy_status=spec.energy_status or UNSTATED,
    )


def _stream(made: Device) -> tuple[float, float]:
    """Share of the peak that a stream of reads gets from the bank model, and its activations per burst."""
    geometry = made.geometry
    each, _ = made.refreshes
    bursts = REFRESHES * each // made.burst * geometry.channels
    bursts = min(max(bursts, BURSTS[0]), BURSTS[1], _holds(made))
    kernel = "python" if bursts <= FEW else ""  # done before a compiler would be loaded
    served = Bank(made, kernel=kernel).serve(np.arange(bursts, dtype=np.int64) * geometry.access_B, False)
    share = bursts * made.burst / geometry.channels / (served.end - (made.unloaded_read - made.burst))
    return round(min(1.0, share), DIGITS), served.counts["act"] / bursts


def _holds(made: Device) -> int:
    """Bursts that a DRAM holds."""
    geometry = made.geometry
    banks = geometry.channels * geometry.ranks * geometry.groups * geometry.banks
    return banks * geometry.rows * geometry.columns
