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
    """An SRAM of a core; each copy of the core has one."""

    capacity: Bytes = Field(description="all of it")
    holds: Annotated[list[Role], once] = Field(min_length=1, description="what lies in it")
    fed_by: Name | None = Field(
        None,
        description="chip memory that fills it, the nearest towards its contents' home; absent: the same, per "
        "operand kind",
    )
    slots: Parts | None = Field(
        None,
        description="tiles in flight (2: double buffering); absent: the compiler decides. An activation "
        "buffer that results pass needs slot_capacity",
    )
    slot_capacity: Bytes | None = Field(None, description="largest tile in a slot; absent: what fits")
    read_width: Width = Field(description="bytes per clock out of the buffer")
    write_width: Width = Field(description="bytes per clock into the buffer")
    ports: Parts = Field(2, description="accesses at a time; others wait")
    banks: Parts | None = Field(
        None,
        description="banks, for `accelsim sram conflicts`; absent: no conflicts",
    )
    parts: Parts | None = Field(
        None,
        description="equal parts with a user each: an access costs that of an SRAM of that size; absent: one",
    )
    word: Width | None = Field(None, description="bytes per bank access; absent: read_width / banks")

    @property
    def part_B(self) -> int:
        """Bytes of each of its parts."""
        return self.capacity // (self.parts or 1)

    @property
    def word_B(self) -> int:
        """Bytes of one access: of a bank, or of the whole buffer where it has no banks."""
        return self.word or self.read_width // (self.banks or 1)
