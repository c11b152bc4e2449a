"""A chip: engines, buffers, memories, and what is known of its energy and power. Frozen, SI numbers, unknown keys
refused; in the file a field carries its unit.

Composition: where a field names another file (``memory: memories/ddr3-tpu-v1``) the loader puts that file's
content in its place, so the models never see a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.spec.base import Model
from accelsim.spec.buffer import Buffer
from accelsim.spec.calibration import Calibration
from accelsim.spec.counts import Clocks, Cores, Name, Words
from accelsim.spec.energy import EnergyTable
from accelsim.spec.engine import EngineSpec, specs
from accelsim.spec.memory import Attachment
from accelsim.spec.processor import Processor
from accelsim.spec.quantity import (
    Hertz,
    OpsPerSecond,
    SquareMetres,
    Watts,
)

if TYPE_CHECKING:
    Engine = EngineSpec
else:
    Engine = Annotated[reduce(or_, specs()), Field(discriminator="type")]


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
