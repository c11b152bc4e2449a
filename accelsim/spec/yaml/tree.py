"""The content of a spec file as a plain tree, with the place of every key and value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from accelsim.errors import Problem

PathTo = tuple[str | int, ...]
BROKEN = "\0broken"
"""Stands where a file or block could not be read: its problem is already noted."""


class Mark(NamedTuple):
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int
    family: str = ""  # that is written there, of a key that it brings

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass
class Tree:
    """``value``: dicts, lists, texts, None. ``keys``, ``values``: where a path's key and value stand."""

    value: Any = None
    keys: dict[PathTo, Mark] = field(default_factory=dict)
    values: dict[PathTo, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    heads: list[PathTo] = field(default_factory=list)  # blocks that are a whole file

    def at(self, path: PathTo, key: bool = False) -> Mark:
        """The place of ``path`` (of its key when ``key``), or of the nearest block around it."""
        table = self.keys if key else self.values
        while path not in table:
            if not path:
                return Mark("", 0, 0)
            table, path = self.values, path[:-1]
        return table[path]

    def written(self, path: PathTo) -> PathTo:
        """``path`` as the file has it: with the family where one brings its last key."""
        mark = self.keys.get(path)
        return (*path[:-1], mark.family) if mark is not None and mark.family else path

    def graft(self, path: PathTo, other: Tree) -> None:
        """Take over the marks, problems and heads of ``other``, which was put at ``path``."""
        self.keys.update({path + inner: mark for inner, mark in other.keys.items()})
        self.values.update({path + inner: mark for inner, mark in other.values.items()})
        self.heads += [path + inner for inner in other.heads]
        self.problems += other.problems

    def forget(self, path: PathTo) -> None:
        """Drop what is known of ``path`` and below: it is about to be replaced."""
        inside = len(path)
        for marks in (self.keys, self.values):
            for gone in [each for each in marks if each[:inside] == path]:
                del marks[gone]
        self.heads = [each for each in self.heads if each[:inside] != path]

    def copy(self) -> Tree:
        """Return an independent tree with the same content."""
        return Tree(_copied(self.value), dict(self.keys), dict(self.values), list(self.problems), list(self.heads))

    def unsourced(self, path: PathTo = (), value: object = None) -> list[Problem]:
        """Every file in the block at ``path`` says where its figures come from and when they were read.

        ``value``: the block, where it does not stand in the tree yet.
        """
        problems = []
        for head in (each for each in self.heads if each[: len(path)] == path):
            block = reduce(lambda inner, part: inner[part], head[len(path) :], self.value if value is None else value)
            for key in ("source", "as_of"):
                if isinstance(block, dict) and block.get(key) in (None, ""):
                    what = about((*head, key), "missing")
                    problems.append(Problem(what, str(self.at(head)), "where the figures come from, and when"))
        return problems

    def problem(self, path: PathTo, what: str, expected: str = "", near: str = "", key: bool = False) -> None:
        """Note a problem at ``path``."""
        self.problems.append(Problem(what, str(self.at(path, key)), expected, near))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def dotted(path: PathTo) -> str:
    """Return a path as text: 'memories.ddr3.memory.bandwidth'."""
    return ".".join(str(part) for part in path)


def about(path: PathTo, what: str) -> str:
    """``what``, said of ``path``; of a whole file (path ()) the place says enough."""
    return f"{dotted(path)}: {what}" if path else what
