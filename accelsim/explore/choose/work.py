"""Work of a task, whatever runs it: its passes over a model, their products, and what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import NamedTuple

from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import gemm_view, node_work
from accelsim.workload.ops.base import Gemm
from accelsim.workload.sources.load import generation_of, load_model


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


class Pass(NamedTuple):
    """A pass over a model, ``times`` alike: its operations, its products in order, how many numbers it reads at least,
    and how many come from the host."""

    times: int
    flops: float
    products: Sequence[Gemm]
    read: float
    enters: float = 0.0


@cache
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


@cache
def products_of(model: str, batch: int) -> Sequence[Gemm]:
    """Return the products of a pass over a model that is no decoder: their sizes are linear in the batch."""
    one, two = (_views(load_model(model, batch=size, data=False)) for size in (1, 2))
    if len(one) != len(two):
        return ()
    return [
        replace(first, **{side: (size := getattr(first, side)) + (getattr(second, side) - size) * (batch - 1)
                          for side in ("groups", "M", "N", "K")})
        for first, second in zip(one, two, strict=True)
    ]  # fmt: skip


def _views(graph: Graph) -> list[Gemm]:
    """Products of activations by weights or by activations, in order, without names of tensors."""
    found = [view for node in graph.nodes if (view := gemm_view(graph, node)) is not None]
    return [replace(view, a="", b="") for view in found if not graph.tensors[view.a].is_constant]


def _layer_products(sizes: Transformer, rows: int) -> Sequence[Gemm]:
    """Products with weights of all layers of a plain decoder, as few as they can be; none of others."""
    if not sizes.plain:
        return ()
    kv, h = sizes.kv_heads * sizes.head_dim, sizes.hidden
    shapes = [(h + 2 * kv, h), (h, h), ((2 if sizes.gated else 1) * sizes.ffn, h), (h, sizes.ffn)]
    return [Gemm(1, rows, n, k, "", "") for n, k in shapes] * sizes.layers


@cache
def passes_of(model: str, batch: int) -> Sequence[Pass]:
    """Return the passes of a run or a generation."""
    work = work_of(model, False)
    if generation_of(model) is None:
        return [Pass(1, work.flops * batch, products_of(model, batch), work.read, work.sample * batch)]
    sizes = sizes_of(model)
    assert sizes is not None  # it generates
    kept = work.cached * (work.prompt + (work.new - 2) / 2) * batch  # of a middle token: it grows evenly
    return [
        Pass(1, work.flops * work.prompt * batch, _layer_products(sizes, batch * work.prompt), work.read),
        Pass(work.new - 1, work.flops * batch, _layer_products(sizes, batch), work.read + kept),
    ]
