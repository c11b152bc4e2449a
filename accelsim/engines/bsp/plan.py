"""Plan the products of a graph before the first command is written: partitions, and the tiles that keep weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import ceil

import numpy as np

from accelsim.engines.bsp.partition import Choice, Pins, TooSmall, choose, weights_of_tiles
from accelsim.engines.bsp.spec import BspUnit
from accelsim.engines.bsp.supersteps import Parts, Product
from accelsim.errors import MemoryNeed, OverCapacity, UsageError
from accelsim.program.mapping import Pins as PinnedFields
from accelsim.types import Ints
from accelsim.workload.graph import FORMAT_BYTES, Graph, Node
from accelsim.workload.limits import limits
from accelsim.workload.nodes import gemm_view, is_product
from accelsim.workload.ops.base import Gemm


@dataclass
class TileMemory:
    """Bytes on each tile, int64 [tiles]: ``constants``, and by region what ``live`` activations take.

    ``room_B``: bytes of a tile for data. ``notes``: where to tell what is ignored. ``spread``: regions of activations
    whose elements lie evenly on all tiles.
    """

    tiles: int
    room_B: int
    model: str
    notes: list[str]
    constants: Ints = field(init=False)
    live: dict[int, Ints] = field(default_factory=dict)
    spread: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.constants = np.zeros(self.tiles, np.int64)

    def stay(self, shares_B: Ints) -> Ints:
        """Put weights in parts, bytes each, on the tiles that hold least so far, the largest on the emptiest; return
        the tile of each part.
        """
        emptiest = np.argsort(self.constants, kind="stable")[: len(shares_B)]
        tiles = np.empty_like(emptiest)
        tiles[np.argsort(-shares_B, kind="stable")] = emptiest
        self.constants[tiles] += shares_B
        return tiles

    def stay_spread(self, size_B: int) -> None:
        """Add a constant that is spread evenly over all tiles."""
        self.constants += -(-size_B // self.tiles)

    def put_spread(self, region: int, size_B: int) -> None:
        """Add an activation that is spread evenly over all tiles."""
        self.live[region] = np.full(self.tiles, -(-size_B // self.tiles), np.int64)
        self.spread.add(region)

    def put_parts(self, region: int, tiles: Ints, sizes_B: Ints) -> None:
        """Add an activation in parts, one on each of ``tiles``."""
        self.live[region] = np.zeros(self.tiles, np.int64)
        self.live[region][tiles] = sizes_B

    def keep(self, regions: Iterable[int]) -> None:
        """Drop all activations but these."""
        kept = set(regions)
        self.live = {region: sizes_B for region, sizes_B in self.live.items() if region in kept}

    def check(self, layer: str, working: Ints, step_B: Ints | int) -> None:
        """Raise OverCapacity unless each tile has room for the ``step_B`` bytes that come to ``working`` tiles."""
        activations = sum(self.live.values(), np.zeros(self.tiles, np.int64))
        activations[working] += step_B
        fullest = int(np.argmax(self.constants + activations))
        self.fit(layer, int(self.constants[fullest]), int(activations[fullest]))

    def fit(self, layer: str, constants_B: int, activations_B: int) -> None:
        """Raise OverCapacity for a tile without room for so much; where capacity is ignored, add a note."""
        need = MemoryNeed("fullest tile", constants_B, 0, activations_B, layer, self.room_B)
        if need.fits:
            return
        if not limits().ignore_capacity:
            raise OverCapacity(self.model, [need])
        self.notes.append(f"capacity ignored: {need}")


@dataclass(frozen=True)
class Planned:
    """A product: its form, its operands' format, in how many ``turns`` over N it is done, the ``product`` of one turn,
    its partition, the tile of each part and bytes of weights there for each turn.
    """

    gemm: Gemm
    number_format: str
    turns: int
    product: Product
    choice: Choice
    tiles: Ints
    weights_B: Ints

    @property
    def mapping(self) -> Parts:
        """Return what was chosen of it."""
        return replace(self.choice.partition, turns=self.turns)


@dataclass(frozen=True)
class Plan:
    """Products by the name of their node, and the regions of all constants."""

    products: dict[str, Planned]
    rooms: dict[str, int]


def plan(
    graph: Graph, memory: TileMemory, unit: BspUnit, engine: str, dtype: str, pins: Mapping[str, PinnedFields]
) -> Plan:
    """Plan the products of an engine on tiles that are still empty; ``pins``: fields of ``Parts`` by node. Raises
    OverCapacity where constants, or a product beside them, do not fit, UsageError for pins that cut it into nothing.

    A product gets what the constants and the activations that are alive leave of a tile, were they spread evenly.
    """
    found = dict[str, Planned]()
    nodes = [node for node in graph.nodes if node.engine == engine]
    constants = {each.name: each.nbytes for node in nodes for each in graph.ins(node) if each.is_constant}
    alive = alive_B(graph)

    def even(size_B: int) -> int:
        return -(-size_B // unit.tiles)

    even_B = even(sum(constants.values()))
    memory.fit("", even_B, 0)
    alike_turns, alike = cache(partial(in_turns, unit)), cache(partial(choose, unit))  # layers repeat
    for node in nodes:
        if not is_product(node):
            continue
        gemm, number_format = gemm_view(graph, node), node.format or dtype
        assert gemm is not None
        whole = product_of(graph, unit, node, gemm, number_format)
        pinned = tuple((key, int(value)) for key, value in sorted(pins.get(node.name, {}).items()))
        own_B = constants.pop(gemm.b, 0)
        sides_B = sum(
            graph.tensors[name].nbytes for name in activations(graph, node.reads) if name not in (gemm.a, gemm.b)
        )
        beside_B = even(alive[node.name]) + even(sides_B) - even(own_B)  # its part of B is counted with it
        turns, choice = alike_turns(number_format, whole, memory.room_B - even_B - beside_B, pinned)
        if isinstance(choice, TooSmall):
            memory.fit(node.name, even_B, beside_B + choice.needed_B)
            choice = alike(number_format, turn_of(whole, turns), choice.needed_B, pinned)
            assert isinstance(choice, Choice)
        product = turn_of(whole, turns)
        weights_B = weights_of_tiles(unit.formats[number_format], product, choice.partition)
        weights_B = weights_B * (own_B > 0)
        tiles = memory.stay(turns * weights_B)
        found[node.name] = Planned(gemm, number_format, turns, product, choice, tiles, weights_B)
    for size_B in constants.values():
        memory.stay_spread(size_B)
    memory.fit("", int(memory.constants.max()), 0)
    return Plan(found, {})


def turn_of(product: Product, turns: int) -> Product:
    """Return one of ``turns`` equal parts of a product along its columns."""
    return replace(product, N=product.N // turns)


def in_turns(
    unit: BspUnit, number_format: str, product: Product, room_B: int, pinned: Pins = ()
) -> tuple[int, Choice | TooSmall]:
    """Return the fewest turns over N, a divisor of it, each of which fits, and the partition of one; ``TooSmall`` where
    not even single columns fit. Raises UsageError for pinned turns that are no divisor.
    """
    asked = dict(pinned).get("turns")
    if asked is not None and product.N % asked:
        raise UsageError(f"turns {asked}", expected=f"a divisor of N {product.N:,}")
    found: Choice | TooSmall | None = None
    turns = asked or 1
    for turns in [asked] if asked else (each for each in range(1, product.N + 1) if product.N % each == 0):
        found = choose(unit, number_format, turn_of(product, turns), room_B, pinned)
        if isinstance(found, Choice):
            break
    assert found is not None
    return turns, found


def product_of(graph: Graph, unit: BspUnit, node: Node, gemm: Gemm, number_format: str) -> Product:
    """Return a node as a product with the bytes of its operands."""
    a, b = graph.tensors[gemm.a], graph.tensors[gemm.b]
    sums = FORMAT_BYTES[unit.formats[number_format].accumulate]
    out = max(graph.tensors[name].element_B for name in node.writes)
    return Product(
        gemm.groups, gemm.M, gemm.N, gemm.K, a_B=ceil(a.element_B), b_B=ceil(b.element_B), sum_B=ceil(sums),
        out_B=ceil(out), stays=b.is_constant, conv=gemm.conv,
    )  # fmt: skip


def alive_B(graph: Graph) -> dict[str, int]:
    """Return node -> bytes of the activations that it or a later node needs, its results included."""
    root: dict[str, str] = {}
    for node in graph.nodes:
        if node.engine == "alias":
            root[node.writes[0]] = root.get(node.reads[0], node.reads[0])
    nodes = [node for node in graph.nodes if node.engine != "alias"]
    names_of = [activations(graph, (*node.reads, *node.writes)) for node in nodes]
    touched = [{root.get(name, name) for name in names} for names in names_of]
    last = {name: index for index, names in enumerate(touched) for name in names}
    found, alive = dict[str, int](), dict[str, int]()
    for index, (node, names) in enumerate(zip(nodes, touched, strict=True)):
        alive |= {name: graph.tensors[name].nbytes for name in names}
        found[node.name] = sum(alive.values())
        alive = {name: size_B for name, size_B in alive.items() if last[name] > index}
    return found


def activations(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return the names that are no constants."""
    return [name for name in names if not graph.tensors[name].is_constant]
