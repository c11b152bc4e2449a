"""A run: what happened. Timeline, ledger of actions, output values; everything else is computed from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from accelsim.engines.device import History, Mix
from accelsim.engines.registry import TypeTable
from accelsim.errors import count_of
from accelsim.program.actions import ActionName
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.time import FS
from accelsim.types import Array, Ints

if TYPE_CHECKING:
    from accelsim.machine.dram_stats import Accesses, CacheStats, DramStats
    from accelsim.program.repeated import Repeat


T = TypeVar("T")
Key = TypeVar("Key", bound=tuple[Any, ...])


class LawError(AssertionError):
    """The simulator contradicts itself; the text has the numbers. Never the user's fault."""


class Slice(NamedTuple):
    """One command on one engine, times in fs. ``start`` is when it occupied the engine, ``data`` when its operands
    moved (a transfer: first data beat; a MatMul: first streamed row), ``end`` when it completed."""

    command: int
    engine: str
    op: int
    label: str
    start: int
    data: int
    end: int

    def moved(self, command: int, op: int, label: str, fs: int) -> Slice:
        """Return a copy of the slice for another command, ``fs`` later."""
        return Slice(command, self.engine, op, label, self.start + fs, self.data + fs, self.end + fs)


class Segment(NamedTuple):
    """A piece of the critical path, times in fs: ``command`` kept the run waiting in ``kind`` of way (``PATH_KINDS``).

    ``resource``: what it was busy with or waited for, by its name: an engine's kind, a memory, a link, a buffer.
    ``mix``: the reasons that its time goes to, where these are several. ``why``: what the start of the piece had to
    wait for (``PATH_LINKS``).
    """

    start: int
    end: int
    command: int
    kind: str
    resource: str
    mix: Mix = ()
    why: str = ""


PATH_KINDS = TypeTable(
    lambda types: {
        **{kind: text for entry in types for kind, text in entry.pieces},
        "buffer_port": "no port of a buffer is free",
        "hand_over": "a token passes on, and the next clock edge comes; also the first edge of the run",
    }
)
"""Kinds of pieces of the critical path: those that engine types emit, and what happens between engines."""

PATH_LINKS: dict[str, str] = {
    "start": "nothing: the start of the run",
    "queue": "the command before it on the same engine",
    "port": "the transfer before it through the same port",
    "w": "its stationary operand",
    "a": "its streamed operand",
    "full": "what it reads",
    "acc": "a free accumulator slot",
    "empty": "a free place in a buffer",
}
"""Links of the critical path: a command waits for this, so the piece before it is on the path too."""


class LedgerRow(NamedTuple):
    """One ledger row: ``count`` times ``action`` of ``component`` for ``op`` (index of the step) and ``tensor``.

    Action names: component 'matrix': 'mac.<format>' (algorithmic), 'mac.skipped'
    (algorithmic, but of pruned weights that a sparse unit passes over), 'mac.padding' (PEs that multiplied zeros or
    idled in a fold), 'pe_register.read'/'pe_register.write' (bytes), 'pe_network.hop' (bytes, once for each step from
    a PE to the next). A buffer: 'read'/'write' (bytes). A memory: 'read'/'write' (bytes), and where its commands were
    followed 'act', 'rd', 'wr', 'ref', 'refpb' (commands), 'io.read', 'io.write' (bursts on the pins). A link:
    'transfer' (bytes). 'vector': 'op.<format>' (operations). 'host': 'op' (operations), 'busy' (fs).
    """

    component: str
    action: ActionName
    op: int
    tensor: str
    count: int  # type: ignore[assignment]  # a column of the ledger; nobody counts tuple members


class Busy(NamedTuple):
    """Times of one engine over the run, fs: busy, stalled (by reason) and idle, which add up to the whole."""

    engine: str
    busy: int
    stalled: dict[str, int]
    idle: int


@dataclass(repr=False)
class Run:
    """Everything that one simulation produced. Times are integer fs."""

    chip: Chip
    program: Program
    values: str  # policy: exact, fast, off
    time_fs: int
    slices: Sequence[Slice]  # in the order of their commands
    ledger: list[LedgerRow]
    engines: list[Busy]
    step_spans: list[tuple[int, int]]  # per step: first start, last end
    step_stalls: list[dict[str, int]]  # per step: why its MatMuls waited ('active', 'shift', 'weights', ...), fs
    feeds: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    tensors: dict[str, Array] = field(default_factory=dict)  # every materialised tensor, when asked to keep them
    nonzero_macs: dict[int, int] = field(
        default_factory=dict
    )  # per step, where the unit gates multiplications by zero and values are known: those without a zero operand
    histories: Sequence[History] = ()  # in the order of their commands
    job: Any = field(
        default=None, repr=False, compare=False
    )  # the accelsim.request.job.Job that it did, where it came from one
    memory_model: str = "bandwidth"  # a key of ``memory_models.MODELS``
    dram: dict[str, DramStats] = field(default_factory=dict)  # per memory, where its commands were followed
    caches: dict[str, CacheStats] = field(default_factory=dict)  # by name of the level
    accesses: dict[str, Accesses] = field(default_factory=dict)  # per such memory, every burst, when asked for
    asked: dict[str, object] = field(default_factory=dict)  # what was asked, see ``request.record``; {}: not recorded

    replay: Replay | None = field(default=None, repr=False, compare=False)  # what of it was replayed, not simulated

    def __repr__(self) -> str:
        """One line: what ran, where, how long it took."""
        name, chip = self.program.graph.name, self.chip.name
        return f"{type(self).__name__}({name} on {chip}, {self.program.dtype}: {self.seconds:.4g} s)"

    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results that others derived from this run, each computed once; a copy with other fields begins anew."""

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` gives, worked out once for this run and kept under ``name`` in ``derived``."""
        if name not in self.derived:
            self.derived[name] = make()
        found: T = self.derived[name]
        return found

    @property
    def times(self) -> Ints:
        """Return start, data and end of all slices, fs: three rows."""
        return self.once("times", lambda: np.array([piece[4:] for piece in self.slices], np.int64).reshape(-1, 3).T)

    @property
    def seconds(self) -> float:
        """Latency of the run, s."""
        return self.time_fs * FS


@dataclass
class Replay:
    """Extension of the ``short`` run to the whole ``program``: copies of the unit written last follow each other by
    ``shift`` fs. ``equal``: that unit did what the unit before it did; else they differ by less than 0.1 %."""

    program: Program
    short: Run
    shift: Fraction
    equal: bool = True

    @property
    def repeat(self) -> Repeat:
        """Return which commands are copies."""
        assert self.program.repeat is not None
        return self.program.repeat

    def later_fs(self, copies: int) -> int:
        """Return how much later a copy is than the unit written last, fs."""
        return copies * self.shift.numerator // self.shift.denominator

    @property
    def behind_fs(self) -> int:
        """Return how much later is what comes behind the copies."""
        return self.later_fs(self.repeat.times)

    @property
    def commands(self) -> int:
        """Return how many commands were not simulated."""
        return self.repeat.commands.size * self.repeat.times

    @property
    def text(self) -> str:
        """Return how much was replayed, in words."""
        often, unit = count_of(self.repeat.times, "repetition"), self.repeat.commands.size
        whole = len(self.program.commands)
        mean = "" if self.equal else ", the mean of two blocks that differ by less than 0.1%"
        return (
            f"replay: {self.commands:,} of {whole:,} commands ({100 * self.commands / whole:.0f}%) were "
            f"not simulated: {often} of the same {unit:,}, each {self.later_fs(1) * FS:.4g} s later{mean}"
        )

    def later(self, piece: Slice, copy: int) -> Slice:
        """A slice of the unit in a copy."""
        repeat = self.repeat
        command, op = piece.command + copy * repeat.commands.size, piece.op + copy * repeat.steps.size
        return piece.moved(command, op, repeat.text(piece.label, copy), self.later_fs(copy))

    def behind(self, piece: Slice) -> Slice:
        """Return a slice that follows the copies, at its time in the whole run."""
        number, op = self.repeat.commands.long(piece.command), self.step_of(piece.command)
        return piece.moved(number, op, piece.label, self.behind_fs)

    def step_of(self, command: int) -> int:
        """The step in the whole program of a command of the short one."""
        return self.program.commands[self.repeat.commands.long(command)].op

    def summed(self, figures: Callable[[Sequence[Slice]], Mapping[Key, int]]) -> dict[Key, int]:
        """Figures of the whole run by keys that begin with a step: ``figures`` gives those of slices of the short run,
        of which steps behind the copies have the numbers that they have in the whole run."""
        pieces, span, steps = self.short.slices, self.repeat.commands, self.repeat.steps.size
        found = dict(figures(pieces[: span.end]))
        unit = figures(pieces[span.end - span.size : span.end])
        for copy in range(1, self.repeat.times + 1):
            add_to(found, {cast(Key, (key[0] + copy * steps, *key[1:])): count for key, count in unit.items()})
        add_to(found, figures([piece._replace(op=self.step_of(piece.command)) for piece in pieces[span.end :]]))
        return found


def add_to(totals: dict[Key, int], more: Mapping[Key, int]) -> None:
    """Add counts to those of the same keys."""
    for key, count in more.items():
        totals[key] = totals.get(key, 0) + count
