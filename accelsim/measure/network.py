"""Whole networks of PyTorch on a GPU, timed: the graph that is simulated, node by node.

Every node is the call that a network written for PyTorch would make (``torch_nodes``); nothing is compiled or fused,
but for attention where that is asked for. Keys and values of earlier tokens lie in memory with room for the new ones,
as a decoder keeps them: a Concat with a state of the graph writes the new rows only.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from accelsim.errors import AccelsimError, Problem, UsageError, nearest
from accelsim.measure.clock import host_seconds, recorded, warmed
from accelsim.measure.kernels import FORMATS, absent
from accelsim.measure.torch_nodes import ATTENTION, FLOATS, NODES, Call, refusals, site_of
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import Seeded

if TYPE_CHECKING:
    from torch import Tensor as Values
    from torch import dtype as Type

T = TypeVar("T")

COLUMNS = ("model", "batch", "device", "dtype", "mode", "attention", "time_us", "why", "source")
"""Columns of the table, without those of a meter. ``why``: what a row without a time failed of."""
EAGER, GRAPH = "eager", "graph"
"""Modes: one call after the other, with the host's work; all of them from a CUDA graph, the device's alone."""
ATTENTIONS = ("unfused", "fused")
"""Products and softmax as the graph has them, or one call for them."""
DTYPES = {name: form for name, form in FORMATS.items() if form.element_B > 1}
"""Formats that whole networks can have."""
Weights = Literal["graph", "random"]
Meter = Callable[[Callable[[], object]], Mapping[str, object]]
"""Measures a function that it calls again and again; returns more columns."""
MOST_INDEX = 2
"""Integers of an input that is no index into a table lie below it."""
MOST_WORDS = 200
"""Characters of an error in a row."""


class Step(NamedTuple):
    """One call: tensors that it reads ('' for none) and writes, and those that nobody reads after it."""

    call: Call
    reads: Sequence[str]
    writes: Sequence[str]
    last: Sequence[str]


@dataclass(frozen=True)
class Network:
    """A graph on a device. ``inputs``: tensors by name, which a caller may fill; each call reads them again.

    Inputs that are states are views into the memory of their next value, which a call extends.
    """

    torch: ModuleType
    inputs: Mapping[str, Values]
    constants: Mapping[str, Values]
    steps: Sequence[Step]
    outputs: Sequence[str]

    def call(self) -> dict[str, Values]:
        """Run once; outputs by name. Asks the device only: nothing waits for it, so that CUDA can capture the call."""
        values = {**self.constants, **self.inputs}
        with self.torch.inference_mode():
            for step in self.steps:
                results = step.call(*(values.get(name) for name in step.reads))
                if not isinstance(results, tuple):
                    results = (results,)
                values.update(zip(step.writes, results, strict=False))
                del results
                for name in step.last:
                    values.pop(name, None)
        return {name: values[name] for name in self.outputs}


def compiled(
    torch: ModuleType, graph: Graph, device: str, dtype: str, channels_last: bool = True, *,
    weights: Weights = "random", attention: str = "unfused", seed: int = 0,
) -> Network:  # fmt: skip
    """A graph as a network whose floats have one format, with random inputs; weights are on the device from now on.

    ``weights`` 'random' draws those on the device that a seed would give the graph, by the same law (fan-in), and takes
    the graph's own values of what nobody learns; 'graph' takes all from there, through the host. ``channels_last``:
    images and kernels with the channels innermost. Raises UsageError for everything that cannot be called, at once.
    """
    problems = list(_unknown(dtype, attention)) + list(refusals(graph))
    UsageError.raise_for(problems)
    graph = fused(graph) if attention == "fused" else graph
    place = _Place(torch, graph, device, dtype, channels_last, weights == "random", seed)
    calls = _calls(place)  # refuses before anything large is made
    inputs, appends = place.inputs()
    steps = list(_steps(graph, {**calls, **appends}))
    read = dict.fromkeys([name for step in steps for name in step.reads] + graph.outputs)
    constants = {name: place.constant(name) for name in read if name and graph.tensors[name].is_constant}
    return Network(torch, inputs, constants, steps, tuple(graph.outputs))


def _unknown(dtype: str, attention: str) -> Iterator[Problem]:
    if dtype not in DTYPES:
        yield Problem(f"dtype {dtype!r}", "--dtype", ", ".join(DTYPES), nearest(dtype, DTYPES))
    if attention not in ATTENTIONS:
        yield Problem(
            f"attention {attention!r}", "--attention", " or ".join(ATTENTIONS), nearest(attention, ATTENTIONS)
        )


def _calls(place: _Place) -> dict[int, Call]:
    """Number of a node -> its call. Raises UsageError for all whose attributes PyTorch does not have."""
    calls, problems = dict[int, Call](), list[Problem]()
    for number, node in enumerate(place.graph.nodes):
        try:
            calls[number] = NODES[node.op](site_of(place.torch, place.device, place.kind, place.graph, node))
        except UsageError as error:
            problems += error.problems
    UsageError.raise_for(problems)
    return calls


def _steps(graph: Graph, calls: Mapping[int, Call]) -> Iterator[Step]:
    kept = frozenset(graph.outputs)
    last = {name: number for number, node in enumerate(graph.nodes) for name in node.reads}
    for number, node in enumerate(graph.nodes):
        names = dict.fromkeys((*node.reads, *node.outputs))  # with '' of a result that nobody wants
        done = [name for name in names if last.get(name, number) <= number and name not in kept]
        yield Step(calls[number], tuple(node.inputs), tuple(node.outputs), tuple(done))


class _Place:
    """Makes the tensors of a graph on a device."""

    def __init__(
        self, torch: ModuleType, graph: Graph, device: str, dtype: str, channels_last: bool, drawn: bool, seed: int
    ) -> None:
        self.torch, self.graph, self.device, self._drawn = torch, graph, device, drawn
        self.kind = getattr(torch, DTYPES[dtype].torch)
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._images = {  # what convolutions read: in their order of axes before the first call
            name
            for node in graph.nodes
            if channels_last and node.op == "Conv"
            for name in node.inputs[:2]
            if len(graph.tensors[name].shape) == 4
        }

    def constant(self, name: str) -> Values:
        """Make a weight or another constant on the device."""
        tensor = self.graph.tensors[name]
        if self._drawn and isinstance(tensor.source, Seeded) and tensor.dtype in FLOATS:
            law = tensor.source.law
            made = self._normal(tensor.shape).mul_(law.std).add_(law.mean)
            made = made.abs_() if law.positive else made
        else:
            made = self.torch.tensor(tensor.value(), dtype=self._kind(tensor), device=self.device)
        return self._ordered(name, made)

    def inputs(self) -> tuple[dict[str, Values], dict[int, Call]]:
        """Random inputs; and the calls of nodes that append to one of them, by number of node."""
        made: dict[str, Values] = {}
        calls: dict[int, Call] = {}
        for number, node in enumerate(self.graph.nodes):
            if _appends(self.graph, node):
                (past, new), axis = node.inputs, node.attrs["axis"]
                whole = self._random(self.graph.tensors[node.outputs[0]])
                rows, more = (self.graph.tensors[name].shape[axis] for name in (past, new))
                made[past] = whole.narrow(axis, 0, rows)
                calls[number] = _append(whole, whole.narrow(axis, rows, more))
        for name in self.graph.inputs:
            if name not in made:
                made[name] = self._ordered(name, self._random(self.graph.tensors[name]))
        return made, calls

    def _random(self, tensor: Tensor) -> Values:
        """Standard normal numbers, or indices within their table."""
        if tensor.dtype in FLOATS:
            return self._normal(tensor.shape)
        tables = [
            self.graph.tensors[node.inputs[0]].shape[node.attrs["axis"]]
            for node in self.graph.nodes
            if node.op == "Gather" and node.inputs[1] == tensor.name
        ]
        below = min(tables, default=MOST_INDEX)
        drawn = self.torch.randint(0, below, tensor.shape, device=self.device, generator=self._generator)
        return drawn.to(self._kind(tensor))

    def _normal(self, shape: tuple[int, ...]) -> Values:
        return self.torch.randn(shape, dtype=self.kind, device=self.device, generator=self._generator)

    def _kind(self, tensor: Tensor) -> Type:
        return self.kind if tensor.dtype in FLOATS else getattr(self.torch, tensor.dtype)

    def _ordered(self, name: str, made: Values) -> Values:
        if name not in self._images:
            return made
        return made.contiguous(memory_format=self.torch.channels_last)


def _appends(graph: Graph, node: Node) -> bool:
    """Return whether a node makes the next value of a state, which nobody else reads, by putting rows after it."""
    if node.op != "Concat" or len(node.inputs) != 2:
        return False
    past = node.inputs[0]
    readers = sum(each.inputs.count(past) for each in graph.nodes)
    return graph.states.get(past) == node.outputs[0] and readers == 1


def _append(whole: Values, room: Values) -> Call:
    def call(past: Values, new: Values) -> Values:
        room.copy_(new)
        return whole

    return call


def fused(graph: Graph) -> Graph:
    """A copy in which each attention that is written out is one node: product, [scale], [mask], Softmax of the rows,
    product, each the only reader of the one before. What does not look like that, or has a mask that is no constant,
    stays as it is.
    """
    copy = graph.copy()
    readers = copy.consumers()
    makers = {name: node for node in copy.nodes for name in node.outputs}
    joined, gone = dict[int, Node](), set[int]()
    for node in copy.nodes:
        found = _Attention(copy, readers, makers, node).joined() if node.op == "Softmax" else None
        if found is not None:
            whole, parts = found
            joined[id(parts[-1])] = whole
            gone |= {id(part) for part in parts[:-1]}
    copy.nodes = [joined.get(id(node), node) for node in copy.nodes if id(node) not in gone]
    return copy


class _Attention:
    """Nodes before and after one Softmax."""

    def __init__(
        self, graph: Graph, readers: Mapping[str, Sequence[Node]], makers: Mapping[str, Node], soft: Node
    ) -> None:
        self._graph, self._readers, self._makers, self._soft = graph, readers, makers, soft
        self._scale, self._mask = 1.0, ""

    def joined(self) -> tuple[Node, list[Node]] | None:
        """The one node and those that it stands for, the last of them at its place; None where it is no attention."""
        shape, before, behind = self._shape(self._soft.inputs[0]), self._before(), self._behind()
        of_rows = self._soft.attrs.get("axis") == len(shape) - 1
        if not (before and behind and of_rows and len(shape) in (4, 5)):
            return None
        first, last = before[-1], behind[-1]
        scores, (tokens, keys) = self._shape(first.outputs[0]), shape[-2:]
        parts = [self._shape(name) for name in (*first.inputs, last.inputs[1])]
        if last.attrs.get("transB") or any(len(p) != 4 or p[:2] != parts[0][:2] for p in (*parts, scores)):
            return None
        groups = scores[2] // tokens
        if shape not in (scores, (*scores[:2], groups, tokens, keys)) or not self._masks(groups, shape):
            return None
        mask = self._graph.tensors[self._mask].source if self._mask else None
        causal = isinstance(mask, CausalMask) and mask.past == 0 and not mask.window and tokens == keys
        inputs = [*first.inputs, last.inputs[1], *([self._mask] if self._mask and not causal else [])]
        attrs = {
            "scale": self._scale,
            "causal": causal,
            "groups": groups,
            "tokens": tokens,
            "transB": first.attrs.get("transB", 0),
        }
        node = Node(last.name, ATTENTION, inputs, list(last.outputs), attrs)
        return node, [*before, self._soft, *behind]

    def _before(self) -> list[Node]:
        """Nodes in front of the Softmax, backwards to the product; none where there is another one."""
        found, name = list[Node](), self._soft.inputs[0]
        while (node := self._makers.get(name)) is not None and self._alone(name):
            found.append(node)
            if node.op == "MatMul":
                return found
            if node.op != "Reshape" and not self._takes(node):
                break
            name = next(each for each in node.inputs if not self._graph.tensors[each].is_constant)
        return []

    def _takes(self, node: Node) -> bool:
        """Take in the mask, or, in front of that, the scale."""
        others = [name for name in node.inputs if self._graph.tensors[name].is_constant]
        if len(others) != 1 or node.op not in ("Add", "Mul", "Div"):
            return False
        other = self._graph.tensors[others[0]]
        if node.op == "Add":
            free = not self._mask and self._scale == 1.0
            self._mask = other.name
            return free
        if other.elements != 1 or (node.op == "Div" and node.inputs[1] != other.name):
            return False
        factor = float(other.value().reshape(()))
        self._scale *= factor if node.op == "Mul" else 1.0 / factor
        return True

    def _behind(self) -> list[Node]:
        """Nodes after the Softmax to the product with the values; none where there is another one."""
        found, name = list[Node](), self._soft.outputs[0]
        while self._alone(name):
            (node,) = self._readers[name]
            found.append(node)
            if node.op == "MatMul" and node.inputs[0] == name:
                return found
            if node.op != "Reshape":
                break
            name = node.outputs[0]
        return []

    def _alone(self, name: str) -> bool:
        """Return whether a tensor has one reader, and is no result of the graph."""
        readers = self._readers[name]
        return len(readers) == 1 and readers[0].inputs.count(name) == 1 and name not in self._graph.outputs

    def _masks(self, groups: int, shape: tuple[int, ...]) -> bool:
        """Return whether the mask, if there is one, is the same for all heads, or has their axes."""
        if not self._mask:
            return True
        mask = self._shape(self._mask)
        same = mask[-2:] == shape[-2:] and prod(mask) == prod(shape[-2:]) and len(mask) <= 4
        return same or (groups == 1 and len(mask) == 4 == len(shape))

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._graph.tensors[name].shape


def measured_networks(
    torch: ModuleType,
    device: str,
    models: Sequence[str],
    batches: Sequence[int],
    dtype: str,
    attention: str = "unfused",
    meter: Meter | None = None,
) -> Iterator[dict[str, object]]:
    """Rows of ``COLUMNS``, one after the other: each model at each batch, in both modes.

    ``time_us`` is the median of ``clock.CALLS`` after ``clock.WARM``. ``meter`` gives more columns, of the replay where
    there is one, else of the call. What fails (memory, a call that CUDA cannot capture) has a row that says ``why``,
    and the next one follows. Raises UsageError for a model, a format or a device that is not there, all at once.
    """
    _check(torch, device, models, batches, dtype, attention)
    DTYPES[dtype].use(torch, device)
    title, source = torch.cuda.get_device_name(device), f"accelsim measure, PyTorch {torch.__version__}"
    for model in models:
        for batch in batches:
            for row in _rows(torch, device, load_model(model, batch=batch), dtype, attention, meter):
                same = {"model": model, "batch": batch, "device": title, "dtype": dtype}
                yield {**same, "attention": attention, **row, "source": source}
            gc.collect()
            torch.cuda.empty_cache()


def _check(
    torch: ModuleType, device: str, models: Sequence[str], batches: Sequence[int], dtype: str, attention: str
) -> None:
    problems = [*_unknown(dtype, attention), *absent(torch, device)]
    for model in models:
        for batch in batches:
            try:
                load_model(model, batch=batch)
            except AccelsimError as error:
                problems += [each for each in error.problems if each not in problems]
    UsageError.raise_for(problems)


def _rows(
    torch: ModuleType, device: str, graph: Graph, dtype: str, attention: str, meter: Meter | None
) -> list[dict[str, object]]:
    """The rows of one network, without what all have in common."""
    network, why = _tried(lambda: compiled(torch, graph, device, dtype, attention=attention))
    if network is None:
        return [_failed(EAGER, why)]
    rows = [_timed(torch, EAGER, network.call)]
    if "why" in rows[0]:
        return rows
    replay, why = _tried(lambda: _captured(torch, network.call))
    rows.append(_failed(GRAPH, why) if replay is None else _timed(torch, GRAPH, replay))
    if meter is not None:
        at, call = (0, network.call) if replay is None or "why" in rows[1] else (1, replay)
        more, why = _tried(lambda: dict(meter(call)))
        rows[at] |= {"why": why} if more is None else more
    return rows


def _timed(torch: ModuleType, mode: str, call: Callable[[], object]) -> dict[str, object]:
    seconds, why = _tried(lambda: host_seconds(torch, [call]))
    return _failed(mode, why) if seconds is None else {"mode": mode, "time_us": f"{seconds * 1e6:.6g}"}


def _failed(mode: str, why: str) -> dict[str, object]:
    return {"mode": mode, "time_us": "", "why": why}


def _tried(make: Callable[[], T]) -> tuple[T | None, str]:
    """Return what is made, or None and why. Nothing of what failed is held, so that its memory is free again."""
    try:
        return make(), ""
    except Exception as error:  # whatever a library raises, the other networks are still to be measured
        words = " ".join(f"{type(error).__name__}: {error}".split())
    return None, words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 3]}..."


def _captured(torch: ModuleType, call: Callable[[], object]) -> Callable[[], object]:
    """The replay of one call, after some on another stream, as PyTorch asks for."""
    warmed(torch, [call])
    return recorded(torch, call)
