"""Memories behind a port: devices off the chip, levels and caches before them, and how a chip sees each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from accelsim.spec.base import Model
from accelsim.spec.constants import Fitted
from accelsim.spec.counts import Cores, Name, Parts, Share, Words, once
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.link import Link
from accelsim.spec.quantity import Bytes, BytesPerSecond, JoulesPerByte, Seconds, Watts, Width
from accelsim.spec.status import Status

if TYPE_CHECKING:
    from accelsim.spec.dram import Dram


class MemoryLevel(Model):
    """A memory in the tree of a chip: ``holds`` says which operands lie in it, ``fed_by`` where they come from."""

    holds: Sequence[str]
    fed_by: Name | None = Field(None, description="memory behind this one")


Role = Literal["activations", "weights", "partial_sums"]


class Buffer(MemoryLevel):
    """An SRAM of a core; each copy of the core has one."""

    capacity: Bytes = Field(description="all of it")
    holds: Annotated[list[Role], once] = Field(min_length=1, description="what lies in it")
    fed_by: Name | None = Field(
        None,
        description="chip memory that fills it, the nearest towards its contents' home; absent: the same, per "
        "operand kind",
    )
    slots: Parts | None = Field(
        None,
        description="tiles in flight (2: double buffering); absent: the compiler decides. An activation "
        "buffer that results pass needs slot_capacity",
    )
    slot_capacity: Bytes | None = Field(None, description="largest tile in a slot; absent: what fits")
    read_width: Width = Field(description="bytes per clock out of the buffer")
    write_width: Width = Field(description="bytes per clock into the buffer")
    ports: Parts = Field(2, description="accesses at a time; others wait")
    banks: Parts | None = Field(None, description="banks, for `accelsim sram conflicts`; absent: no conflicts")
    parts: Parts | None = Field(
        None, description="equal parts with a user each: an access costs that of an SRAM of that size; absent: one"
    )
    word: Width | None = Field(None, description="bytes per bank access; absent: read_width / banks")

    @property
    def part_B(self) -> int:
        """Bytes of each part of the buffer."""
        return self.capacity // (self.parts or 1)

    @property
    def word_B(self) -> int:
        """Bytes of one access: of a bank, or of the whole buffer where it has no banks."""
        return self.word or self.read_width // (self.banks or 1)


def _dram() -> object:
    from accelsim.spec.dram import Dram

    return Dram


_FROM_DRAM: object = None
FROM_DRAM = ("kind", "capacity", "bandwidth", "latency", "read_energy", "write_energy")
"""Fields that a memory states unless they follow from its ``dram``."""
SRAM = "sram"
"""Kind of a memory on the chip: energies that it does not state are those of the chip's table of SRAMs."""
FROM_TABLE = ("read_energy", "write_energy")


class Memory(Model):
    """An off-chip memory, or a level before one (kind: sram). With a ``dram``, kind, capacity, bandwidth,
    latency and energies that are left out follow from it; ``memory: dram/ddr4-3200`` leaves out all."""

    later: ClassVar = {"Dram": _dram}

    model_config: ClassVar = {
        "json_schema_extra": {
            "anyOf": [
                {"required": list(FROM_DRAM)},
                {"required": ["dram"]},
                {
                    "required": [name for name in FROM_DRAM if name not in FROM_TABLE],
                    "properties": {"kind": {"const": SRAM}},
                },
            ]
        }
    }

    kind: Words = Field(_FROM_DRAM, description="ddr3, ddr4, hbm2, ...: names the row of tables and plots")
    capacity: Bytes = Field(_FROM_DRAM, description="all channels together")
    bandwidth: BytesPerSecond = Field(_FROM_DRAM, description="peak of one channel")
    channels: Cores = Field(1, description="a transfer is striped over all")
    efficiency: Annotated[Share, Fitted(0.3, 1.0)] = Field(1.0, description="usable share of the peak")
    beat: Width = Field(1, description="granule per data clock and channel; transfers are rounded up")
    latency: Seconds = Field(_FROM_DRAM, description="acceptance of a request to its first data")
    pipelined: bool = Field(True, description="latency overlaps the previous data")
    read_energy: JoulesPerByte | None = Field(
        None, description="per byte read, activation included; absent for an SRAM: by the energy table"
    )
    write_energy: JoulesPerByte | None = Field(None, description="the same per byte written")
    energy_status: Status | None = Field(None, description="how far to trust its energies; absent: a guess")
    static_power: Watts = Field(0.0, description="standby and refresh")
    shared: bool = Field(False, description="shared server: standby and refresh are not charged")
    dram: Dram | None = Field(None, description="banks and timing, for 'pattern' and 'bank'")

    @property
    def peak_Bps(self) -> float:
        """Bytes per second of all channels together, at their peak."""
        return self.bandwidth * self.channels

    @property
    def rate_Bps(self) -> float:
        """Usable bytes per second of all channels together."""
        return self.peak_Bps * self.efficiency

    @property
    def beats_B(self) -> int:
        """Bytes of one data clock on all channels: the granule of a transfer."""
        return self.beat * self.channels

    @model_validator(mode="after")
    def _figures_of_the_dram(self) -> Memory:
        """Return what is not stated follows from the DRAM, or is missing."""
        stated = [name for name in FROM_DRAM if self.kind != SRAM or name not in FROM_TABLE]
        missing = [name for name in stated if getattr(self, name) is None]
        if not missing:
            return self
        if self.dram is not None:
            from accelsim.spec.dram_memory import completed

            self.__dict__.update(completed(self.dram, self.model_fields_set))  # the model is frozen for its users
            missing = [name for name in missing if getattr(self, name) is None]
        if missing:
            whose = "; its DRAM states no energies" if self.dram is not None else ", or a dram: that they follow from"
            raise ValueError(f"{', '.join(missing)} missing; expected them{whose}")
        return self


class Cache(Model):
    """A level as a cache: lines in sets, least recently used replaced (LRU)."""

    line: Width = Field(description="bytes fetched and written back at a time")
    ways: Annotated[Parts, Field(le=64)] = Field(description="lines of a set")
    policy: Literal["write_back", "write_through"] = Field(
        "write_back",
        description="write_back: stores stay until their line is replaced (partly written lines are fetched "
        "first); write_through: they go on at once, without a line",
    )


class Attachment(MemoryLevel):
    """A memory that all cores share, or a level between it and the cores (``fed_by``)."""

    memory: Memory = Field(description="the device")
    link: Link | None = Field(None, description="what lies between chip and memory")
    holds: Annotated[list[Literal["activations", "weights", "host"]], once] = Field(
        [], description="operands that live here; 'host': operators on the CPU work here. At least one, except levels"
    )
    fed_by: Name | None = Field(
        None,
        description="for a level (kind: sram): the memory behind it. A level is a cache, or with 'holds: "
        "[activations]' keeps results while there is room",
    )
    cache: Cache | None = Field(None, description="makes the level a cache; absent: the compiler fills it")
    load_engine: Name = Field("dma_in", description="engine whose queue reads from it")
    store_engine: Name = Field("dma_out", description="engine whose queue writes to it")
    arbitration: Literal["loads_first", "stores_first"] = Field("loads_first", description="who wins at one edge")

    @property
    def rate_Bps(self) -> float:
        """Usable bytes per second of one direction: of the memory, or of the link before it where that is slower."""
        return min(self.memory.rate_Bps, self.link.bandwidth) if self.link else self.memory.rate_Bps

    @property
    def full_duplex(self) -> bool:
        """Return whether loads and stores do not wait for each other: the link before it has a direction for each."""
        return self.link is not None and self.link.full_duplex
