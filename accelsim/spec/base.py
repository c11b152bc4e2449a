"""The base of all blocks of a spec file; apart from ``models`` so that its parts may live in files of their own."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Base: frozen, strict about keys, with the provenance that every block may carry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | None = Field(None, description="where the figures of this block come from")
    as_of: str | None = Field(
        None,
        pattern=r"^\d{4}(-\d\d){0,2}$",
        description="when they were published or read, YYYY or YYYY-MM or YYYY-MM-DD",
    )
    note: str | None = Field(None, description="what a reader must know about them")
