"""Energy of a batch of bursts: commands times joules per command, and standby power times time.

The accounting is that of Micron's power calculator (TN-46-03) as DRAMsim3 does it (src/configuration.cc,
src/simple_stats.cc): a command costs what it draws above standby, standby is charged by the clock. Power-down and
self refresh are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelsim.dram.device import CommandEnergy, Device
from accelsim.dram.served import Served
from accelsim.errors import UsageError
from accelsim.time import FS

PJ = 1e12
WORD_BITS = 32

PARTS = ("activate", "read", "write", "refresh", "open_standby", "closed_standby")
"""Parts of the energy of the dies; an activation includes its precharge."""

STANDBY = PARTS[-2:]


@dataclass(frozen=True)
class Energy:
    """Energy of all channels of a memory over ``seconds``.

    ``parts_J``: joules of the dies by :data:`PARTS`. ``io_J``: I/O and termination, not part of the dies' total, 0
    where the memory does not state them. ``bits``: data moved. ``bus_share``: share of the clocks in which data was
    on a bus, mean over channels.
    """

    parts_J: Mapping[str, float]
    io_J: float
    seconds: float
    bits: int
    bus_share: float

    @property
    def die_J(self) -> float:
        """Energy of the dies, all parts together, J."""
        return sum(self.parts_J.values())

    @property
    def background_J(self) -> float:
        """Standby, with banks open or closed, J: what is drawn without any command."""
        return sum(self.parts_J[part] for part in STANDBY)

    @property
    def idle_J(self) -> float:
        """Standby in the clocks in which the data buses were empty, J (by the share of those clocks)."""
        return self.background_J * (1.0 - self.bus_share)

    @property
    def idle_share(self) -> float:
        """``idle_J`` of the dies' energy, 0 to 1: what a memory costs for being there while it moves nothing."""
        return self.idle_J / self.die_J if self.die_J else 0.0

    @property
    def pJ_per_bit(self) -> float:
        """Energy of the dies per bit moved, pJ; 0 when nothing was."""
        return self.die_J * PJ / self.bits if self.bits else 0.0

    @property
    def pJ_per_word(self) -> float:
        """Energy of the dies per 32-bit word moved, pJ: the unit of published tables of energy per access."""
        return self.pJ_per_bit * WORD_BITS

    @property
    def mean_W(self) -> float:
        """Mean power of the dies, W; 0 when no time passed."""
        return self.die_J / self.seconds if self.seconds else 0.0


def energy(served: Served, device: Device) -> Energy:
    """Return what a batch cost. UsageError when the memory states no currents, so that nobody takes 0 J for an
    answer."""
    table = _table(device)
    geometry = device.geometry
    seconds = served.elapsed * device.clock_fs * FS
    buses = served.elapsed * geometry.channels
    bursts = served.counts["rd"] + served.counts["wr"]
    return Energy(
        parts_J=_parts(served, device, table),
        io_J=served.counts["rd"] * table.io_read_J + served.counts["wr"] * table.io_write_J,
        seconds=seconds,
        bits=bursts * geometry.access_B * 8,
        bus_share=min(1.0, served.bus_clocks / buses) if buses else 0.0,
    )


def _table(device: Device) -> CommandEnergy:
    if device.energy is None:
        what = f"memory {device.name!r} states no currents, so its energy is not known"
        raise UsageError(what, "", "a memory with energies of its commands")
    return device.energy


def _parts(served: Served, device: Device, table: CommandEnergy) -> dict[str, float]:
    counts, clock_s = served.counts, device.clock_fs * FS
    rank_clocks = served.elapsed * device.geometry.channels * device.geometry.ranks
    return {
        "activate": counts["act"] * table.act_J,
        "read": counts["rd"] * table.read_J,
        "write": counts["wr"] * table.write_J,
        "refresh": counts["ref"] * table.refresh_J + counts["refpb"] * table.refresh_bank_J,
        "open_standby": served.open_clocks * clock_s * table.open_W,
        "closed_standby": (rank_clocks - served.open_clocks) * clock_s * table.closed_W,
    }
