"""The block ``calibration:`` of a chip: constants that were fitted, on what, and how far off they leave the model."""

from __future__ import annotations

from typing import Annotated

from accelsim.spec.base import Model
from accelsim.spec.counts import Name, once
from accelsim.spec.declaring import Field

Rows = Annotated[int, Field(ge=1, le=10**9)]
Error = Annotated[float, Field(ge=0, le=100)]
"""A relative error, 0 to 100."""


class Residual(Model):
    """How far off the calibrated model still is, on measurements that it was not fitted on."""

    rows: Rows = Field(description="measurements that it was compared with")
    median: Error = Field(description="median of the size of model / measured - 1")
    p90: Error = Field(description="90th percentile of it")


Factor = Annotated[float, Field(ge=1, le=1000)]
"""What a time is divided and multiplied by, 1 to 1,000."""


class IntervalOf(Model):
    """An interval around predictions that holds nine of ten measurements."""

    factor: Factor = Field(description="the predicted time divided by it and times it are the ends")
    rows: Rows = Field(description="measurements, left out of their fits, that it comes of")


class Calibration(Model):
    """Constants that were fitted, on what, and how far off they still are."""

    fitted_on: str = Field(description="the measurements: of what, on which device, by whom")
    rows: Rows = Field(description="how many of them the constants were fitted on")
    residual: Residual = Field(description="how far off the fit still is")
    kinds: Annotated[list[Name], once] = Field(
        [],
        description="kinds of kernels among the measurements, where they were kernels: only these have its intervals",
    )
    intervals: dict[str, IntervalOf] = Field(
        {},
        description="kind of kernel and regime (`product: few waves`), kind (`product`), or `all` -> its interval",
    )
    values: dict[str, str] = Field(
        min_length=1,
        description="constant, by the name that `--set` takes (`sm.launch`) -> its value. One that is here need not be "
        "given anywhere else; where it is given otherwise, it is not calibrated",
    )
