"""Errors of whole things: factors of intervals, by what is predicted and where it runs."""

from __future__ import annotations

from typing import Annotated

from accelsim.spec.base import Model
from accelsim.spec.constants import Factor, Rows
from accelsim.spec.counts import Name, Words
from accelsim.spec.declaring import Field, model_validator

Held = Annotated[float, Field(ge=0, le=1)]
"""A share of rows."""
Unseen = Annotated[int, Field(ge=0, le=10**9)]
"""Measurements, or none."""


KINDS = ("product", "function", "convolution", "attention", "layer", "prefill", "decode", "experts")
"""Kinds of kernels that have intervals."""


class Whole(Model):
    """Factors between which nine of ten measured things of a kind lie, and the measurements that they come of."""

    below: Factor = Field(description="the prediction divided by it is the lower end")
    above: Factor = Field(description="the prediction times it is the upper end")
    rows: Rows = Field(description="measurements that they come of")
    unseen: Unseen = Field(0, description="measurements that had no part in them")
    inside: Held | None = Field(None, description="share of these that lie within the printed interval")
    fitted_on: Words = Field(description="the measurements, by who published them")


class KernelIntervals(Model):
    """Errors of single kernels without constants of their chip, or in another lab than that which measured it."""

    uncalibrated: dict[Name, Factor] = Field(
        min_length=1,
        description="kind of kernel -> factor of its interval on a chip that nobody has calibrated",
    )
    labs: dict[Name, Factor] = Field(
        min_length=1,
        description="kind of kernel -> spread between labs that measured one chip, beside that of kernels in one lab; "
        "others have that of `attention`",
    )
    correlation_own: Held = Field(
        description="of errors of different kernels of a calibrated chip: share of their variance between operators"
    )
    correlation_other: Held = Field(description="of other chips: share of their variance between devices")

    @model_validator(mode="after")
    def _complete(self) -> KernelIntervals:
        """Every kind of kernel has a factor."""
        without = [f"uncalibrated.{kind}" for kind in KINDS if kind not in self.uncalibrated]
        without += ["labs.attention"] * ("attention" not in self.labs)
        if without:
            raise ValueError(f"no {', '.join(without)}; expected a factor of each")
        return self


class Intervals(Model):
    """Intervals of kernels, or of whole things: of these the wider of this and of what kernels tell is printed."""

    name: Name = Field(description="what the table is called")
    wholes: dict[str, Whole] = Field(
        {},
        description="what is predicted, and where it runs (`step: many nodes`, `network`, `joules`) -> its factors",
    )
    kernels: KernelIntervals | None = Field(None, description="of single kernels; absent: the table has none")
