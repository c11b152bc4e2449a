"""A lesson: one folder of ``course`` with a text, a file to edit, a solution, hints and a check."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from numpy.random import Generator

from accelsim.seeds import generator

if TYPE_CHECKING:
    import matplotlib.figure

Figure: TypeAlias = "matplotlib.figure.Figure"


class Wrong(Exception):
    """The first thing that is wrong: where, what was expected, what came, and the rule that it breaks."""

    def __init__(self, where: str, expected: object, got: object, rule: str) -> None:
        self.where, self.expected, self.got, self.rule = clean(where), _shown(expected), _shown(got), rule
        super().__init__(where, self.expected, self.got, rule)


MOST_SHOWN = 300
"""Characters of a value that are shown."""


def clean(text: str) -> str:
    """Return a text as one short line: what cannot be printed as its code, what is too long cut off."""
    cut = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def _shown(value: object) -> str:
    return clean(value if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else repr(value))


class Ask(Protocol):
    """The student's file, wherever it runs."""

    def __call__(self, name: str, *args: Any) -> Any:
        """Return what the student's function returns. Raises Wrong where there is none, or it raises."""

    def value(self, name: str) -> object:
        """Return what the student's file says of a name. Raises Wrong where it says nothing."""


Sheet = dict[str, Any]
"""Values that a check has seen so far, for the picture, which is drawn whether or not all was right."""


class Lesson(ABC):
    """One idea, one file to edit, a check that teaches.

    ``number``: its place in the course; ``file``: what the student edits; ``idea``: in one sentence; ``minutes``: that
    it takes; ``steps``: what the check looks at, in its order.
    """

    number: int
    title: str
    idea: str
    file: str
    minutes: int
    steps: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Name of the student's folder."""
        return f"lesson-{self.number:02d}"

    def numbers(self, student: str) -> object:
        """Return what differs from student to student, the same each time for one name."""
        digest = hashlib.sha256(f"{self.number}:{student.strip().casefold()}".encode()).digest()
        return self.draw(generator(int.from_bytes(digest[:8], "big")))

    @abstractmethod
    def draw(self, rng: Generator) -> Any:
        """Draw the numbers of a student with ``rng``."""

    @abstractmethod
    def words(self, numbers: Any) -> Mapping[str, object]:
        """Return what the text says of them: name -> what stands for ``<<name>>``."""

    @abstractmethod
    def check(self, ask: Ask, numbers: Any, sheet: Sheet) -> Iterator[None]:
        """Look at one step after the other and yield after each that holds. Raises Wrong at the first thing that
        does not."""

    @abstractmethod
    def draw_picture(self, figure: Figure, numbers: Any, sheet: Sheet) -> None:
        """The student's own result, as far as it was seen."""

    def read(self, name: str) -> str:
        """Return the text of a file in the lesson's folder."""
        return (files(type(self).__module__.rpartition(".")[0]) / name).read_text(encoding="utf-8")

    @cached_property
    def hints(self) -> list[str]:
        """Hints, from a nudge to all but the answer."""
        return [part.strip() for part in self.read("hints.md").split("\n---\n")]
