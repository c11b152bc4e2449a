"""Energy of GPUs beside the arithmetic, registers and memories of the energy table, by process node."""

from __future__ import annotations

from typing import Annotated

from accelsim.spec.base import Model
from accelsim.spec.counts import Name, Parts
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.quantity import Joules, Seconds

Share = Annotated[float, Field(ge=0.001, le=1)]
"""A share of what there is, 0.001 to 1."""
Above = Annotated[float, Field(ge=0, le=10)]
"""Exponent of the clock for a share of the power that is left."""
Exponent = Annotated[float, Field(ge=0.1, le=4)]
"""Exponent of the clock in an energy or a power."""


class NodeEnergies(Model):
    """Energies of an operation on one process node."""

    nm: Parts = Field(description="process node, nm")
    lanes: Joules | None = Field(None, description="FP32 operation on lanes, all included; absent: unknown")
    tensor: Joules | None = Field(None, description="the same, FP16 on Tensor Cores")
    sizes: dict[Name, Joules] = Field({}, description="other sizes: 16-bit multiplications per clock -> energy")


class ClockRules(Model):
    """Clock of an unmeasured chip, by the power that multiplying would draw."""

    falls: Exponent = Field(
        description="exponent of the clock in power as it falls: 1 if voltage stays, 3 if it falls in proportion"
    )
    half_droop: Seconds = Field(description="kernel length with half the droop")
    cool: Share = Field(
        description="share of power left by lanes from which they keep their clock though Tensor Cores slow "
        "down; with less it falls as much, up to `droop`"
    )
    left: Share = Field(description="share of power left at the stated clock above which a board runs faster")
    above: Above = Field(description="speed-up for the rest")


class GpuPower(Model):
    """Power of multiprocessors at the highest clock, and its fall."""

    name: Name = Field(description="table name")
    nodes: list[NodeEnergies] = Field(
        min_length=1, description="process nodes, whose ratios scale the energies around an operation"
    )
    measured: Parts = Field(description="process node of the measured GPUs, nm")
    around_lanes: Joules = Field(
        description="energy around an FP32 multiply-accumulate on lanes, or an operation on registers"
    )
    around_tensor: Joules = Field(description="the same, FP16 on Tensor Cores")
    around_function: Joules = Field(description="the same, an operation of a function (loads, stores, addresses)")
    active: Share = Field(description="default active power, as a share of design power beyond idle")
    elements: Parts = Field(description="elements of a function per busy multiprocessor")
    exponent: Exponent = Field(description="exponent of the clock in an operation's energy")
    lowest: Share = Field(description="energy of an operation at the lowest voltage, relative")
    design_share: Share = Field(
        description="share of design power for multiprocessors; memory, links, conversion take the rest"
    )
    clock: ClockRules = Field(description="how the clock follows the power")

    @model_validator(mode="after")
    def _measured_is_known(self) -> GpuPower:
        """Ratios of nodes are those to the one that was measured."""
        known = [each.nm for each in self.nodes if each.lanes is not None and each.tensor is not None]
        if self.measured not in known:
            raise ValueError(
                f"measured: {self.measured} is no node with energies of lanes and tensor; expected {known}"
            )
        return self
