"""Errors of whole things: factors of intervals by what is predicted and where it runs."""

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
    """A factor that holds nine of ten measured things of a kind, and the measurements that it comes of."""

    factor: Factor = Field(description="the prediction divided by it and times it are the ends")
    rows: Rows = Field(description="measurements that it comes of")
    unseen: Unseen = Field(0, description="measurements that had no part in it")
    inside: Held | None = Field(None, description="share of these that lie within the printed interval")
    fitted_on: Words = Field(description="the measurements, by who published them")


class Intervals(Model):
    """Factors of intervals of whole things: the wider of this and of what kernels alone tell is printed."""

    name: Name = Field(description="what the table is called")
    wholes: dict[str, Whole] = Field(
        min_length=1,
        description="what is predicted, and where it runs (`step: many nodes`, `network`, `joules`) -> its factor",
    )
