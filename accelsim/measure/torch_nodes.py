"""PyTorch calls for the nodes of a graph: a table op -> call.

A row looks at the node once, when a network is made; what it returns is called with the node's tensors in the order of
``Node.inputs``, None for one that is absent. Attributes are those of ``workload.ops``. Views stay views: a Transpose
moves nothing, and a Reshape only where it must, as in a network that is written for PyTorch. No call waits for the
device or looks at values on the host, so that CUDA can capture all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from math import inf, prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from accelsim.errors import Problem, UsageError, nearest
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import find
from accelsim.workload.ops.move import slices
from accelsim.workload.ops.window import Window, window_of

if TYPE_CHECKING:
    import torch

FLOATS = ("fp64", "fp32", "fp16", "bf16")
"""Formats of the graph that become the one format of a network."""
WHOLE = ("bool", "uint8", "int8", "int16", "int32", "int64")
"""Formats that stay as they are, called as in PyTorch."""


Value: TypeAlias = "torch.Tensor"
Function = Callable[..., Value]
Call: TypeAlias = "Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]"
"""Tensors of the inputs -> the result, or a tuple of several."""


class Site(NamedTuple):
    """Context in which a node is called: PyTorch, a device, its float type, and the tensors read and written."""

    torch: ModuleType
    device: str
    kind: torch.dtype
    node: Node
    ins: Sequence[Tensor | None]
    outs: Sequence[Tensor]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the node."""
        return self.node.attrs

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input, which must be there."""
        found = self.ins[index]
        assert found is not None, f"input {index} is absent"
        return found.shape

    def has(self, index: int) -> bool:
        """Return whether an optional input is there."""
        return index < len(self.ins) and self.ins[index] is not None

    def call(self, name: str) -> Function:
        """A function of PyTorch: as layers call it (``torch.nn.functional``), or of ``torch`` itself."""
        found: Function = getattr(self.torch.nn.functional, name, None) or getattr(self.torch, name)
        return found

    def refuse(self, what: str, expected: str) -> UsageError:
        """The error of attributes for which PyTorch has no call."""
        return UsageError(f"{self.node.op} {what} in PyTorch", self.node.name, expected)


Make = Callable[[Site], Call]


def site_of(torch: ModuleType, device: str, kind: torch.dtype, graph: Graph, node: Node) -> Site:
    """Return the site of a node: the node with its tensors, on a device."""
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    return Site(torch, device, kind, node, ins, graph.outs(node))


def _same(name: str, **keywords: str) -> Make:
    """A function that takes the inputs as they are; ``keywords``: its name for a parameter = that of the attribute."""

    def make(site: Site) -> Call:
        found = site.call(name)
        given = {theirs: site.attrs[ours] for theirs, ours in keywords.items()}
        return partial(found, **given) if given else found

    return make


def _joined(name: str) -> Make:
    """A function of two operands, for as many as there are."""
    return lambda site: lambda *parts: reduce(site.call(name), parts)


def _matmul(site: Site) -> Call:
    product = site.torch.matmul
    return (lambda a, b: product(a, b.mT)) if site.attrs.get("transB") else product


def _turned(x: Value) -> Value:
    return x.t()


def _itself(x: Value) -> Value:
    return x


def _gemm(site: Site) -> Call:
    a, torch = site.attrs, site.torch
    left, right = (_turned if a[name] else _itself for name in ("transA", "transB"))
    if site.has(2) and a["beta"]:
        scales = {"alpha": a["alpha"], "beta": a["beta"]}
        return lambda x, w, c: torch.addmm(c, left(x), right(w), **scales)
    if a["alpha"] == 1:
        return lambda x, w, c=None: torch.mm(left(x), right(w))
    return lambda x, w, c=None: torch.mm(left(x), right(w)) * a["alpha"]


def _frame(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Paddings as ``torch.nn.functional.pad`` takes them: the last axis first."""
    return [size for pair in zip(reversed(before), reversed(after), strict=True) for size in pair]


def _conv(site: Site) -> Call:
    window, own = window_of(site.node, site.shape(0)[2:]), site.torch.nn.functional
    convolve = partial(
        getattr(own, f"conv{len(window.size)}d"),
        stride=window.stride,
        dilation=window.dilation,
        groups=site.attrs["group"],
    )
    if window.before == window.after:
        return partial(convolve, padding=window.before)
    frame = _frame(window.before, window.after)
    return lambda x, w, b=None: convolve(own.pad(x, frame), w, b)


def _fits(window: Window) -> bool:
    """Return whether a pool of PyTorch takes the paddings: alike on both sides, no more than half of the kernel."""
    halves = all(2 * pad <= kernel for pad, kernel in zip(window.before, window.kernel, strict=True))
    return window.before == window.after and halves


def _to_reach(window: Window) -> list[int]:
    """Padding (or, negative, what is cut off) by which all windows fit exactly, as ``_frame``."""
    axes = zip(window.out, window.stride, window.kernel, window.dilation, strict=True)
    reach = [(out - 1) * stride + (kernel - 1) * dilation + 1 for out, stride, kernel, dilation in axes]
    after = [r - b - n for r, b, n in zip(reach, window.before, window.size, strict=True)]
    return _frame(window.before, after)


def _max_pool(site: Site) -> Call:
    window, own = window_of(site.node, site.shape(0)[2:]), site.torch.nn.functional
    pool = partial(
        getattr(own, f"max_pool{len(window.size)}d"),
        kernel_size=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
    )
    if _fits(window):
        return partial(pool, padding=window.before, ceil_mode=bool(site.attrs["ceil_mode"]))
    frame = _to_reach(window)
    return lambda x: pool(own.pad(x, frame, value=-inf))


def _average_pool(site: Site) -> Call:
    window, own = window_of(site.node, site.shape(0)[2:]), site.torch.nn.functional
    if set(window.dilation) != {1}:
        raise site.refuse(f"with dilations {list(window.dilation)} is none", "1 each")
    pool = partial(getattr(own, f"avg_pool{len(window.size)}d"), kernel_size=window.kernel, stride=window.stride)
    within = bool(site.attrs["count_include_pad"])
    if _fits(window):
        ceil = bool(site.attrs["ceil_mode"])
        return partial(pool, padding=window.before, ceil_mode=ceil, count_include_pad=within)
    inside = site.torch.ones((1, 1, *window.size), dtype=site.kind, device=site.device)
    frame, given = _to_reach(window), _frame(window.before, window.after)
    if within:
        rest = [reach - pad for reach, pad in zip(frame, given, strict=True)]
        share = pool(own.pad(own.pad(inside, given, value=1.0), rest))
    else:
        share = pool(own.pad(inside, frame))
    return lambda x: pool(own.pad(x, frame)) / share


def _reduction(name: str) -> Make:
    """A reduction over axes; of an op without that attribute over all after the channels, which stay with size 1."""

    def make(site: Site) -> Call:
        axes = site.attrs.get("axes", range(2, len(site.shape(0))))
        return partial(site.call(name), dim=tuple(axes), keepdim=bool(site.attrs.get("keepdims", 1)))

    return make


def _batch_norm(site: Site) -> Call:
    call, epsilon = site.call("batch_norm"), site.attrs["epsilon"]
    return lambda x, scale, bias, mean, var: call(x, mean, var, scale, bias, eps=epsilon)


def _lrn(site: Site) -> Call:
    a = site.attrs
    if a["size"] % 2 == 0:  # PyTorch has the odd neighbour in front, ONNX behind
        raise site.refuse(f"over {a['size']} channels is another one", "an odd number")
    call = site.call("local_response_norm")
    return partial(call, size=a["size"], alpha=a["alpha"], beta=a["beta"], k=a["bias"])


def _softmax(name: str) -> Make:
    def make(site: Site) -> Call:
        call, first, shape = site.call(name), site.attrs.get("flatten_from"), site.shape(0)
        if first is None:
            return partial(call, dim=site.attrs["axis"])
        rows = (prod(shape[:first]), prod(shape[first:]))
        return lambda x: call(x.reshape(rows), dim=1).reshape(shape)

    return make


def _row_norm(name: str) -> Make:
    """A norm of rows with a scale, and perhaps a bias, that may have to be broadcast to them."""

    def make(site: Site) -> Call:
        call, rows = site.call(name), site.shape(0)[site.attrs["axis"] :]
        call = partial(call, normalized_shape=rows, eps=site.attrs["epsilon"])
        there = [index for index in (1, 2) if site.has(index)]
        if all(site.shape(index) == rows for index in there):
            return lambda x, *more: call(x, **dict(zip(("weight", "bias"), more, strict=False)))
        if site.has(2):
            return lambda x, scale, bias: call(x) * scale + bias
        return lambda x, scale, bias=None: call(x) * scale

    return make


def _clip(site: Site) -> Call:
    low, high = site.attrs["min"], site.attrs["max"]
    if low is None and high is None:
        return _as_it_is(site)
    return partial(site.torch.clamp, min=low, max=high)


def _hard_sigmoid(site: Site) -> Call:
    alpha, beta = site.attrs["alpha"], site.attrs["beta"]
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return site.call("hardsigmoid")
    return lambda x: site.torch.clamp(x * alpha + beta, 0, 1)


def _divide(site: Site) -> Call:
    if site.outs[0].dtype in FLOATS:
        return site.call("div")
    return partial(site.call("div"), rounding_mode="trunc")


def _cast(site: Site) -> Call:
    to = site.attrs["to"]
    kind = site.kind if to in FLOATS else getattr(site.torch, to)
    return lambda x: x.to(kind)


def _as_it_is(site: Site) -> Call:
    return _itself


def _in_result_shape(method: str) -> Make:
    """A method of tensors that takes the shape of the result."""

    def make(site: Site) -> Call:
        shape = site.outs[0].shape
        return lambda x: getattr(x, method)(shape)

    return make


def _slice(site: Site) -> Call:
    shape, a = site.shape(0), site.attrs
    cuts, turned = [slice(None)] * len(shape), []
    found = slices(site.node, shape)
    for axis, step in zip(a["axes"], a["steps"], strict=True):
        kept = range(*found[axis].indices(shape[axis]))
        if step < 0:  # PyTorch has no such slices
            turned.append(axis)
            kept = kept[::-1]
        cuts[axis] = slice(kept.start, kept.stop, kept.step) if kept else slice(0, 0)
    at = tuple(cuts)
    return (lambda x: site.torch.flip(x[at], turned)) if turned else (lambda x: x[at])


def _gather(site: Site) -> Call:
    axis, indices, shape = site.attrs["axis"], site.ins[1], site.outs[0].shape
    if indices is not None and indices.is_constant and bool((indices.value() < 0).any()):
        counted = indices.value() % site.shape(0)[axis]  # PyTorch does not count from the end
        fixed = site.torch.tensor(counted.reshape(-1), device=site.device)
        return lambda x, rows: x.index_select(axis, fixed).reshape(shape)
    if axis == 0 and len(site.shape(0)) == 2:
        embed = site.call("embedding")
        return lambda table, rows: embed(rows, table)
    return lambda x, rows: x.index_select(axis, rows.reshape(-1)).reshape(shape)


def _pad(site: Site) -> Call:
    a, rank = site.attrs, len(site.shape(0))
    if a["mode"] != "constant":
        raise site.refuse(f"of mode {a['mode']} has no row", "mode constant")
    frame = _frame(a["pads"][:rank], a["pads"][rank:])
    return lambda x: site.torch.nn.functional.pad(x, frame, value=a["value"])


def _to_space(site: Site) -> Call:
    block, (n, c, h, w) = site.attrs["blocksize"], site.shape(0)
    if site.attrs["mode"] == "CRD":
        return partial(site.call("pixel_shuffle"), upscale_factor=block)
    parts, shape = (n, block, block, c // block**2, h, w), site.outs[0].shape
    return lambda x: x.reshape(parts).permute(0, 3, 4, 1, 5, 2).reshape(shape)


def _gating(site: Site) -> Call:
    def call(x: Value) -> tuple[Value, Value]:
        best, chosen = site.torch.topk(x, site.attrs["k"], dim=-1)
        return site.torch.softmax(best, dim=-1), chosen.to(site.torch.int32)

    return call


def _experts(site: Site) -> Call:
    """Rows in the order of their experts, one product of groups, and back into the order of the choices."""
    torch, product = site.torch, site.call("grouped_mm")
    (tokens, k), experts, given = site.shape(2), site.shape(1)[0], site.shape(0)[0]
    padding = site.outs[0].shape[0] - tokens * k
    numbers = torch.arange(experts, device=site.device, dtype=torch.int32)

    def call(x: Value, w: Value, chosen: Value) -> Value:
        inside, order = torch.sort(chosen.reshape(-1), stable=True)
        ends = torch.searchsorted(inside, numbers, right=True, out_int32=True)
        rows = torch.div(order, k, rounding_mode="floor") if given == tokens else order
        y = torch.empty((tokens * k, w.shape[2]), dtype=x.dtype, device=x.device)
        y.index_copy_(0, order, product(x.index_select(0, rows), w, offs=ends))
        return torch.nn.functional.pad(y, (0, 0, 0, padding)) if padding else y

    return call


ATTENTION = "Attention"
"""Op of a node that ``network.fused`` makes: queries, keys as they are multiplied, values, [mask]. Attributes: scale;
causal; tokens, the queries of one head; groups, how many such heads each head of keys has; transB as of the product."""


def _attention(site: Site) -> Call:
    call, a, shape = site.call("scaled_dot_product_attention"), site.attrs, site.outs[0].shape
    batch, heads, _, depth = site.shape(0)
    given: dict[str, object] = {"scale": a["scale"], "is_causal": a["causal"]}
    if a["groups"] > 1:
        given["enable_gqa"] = True
    apart = (batch, heads * a["groups"], a["tokens"], depth)

    def attended(q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
        keys = k if a["transB"] else k.mT
        return call(q.reshape(apart), keys, v, attn_mask=mask, **given).reshape(shape)

    return attended


NODES: Mapping[str, Make] = {
    "Conv": _conv, "MatMul": _matmul,
    "Gemm": _gemm, "ExpertMatMul": _experts, ATTENTION: _attention,
    "MaxPool": _max_pool, "AveragePool": _average_pool,
    "GlobalAveragePool": _reduction("mean"), "GlobalMaxPool": _reduction("amax"),
    "BatchNormalization": _batch_norm, "LRN": _lrn,
    "Softmax": _softmax("softmax"), "LogSoftmax": _softmax("log_softmax"),
    "LayerNormalization": _row_norm("layer_norm"), "RMSNormalization": _row_norm("rms_norm"),
    "Gelu": _same("gelu", approximate="approximate"), "Clip": _clip, "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _same("leaky_relu", negative_slope="alpha"), "Elu": _same("elu", alpha="alpha"),
    "HardSwish": _same("hardswish"),
    **{name: _same(name.lower()) for name in (
        "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round",
        "Reciprocal", "Sin", "Cos", "Silu", "Softplus", "Softsign", "Mish", "Where")},
    **{name: _same(name.lower()) for name in ("Add", "Sub", "Mul", "Pow", "Less", "Greater")},
    "Equal": _same("eq"), "Not": _same("logical_not"), "And": _same("logical_and"), "Or": _same("logical_or"),
    "Div": _divide, "Sum": _joined("add"),
    "Mean": lambda site: lambda *parts: reduce(site.torch.add, parts) / len(parts),
    "Min": _joined("minimum"), "Max": _joined("maximum"),
    "ReduceMean": _reduction("mean"), "ReduceSum": _reduction("sum"), "ReduceMax": _reduction("amax"),
    "ReduceMin": _reduction("amin"), "TopKGating": _gating, "Cast": _cast,
    "Concat": lambda site: lambda *parts: site.torch.cat(parts, dim=site.attrs["axis"]),
    "Split": lambda site: lambda x: site.torch.split(x, list(site.attrs["split"]), dim=site.attrs["axis"]),
    "Slice": _slice, "Gather": _gather, "Pad": _pad, "Expand": _in_result_shape("expand"),
    "Tile": _same("tile", dims="repeats"), "DepthToSpace": _to_space, "Transpose": _same("permute", dims="perm"),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _in_result_shape("reshape")),
    "Identity": _as_it_is, "Dropout": _as_it_is,
}  # fmt: skip
"""Op -> its call."""


def refusals(graph: Graph) -> Iterator[Problem]:
    """Yield what of a graph has no call: ops without a row, each once; fused nodes; products of integers; formats."""
    first = {node.op: node.name for node in reversed(graph.nodes)}
    for op, name in first.items():
        if op not in NODES:
            yield Problem(f"op {op!r} has no call of PyTorch", name, nearest=nearest(op, NODES))
    for node in graph.nodes:
        if node.epilogue:
            yield Problem("nodes that are fused", node.name, "a graph before the passes of a compiler")
        row = find(node.op)
        if row is not None and row.kind == "matrix" and graph.tensors[node.inputs[0]].dtype not in FLOATS:
            yield Problem(f"{node.op} of integers", node.name, f"operands in {', '.join(FLOATS)}")
    used = {name: node.name for node in graph.nodes for name in (*node.reads, *node.writes)}
    for name, where in used.items():
        if graph.tensors[name].dtype not in (*FLOATS, *WHOLE):
            yield Problem(f"{name!r} in {graph.tensors[name].dtype}", where, f"one of {', '.join((*FLOATS, *WHOLE))}")
