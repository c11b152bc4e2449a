"""Kernels of PyTorch on a GPU, timed: a table that ``calibrate`` and ``kernel`` read.

Shapes are drawn with a seed, their sizes evenly on a logarithmic scale. A kernel is called ``WARM`` times, then
``CALLS`` times between two CUDA events each; the median counts. So a time holds the host's work for a call where that
is longer than the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.seeds import generator

WARM, CALLS = 3, 10
"""Calls before those that count, and those."""
DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Format -> its name in PyTorch."""
MOST_B = 2**32
"""Bytes of operands and results that a drawn kernel may have."""
COLUMNS = (
    "op", "device", "dtype", "B", "M", "K", "N", "rows", "cols", "C_in", "C_out", "kernel", "H_W", "stride", "padding",
    "tokens", "kv", "heads", "kv_heads", "head_dim", "batch", "bytes", "time_us", "source",
)  # fmt: skip
"""Columns of the table."""

Sizes = Mapping[str, int]
Make = Callable[[Any, Sizes, Any], Callable[[], Any]]
"""From PyTorch, sizes and a function that makes a tensor of a shape: what is timed."""


class Op(NamedTuple):
    """A kernel: the range of each size, those that are one of few, what is timed, and about how many elements."""

    ranges: Mapping[str, tuple[int, int]]
    choices: Mapping[str, Sequence[int]]
    make: Make
    elements: Callable[[Sizes], int]


def _gemm(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
    a, b = tensor(size["M"], size["K"]), tensor(size["K"], size["N"])
    return lambda: torch.matmul(a, b)


def _bmm(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
    a, b = tensor(size["B"], size["M"], size["K"]), tensor(size["B"], size["K"], size["N"])
    return lambda: torch.bmm(a, b)


def _conv(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
    x = tensor(size["B"], size["C_in"], size["H_W"], size["H_W"])
    w = tensor(size["C_out"], size["C_in"], size["kernel"], size["kernel"])
    return lambda: torch.nn.functional.conv2d(x, w, stride=size["stride"], padding=size["padding"])


def _function(name: str, operands: int = 1) -> Make:
    def make(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
        given = [tensor(size["rows"], size["cols"]) for _ in range(operands)]
        found = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        known: Mapping[str, Mapping[str, Any]] = {
            "softmax": {"dim": -1},
            "layer_norm": {"normalized_shape": (size["cols"],)},
        }
        more = known.get(name, {})
        return lambda: found(*given, **more)

    return make


def _attention(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
    heads, dim = size["heads"], size["head_dim"]
    q = tensor(size["batch"], heads, size["tokens"], dim)
    k, v = (tensor(size["batch"], heads, size["kv"], dim) for _ in range(2))
    causal = size["tokens"] == size["kv"]
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _copy(torch: Any, size: Sizes, tensor: Any) -> Callable[[], Any]:
    source = tensor(size["rows"], size["cols"])
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _of_product(size: Sizes) -> int:
    return size.get("B", 1) * (size["M"] * size["K"] + size["K"] * size["N"] + size["M"] * size["N"])


def _of_rows(size: Sizes) -> int:
    return 3 * size["rows"] * size["cols"]


def _of_conv(size: Sizes) -> int:
    return size["B"] * (size["C_in"] + size["C_out"]) * size["H_W"] ** 2


def _of_attention(size: Sizes) -> int:
    return 4 * size["batch"] * size["heads"] * max(size["tokens"], size["kv"]) * size["head_dim"]


_ROWS = {"rows": (1, 65536), "cols": (32, 32768)}
OPS: Mapping[str, Op] = {
    "gemm": Op({"M": (1, 16384), "K": (64, 16384), "N": (64, 16384)}, {}, _gemm, _of_product),
    "bmm": Op({"B": (2, 256), "M": (16, 4096), "K": (16, 4096), "N": (16, 4096)}, {}, _bmm, _of_product),
    "conv2d": Op(
        {"B": (1, 128), "C_in": (3, 1024), "C_out": (16, 1024)},
        {"kernel": (1, 3, 3, 5, 7), "H_W": (7, 14, 28, 56, 112), "stride": (1, 1, 2), "padding": (0, 1)},
        _conv, _of_conv,
    ),
    "softmax": Op(_ROWS, {}, _function("softmax"), _of_rows),
    "layernorm": Op(_ROWS, {}, _function("layer_norm"), _of_rows),
    "gelu": Op(_ROWS, {}, _function("gelu"), _of_rows),
    "relu": Op(_ROWS, {}, _function("relu"), _of_rows),
    "add": Op(_ROWS, {}, _function("add", 2), _of_rows),
    "attention": Op(
        {"batch": (1, 16), "kv": (128, 8192)},
        {"tokens": (0, 1), "heads": (8, 16, 32), "head_dim": (64, 128)}, _attention, _of_attention,
    ),
    "copy": Op(_ROWS, {}, _copy, _of_rows),
}  # fmt: skip
"""Kernels that can be measured."""


def drawn(op: str, count: int, seed: int) -> Iterator[Sizes]:
    """Sizes of so many kernels of an op: of ``tokens`` 0 stands for as many as there are keys."""
    asked, draw = OPS[op], generator(seed)
    found = 0
    while found < count:
        size = {
            name: round(float(np.exp(draw.uniform(*np.log(ends))))) for name, ends in asked.ranges.items()
        }
        size |= {name: int(draw.choice(list(values))) for name, values in asked.choices.items()}
        if op == "attention":
            size |= {"tokens": size["tokens"] or size["kv"], "kv_heads": size["heads"]}
        if 8 * asked.elements(size) <= MOST_B and size.get("H_W", 8) >= size.get("kernel", 1):
            found += 1
            yield size


def pytorch() -> Any:
    """The module. Raises UsageError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise UsageError(
            Problem("PyTorch is not installed", "measure", "pip install torch, and a GPU")
        ) from None
    return torch


def measured(
    torch: Any, device: str, ops: Sequence[str], count: int, dtype: str, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of a table, one after the other. Raises UsageError for an op, a format or a device that is not there."""
    problems = [
        Problem(f"op {op!r}", "--ops", ", ".join(OPS), nearest(op, OPS)) for op in ops if op not in OPS
    ]
    if dtype not in DTYPES:
        problems.append(Problem(f"dtype {dtype!r}", "--dtype", ", ".join(DTYPES), nearest(dtype, DTYPES)))
    if not torch.cuda.is_available():
        problems.append(Problem(f"no GPU at {device}", "--on", "a device that PyTorch finds, such as cuda:0"))
    if problems:
        raise UsageError(problems)
    title = torch.cuda.get_device_name(device)
    kind, source = getattr(torch, DTYPES[dtype]), f"accelsim measure, PyTorch {torch.__version__}"

    def tensor(*shape: int) -> Any:
        return torch.randn(shape, dtype=kind, device=device)

    for op in ops:
        for size in drawn(op, count, seed):
            seconds = _seconds(torch, OPS[op].make(torch, size, tensor))
            yield {
                "op": op, "device": title, "dtype": dtype, **size, "time_us": f"{seconds * 1e6:.6g}", "source": source,
            }  # fmt: skip


def _seconds(torch: Any, call: Callable[[], Any]) -> float:
    """Median time of a call."""
    times = []
    for number in range(WARM + CALLS):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        before.record()
        call()
        after.record()
        torch.cuda.synchronize()
        if number >= WARM:
            times.append(before.elapsed_time(after) * 1e-3)
    return float(median(times))
