"""Place: on which engine each node runs, and in plain words why not on a faster one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers.formats import check_formats, multiplies
from accelsim.compiler.state import State
from accelsim.engines.base import Offer
from accelsim.engines.registry import ENGINES
from accelsim.errors import count_of
from accelsim.program.roles import HOST, function_unit, units
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_function, is_product
from accelsim.workload.ops import base


def place(state: State) -> None:
    """Set ``engine`` and ``note`` of every node: 'alias', 'matrix', 'vector', 'dma' (appends to a state), else 'host'.

    Raises UsageError, all problems at once, when the chip cannot compute in a format that was asked for.
    """
    check_formats(state)
    graph = state.graph
    counts = edit.use_counts(graph)
    for node in graph.nodes:
        node.engine, node.note = _engine(state, node, counts)
    _join_bias(graph, state.chip)
    _strand(graph)
    host = [node for node in graph.nodes if node.engine == HOST]
    if host and units(state.chip):
        ops = ", ".join(dict.fromkeys(node.op for node in host))
        state.notes.append(f"place: {count_of(len(host), 'node', 'runs', len(graph.nodes))} on the host ({ops})")
    _tell_routing(state)


def _tell_routing(state: State) -> None:
    """A note where time rests on how many tokens each expert takes, which only values could tell."""
    tensors = state.graph.tensors
    products = [node for node in state.graph.nodes if node.op == "ExpertMatMul"]
    if not products:
        return
    from accelsim.workload.ops.experts import spread_of

    sizes = [(node, tensors[node.inputs[2]].shape, tensors[node.inputs[1]].shape[0]) for node in products]
    spreads = Counter((spread_of(*each), each[2]) for each in sizes)
    for (even, experts), count in spreads.items():
        state.notes.append(
            f"route: time, traffic and energy of {count_of(count, 'product')} are those of a uniform routing, "
            f"whatever the values: {even.groups} of {experts} experts expected, {count_of(even.rows, 'row')} each"
        )


def _engine(state: State, node: Node, counts: Mapping[str, int]) -> tuple[str, str]:
    """The first engine that does a node on cores of all kinds; the host, and why, where none does."""
    chip, graph = state.chip, state.graph
    op = base.find(node.op)
    if op is None:
        return HOST, f"{node.op}: only the host knows this op"
    if op.kind == "alias":
        return "alias", ""
    if in_place(graph, node, counts):
        return "dma", ""
    multiplied = op.kind == "matrix" and multiplies(state, node)
    why = list[str]()
    views = list(chip.views())
    for name in chip.engines:
        seen = ((view, units(view)[name]) for view in views)
        offers = (Offer(graph, node, op, view, unit, multiplied) for view, unit in seen)
        answers = [ENGINES[offer.unit.type].accepts(offer) for offer in offers]
        if not any(answer != "" for answer in answers):
            return name, ""
        why += [answer for answer in answers if answer][:1]
    missing = f"the chip has no {'matrix' if op.kind == 'matrix' else 'vector'} unit"
    return HOST, f"{node.op}: {why[0] if why else missing}"


def _join_bias(graph: Graph, chip: Chip) -> None:
    """A Bias behind a matrix node belongs to it, whatever the functions of the vector unit are."""
    producers, readers, functions = edit.producers(graph), edit.Readers(graph), function_unit(chip)
    for node in graph.nodes:
        before = producers.get(node.inputs[0]) if node.op == "Bias" else None
        if before is not None and is_product(before) and readers.only(node.inputs[0]) is node:
            node.engine, node.note = functions.name if functions else before.engine, ""


def _strand(graph: Graph) -> None:
    """Vector nodes that only host nodes feed and only host nodes read go to the host too.

    Decided for each connected island of vector nodes, seen through nodes without work.
    """
    for island in _islands(graph):
        around = {engine for node in island for engine in node.around}
        if around == {"before:host", "after:host"}:
            for node in island:
                node.node.engine = HOST
                node.node.note = f"{node.node.op}: between nodes of the host, so it stays there"


@dataclass
class _Place:
    """A node, the island it is on, and which other engines come directly before and after it."""

    node: Node
    island: list[_Place]
    around: set[str]


def _islands(graph: Graph) -> list[list[_Place]]:
    """Connected sets of vector nodes, with the engines around them, in order of first appearance."""
    places: dict[int, _Place] = {}
    for node in graph.nodes:
        if is_function(node):
            places[id(node)] = _Place(node, [], set())
            places[id(node)].island.append(places[id(node)])
    for source, target in _edges(graph):
        first, second = places.get(id(source)), places.get(id(target))
        if first is not None and second is not None:
            _merge(first, second)
        elif first is not None:
            first.around.add(f"after:{target.engine if target else 'output'}")
        elif second is not None and source is not None:
            second.around.add(f"before:{source.engine}")
    return list({id(place.island): place.island for place in places.values()}.values())


def _merge(first: _Place, second: _Place) -> None:
    large, small = first.island, second.island
    if large is small:
        return
    if len(large) < len(small):  # each place changes its island at most log2(n) times
        large, small = small, large
    large += small
    for place in small:
        place.island = large


def _edges(graph: Graph) -> Iterator[tuple[Node | None, Node | None]]:
    """(producer, consumer) of every activation, through alias nodes; None for the outside of the graph."""
    origin: dict[str, Node | None] = {}
    for node in graph.nodes:
        sources = [origin.get(name) for name in node.inputs if name and not graph.tensors[name].is_constant]
        for name in node.outputs:
            origin[name] = (sources[0] if sources else None) if node.engine == "alias" else node
        if node.engine != "alias":
            yield from ((source, node) for source in sources)
    yield from ((origin.get(name), None) for name in graph.outputs)


def appends(graph: Graph) -> int:
    """Turn each Concat of a state and new rows, whose result is the next value of the state, into an Append.

    Returns how many. One that cannot be done in place, because somebody else reads the old value, stays as it is.
    """
    found, counts = 0, edit.use_counts(graph)
    for node in graph.nodes:
        if node.op == "Concat" and len(node.inputs) == 2 and _alone(graph, node, counts):
            axis = node.attrs["axis"]
            node.op, node.attrs = "Append", {"axis": axis, "at": graph.tensors[node.inputs[0]].shape[axis]}
            found += 1
    return found


def in_place(graph: Graph, node: Node, counts: Mapping[str, int]) -> bool:
    """Return whether a node is an Append that may write into the memory of its state. ``counts``:
    ``edit.use_counts``."""
    return node.op == "Append" and _alone(graph, node, counts)


def _alone(graph: Graph, node: Node, counts: Mapping[str, int]) -> bool:
    """Return whether a node makes the next value of its first input, a state that nobody else reads."""
    past = node.inputs[0]
    return graph.states.get(past) == node.outputs[0] and counts[past] == 1


def turn_in_place(graph: Graph) -> int:
    """Let products read a cache transposed: a Transpose of the last two axes of what an Append wrote, which only
    products read as their second operand, goes. Returns how many.
    """
    counts = edit.use_counts(graph)
    cached = {node.outputs[0] for node in graph.nodes if in_place(graph, node, counts)}
    if not cached:
        return 0
    consumers, outputs, gone = graph.consumers(), frozenset(graph.outputs), []
    for node in graph.nodes:
        if node.op != "Transpose" or node.inputs[0] not in cached or not swaps_last(node):
            continue
        readers, turned = consumers[node.outputs[0]], node.outputs[0]
        if turned in outputs or not all(_takes(reader, turned) for reader in readers):
            continue
        for reader in readers:
            reader.inputs[1], reader.attrs["transB"] = node.inputs[0], 1 - reader.attrs.get("transB", 0)
        gone.append(node)
    edit.drop(graph, gone)
    return len(gone)


def swaps_last(node: Node) -> bool:
    """Return whether a Transpose exchanges the last two axes and no others."""
    if len(node.attrs["perm"]) < 2:
        return False
    *before, last, other = node.attrs["perm"]
    return before == list(range(len(before))) and (last, other) == (len(before) + 1, len(before))


def _takes(reader: Node, tensor: str) -> bool:
    """Return whether a node multiplies by the tensor, and reads it nowhere else."""
    return reader.op == "MatMul" and reader.inputs[1] == tensor and reader.inputs.count(tensor) == 1
