"""A run: what happened. Timeline, ledger of actions, output values; everything else is computed from these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from accelsim.engines.device import History, Mix
from accelsim.engines.registry import ENGINES
from accelsim.program.actions import ActionName
from accelsim.program.commands import Program
from accelsim.spec.chip import Chip
from accelsim.time import FS
from accelsim.types import Array

if TYPE_CHECKING:
    from accelsim.machine.dram_stats import Accesses, DramStats
    from accelsim.machine.replay import Replay


@dataclass
class CacheStats:
    """Accesses to lines that hit and that missed; bytes fetched from ``memory``, written back to it, of stores that
    passed through to it and that changed a line on the way; bytes that are left which the memory does not have."""

    memory: str
    line_B: int
    hits: int = 0
    misses: int = 0
    fetched_B: int = 0
    written_back_B: int = 0
    through_B: int = 0
    changed_B: int = 0
    dirty_B: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the accesses that hit; 0 without any."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0

    def as_dict(self) -> dict[str, int | float | str]:
        """Return the facts for JSON."""
        return {
            "memory": self.memory,
            "line_B": self.line_B,
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hit_rate,
            "fetched_B": self.fetched_B,
            "written_back_B": self.written_back_B,
            "through_B": self.through_B,
            "dirty_B": self.dirty_B,
        }


T = TypeVar("T")


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


PATH_KINDS: dict[str, str] = {
    **{kind: text for entry in ENGINES.values() for kind, text in entry.pieces},
    "buffer_port": "no port of a buffer is free",
    "hand_over": "a token passes on, and the next clock edge comes; also the first edge of the run",
}
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
"""What a command on the critical path had to wait for: the reason why the piece before is on the path too."""


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
    asked: dict[str, Any] = field(default_factory=dict)  # what was asked, see ``request.record``; {}: not recorded

    replay: Replay | None = field(default=None, repr=False, compare=False)  # what of it was replayed, not simulated

    def __repr__(self) -> str:
        """One line: what ran, where, how long it took."""
        name, chip = self.program.graph.name, self.chip.name
        return f"{type(self).__name__}({name} on {chip}, {self.program.dtype}: {self.seconds:.4g} s)"

    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What others have worked out about this run, to be worked out once; a copy with other fields begins anew."""

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` gives, worked out once for this run and kept under ``name`` in ``derived``."""
        if name not in self.derived:
            self.derived[name] = make()
        found: T = self.derived[name]
        return found

    @property
    def seconds(self) -> float:
        """Latency of the run, s."""
        return self.time_fs * FS
