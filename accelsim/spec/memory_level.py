"""What every memory of a chip has in common, beside the engines of a core or shared by all: its place in the tree."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.spec.base import Model
from accelsim.spec.counts import Name
from accelsim.spec.declaring import Field


class MemoryLevel(Model):
    """A memory in the tree of a chip: ``holds`` says which operands lie in it, ``fed_by`` where they come from."""

    holds: Sequence[str]
    fed_by: Name | None = Field(None, description="memory behind this one")
