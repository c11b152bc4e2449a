"""A site: what differs between two places that have the same chip, the clock that it keeps and the host before it."""

from __future__ import annotations

from typing import Annotated

from accelsim.errors import Problem, UsageError
from accelsim.spec.base import Model
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, with_values
from accelsim.spec.counts import Name, Share
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Seconds

Floor = Annotated[Seconds, Field(ge=0, le=1)]
"""Up to a second."""


class Site(Model):
    """Two numbers that belong to a place and not to a chip; one that is not stated is left to the chip."""

    name: Name = Field(description="what the place is called")
    sustained_clock: Share | None = Field(None, description="share of its clock that a chip keeps under load")
    dispatch: Floor | None = Field(
        None, description="time of the host for one kernel, where a framework asks for them one by one"
    )
    host_of_chip: bool = Field(
        False,
        description="whether the host is that beside which a chip was measured, where its calibration tells one "
        "(`host`), in place of `dispatch`",
    )
    measured: bool = Field(
        False,
        description="whether this is the place where the chip was measured: intervals do not cover other labs then",
    )
    fitted_on: str | None = Field(None, description="the measurements that they were fitted on")


FIELDS = ("sustained_clock", "dispatch")
"""Its numbers, by the names of the constants of an engine that they are."""


def with_site(chip: Chip, site: Site) -> Chip:
    """The chip at a site. Raises UsageError for a chip whose engines know none of its numbers."""
    known, block = constants(chip), chip.calibration
    if block is not None and site.host_of_chip and block.host is not None:
        site = site.model_copy(update={"dispatch": block.host})
    values = {name: getattr(site, field) for name in known if (field := name.rsplit(".", 1)[-1]) in FIELDS}
    if not values:
        raise UsageError(Problem(f"{chip.name} has no constant that belongs to a site", "", "a GPU"))
    if block is not None and site.measured:
        chip = chip.model_copy(update={"calibration": block.model_copy(update={"elsewhere": False})})
    return with_values(chip, {name: value for name, value in values.items() if value is not None})
