"""A chip: cores with their engines and memories, memories that these share, and what is known of its energy and power.
Frozen, SI numbers, unknown keys refused; in the file a field carries its unit.

Composition: where a field names another file (``memory: memories/ddr3-tpu-v1``) the loader puts that file's
content in its place, so the models never see a reference.

``Chip.engines`` and ``Chip.buffers`` are those of one kind of core, the first; ``seen_from`` shows those of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.errors import brief
from accelsim.spec.base import Model
from accelsim.spec.constants import Calibration
from accelsim.spec.counts import Clocks, Cores, Name, Parts, Share, Words
from accelsim.spec.declaring import BeforeValidator, Field
from accelsim.spec.energy import EnergyTable
from accelsim.spec.engine import EngineSpec, specs
from accelsim.spec.memory import Attachment, Buffer, Memory
from accelsim.spec.quantity import Hertz, Joules, OpsPerSecond, Seconds, SquareMetres, Watts
from accelsim.spec.resources import Resources
from accelsim.spec.status import Status
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    Engine = EngineSpec


def _engine() -> object:
    """Return the union of the specs of all engine types, told apart by their field ``type``."""
    return Annotated[reduce(or_, specs()), Field(discriminator="type")]


def _given(engines: object) -> object:
    """Return the entries that are not ``null``."""
    return {key: one for key, one in engines.items() if one is not None} if isinstance(engines, dict) else engines


class Core(Model):
    """A kind of core. Each copy has these engines and memories, and shares the chip's."""

    later: ClassVar = {"Engine": _engine}

    count: Cores = Field(1, description="copies")
    engines: Annotated[dict[Name, Engine], BeforeValidator(_given)] = Field(
        {}, description="engines by name; `null`: not this one of the base file"
    )
    memories: dict[Name, Buffer] = Field({}, description="SRAMs by name")

    def with_engines(self, change: Callable[[object], EngineSpec]) -> Core:
        """Return a core whose engines are ``change(engine)`` of this one."""
        return self.model_copy(update={"engines": {name: change(unit) for name, unit in self.engines.items()}})


class Processor(Model):
    """A CPU for operators that fall back to it."""

    title: Words = Field(description="name for tables")
    cores: Parts = Field(description="physical cores")
    clock: Hertz = Field(description="base clock")
    peak: dict[str, OpsPerSecond] = Field(min_length=1, description="format -> peak, a multiply-add counts as two")
    efficiency: Share = Field(description="usable share of the peak")
    memory: Memory = Field(description="its main memory")
    overhead: Seconds = Field(description="time to dispatch one operator")
    energy_per_op: Joules = Field(description="dynamic energy of an operation, whole core")
    energy_status: Status | None = Field(None, description="how far to trust it; absent: a guess")
    idle_power: Watts = Field(0.0, description="drawn while it works, besides dynamic energy")


class Power(Model):
    """Measured power of the chip."""

    idle: Watts | None = Field(None, description="clocked without work; absent: unknown, not charged")
    busy: Watts | None = Field(None, description="measured under load")
    tdp: Watts | None = Field(None, description="thermal design power")


def _kinds(cores: object) -> object:
    """The table of cores; ValueError for the number of older files."""
    if isinstance(cores, str | int):
        expected = "cores: {core: {count: ..., engines: ..., memories: ...}}"
        raise ValueError(f"{brief(str(cores))} is no table of cores; expected {expected}")
    return cores


class Chip(Model):
    """One accelerator (or, without engines, a plain CPU)."""

    former: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: ("cores", f"cores: {{core: {{{inner}}}}}")
        for name, inner in {
            "engines": "engines: {...}",
            "buffers": "memories: {...}",
            "matrix": "engines: {matrix: {type: systolic, ...}}",
            "vector": "engines: {vector: {type: simd, ...}}",
        }.items()
    }
    _seen_from: ClassVar[str] = ""
    name: Name = Field(description="short name, that of its file")
    title: Words = Field(description="name for tables")
    also: list[Words] = Field([], description="its name in measurements")
    kind: Literal["asic", "cpu", "gpu", "fpga", "edu"] = Field(description="kind")
    year: Annotated[int, Field(ge=1970, le=2100)] | None = Field(None, description="year in which it came out")
    process: Words | None = Field(None, description="process node")
    die_area: SquareMetres | None = Field(None, description="die area")
    clock: Hertz = Field(description="clock of units that state none")
    cores: Annotated[dict[Name, Core], BeforeValidator(_kinds)] = Field(
        {"core": Core.model_construct()},  # validated when a chip is
        min_length=1,
        description="kinds of cores by name",
    )
    token_delay: Clocks = Field(1, description="clocks from a slot's release until it may be acquired")
    memories: dict[Name, Attachment] = Field({}, description="shared memories and levels, by name")
    host: Processor | None = Field(None, description="processor for unsupported operators")
    energy: EnergyTable = Field(description="energy per action")
    power: Power | None = Field(None, description="measured power")
    resources: Resources | None = Field(None, description="blocks that an FPGA offers its design")
    peak: dict[str, OpsPerSecond] = Field({}, description="peak per format, checked against the engines")
    calibration: Calibration | None = Field(None, description="fitted constants")

    @property
    def core_kind(self) -> str:
        """The kind of core that the chip is seen from, by default the first."""
        first = next(iter(self.cores), "")
        return first if len(self.cores) == 1 else self._seen_from or first

    @property
    def core(self) -> Core:
        """Return the kind of core from which the chip is seen."""
        return self.cores[self.core_kind]

    @property
    def engines(self) -> dict[str, EngineSpec]:
        """Return the engines of that kind of core by name."""
        return self.core.engines

    @property
    def buffers(self) -> dict[str, Buffer]:
        """Return the memories of that kind of core by name."""
        return self.core.memories

    @property
    def core_count(self) -> int:
        """Number of cores, all kinds together."""
        return sum(core.count for core in self.cores.values())

    @property
    def matrix(self) -> MatrixUnit | None:
        """The systolic array, None where there is none."""
        return next((each for each in self.engines.values() if isinstance(each, MatrixUnit)), None)

    @property
    def vector(self) -> VectorUnit | None:
        """The vector unit, None where there is none."""
        return next((each for each in self.engines.values() if isinstance(each, VectorUnit)), None)

    def kind_of(self, number: int) -> str:
        """The kind of a core by its number: cores are counted kind by kind."""
        kinds = [kind for kind, core in self.cores.items() for _ in range(core.count)]
        return kinds[number]

    def seen_from(self, kind: str) -> Chip:
        """Return the chip as this kind of core sees it, with its ``engines`` and ``buffers``."""
        if kind == self.core_kind:
            return self
        return self.model_copy(update={"_seen_from": kind})

    def views(self) -> Iterator[Chip]:
        """The chip as seen from each kind of core."""
        return map(self.seen_from, self.cores)

    def with_core(self, **fields: object) -> Chip:
        """The chip with other fields of the kind of core that it is seen from."""
        core = self.core.model_copy(update=fields)
        return self.model_copy(update={"cores": {**self.cores, self.core_kind: core}})

    def with_cores(self, count: int) -> Chip:
        """The chip with so many cores of the kind that it is seen from, and no other."""
        core = self.core.model_copy(update={"count": count})
        return self.model_copy(update={"cores": {self.core_kind: core}})

    def with_engine(self, unit: EngineSpec) -> Chip:
        """The chip with ``unit`` in the place of its engines of that type."""
        return self.with_engines(lambda each: unit if each.type == unit.type else each)

    def with_engines(self, change: Callable[[Any], EngineSpec]) -> Chip:
        """The chip with ``change`` of each engine, in all kinds of cores."""
        cores = {kind: core.with_engines(change) for kind, core in self.cores.items()}
        return self.model_copy(update={"cores": cores})

    def called(self, name: str) -> str:
        """An engine or memory of that core, as a path may start: with the kind where there are several."""
        return name if len(self.cores) == 1 else f"{self.core_kind}.{name}"

    def path_to(self, *names: str) -> PathTo:
        """Return where that core has something: ``path_to("engines", "matrix")``."""
        return ("cores", self.core_kind, *names)
