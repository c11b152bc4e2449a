"""Interface of an engine type: one object that the registry finds, asked by compiler, machine and reports.

An engine type says which nodes it does and writes their commands, how its queues run as processes, how long its
engines were busy and what they waited for. What it needs of a simulation is a ``Device``, what its processes record of
a command a ``History``; it knows nothing else of the machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar, cast

from accelsim.engines.device import Device
from accelsim.program.commands import Command, Step
from accelsim.program.mapping import Pins, ProductMapping
from accelsim.program.program import Program
from accelsim.program.roles import Unit
from accelsim.program.writing.layout import Layout
from accelsim.spec.chip import Chip
from accelsim.spec.status import Status
from accelsim.time import Clock
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.base import Gemm, Op

if TYPE_CHECKING:
    from accelsim.engines.kernel_times import KernelModel


class Offer(NamedTuple):
    """A node that somebody must do: ``op`` is its operator, ``multiplies`` whether the formats of the engine take its
    operands as they are."""

    graph: Graph
    node: Node
    op: Op
    chip: Chip
    unit: Unit
    multiplies: bool


M = TypeVar("M", bound=ProductMapping)
T = TypeVar("T")
MappingKind = type[ProductMapping]


class Tuner(Protocol):
    """Decides among the best candidates of a search."""

    @property
    def leaders(self) -> int:
        """Return how many it wants to see."""

    def fastest(self, what: str, depends: str, mappings: Sequence[M], program: Callable[[M], Program]) -> M:
        """Return one of the mappings of ``what``. ``depends``: everything that the decision depends on, in words;
        ``program``: the step alone with a mapping."""


@dataclass(frozen=True)
class Lowering:
    """A step while its commands are written, for one core: ``index`` of the step, its ``node``, the ``unit`` that does
    it, ``dtype`` of the whole network, mapping fields that the user ``pinned``, a ``memo`` of searches that all steps
    share, and ``notes`` that say what a user should know.

    ``cores``: the layouts of all cores that may share the step, ``layout`` the first of them; one that is not shared is
    done by that one. Empty where each core has a batch of its own. ``sharing``: cores that use the memories while the
    step is done, each of them at its share of the rate.

    ``eager``: whether the host asks for every node by itself. ``serving``: how inputs of layers in narrow formats are
    quantised where kernels are those of a serving stack (a row of ``compiler.state.QUANTISERS``), '' where they are
    not. ``search``: how much effort a search is worth
    (``mapping.search.solve``); ``tuner``: who decides among its leaders, None for the first of them; ``pins``: what the
    user pinned of all nodes, for an engine type that plans ahead."""

    layout: Layout
    index: int
    node: Node
    unit: Unit
    dtype: str
    pinned: Pins
    memo: dict[Hashable, object]
    notes: list[str]
    cores: tuple[Layout, ...] = ()
    sharing: int = 1
    search: str | float = "fast"
    tuner: Tuner | None = None
    pins: Mapping[str, Pins] = field(default_factory=dict)
    eager: bool = False
    serving: str = ""

    @property
    def leaders(self) -> int:
        """Return how many of the best candidates of a search are wanted."""
        return self.tuner.leaders if self.tuner else 1

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns for the first step with this key; all steps of a program share it."""
        if key not in self.memo:
            self.memo[key] = make()
        return cast(T, self.memo[key])


class Mapped(NamedTuple):
    """Mapping found for a product ``gemm``: ``binds`` is the critical path by its closed form ('' where the engine
    reports none), ``scored`` the number of candidates compared."""

    gemm: Gemm
    mapping: ProductMapping
    binds: str
    scored: int


class Least(NamedTuple):
    """Least of a product on an engine, however it is mapped: seconds in which it occupies the engine, joules without
    static power, seconds from its operands until its whole result is there, and multiplications that its algorithm
    leaves out."""

    seconds: float
    joules: float
    lasting: float = 0.0
    left_out: float = 0.0


Multiplied = Sequence[tuple[Gemm, float]]
"""Products, each with how many numbers of other results are added to its own; the second operand of a product has a
name if it is learnt."""
PriceList = Mapping[tuple[str, str], float]


class Beside(NamedTuple):
    """A kernel of a serving stack beside those of linear layers. ``ops``: functions, each on so many ``numbers``; it
    reads and writes ``moved`` numbers in all, and normalises ``rows``. Without any: attention of ``tokens`` new tokens
    of each of ``batch`` sequences to as many ``keys``, by heads of ``depth`` numbers."""

    ops: tuple[str, ...] = ()
    numbers: int = 0
    moved: int = 0
    rows: int = 0
    batch: int = 0
    tokens: int = 0
    keys: int = 0
    heads: int = 0
    kv_heads: int = 0
    depth: int = 0


"""(component, action) -> joules."""


class Reason(NamedTuple):
    """One thing that the time of a run goes to, by a ``key`` that is its own.

    ``text`` for tables and ``phrase`` for sentences may name the ``{resource}`` and the ``{operand}``; ``legend`` is
    for columns and legends, whatever the chip. ``computing``: the chip works, and waits for no memory, link or
    processor. ``colour`` and ``hatch``: how plots show it. ``unused_of``: another reason of which this is the part
    without use, by the numbers of multiplications of a command.
    """

    key: str
    text: str
    phrase: str
    legend: str
    colour: str
    hatch: str = ""
    computing: bool = False
    unused_of: str = ""


class Category(NamedTuple):
    """A kind of energy in plots and tables, and how plots show it."""

    name: str
    colour: str
    hatch: str = ""


class Price(NamedTuple):
    """Energy of an action, per count: joules, the name of its ``Category``, ``what`` costs it in words, and how far the
    figure can be trusted."""

    energy_J: float
    category: str
    what: str
    status: Status


REMAPPED = 0.5
"""Weight of the share of time that a change of the mapping has a say in, against one that a change makes shorter for
sure."""


class Improvement(NamedTuple):
    """A change of an engine's spec that could make runs shorter: in words, as overrides, by which ``weight`` of the
    time that goes to the reasons ``keys``; ``unless``: an option of a run which wins over the spec."""

    change: str
    sets: tuple[str, ...]
    keys: tuple[str, ...]
    weight: float
    unless: str = ""


class EngineType(ABC):
    """One type of engine. Subclasses are found by the registry, see ``accelsim.engines.registry``."""

    type: ClassVar[str]
    """Name of the type in specs and programs."""
    title: ClassVar[str] = "the engine"
    """Name of the engine in a sentence."""
    rank: ClassVar[int] = 1
    """Place in lists: arithmetic first (0), functions (2), hosts (3), transfers (4), messages (5)."""
    reasons: ClassVar[tuple[Reason, ...]] = ()
    """Reasons for time on the critical path that the engine adds."""
    categories: ClassVar[tuple[Category, ...]] = ()
    """Kinds of energy that it brings."""
    pieces: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Kinds of activities in the histories of its commands, each with what happens in it."""
    searches: ClassVar[bool] = False
    """True if the effort of a search changes the mapping that it chooses."""
    moves: ClassVar[bool] = False
    """True if its commands are transfers, several of which may be under way."""
    asks_spaces: ClassVar[bool] = False
    """True if it learns capacities of buffers from ``Space`` alone, which notes how much of them makes a difference."""
    drains: ClassVar[bool] = False
    """True if results still leave when the next command has begun to occupy it."""
    hue: ClassVar[str] = "grey"
    """Colour in plots, a name of ``accelsim.report.looks.HUES``."""

    @property
    def mapping(self) -> MappingKind | None:
        """Return what it chooses of a product, None where there is no choice."""
        return None

    def accepts(self, offer: Offer) -> str | None:
        """Return '' where an engine of this type does a node, else why not in plain words; None for a kind of work that
        it never does."""
        return None

    def lower(self, lowering: Lowering) -> Mapped | None:
        """Write the commands of a step. Raises Infeasible where something does not fit, TooLarge beyond the limits."""
        raise NotImplementedError(f"{self.type} does no nodes")

    def kernels(self, chip: Chip, unit: Unit) -> KernelModel | None:
        """Return how long kernels take that run alone, in closed form; None for types that run no kernels."""
        return None

    def least(
        self, chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList
    ) -> Sequence[Least] | None:
        """Return what each product in a format takes at least, one after the other; None where the peak of the engine
        says as much."""
        return None

    def served(
        self, chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList
    ) -> Sequence[Least] | None:
        """Return what each product takes at least in a serving stack, joules without those of memories off the chip;
        None where it has no kernels of its own there."""
        return None

    def beside(self, chip: Chip, unit: Unit, name: str, groups: Sequence[Sequence[Beside]]) -> list[float]:
        """Return the least seconds of groups of other kernels in a serving stack, each of which waits for the one
        before; 0 of unknown ones."""
        return [0.0] * len(groups)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return action -> its price, for every action that its commands count for the engine itself."""
        return {}

    def busy(self, unit: Unit, step: Step) -> float:
        """Return the share (0 to 1) of an engine that a step keeps busy, for types that draw power while busy."""
        return 0.0

    def called(self, unit: Unit) -> str:
        """Return what one engine is called in a sentence."""
        return self.title

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Return changes of an engine's spec, beside its clock, that could make runs shorter."""
        return iter(())

    @abstractmethod
    def clock(self, chip: Chip, engine: str) -> Clock | None:
        """Return the clock of its edges; None for engines that start at any time."""

    @abstractmethod
    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start the processes of an engine that runs ``queue`` in order."""
