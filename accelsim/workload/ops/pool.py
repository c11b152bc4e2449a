"""Pools: a running maximum or sum over the kernel offsets, so no array of windows is ever made."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.reduce import extreme
from accelsim.workload.ops.values import Infers, Ins, Kernel, Values, WorkRule, array, mean, per_input, require, tensor
from accelsim.workload.ops.window import Window, padded, view, window_of


def _infer(node: Node, ins: Ins) -> Infers:
    x = tensor(node, ins, 0)
    require(len(x.shape) >= 3, node, f"input of shape {list(x.shape)}", "[N, C, *spatial]")
    return [((*x.shape[:2], *window_of(node, x.shape[2:]).out), x.dtype)]


def _lowest(x: Array) -> float:
    """Return what a maximum starts from: the lowest finite number (all of a window may be padding)."""
    return float(np.finfo(x.dtype).min) if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _running(frame: Array, window: Window, step: Callable[..., Array]) -> Array:
    """Reduce by ``step`` (np.maximum or np.add) over what each kernel offset sees."""
    total: Array | None = None
    for offset in window.offsets():
        seen = view(frame, window, offset)
        if total is None:
            total = seen.copy()
        else:
            step(total, seen, out=total)
    assert total is not None
    return total


def _max_pool(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    window = window_of(node, x.shape[2:])
    return [_running(padded(x, window, _lowest(x)), window, np.maximum)]


def _average_pool(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    window = window_of(node, x.shape[2:])
    total = _running(padded(x, window), window, np.add)
    return [total / window_counts(window, bool(node.attrs["count_include_pad"])).astype(x.dtype)]


def window_counts(window: Window, include_pad: bool) -> Array:
    """Return the elements that each window averages, at least 1, [*out]: of the input, or of the padded input."""
    result: Array = np.ones((), np.int64)
    for axis, size in enumerate(window.size):
        start = np.arange(window.out[axis]) * window.stride[axis]
        taps = np.arange(window.kernel[axis]) * window.dilation[axis]
        seen = start[:, None] + taps[None, :]
        low = 0 if include_pad else window.before[axis]
        high = window.before[axis] + size + (window.after[axis] if include_pad else 0)
        inside = ((seen >= low) & (seen < high)).sum(axis=1)
        result = result[..., None] * inside
    return np.maximum(result, 1)


def _pool_work(extra: int) -> WorkRule:
    """Kernel - 1 comparisons or additions per result, and for the average one division."""
    return lambda node, ins, outs: Work(ops=outs[0].elements * (prod(node.attrs["kernel_shape"]) - 1 + extra))


def _lp_pool(node: Node, values: Values) -> list[Array]:
    x, p = array(values, 0), node.attrs["p"]
    window = window_of(node, x.shape[2:])
    total = _running(padded(np.abs(x) ** p, window), window, np.add)
    return [np.asarray(total ** (1 / p), x.dtype)]


def _lp_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # a power per input element, kernel - 1 additions and a root per result
    results = outs[0].elements * prod(node.attrs["kernel_shape"])
    return Work(ops=tensor(node, ins, 0).elements + results)


register(Op("LpPool", "pool", _infer, _lp_pool, _lp_work, family="pooling"))
register(Op("MaxPool", "pool", _infer, _max_pool, _pool_work(0), family="pooling", keeps=True))
register(Op("AveragePool", "pool", _infer, _average_pool, _pool_work(1), family="pooling"))


def _global_infer(node: Node, ins: Ins) -> Infers:
    x = tensor(node, ins, 0)
    require(len(x.shape) >= 3, node, f"input of shape {list(x.shape)}", "[N, C, *spatial]")
    return [((*x.shape[:2], *[1] * (len(x.shape) - 2)), x.dtype)]


def _global(reduce: Callable[..., Array]) -> Kernel:
    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        return [np.asarray(reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True), x.dtype)]

    return kernel


_MAXIMUM = _global(extreme(np.max, least=False))
# one comparison or addition per input element after the first; the division counts for that one
register(Op("GlobalAveragePool", "pool", _global_infer, _global(mean), per_input(), family="pooling", onnx={}))
register(Op("GlobalMaxPool", "pool", _global_infer, _MAXIMUM, per_input(), family="pooling", onnx={}, keeps=True))
