"""Sequences whose items are made when somebody asks for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


class Lazy(Sequence[Item]):
    """A sequence that knows how to make the item at each place; equal to any sequence with equal items."""

    @abstractmethod
    def at(self, index: int) -> Item:
        """The item at a place, 0 to the length."""

    @overload
    def __getitem__(self, number: int) -> Item: ...
    @overload
    def __getitem__(self, number: slice) -> list[Item]: ...
    def __getitem__(self, number: int | slice) -> Item | list[Item]:
        """Items by their numbers, those below 0 from the end. Raises IndexError."""
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        index = number + len(self) if number < 0 else number
        if not 0 <= index < len(self):
            raise IndexError(f"{number} of {len(self)}")
        return self.at(index)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(one == two for one, two in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]
