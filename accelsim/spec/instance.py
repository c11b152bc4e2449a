"""Instances of a provider: what can be rented, what is inside, and what it costs by day, region and term."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from accelsim.spec.base import Day, Model
from accelsim.spec.counts import Name, Words
from accelsim.spec.declaring import Field
from accelsim.spec.laws.finding import Finding
from accelsim.spec.quantity import BilledSeconds, Bytes, BytesPerSecond, DollarsPerHour

Term = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "owned"]
"""Terms of a price: by the hour, as long as nobody bids more, bound for one or three years, the cost of owning."""
Confidence = Literal["high", "medium", "low", "estimate"]
"""Trust in a source: the provider's own list, somebody else's, recalled, an estimate."""
Slice = Annotated[float, Field(ge=0.01, le=1)]
"""Share of one accelerator, 0.01 to 1."""
Number = Annotated[int, Field(ge=0, le=1024)]
"""Accelerators of an instance, 0 to 1,024."""


class PriceSource(Model):
    """A place where prices were read."""

    text: Words = Field(description="what it is")
    confidence: Confidence = Field(
        description="`high`: the provider's own list; `medium`: read elsewhere; `low`: recalled"
    )


class Price(Model):
    """The price of an hour of an instance."""

    price: DollarsPerHour = Field(description="price of the instance")
    beside: DollarsPerHour = Field(0.0, description="price of the machine that is billed apart and needed too")
    term: Term = Field("on-demand", description="how long one is bound")
    region: Words = Field("", description="region; absent: that of the provider")
    as_of: Day = Field(description="day of the price: YYYY, YYYY-MM or YYYY-MM-DD")
    source: Name = Field(description="key of the provider's `sources`")

    @property
    def hour_USD(self) -> float:
        """Price of an hour with everything that is billed, USD."""
        return float(self.price) + float(self.beside)


class Instance(Model):
    """A machine for rent; without accelerators its processor computes."""

    chip: Name | None = Field(None, description="spec of its accelerator; absent: there is none yet")
    accelerator: Words | None = Field(None, description="name of an accelerator without a spec")
    count: Number = Field(description="accelerators")
    share: Slice = Field(1.0, description="share of one accelerator that it has")
    cluster: Words | None = Field(
        None, description="cluster that it is inside; absent: one accelerator, or several on PCIe"
    )
    vcpus: Number | None = Field(None, description="hardware threads")
    memory: Bytes | None = Field(None, description="main memory")
    processor: Words | None = Field(None, description="host processor")
    network: BytesPerSecond | None = Field(None, description="to other instances")
    inside: Words | None = Field(None, description="what joins its accelerators")
    prices: list[Price] = Field([], description="what it costs; empty: no price")


class Provider(Model):
    """Instances that one provider rents out."""

    name: Name = Field(description="provider name, the part before the colon: `aws:p4d.24xlarge`")
    title: Words = Field(description="in full")
    region: Words = Field("", description="region of prices that name none")
    billed_by: BilledSeconds = Field(3600, description="time is billed in pieces of this length")
    billed_at_least: BilledSeconds = Field(0, description="shortest time billed")
    sources: dict[Name, PriceSource] = Field({}, description="where prices were read")
    instances: dict[Name, Instance] = Field(description="name -> instance")


def provider_findings(provider: Provider) -> Iterator[Finding]:
    """Sources that are not listed; prices that are nothing; instances that say twice or not at all what is inside."""
    for name, instance in provider.instances.items():
        place = ("instances", name)
        if instance.chip and instance.accelerator:
            yield Finding((*place, "accelerator"), "the instance has a chip already", "chip: or accelerator:")
        if instance.chip and not instance.count:
            yield Finding((*place, "count"), "the instance has a chip, and none of it", "1 or more")
        if instance.count and not instance.chip and not instance.accelerator:
            yield Finding(place, "nothing says which accelerator it has", "chip: or accelerator:")
        for index, price in enumerate(instance.prices):
            if price.source not in provider.sources:
                known = ", ".join(provider.sources) or "a list of sources"
                yield Finding((*place, "prices", index, "source"), f"no source {price.source!r}", known)
            if not price.hour_USD:
                yield Finding((*place, "prices", index, "price"), "nothing is free", "no entry where there is no price")
