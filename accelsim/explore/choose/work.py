"""Work of a task, whatever runs it: its passes over a model, their products, and what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple, TypeVar

from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.engines.base import Beside
from accelsim.explore.choose.question import kept
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import gemm_view, node_work
from accelsim.workload.ops.base import Gemm, find
from accelsim.workload.sources.load import generation_of, load_model

N = TypeVar("N", int, float)
VIEWS = frozenset({"moves", "blocks", "indexing", "conversions", "quantisation"})
"""Families of operators whose results may be the numbers of their operands, in another form or order."""
FUNCTIONS = frozenset({"activations", "arithmetic", "normalisations", "softmaxes"})
"""Families of operators that pass a unit of functions for each of their results, fused or not."""
SOFTMAX = 5
"""Operations of a softmax for each of its results."""
ABSORBED = ("BatchNormalization",)
"""Operators that become a bias of the product before them."""


class Work(NamedTuple):
    """Work of a task whatever runs it: operations of a sample (of a step: forward and backward), learnt numbers, those
    that a pass reads for products, numbers of a sample; of a generation keys and values by token, prompt and new
    tokens."""

    flops: float
    weights: float
    read: float = 0.0
    sample: float = 0.0
    cached: float = 0.0
    prompt: int = 0
    new: int = 0


class Multiplied(NamedTuple):
    """A product of a pass; its second operand has a name if that is learnt.

    ``after``: products that it waits for, by their places, with how many numbers functions make of their results first;
    ``between``: numbers of an intermediate result that no product before reads, else 0; ``sides``: other results that
    functions add to its own, by the last product in each: how many numbers.
    """

    gemm: Gemm
    after: Mapping[int, float]
    between: float = 0.0
    sides: Mapping[int, float] = {}

    @property
    def beside(self) -> float:
        """Return the numbers of all other results that functions add to its own."""
        return sum(self.sides.values())


NOTHING = Gemm(0, 0, 0, 0, "", "")
"""No product."""


class Pass(NamedTuple):
    """A pass over a model, ``times`` alike: its operations, its products in order, how many numbers it reads at least,
    and how many come from the host; of those that it reads keys and values (``cached``). Devices that share it add up
    results of ``added`` numbers, ``often``. Of a decoder it takes ``tokens`` new tokens of each sequence. ``even``:
    what the mean of figures that grow as its keys and values do, up to that of a middle token, is of the last."""

    times: int
    flops: float
    products: Sequence[Multiplied]
    read: float
    enters: float = 0.0
    cached: float = 0.0
    added: int = 0
    often: int = 0
    tokens: int = 0
    even: float = 1.0


@kept
def work_of(model: str, train: bool) -> Work:
    """Return the work of a model. Raises ModelError and UsageError."""
    asked, sizes = generation_of(model), sizes_of(model)
    if sizes is not None and train:
        masked = 6 * sizes.layers * sizes.seq**2 * sizes.hidden  # half of attention, which a causal kernel leaves out
        return Work(sizes.sequence_flops - masked, sizes.parameters)
    if sizes is not None and asked is not None:
        learnt, _, matrices = sizes.counts
        cached = sum(sizes.cached(layer, 1) for layer in sizes.kinds if not layer.window)
        return Work(2 * matrices, learnt, matrices, 0.0, cached, *asked[2:])
    graph = load_model(model, batch=1, data=False)
    flops = 2 * sum(node_work(graph, node).macs for node in graph.nodes)
    learnt = sum(prod(each.shape) for each in graph.constants() if len(each.shape) > 1)
    views = [view for node in graph.nodes if (view := gemm_view(graph, node)) is not None]
    read = {view.b: graph.tensors[view.b] for view in views}
    numbers = sum(each.elements for each in read.values() if each.is_constant)
    sample = sum(graph.tensors[name].elements for name in graph.inputs)
    return Work(3 * flops if train else flops, learnt, numbers, sample)


def sizes_of(model: str) -> Transformer | None:
    """Return the sizes of a decoder, also of one that generates; None for another model."""
    asked = generation_of(model)
    return transformer_of(*(asked[:2] if asked else (model,)))


SIDES = ("groups", "M", "N", "K")
"""Sizes of a product."""


@kept
def products_of(model: str, batch: int) -> Sequence[Multiplied]:
    """Return the products of a pass over a model that is no decoder."""
    return in_batch(_products(model, 1), _products(model, 2), batch)


@kept
def _products(model: str, batch: int) -> Sequence[Multiplied]:
    return multiplied(load_model(model, batch=batch, data=False))


def in_batch(one: Sequence[Multiplied], two: Sequence[Multiplied], batch: int) -> Sequence[Multiplied]:
    """Return the products of a batch by those of one and two samples, as their sizes are linear; none if they differ in
    more than sizes."""
    if len(one) != len(two):
        return ()

    def line(first: N, second: N) -> N:
        return first + (second - first) * (batch - 1)

    def grown(first: Gemm, second: Gemm) -> Gemm:
        sizes = {side: line(getattr(first, side), getattr(second, side)) for side in SIDES}
        conv = first.conv and second.conv and replace(first.conv, batch=line(first.conv.batch, second.conv.batch))
        return replace(first, **sizes, conv=conv)

    return [
        Multiplied(
            grown(a.gemm, b.gemm),
            {place: line(numbers, b.after[place]) for place, numbers in a.after.items()},
            line(a.between, b.between),
            {place: line(numbers, b.sides[place]) for place, numbers in a.sides.items()},
        )
        for a, b in zip(one, two, strict=True)
    ]


def multiplied(graph: Graph) -> Sequence[Multiplied]:
    """Return products of activations by weights or by activations, in order, without names of tensors; the first and
    the last one are ``NOTHING``, before and after all else."""
    found, made = [Multiplied(NOTHING, {})], {name: {0: 0.0} for name in graph.inputs}
    unread = {name for node in graph.nodes if not _is_view(node) for name in node.outputs}
    normalised = {node.inputs[0] for node in graph.nodes if node.op in ABSORBED}
    for node in graph.nodes:
        before = dict[int, float]()
        for name in node.inputs:
            for place, numbers in made.get(name, {}).items():
                before[place] = max(numbers, before.get(place, 0.0))
        view, numbers = gemm_view(graph, node), sum(graph.tensors[name].elements for name in node.outputs if name)
        if view is not None and not graph.tensors[view.a].is_constant:
            between = graph.tensors[view.a].elements if view.a in unread else 0
            unread.discard(view.a)
            found.append(
                Multiplied(replace(view, a="", b="w" if graph.tensors[view.b].is_constant else ""), before, between)
            )
            biased = any(node.inputs[2:]) and node.outputs[0] not in normalised
            before = {len(found) - 1: numbers if biased else 0.0}
        elif (op := find(node.op)) is not None and op.family in FUNCTIONS:
            last = max(before, default=0)
            others = [name for name in node.inputs if name in made and last not in made[name]] if last else []
            sides = {max(made[name], default=0): float(graph.tensors[name].elements) for name in others}
            found[last] = found[last]._replace(sides={**found[last].sides, **sides}) if sides else found[last]
            made_by = node_work(graph, node).ops if op.kind == "normalise" and op.name not in ABSORBED else 0
            before = {place: more + max(numbers, made_by) for place, more in before.items()}
        made |= dict.fromkeys(node.outputs, before)
    ends = [pair for name in graph.outputs for pair in made.get(name, {}).items()]
    last_of_all = {place: max(numbers for each, numbers in ends if each == place) for place, _ in ends}
    return [*found, Multiplied(NOTHING, last_of_all)]


def _is_view(node: Node) -> bool:
    """Return whether the results of a node may be the numbers of its operands."""
    op = find(node.op)
    return op is None or op.kind == "alias" or op.family in VIEWS


def _layer_products(sizes: Transformer, batch: int, seq: int, keys: int) -> Sequence[Multiplied]:
    """Products of all layers of a plain decoder, as few as they can be; none of others. ``seq`` tokens of each sequence
    attend to ``keys`` at least."""
    if not sizes.plain:
        return ()
    kv, h, rows, heads = sizes.kv_heads * sizes.head_dim, sizes.hidden, batch * seq, batch * sizes.kv_heads
    queries = sizes.heads // sizes.kv_heads * seq
    scores = heads * queries * keys
    layer = [
        (Gemm(1, rows, h + 2 * kv, h, "", "w"), 0, rows * h),
        (Gemm(heads, queries, keys, sizes.head_dim, "", ""), 0, 0),
        (Gemm(heads, queries, sizes.head_dim, keys, "", ""), SOFTMAX * scores, scores),
        (Gemm(1, rows, h, h, "", "w"), 0, rows * h),
        (Gemm(1, rows, (2 if sizes.gated else 1) * sizes.ffn, h, "", "w"), 0, rows * h),
        (Gemm(1, rows, h, sizes.ffn, "", "w"), 0, rows * sizes.ffn),
    ] * sizes.layers
    chain = [Multiplied(gemm, {place: numbers}, between) for place, (gemm, numbers, between) in enumerate(layer)]
    return [Multiplied(NOTHING, {}), *chain, Multiplied(NOTHING, {len(chain): 0.0})]


def beside_of(sizes: Transformer, batch: int, tokens: int, count: int) -> Sequence[Sequence[Beside]]:
    """Return the kernels of functions in a layer of a plain decoder that no linear layer has in it, on one of ``count``
    devices; a group of them waits for another one. Products of one operand are one, as serving stacks have them."""
    rows, heads, kv_heads = batch * tokens, sizes.heads // count, max(1, sizes.kv_heads // count)

    def kernel(ops: tuple[str, ...], width: int, moved: int = 2, normed: int = 0) -> Beside:
        return Beside(ops, rows * width, moved * rows * width, normed)

    groups = [[kernel(("RMSNormalization" if sizes.gated else "LayerNormalization",), sizes.hidden, 2, rows)]] * 2
    if count > 1:  # what the devices have added up, and what goes past them
        groups += [[kernel(("Add",), sizes.hidden, 3)]] * 2
    if sizes.gated:  # queries and keys are turned by their places
        turned = [kernel(("Mul", "Mul", "Add"), each * sizes.head_dim) for each in (heads, kv_heads)]
        groups += [[kernel(("Silu", "Mul"), sizes.ffn // count, 3)]]
        groups += [[*turned, kernel(("Slice",), kv_heads * sizes.head_dim)]]
        groups += [[kernel(("Transpose",), heads * sizes.head_dim)]] if tokens > 1 else []
    return groups


@kept
def passes_of(model: str, batch: int) -> Sequence[Pass]:
    """Return the passes of a run or a generation."""
    work = work_of(model, False)
    if generation_of(model) is None:
        return [Pass(1, work.flops * batch, products_of(model, batch), work.read, work.sample * batch)]
    sizes = sizes_of(model)
    assert sizes is not None  # it generates
    kept = work.cached * (work.prompt + (work.new - 2) / 2) * batch  # of a middle token: it grows evenly
    often = 2 * sizes.layers if sizes.plain else 0

    def one(times: int, seq: int, old: float) -> Pass:
        products, rows = _layer_products(sizes, batch, seq, work.prompt), batch * seq
        even = 1 - (work.new - 2) / (2 * work.prompt + work.new - 2) / 4 if old and work.new > 2 else 1.0
        added = rows * sizes.hidden
        return Pass(times, work.flops * rows, products, work.read + old, 0.0, old, added, often, seq, even)

    return [one(1, work.prompt, 0.0), one(work.new - 1, 1, kept)]
