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
    lanes: Joules | None = Field(
        None, description="an FP32 operation on lanes, with all around it; absent: unknown"
    )
    tensor: Joules | None = Field(None, description="the same in FP16 on Tensor Cores")
    sizes: dict[Name, Joules] = Field(
        {},
        description="the same of other sizes: 16-bit multiplications of a multiprocessor per clock -> energy",
    )


class ClockRules(Model):
    """Clock of a chip without a measured one, by the power that multiplying would draw and the power that there is."""

    falls: Exponent = Field(
        description="exponent of the clock in the power of a multiprocessor whose clock falls: 1 if the voltage stays, "
        "3 if it falls in proportion"
    )
    half_droop: Seconds = Field(description="a kernel as long as this feels half of the droop")
    cool: Share = Field(
        description="share of the power that lanes leave from which they keep their clock, though Tensor Cores, for "
        "which there is not enough, make it fall; where they leave less, it falls by as much, up to the stated `droop`"
    )
    left: Share = Field(
        description="share of its power that a board may have left at its stated clock until it runs faster"
    )
    above: Above = Field(description="by how much faster it runs for the rest that is left")


class GpuPower(Model):
    """Power of multiprocessors at the highest clock, and its fall with the clock."""

    name: Name = Field(description="what the table is called")
    nodes: list[NodeEnergies] = Field(
        min_length=1,
        description="process nodes; what is around an operation on others is by the ratio of these energies",
    )
    measured: Parts = Field(description="process node of the GPUs whose watts were measured, nm")
    around_lanes: Joules = Field(
        description="what a multiply-accumulate in FP32 on lanes has around it there; also an operation on what is in "
        "registers already"
    )
    around_tensor: Joules = Field(description="the same in FP16 on Tensor Cores")
    around_function: Joules = Field(
        description="the same of an operation of a function: loads, stores and addresses are instructions too"
    )
    active: Share = Field(
        description="active power of a chip that states none, as a share of what its design power has beyond idle power"
    )
    elements: Parts = Field(description="elements of a function for which a multiprocessor is busy")
    exponent: Exponent = Field(description="of the clock in the energy of an operation")
    lowest: Share = Field(
        description="energy of an operation at the lowest voltage, relative to that at the highest clock"
    )
    design_share: Share = Field(
        description="of the design power that multiprocessors may have; memory, links and conversion take the rest"
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
