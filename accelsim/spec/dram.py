"""The nouns of a DRAM spec file (hwspecs/dram/): organisation, timing, currents or energies, controller.

What must agree between the fields is in ``dram_laws``; ``dram_device`` makes the device that the models run.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import NonNegativeInt, PositiveInt, Words
from accelsim.spec.declaring import Field
from accelsim.spec.dram_quantity import Bits, Clocks, Interval
from accelsim.spec.quantity import (
    Amperes,
    Bytes,
    Joules,
    JoulesPerByte,
    Period,
    TransfersPerSecond,
    Volts,
    Watts,
    Width,
)
from accelsim.spec.status import Status

if TYPE_CHECKING:
    StandardName = str
    PagePolicy = str
    Scheduler = str


def _named(module: str, table: str) -> object:
    """Return the type of the names of a table of ``dram``."""
    return Literal[tuple(getattr(import_module(f"accelsim.dram.{module}"), table))]


MOST_CHANNELS, MOST_PARTS, MOST_ROWS = 1024, 64, 2**24
"""Most channels, most parts of anything else, most rows and columns: beyond is a slip of the pen."""


class Organisation(Model):
    """Organisation of a memory. A *channel* has its own data bus; an HBM pseudo-channel is half of one."""

    density: Bits = Field(
        description="bits of a device that this bus and rank reach: rows x columns x banks x device width"
    )
    device_width: Bits = Field(description="data pins of a device on this bus")
    bus_width: Bits = Field(description="data pins of a channel, or pseudo-channel")
    burst_length: PositiveInt = Field(le=MOST_PARTS, description="transfers per burst")
    access: Width | None = Field(None, description="burst bytes, checked: bus width x burst length")
    transfers_per_clock: PositiveInt | None = Field(
        None, le=MOST_PARTS, description="per pin and tCK; absent: the standard's"
    )
    channels: PositiveInt = Field(1, le=MOST_CHANNELS, description="channels")
    pseudo_channels: PositiveInt = Field(1, le=MOST_PARTS, description="pseudo-channels per channel")
    ranks: PositiveInt = Field(1, le=MOST_PARTS, description="ranks per channel; stack IDs per pseudo-channel")
    bank_groups: PositiveInt = Field(1, le=MOST_PARTS, description="bank groups per rank")
    banks_per_group: PositiveInt = Field(le=MOST_PARTS, description="banks per group")
    rows: PositiveInt = Field(le=MOST_ROWS, description="rows per bank")
    columns: PositiveInt = Field(le=MOST_ROWS, description="columns per row, device-wide")
    capacity: Bytes | None = Field(None, description="all channels together, checked against the rest")


class Timing(Model):
    """Timing parameters as the standards name them: clocks ('22 tCK'), or times, rounded up."""

    tCK: Period = Field(description="clock period")
    AL: Clocks | None = Field(None, description="additive latency")
    CL: Clocks | None = Field(None, description="RD to its first data")
    CWL: Clocks | None = Field(None, description="WR to its first data")
    tRCD: Clocks | None = Field(None, description="ACT to RD or WR of the bank")
    tRCDRD: Clocks | None = Field(None, description="ACT to RD, where the two differ")
    tRCDWR: Clocks | None = Field(None, description="ACT to WR, where the two differ")
    tRP: Clocks | None = Field(None, description="PRE to ACT of the bank")
    tRAS: Clocks | None = Field(None, description="ACT to PRE of the bank")
    tRC: Clocks | None = Field(None, description="ACT to ACT of the bank; absent: tRAS + tRP")
    tRRD_S: Clocks | None = Field(None, description="ACT to ACT of the rank")
    tRRD_L: Clocks | None = Field(None, description="ACT to ACT of one bank group")
    tFAW: Clocks | None = Field(None, description="window of at most four ACT of the rank")
    t32AW: Clocks | None = Field(None, description="window of at most 32 ACT of the rank; absent: none")
    tCCD_S: Clocks | None = Field(None, description="RD to RD, WR to WR of the rank")
    tCCD_L: Clocks | None = Field(None, description="RD to RD, WR to WR of one bank group")
    tCCD_S_WR: Clocks | None = Field(None, description="WR to WR of the rank, where it differs")
    tCCD_L_WR: Clocks | None = Field(None, description="WR to WR of one bank group, where it differs")
    tCCD_R: Clocks | None = Field(None, description="RD to RD of different stack IDs")
    tWR: Clocks | None = Field(None, description="last data of a write to PRE")
    tWTR_S: Clocks | None = Field(None, description="last data of a write to RD of the rank")
    tWTR_L: Clocks | None = Field(None, description="last data of a write to RD of one bank group")
    tRTP: Clocks | None = Field(None, description="RD to PRE of the bank")
    tRTRS: Clocks | None = Field(None, description="gap on the data bus between ranks; absent: 1 tCK")
    tRTW: Clocks | None = Field(None, description="RD to WR of the rank; absent: CL + burst + 2 - CWL")
    tREFI: Interval | None = Field(None, description="mean interval of REF of a rank")
    tRFC: Interval | None = Field(None, description="REF to ACT")
    tREFIpb: Interval | None = Field(None, description="mean interval of REFPB of a rank")
    tRFCpb: Interval | None = Field(None, description="REFPB to ACT of the bank")
    tPBR2PBR: Clocks | None = Field(None, description="REFPB to REFPB of the rank; absent: tRFCpb")
    tPBR2ACT: Clocks | None = Field(None, description="REFPB to ACT of another bank; absent: tRRD_S")


class Currents(Model):
    """Currents of one device, as datasheets define them (JESD79)."""

    VDD: Volts = Field(description="supply")
    IDD0: Amperes = Field(description="activate and precharge, one bank at tRC")
    IDD2N: Amperes = Field(description="standby, all banks closed")
    IDD3N: Amperes = Field(description="standby, banks open")
    IDD4R: Amperes = Field(description="reading all the time")
    IDD4W: Amperes = Field(description="writing all the time")
    IDD5B: Amperes = Field(description="refreshing all the time")
    IDD6: Amperes | None = Field(None, description="self refresh (not modelled)")
    IDD2P: Amperes | None = Field(None, description="power-down, banks closed (not modelled)")
    IDD3P: Amperes | None = Field(None, description="power-down, banks open (not modelled)")


class StatedEnergy(Model):
    """Energies of one rank of a channel (or pseudo-channel), instead of currents."""

    activate: Joules = Field(description="one activation with its precharge")
    read: JoulesPerByte = Field(description="per byte read, without activation and I/O")
    write: JoulesPerByte = Field(description="per byte written, without activation and I/O")
    refresh: Joules = Field(description="one REF")
    standby_open: Watts = Field(description="while any bank is open")
    standby_closed: Watts = Field(description="while all banks are closed")


class InterfaceEnergy(Model):
    """I/O and termination, apart from the dies."""

    read: JoulesPerByte = Field(description="per byte read")
    write: JoulesPerByte = Field(description="per byte written")


MOST, MOST_WAITING, MOST_IN_QUEUE, MOST_ON_BUS = 10**9, 4096, 64, 8
"""Largest counts of clocks and accesses, of requests that wait, also for one bank, of clocks of a command: beyond is a
slip of the pen."""


class MemoryController(Model):
    """The memory controller."""

    later: ClassVar = {
        "PagePolicy": partial(_named, "device", "PAGE_POLICIES"),
        "Scheduler": partial(_named, "device", "SCHEDULERS"),
    }

    mapping: str = Field("rorabachcobg", description="[address mapping](add-a-dram.md#where-a-byte-lies)")
    page_policy: PagePolicy = Field("open", description="when a row is closed")
    cap: PositiveInt = Field(4, le=MOST, description="accesses after which a capped row gives way")
    timeout: PositiveInt = Field(100, le=MOST, description="idle clocks after which a row is closed")
    window: PositiveInt = Field(32, le=MOST_WAITING, description="reordered requests per direction; 1: in order")
    high: float = Field(0.8, gt=0, le=1, description="share of the window at which writes are drained")
    low: float = Field(0.2, ge=0, lt=1, description="share down to which they are")
    refresh: Literal["all_bank", "staggered", "per_bank", "none"] = Field(
        "all_bank", description="all ranks at once, rank after rank, bank by bank, or never"
    )
    refresh_waits: bool = Field(True, description="a due refresh lets requests with open rows finish")
    shared: PositiveInt = Field(1, le=MOST_CHANNELS, description="channels (or pseudo-channels) that share a window")
    act_clocks: NonNegativeInt = Field(
        0, le=MOST_ON_BUS, description="clocks of an ACT on the command bus (others: one); 0: no command waits"
    )
    handover: NonNegativeInt = Field(1, le=1, description="clocks from an access to its successor in the window")
    scheduler: Scheduler = Field(
        "bursts", description="what 'bank' [chooses next](dram-models.md#who-goes-next-three-schedulers)"
    )
    depth: PositiveInt = Field(8, le=MOST_IN_QUEUE, description="requests in a bank's queue, with 'queues'")
    edge: PositiveInt = Field(
        1,
        le=MOST_ON_BUS,
        description="clocks between edges at which ACT, RD or WR begin, with 'commands'; 2: one edge, in half clocks",
    )


class Dram(Model):
    """A DRAM speed grade with its controller."""

    later: ClassVar = {"StandardName": partial(_named, "standards", "STANDARDS")}

    title: Words = Field(description="name for tables")
    standard: StandardName = Field(description="table of constraints (accelsim.dram.standards)")
    rate: TransfersPerSecond = Field(description="transfers per second of one data pin")
    organisation: Organisation = Field(description="how it is divided")
    timing: Timing = Field(description="timing parameters")
    currents: Currents | None = Field(None, description="currents; or energy")
    energy: StatedEnergy | None = Field(None, description="energies instead of currents")
    io: InterfaceEnergy | None = Field(None, description="interface energy, if known")
    energy_status: Status | None = Field(None, description="how far to trust its energies; absent: a guess")
    controller: MemoryController = Field(MemoryController.model_construct(), description="memory controller")
