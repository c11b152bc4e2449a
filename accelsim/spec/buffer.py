"""A memory of a core, beside its engines, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Name, Parts, once
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Bytes, Width


class MemoryLevel(Model):
    """A memory in the tree of a chip: ``holds`` says which operands lie in it, ``fed_by`` where they come from."""

    holds: Sequence[str]
    fed_by: Name | None = Field(None, description="memory behind this one")


Role = Literal["activations", "weights", "partial_sums"]


class Buffer(MemoryLevel):
    """A memory of a core, an SRAM; each copy of the core has one of its own."""

    capacity: Bytes = Field(description="all of it")
    holds: Annotated[list[Role], once] = Field(min_length=1, description="what lies in it")
    fed_by: Name | None = Field(
        None,
        description="memory of the chip that it is filled from, the nearest on the way to where lives what it holds; "
        "absent: the same, for each kind of operand from where it lives",
    )
    slots: Parts | None = Field(
        None,
        description="tiles in flight (2 = double buffering); absent: the compiler decides. A buffer of activations "
        "through which results pass is parted into them only with a slot_capacity",
    )
    slot_capacity: Bytes | None = Field(None, description="largest tile of one slot; absent: what fits")
    read_width: Width = Field(description="bytes per clock out of the buffer")
    write_width: Width = Field(description="bytes per clock into the buffer")
    ports: Parts = Field(2, description="accesses at a time; those beyond wait")
    banks: Parts | None = Field(
        None,
        description="banks, for `accelsim sram conflicts`; absent: an access never meets another in a bank",
    )
    parts: Parts | None = Field(
        None,
        description="equal memories that it is made of, each with a user of its own: an access costs what it costs in "
        "an SRAM of that size; absent: one",
    )
    word: Width | None = Field(
        None, description="bytes that a bank reads or writes at a time; absent: read_width / banks"
    )

    @property
    def part_B(self) -> int:
        """Bytes of each of its parts."""
        return self.capacity // (self.parts or 1)

    @property
    def word_B(self) -> int:
        """Bytes of one access: of a bank, or of the whole buffer where it has no banks."""
        return self.word or self.read_width // (self.banks or 1)
