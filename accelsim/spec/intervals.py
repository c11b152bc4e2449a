"""Error factors of predictions of whole networks, training steps and kernels, by prediction and device."""

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
    """Factors between which nine of ten measurements of a kind lie."""

    below: Factor = Field(description="lower end: prediction divided by it")
    above: Factor = Field(description="upper end: prediction times it")
    rows: Rows = Field(description="measurements behind them")
    unseen: Unseen = Field(0, description="measurements without part in them")
    inside: Held | None = Field(None, description="share of these inside the printed interval")
    fitted_on: Words = Field(description="measurements, by publisher")


class KernelIntervals(Model):
    """Errors of single kernels on uncalibrated chips, or in other labs."""

    uncalibrated: dict[Name, Factor] = Field(
        min_length=1, description="kind of kernel -> interval factor on an uncalibrated chip"
    )
    labs: dict[Name, Factor] = Field(
        min_length=1, description="kind of kernel -> added spread between labs; others have that of `attention`"
    )
    correlation_own: Held = Field(
        description="correlation between kernel errors on a calibrated chip (variance share between operators)"
    )
    correlation_other: Held = Field(description="the same on other chips (variance share between devices)")

    @model_validator(mode="after")
    def _complete(self) -> KernelIntervals:
        """Every kind of kernel has a factor."""
        without = [f"uncalibrated.{kind}" for kind in KINDS if kind not in self.uncalibrated]
        without += ["labs.attention"] * ("attention" not in self.labs)
        if without:
            raise ValueError(f"no {', '.join(without)}; expected a factor of each")
        return self


class Intervals(Model):
    """Intervals of kernels, or of whole runs (the wider of these and the kernels' is printed)."""

    name: Name = Field(description="table name")
    wholes: dict[str, Whole] = Field(
        {}, description="what is predicted, and where (`step: many nodes`, `network`, `joules`) -> factors"
    )
    kernels: KernelIntervals | None = Field(None, description="of single kernels")
