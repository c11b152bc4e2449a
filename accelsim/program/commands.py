"""The program: what the hardware is told to do. Commands on in-order queues, regions that they read and write.

Everything that a command needs in order to run is in the command: which commands it waits for and why (``waits``),
what it occupies and for how long (``work``, by engine kind), what it does to the contents of the buffers (``effect``)
and what it costs (``actions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from accelsim.errors import MemoryNeed
from accelsim.program.actions import Action as Action
from accelsim.program.mapping import ProductMapping
from accelsim.spec.chip import Chip
from accelsim.spec.link import Link
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.base import Gemm

if TYPE_CHECKING:
    from accelsim.program.repeated import Repeat

CommandKind = Literal["Load", "Store", "MatMul", "Vector", "Host", "Send", "Recv", "Barrier"]
OUTSIDE = "outside"
"""Attribute of a node that somebody else does, before or after the run: it takes no time and no energy."""
Phase = Literal["w", "a", "done"]
"""When a command has finished with a region: 'w' and 'a' when a MatMul has read its stationary and its streamed
operand for the last time, 'done' when the command completes (for a transfer: its last data beat)."""


class Wait(NamedTuple):
    """Do not start (or, ``why`` 'a' and 'acc', do not stream) before ``command`` has passed ``phase``.

    ``why`` names what is missing: 'w' a full stationary tile, 'a' a full streamed tile, 'acc' a free accumulator
    slot, 'full' a source that is not there yet, 'empty' a destination that is still being read.
    """

    command: int
    phase: Phase
    why: str


class Use(NamedTuple):
    """A version of a region that a command reads or writes.

    ``role`` of a read: 'w' and 'a' stationary and streamed operand of a MatMul, 'acc' partial sums, 'src' a source.
    ``role`` of a write: 'whole' writes all of a new version, 'begin', 'part' and 'end' the first, a middle and the
    last piece of it.
    """

    region: int
    version: int
    role: str


class Region(NamedTuple):
    """A range of bytes of a buffer, or a whole tensor in an off-chip memory (``offset`` -1).

    ``overlaps``: older regions of the same bytes that were written, which are gone once this one is written.
    ``streams``: it is a window through which pieces that are larger pass, a few lines at a time.
    """

    id: int
    memory: str
    name: str
    offset: int
    size_B: int
    overlaps: tuple[int, ...] = ()
    streams: bool = False


class Transfer(NamedTuple):
    """Work of a Load or Store: bytes through the port of an attached memory.

    ``offset_B``: where a contiguous piece of a tensor begins; for tiles ``effect`` says which one it is. The addresses
    follow from both (``accelsim.program.addresses``). ``times``: how often the bytes of the tile are among ``nbytes``.
    """

    memory: str
    nbytes: int
    write: bool
    offset_B: int = 0
    times: int = 1


class Folds(NamedTuple):
    """Work of a MatMul: ``n`` folds that stream ``rows`` rows each, at ``cycles_per_row``.

    Of the clocks in which a fold streams, rows wait ``held`` for the narrow port of the buffer ``held_by``. Where sums
    leave at the end of a fold, the buffer ``sums`` takes a row of them in ``leave`` clocks.
    """

    n: int
    rows: int
    cycles_per_row: int
    held: int = 0
    held_by: str = ""
    leave: int = 1
    sums: str = ""


class Cycles(NamedTuple):
    """Work of a Vector command, or of a MatMul that takes a known time, in clocks of its unit.

    ``w``, ``a``: clocks after which a MatMul has read its operands for the last time. ``width``: how many parts of an
    engine that several queues share it has work for, 0 for none of them.
    """

    clocks: int
    w: int = 0
    a: int = 0
    width: int = 0


class Stages(NamedTuple):
    """Work of a command that passes stages one after the other: (name, clocks of its unit) of each."""

    stages: tuple[tuple[str, int], ...]

    @property
    def clocks(self) -> int:
        """All of them."""
        return sum(clocks for _, clocks in self.stages)


class Duration(NamedTuple):
    """Work of a Host command."""

    fs: int


class Message(NamedTuple):
    """Work of a Send or Recv: bytes to or from another device. ``tag`` tells messages between two devices apart."""

    peer: str
    tag: str
    nbytes: int


class Meet(NamedTuple):
    """Work of a Barrier: it completes when every one of ``parties`` (names of devices) has come to it."""

    name: str
    parties: tuple[str, ...]


Work = Transfer | Folds | Cycles | Stages | Duration | Message | Meet
"""What a command occupies and for how long, by engine kind."""


class Tile(NamedTuple):
    """Half-open ranges of one tile of a GEMM: groups, M, N, K."""

    g0: int
    g1: int
    m0: int
    m1: int
    n0: int
    n1: int
    k0: int
    k1: int


class Effect(NamedTuple):
    """Effect of a command on contents, as data, which the value policies interpret.

    ``what``: 'copy' (a whole tensor), 'load_a', 'load_b', 'load_side' (a tile of an operand), 'product', 'epilogue'
    (accumulators -> result tile; also on their way out of the chip), 'store' (result tile out), 'append' (rows into a
    state), 'node' (a whole node at once), 'send' and 'receive' (a message, which ``tensor`` names), 'none' (nothing
    that the values depend on). ``last``: the node's outputs are
    complete.
    ``operands``: (tensor, region) pairs that the command reads. ``tensor``: what is written.
    """

    what: str
    tile: Tile | None = None
    operands: tuple[tuple[str, int], ...] = ()
    tensor: str = ""
    last: bool = False


@dataclass(slots=True)
class Command:
    """One entry of an engine's queue. ``op`` is the index of the step in ``Program.steps``."""

    id: int
    kind: CommandKind
    engine: str
    op: int
    label: str
    work: Work
    effect: Effect
    waits: tuple[Wait, ...] = ()
    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    actions: tuple[Action, ...] = ()
    core: int = 0


@dataclass
class Step:
    """One row of the per-layer tables: a fused node, where it runs and how it was mapped.

    ``binds``: the path that limits the mapping by its closed form; ``scored``: candidates that were compared.
    """

    name: str
    label: str
    engine: str
    out_shape: tuple[int, ...]
    node: Node
    macs: int = 0
    ops: int = 0
    gemm: Gemm | None = None
    mapping: ProductMapping | None = None
    note: str = ""
    binds: str = ""
    scored: int = 0

    @property
    def edge(self) -> str:
        """Return 'input' or 'output' for a step that only converts the model's inputs or results, '' for a
        layer."""
        found: str = self.node.attrs.get("edge", "")
        return found

    @property
    def outside(self) -> bool:
        """Return whether somebody else does the step, before or after the run: it takes no time and no energy."""
        return bool(self.node.attrs.get(OUTSIDE))


@dataclass(repr=False)
class Program:
    """Commands in program order (queues keep that order), regions and steps, for ``chip`` as it was configured.

    ``cores`` cores run the graph side by side, each on its own part of the batch (``graph`` is that of one core).
    ``presets``: regions that hold a tensor from the start (region -> tensor, core). ``results``: graph output -> the
    region in which it ends, per core. ``engines``: engine -> its type, a name of ``accelsim.engines.registry``.
    ``needs``: off-chip memory -> what must be in it at one time. ``received``: inputs that other devices send.
    ``peers``: other device -> the links on the way to it. ``repeat``: which commands are copies that nobody has
    written, see ``accelsim.program.repeated``.
    """

    graph: Graph
    chip: Chip
    dtype: str
    commands: Sequence[Command]
    regions: list[Region]
    steps: list[Step]
    presets: dict[int, tuple[str, int]]
    results: dict[str, list[int]]
    engines: dict[str, str]
    cores: int = 1
    notes: list[str] = field(default_factory=list)
    needs: dict[str, MemoryNeed] = field(default_factory=dict)
    received: frozenset[str] = frozenset()
    peers: dict[str, tuple[Link, ...]] = field(default_factory=dict)
    repeat: Repeat | None = None

    def __repr__(self) -> str:
        """One line: what runs where, and how large it is."""
        size = f"{len(self.steps)} steps, {len(self.commands)} commands"
        return f"Program({self.graph.name} on {self.chip.name}, {self.dtype}: {size})"
