"""Errors of whole things: factors of intervals, by what is predicted and where it runs."""

from __future__ import annotations

from typing import Annotated

from accelsim.spec.base import Model
from accelsim.spec.constants import Factor, Rows
from accelsim.spec.counts import Name, Words
from accelsim.spec.declaring import Field

Held = Annotated[float, Field(ge=0, le=1)]
"""A share of rows."""
Unseen = Annotated[int, Field(ge=0, le=10**9)]
"""Measurements, or none."""


class Whole(Model):
    """Factors between which nine of ten measured things of a kind lie, and the measurements that they come of."""

    below: Factor = Field(description="the prediction divided by it is the lower end")
    above: Factor = Field(description="the prediction times it is the upper end")
    rows: Rows = Field(description="measurements that they come of")
    unseen: Unseen = Field(0, description="measurements that had no part in them")
    inside: Held | None = Field(None, description="share of these that lie within the printed interval")
    fitted_on: Words = Field(description="the measurements, by who published them")


class Intervals(Model):
    """Intervals of whole things: the wider of this and of what kernels alone tell is printed."""

    name: Name = Field(description="what the table is called")
    wholes: dict[str, Whole] = Field(
        min_length=1,
        description="what is predicted, and where it runs (`step: many nodes`, `network`, `joules`) -> its factors",
    )
