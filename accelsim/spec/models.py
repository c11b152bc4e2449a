"""The nouns of a spec file. Frozen, SI numbers, unknown keys refused; in the file a field carries its unit.

Composition: where a field names another file (``memory: memories/ddr3-tpu-v1``) the loader puts that file's
content in its place, so the models below never see a reference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from accelsim.engines.simd.spec import VectorUnit as VectorUnit
from accelsim.engines.systolic.spec import Dataflow as Dataflow
from accelsim.engines.systolic.spec import MacFormat as MacFormat
from accelsim.engines.systolic.spec import MatrixUnit as MatrixUnit
from accelsim.spec.base import Model as Model
from accelsim.spec.calibration import Calibration
from accelsim.spec.constants import Fitted
from accelsim.spec.counts import Clocks, Cores, Parts, Share, Words, once
from accelsim.spec.derived_energy import Arithmetic, followed
from accelsim.spec.dram import Dram
from accelsim.spec.engine import EngineSpec as EngineSpec
from accelsim.spec.engine import specs
from accelsim.spec.link import Link as Link
from accelsim.spec.quantity import (
    Bytes,
    BytesPerSecond,
    Hertz,
    Joules,
    JoulesPerByte,
    OpsPerSecond,
    Seconds,
    SquareMetres,
    Watts,
    Width,
)
from accelsim.spec.status import Status
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    Engine = EngineSpec
else:
    Engine = Annotated[reduce(or_, specs()), Field(discriminator="type")]
Role = Literal["activations", "weights", "partial_sums"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)]


class Buffer(Model):
    """An on-chip SRAM."""

    capacity: Bytes = Field(description="all of it")
    holds: Annotated[list[Role], once] = Field(min_length=1, description="what lies in it")
    slots: Parts | None = Field(
        None,
        description="tiles in flight (2 = double buffering); absent: the compiler decides. A buffer of activations "
        "through which results pass is parted into them only with a slot_capacity",
    )
    slot_capacity: Bytes | None = Field(None, description="largest tile of one slot; absent: what fits")
    read_width: Width = Field(description="bytes per clock out of the buffer")
    write_width: Width = Field(description="bytes per clock into the buffer")
    ports: Parts = Field(2, description="accesses at a time; those beyond wait")
    banks: Parts | None = Field(
        None,
        description="banks, for `accelsim sram conflicts`; absent: an access never meets another in a bank",
    )
    parts: Parts | None = Field(
        None,
        description="equal memories that it is made of, each with a user of its own: an access costs what it costs in "
        "an SRAM of that size; absent: one",
    )
    word: Width | None = Field(
        None, description="bytes that a bank reads or writes at a time; absent: read_width / banks"
    )

    @property
    def part_B(self) -> int:
        """Bytes of each of its parts."""
        return self.capacity // (self.parts or 1)

    @property
    def word_B(self) -> int:
        """Bytes of one access: of a bank, or of the whole buffer where it has no banks."""
        return self.word or self.read_width // (self.banks or 1)


_FROM_DRAM: Any = None
FROM_DRAM = ("kind", "capacity", "bandwidth", "latency", "read_energy", "write_energy")
"""What a memory states unless it has a ``dram`` that it follows from."""
SRAM = "sram"
"""Kind of a memory on the chip: energies that it does not state are those of the chip's table of SRAMs."""
FROM_TABLE = ("read_energy", "write_energy")


class Memory(Model):
    """An off-chip memory device, or a level before one (kind: sram), whose energies may follow from the energy table.
    Of one with a ``dram`` every figure that is left out follows from the DRAM model, if any of kind, capacity,
    bandwidth, latency and energies is; ``memory: dram/ddr4-3200`` leaves out all."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": list(FROM_DRAM)},
                {"required": ["dram"]},
                {
                    "required": [name for name in FROM_DRAM if name not in FROM_TABLE],
                    "properties": {"kind": {"const": SRAM}},
                },
            ]
        }
    )

    kind: Words = Field(_FROM_DRAM, description="ddr3, ddr4, hbm2, ...: names the row of tables and plots")
    capacity: Bytes = Field(_FROM_DRAM, description="all channels together")
    bandwidth: BytesPerSecond = Field(_FROM_DRAM, description="peak of one channel")
    channels: Cores = Field(1, description="channels; a transfer is striped over all of them")
    efficiency: Annotated[Share, Fitted(0.3, 1.0)] = Field(1.0, description="usable share of the peak")
    beat: Width = Field(
        1, description="granule of one data clock and channel; transfers are rounded up to it"
    )
    latency: Seconds = Field(_FROM_DRAM, description="from acceptance of a request to its first data")
    pipelined: bool = Field(True, description="latency of a request overlaps the data of the one before")
    read_energy: JoulesPerByte | None = Field(
        None,
        description="per byte read, activation included; absent of an SRAM: by the energy table of the chip",
    )
    write_energy: JoulesPerByte | None = Field(None, description="the same per byte written")
    energy_status: Status | None = Field(
        None, description="how far its energies can be trusted; absent: a guess"
    )
    static_power: Watts = Field(0.0, description="drawn all the time: standby and refresh")
    shared: bool = Field(
        False, description="belongs to a server that others use too: its standby and refresh are not charged"
    )
    dram: Dram | None = Field(
        None, description="banks and timing, for the memory models 'pattern' and 'bank'"
    )

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
        """What is not stated follows from the DRAM, or is missing."""
        stated = [name for name in FROM_DRAM if self.kind != SRAM or name not in FROM_TABLE]
        missing = [name for name in stated if getattr(self, name) is None]
        if not missing:
            return self
        if self.dram is not None:
            from accelsim.spec.dram_memory import completed

            self.__dict__.update(
                completed(self.dram, self.model_fields_set)
            )  # the model is frozen for its users
            missing = [name for name in missing if getattr(self, name) is None]
        if missing:
            whose = (
                "; its DRAM states no energies"
                if self.dram is not None
                else ", or a dram: that they follow from"
            )
            raise ValueError(f"{', '.join(missing)} missing; expected them{whose}")
        return self


class Cache(Model):
    """How a level keeps what passes it, without the compiler: by lines, in each set the latest used ones (LRU)."""

    line: Width = Field(description="bytes of a line: what is fetched and written back at a time")
    ways: Annotated[Parts, Field(le=64)] = Field(description="lines of a set")
    policy: Literal["write_back", "write_through"] = Field(
        "write_back",
        description="write_back: stores stay here until their line makes room (a line that is not written whole is "
        "fetched first); write_through: they go on to the memory at once, and make no room here",
    )


class Attachment(Model):
    """A memory as one chip sees it: which operands live there and through which engines they move. Or a level on the
    way from such a memory to the buffers (``fed_by``)."""

    memory: Memory = Field(description="the device")
    link: Link | None = Field(None, description="what lies between the chip and the memory, if anything")
    holds: Annotated[list[Literal["activations", "weights", "host"]], once] = Field(
        [],
        description="operands that live here; 'host': operators that fall back to the CPU work here. A memory that no "
        "other feeds holds one at least; of levels see fed_by",
    )
    fed_by: Name | None = Field(
        None,
        description="memory behind this one, which is a level (kind: sram) on the way from it to the buffers: a cache "
        "of it, or with 'holds: [activations]' where the compiler keeps results while there is room",
    )
    cache: Cache | None = Field(
        None, description="what makes the level a cache; absent: the compiler says what lies in it"
    )
    load_engine: Name = Field("dma_in", description="engine whose queue reads from it")
    store_engine: Name = Field("dma_out", description="engine whose queue writes to it")
    arbitration: Literal["loads_first", "stores_first"] = Field(
        "loads_first", description="who wins when both ask at one edge"
    )

    @property
    def rate_Bps(self) -> float:
        """Usable bytes per second of one direction: of the memory, or of the link before it where that is slower."""
        return min(self.memory.rate_Bps, self.link.bandwidth) if self.link else self.memory.rate_Bps

    @property
    def full_duplex(self) -> bool:
        """Whether loads and stores do not wait for each other: the link before it has a direction for each."""
        return self.link is not None and self.link.full_duplex


class Processor(Model):
    """A CPU, as far as operators fall back to it."""

    title: Words = Field(description="name for tables")
    cores: Parts = Field(description="physical cores")
    clock: Hertz = Field(description="base clock")
    peak: dict[str, OpsPerSecond] = Field(
        min_length=1, description="format -> arithmetic peak, a multiply-add counts as two"
    )
    efficiency: Share = Field(description="usable share of the peak")
    memory: Memory = Field(description="its main memory")
    overhead: Seconds = Field(description="time to dispatch one operator")
    energy_per_op: Joules = Field(
        description="dynamic energy of one arithmetic operation, everything in the core included"
    )
    energy_status: Status | None = Field(
        None, description="how far that energy can be trusted; absent: a guess"
    )
    idle_power: Watts = Field(0.0, description="drawn while it works, besides the dynamic energy")


class SramPoint(Model):
    """Energy of an access to an SRAM of one size."""

    capacity: Bytes = Field(description="size of the SRAM")
    read: JoulesPerByte = Field(description="per byte read")
    write: JoulesPerByte = Field(description="per byte written")


def _rows_may_follow(schema: dict[str, Any]) -> None:
    """In the schema for editors: ``arithmetic`` instead of the columns."""
    stated = schema.pop("required")
    derived = [name for name in stated if name not in ("mac", "vector")]
    schema["anyOf"] = [{"required": stated}, {"required": [*derived, "arithmetic"]}]


with warnings.catch_warnings():
    # A field named 'register' hides ABCMeta.register, which no spec needs.
    warnings.filterwarnings("ignore", message='Field name "register"')

    class EnergyStatus(Model):
        """How far each value of an energy table can be trusted; what is not named has the status ``default``."""

        default: Status = Field("guess", description="of every value that is not named")
        mac: dict[str, Status] = Field({}, description="operand format -> status of its multiply and add")
        vector: dict[str, Status] = Field({}, description="operand format -> status of its operation")
        register: Status | None = Field(None, description="status of the register")
        network: Status | None = Field(None, description="status of the network between PEs")
        sram: Status | None = Field(None, description="status of all sizes of SRAM")

    class EnergyTable(Model):
        """Energy of each action that happens on a chip of one process node."""

        model_config = ConfigDict(json_schema_extra=_rows_may_follow)
        node: Words = Field(description="process, e.g. '45 nm'")
        arithmetic: Arithmetic | None = Field(
            None,
            description="what a source states: each row of `mac` and `vector` that is left out follows from it, with "
            "its status, when the file is read",
        )
        mac: dict[str, Joules] = Field(description="operand format -> multiply and add")
        vector: dict[str, Joules] = Field(description="operand format -> one arithmetic operation")
        register: JoulesPerByte = Field(description="a register inside a PE, read or written")
        network: JoulesPerByte | None = Field(
            None,
            description="a byte from one PE to the next, beyond the registers at both ends; absent: nothing",
        )
        sram: list[SramPoint] = Field(min_length=1, description="interpolated in log(capacity)")
        status: EnergyStatus | None = Field(
            None, description="how far each value can be trusted; absent: every one is a guess"
        )

        @classmethod
        def followed(cls, block: dict[str, Any], stated: Callable[[PathTo], bool]) -> dict[str, Any]:
            """With rows in the place of ``arithmetic``."""
            return followed(block, stated) if isinstance(block.get("arithmetic"), dict) else block

        @model_validator(mode="after")
        def _rows_are_there(self) -> EnergyTable:
            """Nobody looks at ``arithmetic`` again."""
            if self.arithmetic is not None:
                raise ValueError(
                    "arithmetic beside rows that are there; expected single rows, or another energy table"
                )
            return self


class Power(Model):
    """Measured power of the chip."""

    idle: Watts = Field(description="clocked but without work")
    busy: Watts | None = Field(None, description="measured under load")
    tdp: Watts | None = Field(None, description="thermal design power")


def _given(engines: Any) -> Any:
    """Those that are not ``null``."""
    if not isinstance(engines, dict):
        return engines
    return {name: engine for name, engine in engines.items() if engine is not None}


class Chip(Model):
    """One accelerator (or, without engines, a plain CPU)."""

    former: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: ("engines", f"engines: {{{name}: {{type: {unit}, ...}}}}")
        for name, unit in (("matrix", "systolic"), ("vector", "simd"))
    }
    name: Name = Field(description="short name, that of its file")
    title: Words = Field(description="name for tables")
    kind: Literal["asic", "cpu", "gpu", "fpga", "edu"] = Field(description="what sort of chip")
    process: Words | None = Field(None, description="process node")
    die_area: SquareMetres | None = Field(None, description="area of the die")
    clock: Hertz = Field(description="clock of every unit that states none of its own")
    cores: Cores = Field(1, description="identical cores on one shared set of memories")
    token_delay: Clocks = Field(
        1, description="clocks from the release of a buffer slot until it may be acquired"
    )
    engines: Annotated[dict[Name, Engine], BeforeValidator(_given)] = Field(
        {}, description="units that compute, by name; `null`: not this one of the file underneath"
    )
    buffers: dict[Name, Buffer] = Field({}, description="on-chip SRAMs by name")
    memories: dict[Name, Attachment] = Field({}, description="off-chip memories by name")
    host: Processor | None = Field(None, description="where operators run that the chip cannot do")
    energy: EnergyTable = Field(description="energy of each action")
    power: Power | None = Field(None, description="measured power")
    peak: dict[str, OpsPerSecond] = Field(
        {}, description="stated peak per format, checked against the engines"
    )
    calibration: Calibration | None = Field(None, description="fitted constants")

    @property
    def matrix(self) -> MatrixUnit | None:
        """The systolic array, None where there is none."""
        return next((each for each in self.engines.values() if isinstance(each, MatrixUnit)), None)

    @property
    def vector(self) -> VectorUnit | None:
        """The vector unit, None where there is none."""
        return next((each for each in self.engines.values() if isinstance(each, VectorUnit)), None)

    def with_engine(self, unit: EngineSpec) -> Chip:
        """The chip with ``unit`` in the place of its engine of that type."""
        engines = {name: unit if each.type == unit.type else each for name, each in self.engines.items()}
        return self.model_copy(update={"engines": engines})

    def name_of(self, unit: EngineSpec) -> str:
        """The name of one of its engines."""
        return next(name for name, each in self.engines.items() if each is unit)
