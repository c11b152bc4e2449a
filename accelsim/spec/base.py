"""The base of all blocks of a spec file; apart from ``models`` so that its parts may live in files of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _in_the_calendar(text: str) -> str:
    """YYYY, YYYY-MM or YYYY-MM-DD that there is; ValueError otherwise."""
    year, month, day = (*map(int, text.split("-")), 1, 1)[:3]
    try:
        date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: {error}; expected YYYY, YYYY-MM or YYYY-MM-DD") from None
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$"), AfterValidator(_in_the_calendar)]
"""A year, a month or a day."""


class Model(BaseModel):
    """Base: frozen, strict about keys, with the provenance that every block may carry."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    former: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Key of older files -> the field that it became, and how that is written."""

    @classmethod
    def followed(
        cls, block: dict[str, Any], stated: Callable[[tuple[str | int, ...]], bool]
    ) -> dict[str, Any]:
        """A block of a spec file with what follows from it; ``stated``: whether a file says what is at a path."""
        return block

    source: str | None = Field(None, description="where the figures of this block come from")
    as_of: Day | None = Field(
        None,
        description="when they were published or read, YYYY or YYYY-MM or YYYY-MM-DD",
    )
    note: str | None = Field(None, description="what a reader must know about them")
