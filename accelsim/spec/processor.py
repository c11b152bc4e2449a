"""A host processor."""

from __future__ import annotations

from accelsim.spec.base import Model
from accelsim.spec.counts import Parts, Share, Words
from accelsim.spec.declaring import Field
from accelsim.spec.memory import Memory
from accelsim.spec.quantity import Hertz, Joules, OpsPerSecond, Seconds, Watts
from accelsim.spec.status import Status


class Processor(Model):
    """A CPU for operators that fall back to it."""

    title: Words = Field(description="name for tables")
    cores: Parts = Field(description="physical cores")
    clock: Hertz = Field(description="base clock")
    peak: dict[str, OpsPerSecond] = Field(
        min_length=1, description="format -> peak, a multiply-add counts as two"
    )
    efficiency: Share = Field(description="usable share of the peak")
    memory: Memory = Field(description="its main memory")
    overhead: Seconds = Field(description="time to dispatch one operator")
    energy_per_op: Joules = Field(description="dynamic energy of an operation, whole core")
    energy_status: Status | None = Field(None, description="how far to trust it; absent: a guess")
    idle_power: Watts = Field(0.0, description="drawn while it works, besides dynamic energy")
