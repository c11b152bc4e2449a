"""The program: what the hardware is told to do. Commands on in-order queues, regions that they read and write.

A command holds all that it needs: what it waits for and why (``waits``), what it occupies and for how long
(``work``, by kind of engine), its effect on the contents of buffers (``effect``) and its cost (``actions``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from accelsim.program.actions import Action as Action
from accelsim.program.mapping import ProductMapping
from accelsim.program.work import Work
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Gemm

CommandKind = Literal["Load", "Store", "MatMul", "Vector", "Host", "Send", "Recv", "Barrier"]
record = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes."""
OUTSIDE = "outside"
"""Attribute of a node that somebody else does, before or after the run: it takes no time and no energy."""
Phase = Literal["w", "a", "done"]
"""Moments at which a command has finished with a region. 'w', 'a': a MatMul has read its stationary, its streamed
operand for the last time; 'done': the command is complete (a transfer: its last data beat)."""


class Wait(NamedTuple):
    """Do not start (or, ``why`` 'a' and 'acc', do not stream) before ``command`` has passed ``phase``.

    ``why``, what is missing: 'w' a full stationary tile, 'a' a full streamed one, 'acc' a free accumulator slot, 'full'
    a source that is not there yet, 'empty' a destination that is still being read.
    """

    command: int
    phase: Phase
    why: str


class Use(NamedTuple):
    """A version of a region that a command reads or writes.

    ``role`` of a read: 'w' and 'a' stationary and streamed operand of a MatMul, 'acc' partial sums, 'src' a source; of
    a write: 'whole' writes all of a new version, 'begin', 'part' and 'end' its first, a middle and its last piece.
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
    (accumulators -> result tile), 'store' (result tile out), 'append' (rows into a state), 'node' (a whole node),
    'send' and 'receive' (a message, which ``tensor`` names), 'none' (values do not depend on it). ``operands``:
    (tensor, region) pairs that are read. ``tensor``: what is written. ``last``: the node's outputs are complete.
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
        """Return 'input' or 'output' for a step that only converts the model's inputs or results, '' for a layer."""
        return str(self.node.attrs.get("edge", ""))

    @property
    def outside(self) -> bool:
        """Return whether somebody else does the step, before or after the run: it takes no time and no energy."""
        return bool(self.node.attrs.get(OUTSIDE))
