"""Every error that a user can cause. Each carries its facts as data and prints them as one clear text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: what, where (``file:line:column`` or a path), what was expected, nearest valid name."""

    what: str
    where: str = ""
    expected: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.expected:
            text += f"; expected {self.expected}"
        if self.nearest:
            text += f"; did you mean {self.nearest!r}?"
        return text


class AccelsimError(Exception):
    """Base of all errors caused by input; the command line prints it and exits with code 2."""

    def __init__(
        self, problems: Problem | str | Iterable[Problem], where: str = "", expected: str = "", nearest: str = ""
    ) -> None:
        if isinstance(problems, str):
            problems = Problem(problems, where, expected, nearest)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__(self.problems)

    @classmethod
    def raise_for(cls, problems: Iterable[Problem]) -> None:
        """Raise this error with all of ``problems``, if there are any."""
        if found := list(problems):
            raise cls(found)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class SpecError(AccelsimError):
    """A spec file (or an override of one of its fields) is wrong."""


class ModelError(AccelsimError):
    """A workload cannot be read, or holds something that no kernel knows."""


class UsageError(AccelsimError):
    """A combination of options that makes no sense."""


class Infeasible(AccelsimError):
    """A layer cannot be mapped; why, as data.

    ``op`` is the node, ``buffer`` the memory that is too small, ``needed_B`` and ``available_B`` bytes,
    ``tile`` the smallest tile that was tried, in words.
    """

    def __init__(self, op: str, buffer: str, needed_B: int, available_B: int, tile: str, why: str = "") -> None:
        self.op, self.buffer, self.tile, self.why = op, buffer, tile, why
        self.needed_B, self.available_B = needed_B, available_B
        reason = why or f"{buffer} needs {needed_B:,} B, {available_B:,} B are available"
        super().__init__(Problem(f"{op} does not fit: {reason} (tile {tile})"))
        self.args = (op, buffer, needed_B, available_B, tile, why)


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes needed in an off-chip memory at the moment of largest use, during ``layer``.

    ``weights_B``: all constants; ``states_B``: what stays there between calls, such as keys and values of earlier
    tokens; ``activations_B``: everything else; ``available_B``: the capacity. ``layer``: '' where nothing runs.
    """

    memory: str
    weights_B: int
    states_B: int
    activations_B: int
    layer: str
    available_B: int

    @property
    def needed_B(self) -> int:
        """Bytes of weights, states and activations together."""
        return self.weights_B + self.states_B + self.activations_B

    @property
    def fits(self) -> bool:
        """Return whether the memory has room for it."""
        return self.needed_B <= self.available_B

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON: the fields and ``needed_B``."""
        return {**asdict(self), "needed_B": self.needed_B}

    def __str__(self) -> str:
        terms = [
            f"{memory_text(size_B)} of {what}"
            for what, size_B in (("weights", self.weights_B), ("states", self.states_B))
            if size_B
        ]
        if self.activations_B:
            at = f" (at {self.layer})" if self.layer else ""
            terms.append(f"at most {memory_text(self.activations_B)} of activations{at}")
        if not terms:
            return f"{self.memory}: holds nothing of {memory_text(self.available_B)}"
        *first, last = terms
        told = f"{', '.join(first)} and {last}" if first else last
        verb = "fit" if self.fits else "do not fit"
        exact = f"{self.needed_B:,} B of {self.available_B:,} B"
        return f"{self.memory}: {told} {verb} into {memory_text(self.available_B)} ({exact})"


class OverCapacity(Infeasible):
    """Contents of a memory exceed its capacity. ``needs``: one entry per memory that is too small.

    The fields of ``Infeasible`` are those of the memory that lacks most.
    """

    def __init__(self, model: str, needs: Iterable[MemoryNeed]) -> None:
        self.model, self.needs = model, tuple(needs)
        worst = max(self.needs, key=lambda need: need.needed_B - need.available_B)
        self.op, self.buffer, self.tile, self.why = worst.layer or model, worst.memory, "", str(worst)
        self.needed_B, self.available_B = worst.needed_B, worst.available_B
        advice = "a chip with a larger memory, a narrower format (--dtype), a smaller batch or model; or, for a study"
        problems = [Problem(str(need), expected=f"{advice}, --ignore-capacity") for need in self.needs]
        AccelsimError.__init__(self, problems)
        self.args = (model, self.needs)


class TooLarge(AccelsimError):
    """A run would build more than a limit allows; found out before it is built.

    ``what`` asks for it (a layer, a model, a file), ``resource`` is 'commands' or 'bytes' (of this machine's memory),
    ``needed`` the estimate and ``limit`` what is allowed.
    """

    def __init__(self, what: str, resource: str, needed: int, limit: int, text: str, advice: str) -> None:
        self.what, self.resource, self.needed, self.limit = what, resource, needed, limit
        self.text, self.advice = text, advice
        shown = f"{limit:,}" if resource == "commands" else memory_text(limit)
        expected = f"{advice}; or --limit-{resource} above the limit of {shown}"
        super().__init__(Problem(text, expected=expected))
        self.args = (what, resource, needed, limit, text, advice)


class InternalError(Exception):
    """A fault of accelsim itself, whatever the input; the command line exits with code 70 and says how to report it."""


class HazardError(InternalError):
    """A command read a buffer region that was not written, or was recycled: the schedule is wrong."""

    def __init__(self, command: str, region: str, writer: str) -> None:
        self.command, self.region, self.writer = command, region, writer
        super().__init__(command, region, writer)

    def __str__(self) -> str:
        return f"{self.command} reads {self.region}, whose last writer is {self.writer}"


PLURALS = {"is": "are", "was": "were", "has": "have"}
"""Plurals of verbs that do not just lose an 's'."""


def count_of(number: int, noun: str, verb: str = "", of: int | None = None) -> str:
    """Return '1 layer', '2 layers'; with a verb '1 layer runs', '2 layers run'; with ``of`` '1 of 3 layers runs'."""
    counted = number if of is None else of
    text = f"{number:,} " + (f"of {of:,} " if of is not None else "") + noun + ("" if counted == 1 else "s")
    agreed = verb if number == 1 else PLURALS.get(verb, verb.removesuffix("s"))
    return f"{text} {agreed}" if verb else text


def memory_text(size_B: int) -> str:
    """Bytes with three digits and a binary prefix, as people say it: '4.66 GiB'."""
    size, units = float(size_B), ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    index = 0
    while size >= 1024 and index < len(units) - 1:
        size, index = size / 1024, index + 1
    return f"{size:,.0f} {units[index]}" if index == 0 or size >= 1000 else f"{size:.3g} {units[index]}"


MOST_SHOWN = 80
"""Characters of what a user gave that a message repeats."""
LONGEST_NAME = 255
"""Characters beyond which a text is no name: no file system has longer ones, and comparing it would take long."""


def brief(given: object) -> str:
    """Return what was given, as a message quotes it: its ``repr``, cut where it is long."""
    text = repr(given)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


UNQUOTED = {type(None): "an empty value", dict: "a block", list: "a list"}
"""Type of what a file gave -> what it is called, where it is no text."""


def given(value: object) -> str:
    """Return what a file gave, as a message names it: in YAML's words, else its ``brief``."""
    return UNQUOTED.get(type(value)) or brief(value)


def begun(name: str, valid: Iterable[str]) -> str:
    """The shortest valid name that begins with ``name``, or '' when none does."""
    start = name.casefold()
    return min((each for each in valid if start and each.casefold().startswith(start)), key=len, default="")


def nearest(name: str, valid: Iterable[str]) -> str:
    """The valid name that ``name`` is the beginning of, else the closest, or '' when none is close."""
    if len(name) > LONGEST_NAME:
        return ""
    names = list(valid)
    if len(name) > 1 and (longer := begun(name, names)):
        return longer
    folded = {candidate.casefold(): candidate for candidate in names}
    match = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[match[0]] if match else ""


def known(what: str, name: str, valid: Iterable[str], where: str = "") -> str:
    """``name`` if it is one of ``valid``; else UsageError with the nearest one, at ``where``."""
    names = list(valid)
    if name not in names:
        expected = f"one of {', '.join(names)}"
        raise UsageError(f"unknown {what} {name!r}", where, expected, nearest(name, names))
    return name


class Gather:
    """Collects the problems of independent checks, so that all are told at once."""

    def __init__(self) -> None:
        self._errors: list[AccelsimError] = []
        self._last: list[AccelsimError] = []

    @contextmanager
    def also(self, last: bool = False) -> Iterator[None]:
        """Keep an error of the block for later; ``last``: to be told behind the others."""
        try:
            yield
        except AccelsimError as error:
            (self._last if last else self._errors).append(error)

    def check(self, given: T | None, *checks: Callable[[T], object], last: bool = False) -> None:
        """Keep the errors of ``checks`` of something for later, where it was given."""
        for check in checks if given is not None else ():
            with self.also(last):
                check(given)  # type: ignore[arg-type]

    def refuse(self, wrong: object, what: str, where: str = "", expected: str = "") -> None:
        """Keep a problem for later where something is ``wrong``."""
        if wrong:
            self._errors.append(UsageError(what, where, expected))

    def done(self) -> None:
        """Raise what was collected: a single error as it is, several as one UsageError."""
        errors = self._errors + self._last
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise UsageError(problem for error in errors for problem in error.problems)

    def read(self, made: Callable[[], T]) -> T:
        """Return the result of ``made``. Raises its problems and all that were collected, at once."""
        found: list[T] = []
        with self.also():
            found.append(made())
        self.done()
        return found[0]
