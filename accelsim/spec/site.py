"""A site: what differs between two places that have the same chip, the clock that it keeps and the host before it."""

from __future__ import annotations

from typing import Annotated

from accelsim.errors import UsageError
from accelsim.spec.base import Day, Model
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, with_values
from accelsim.spec.counts import Name, Share, Words
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Dollars, DollarsPerKWh, DollarsPerKWMonth, Seconds, Watts

Floor = Annotated[Seconds, Field(ge=0, le=1)]
"""Up to a second."""


Years = Annotated[float, Field(ge=0.5, le=30)]
"""A time, 0.5 to 30 years."""
Yearly = Annotated[float, Field(ge=0, le=1)]
"""A share of a price or a debt, per year."""
Overhead = Annotated[float, Field(ge=1, le=5)]
"""Energy of a whole site per energy of its machines, 1 to 5."""


Spread = Annotated[float, Field(ge=1, le=100)]
"""Ratio of an end of an interval and its middle, 1 to 100."""


class Machine(Model):
    """A machine that can be bought: a cluster or a chip, by its name."""

    price: Dollars = Field(description="price, paid once")
    as_of: Day = Field(description="day of the price")
    power: Watts | None = Field(
        None, description="rated power, the accelerators included, by which its place is rented; absent: as simulated"
    )


class Owning(Model):
    """Assumptions about owned machines. `sources` says of each field where it comes from."""

    power_price: DollarsPerKWh = Field(description="price of energy")
    pue: Overhead = Field(description="energy of the site per energy of its machines (power usage effectiveness)")
    colocation: DollarsPerKWMonth = Field(0.0, description="rent of the place, by the machine's rated power")
    years: Years = Field(description="time in use")
    residual: Yearly = Field(0.0, description="share of the price that a machine is worth afterwards")
    interest: Yearly = Field(0.0, description="interest per year")
    operations: Yearly = Field(0.0, description="staff, spares and repairs per year, as a share of the price")
    load: Share = Field(1.0, description="share of the hours in which accelerators work")
    power: Watts | None = Field(None, description="drawn by a machine at work; absent: as simulated")
    idle_power: Watts | None = Field(
        None, description="drawn by an idle machine; absent: by its spec, or as at work where that has none"
    )
    sources: dict[Name, Words] = Field({}, description="field -> where its figure comes from")
    machines: dict[Name, Machine] = Field({}, description="prices of machines, by name of the cluster or chip")


class Front(Model):
    """A serving engine around the work of chips: its own work in each step, and the way from a client to its
    queue."""

    step: Seconds = Field(0.0, ge=0, description="work on the host in each step, for which the chips wait")
    sequence: Seconds = Field(0.0, ge=0, description="more of it for each sequence of a step")
    request: Seconds = Field(0.0, ge=0, description="from a client to the queue and back: network, HTTP")
    token: Seconds = Field(0.0, ge=0, description="more of it for each token of a prompt that no earlier one shares")
    factor: Spread = Field(1.0, description="the way may be so many times as long, or as short (90 %)")


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
    owning: Owning | None = Field(None, description="what owning machines costs here")
    front: Front | None = Field(None, description="serving engine of this place, around its steps")

    @property
    def around(self) -> bool:
        """Return whether it states what is around chips, and nothing of them."""
        return self.front is not None and not self.measured and all(getattr(self, field) is None for field in FIELDS)


FIELDS = ("sustained_clock", "dispatch")
"""Numbers of a site, named as the constants of an engine that they replace."""


def with_site(chip: Chip, site: Site) -> Chip:
    """The chip at a site. Raises UsageError for a chip whose engines know none of its numbers."""
    if site.around:
        return chip
    known, block = constants(chip), chip.calibration
    if block is not None and site.host_of_chip and block.host is not None:
        site = site.model_copy(update={"dispatch": block.host})
    values = {name: getattr(site, field) for name in known if (field := name.rsplit(".", 1)[-1]) in FIELDS}
    if not values:
        raise UsageError(f"{chip.name} has no constant that belongs to a site", "", "a GPU")
    if block is not None and site.measured:
        chip = chip.model_copy(update={"calibration": block.model_copy(update={"elsewhere": False})})
    return with_values(chip, {name: value for name, value in values.items() if value is not None})
