"""A site: what differs between two places that have the same chip, the clock that it keeps and the host before it."""

from __future__ import annotations

from typing import Annotated

from accelsim.errors import UsageError
from accelsim.spec.base import Model
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, with_values
from accelsim.spec.counts import Name, Share
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Seconds

Floor = Annotated[Seconds, Field(ge=0, le=1)]
"""Up to a second."""


class Site(Model):
    """Numbers of a place instead of a chip; absent ones are the chip's."""

    name: Name = Field(description="place name")
    sustained_clock: Share | None = Field(None, description="share of the clock kept under load")
    dispatch: Floor | None = Field(None, description="host time per kernel in an eager framework")
    host_of_chip: bool = Field(
        False, description="use the host of the chip's calibration (`host`), if any, instead of `dispatch`"
    )
    measured: bool = Field(False, description="the chip was measured here: intervals do not cover other labs")
    fitted_on: str | None = Field(None, description="fitted measurements")


FIELDS = ("sustained_clock", "dispatch")
"""Its numbers, by the names of the constants of an engine that they are."""


def with_site(chip: Chip, site: Site) -> Chip:
    """The chip at a site. Raises UsageError for a chip whose engines know none of its numbers."""
    known, block = constants(chip), chip.calibration
    if block is not None and site.host_of_chip and block.host is not None:
        site = site.model_copy(update={"dispatch": block.host})
    values = {name: getattr(site, field) for name in known if (field := name.rsplit(".", 1)[-1]) in FIELDS}
    if not values:
        raise UsageError(f"{chip.name} has no constant that belongs to a site", "", "a GPU")
    if block is not None and site.measured:
        chip = chip.model_copy(update={"calibration": block.model_copy(update={"elsewhere": False})})
    return with_values(chip, {name: value for name, value in values.items() if value is not None})
