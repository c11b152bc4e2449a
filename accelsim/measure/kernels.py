"""Kernels of PyTorch on a GPU, timed: a table that ``calibrate`` and ``kernel`` read.

Shapes are drawn with a seed, their sizes evenly on a logarithmic scale. Operands are random numbers, and of as many
sets as do not fit into the L2 cache together, up to ``MOST_SETS``: a kernel finds its own there only where it is small.
``clock`` says how often a kernel is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from math import ceil, prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.measure.clock import Call, captured, graph_seconds, host_seconds
from accelsim.seeds import generator

if TYPE_CHECKING:
    import torch

COLD, MOST_SETS = 3, 64
"""Times that the operands of all calls in turn fill the L2 cache, and the most sets of them."""
MOST_B = 2**32
"""Bytes of operands and results that a drawn kernel may have, 8 for each element."""
COLUMNS = (
    "op", "device", "dtype", "B", "M", "K", "N", "rows", "cols", "C_in", "C_out", "kernel", "H_W", "stride", "padding",
    "tokens", "kv", "heads", "kv_heads", "head_dim", "batch", "bytes", "time_us", "power_W", "clock_MHz", "energy_mJ",
    "source",
)  # fmt: skip
"""Columns of the table."""

Sizes = Mapping[str, int]
Tensor: TypeAlias = "torch.Tensor"
Tensors = Callable[..., Tensor]
"""A shape -> a tensor of random numbers."""
Product = Callable[[ModuleType, Tensor, Tensor], Call]
Make = Callable[[ModuleType, Sizes, Tensors, Product], Call]
"""From PyTorch, sizes, what makes tensors and what multiplies (a, and b lying N x K): what is timed."""


class Format(NamedTuple):
    """A number format: its name in PyTorch; bytes of an element; what multiplies two matrices, the second given as
    N x K; what sizes are multiples of; which ops there are (None: all); how far FP32 may be rounded for Tensor
    Cores."""

    torch: str
    element_B: int
    product: Product
    multiple: int = 1
    ops: frozenset[str] | None = None
    precision: str = "highest"

    def use(self, torch: ModuleType, device: str) -> None:
        """Set PyTorch so that products on a device are computed in this format."""
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision(self.precision)
        torch.backends.cudnn.allow_tf32 = self.precision != "highest"


def _matmul(torch: ModuleType, a: Tensor, b: Tensor) -> Call:
    return lambda: torch.matmul(a, b.transpose(-1, -2))


def _scaled(torch: ModuleType, a: Tensor, b: Tensor) -> Call:
    ones = dict.fromkeys(("scale_a", "scale_b"), torch.ones((), device=a.device))
    return lambda: torch._scaled_mm(a, b.transpose(-1, -2), out_dtype=torch.bfloat16, **ones)


def _integers(torch: ModuleType, a: Tensor, b: Tensor) -> Call:
    return lambda: torch._int_mm(a, b.transpose(-1, -2))


_ONE_PRODUCT = frozenset({"gemm"})
FORMATS: Mapping[str, Format] = {
    "fp64": Format("float64", 8, _matmul),
    "fp32": Format("float32", 4, _matmul),
    "tf32": Format("float32", 4, _matmul, ops=frozenset({"gemm", "bmm"}), precision="high"),
    "fp16": Format("float16", 2, _matmul),
    "bf16": Format("bfloat16", 2, _matmul),
    "fp8_e4m3fn": Format("float8_e4m3fn", 1, _scaled, 16, _ONE_PRODUCT),
    "int8": Format("int8", 1, _integers, 32, _ONE_PRODUCT),
}
"""Formats that can be measured."""


class Op(NamedTuple):
    """A kernel: the range of each size, those that are one of few, what is timed, about how many elements; its name
    in tables, and where its time is that of a framework's call."""

    ranges: Mapping[str, tuple[int, int]]
    choices: Mapping[str, Sequence[int]]
    make: Make
    elements: Callable[[Sizes], int]
    name: str = ""
    called: str = ""


def _gemm(torch: ModuleType, size: Sizes, tensor: Tensors, product: Product) -> Call:
    batch = (size["B"],) if "B" in size else ()
    a, b = tensor(*batch, size["M"], size["K"]), tensor(*batch, size["N"], size["K"])
    return product(torch, a, b)


def _image(tensor: Tensors, n: int, c: int, side: int) -> Tensor:
    """Channels last where Tensor Cores multiply, as their kernels want it, else first."""
    found = tensor(n, side, side, c).permute(0, 3, 1, 2)
    return found.contiguous() if found.element_size() > 2 else found


def _conv(torch: ModuleType, size: Sizes, tensor: Tensors, _: Product) -> Call:
    x = _image(tensor, size["B"], size["C_in"], size["H_W"])
    w = _image(tensor, size["C_out"], size["C_in"], size["kernel"])
    return lambda: torch.nn.functional.conv2d(x, w, stride=size["stride"], padding=size["padding"])


def _function(name: str, operands: int = 1) -> Make:
    def make(torch: ModuleType, size: Sizes, tensor: Tensors, _: Product) -> Call:
        given = [tensor(size["rows"], size["cols"]) for _ in range(operands)]
        found = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        known: Mapping[str, Mapping[str, object]] = {
            "softmax": {"dim": -1},
            "layer_norm": {"normalized_shape": (size["cols"],)},
        }
        more = known.get(name, {})
        return lambda: found(*given, **more)

    return make


def _attention(torch: ModuleType, size: Sizes, tensor: Tensors, _: Product) -> Call:
    dim, shared = size["head_dim"], size["heads"] != size["kv_heads"]
    q = tensor(size["batch"], size["heads"], size["tokens"], dim)
    k, v = (tensor(size["batch"], size["kv_heads"], size["kv"], dim) for _ in range(2))
    causal = size["tokens"] == size["kv"]
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, is_causal=causal, enable_gqa=shared)


def _copy(torch: ModuleType, size: Sizes, tensor: Tensors, _: Product) -> Call:
    source = tensor(size["rows"], size["cols"])
    return lambda: source.clone()


def _of_product(size: Sizes) -> int:
    return size.get("B", 1) * (size["M"] * size["K"] + size["K"] * size["N"] + size["M"] * size["N"])


def _of_rows(size: Sizes) -> int:
    return 2 * size["rows"] * size["cols"]


def _of_conv(size: Sizes) -> int:
    weights = size["C_in"] * size["C_out"] * size["kernel"] ** 2
    return size["B"] * (size["C_in"] + size["C_out"]) * size["H_W"] ** 2 + weights


def _of_attention(size: Sizes) -> int:
    tokens, kv = size["tokens"] * size["heads"], size["kv"] * size["kv_heads"]
    return 2 * size["batch"] * (tokens + kv) * size["head_dim"]


_ROWS, _ALIGNED = {"rows": (1, 65536), "cols": (32, 32768)}, {"align": (1, 8, 64, 64, 64)}
_CHANNELS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)
OPS: Mapping[str, Op] = {
    "gemm": Op(
        {"M": (1, 16384), "K": (64, 16384), "N": (64, 16384)}, {"align": (1, 8, 64, 64, 64)}, _gemm, _of_product,
        called="matmul",
    ),
    "bmm": Op(
        {"B": (2, 256), "M": (16, 4096), "K": (16, 4096), "N": (16, 4096)}, {"align": (1, 8, 16, 16)}, _gemm,
        _of_product, "gemm", "bmm",
    ),
    "conv2d": Op(
        {"B": (1, 128)},
        {"C_in": (3, *_CHANNELS), "C_out": _CHANNELS, "kernel": (1, 3, 3, 5, 7), "H_W": (7, 14, 28, 56, 112),
         "stride": (1, 1, 2), "padding": (0, 1)},
        _conv, _of_conv,
    ),
    "softmax": Op(_ROWS, _ALIGNED, _function("softmax"), _of_rows),
    "layernorm": Op(_ROWS, _ALIGNED, _function("layer_norm"), _of_rows),
    "gelu": Op(_ROWS, _ALIGNED, _function("gelu"), _of_rows),
    "silu": Op(_ROWS, _ALIGNED, _function("silu"), _of_rows),
    "relu": Op(_ROWS, _ALIGNED, _function("relu"), _of_rows),
    "add": Op(_ROWS, _ALIGNED, _function("add", 2), _of_rows),
    "mul": Op(_ROWS, _ALIGNED, _function("mul", 2), _of_rows),
    "attention": Op(
        {"batch": (1, 16), "kv": (128, 8192)},
        {"tokens": (0, 1), "heads": (8, 16, 32), "share": (1, 1, 4), "head_dim": (64, 128)},
        _attention, _of_attention,
    ),
    "copy": Op(_ROWS, _ALIGNED, _copy, _of_rows),
}  # fmt: skip
"""Kernels that can be measured."""


def drawn(op: str, count: int, seed: int, multiple: int = 1) -> Iterator[Sizes]:
    """Sizes of so many kernels of an op.

    Where an op has ``align``, its K and N, or columns, are multiples of that, sizes of products of ``multiple``; of
    ``tokens`` 0 stands for as many as there are keys, which ``share`` heads have together.
    """
    asked, draw = OPS[op], generator(seed)
    found = 0
    while found < count:
        size = {name: round(float(np.exp(draw.uniform(*np.log(ends))))) for name, ends in asked.ranges.items()}
        size |= {name: int(draw.choice(list(values))) for name, values in asked.choices.items()}
        size = _settled(size, multiple)
        fits = size.get("H_W", 8) + 2 * size.get("padding", 0) >= size.get("kernel", 1)
        if 8 * asked.elements(size) <= MOST_B and fits:
            found += 1
            yield size


def _settled(size: dict[str, int], multiple: int) -> dict[str, int]:
    """Sizes without the choices that only say how others are."""
    if "align" in size:
        align = max(size.pop("align"), multiple)
        steps = {"M": multiple, "K": align, "N": align, "cols": align}
        size |= {name: step * max(1, round(size[name] / step)) for name, step in steps.items() if name in size}
    if "share" in size:
        size |= {"tokens": size["tokens"] or size["kv"], "kv_heads": size["heads"] // size.pop("share")}
    return size


def pytorch() -> ModuleType:
    """Return the module. Raises UsageError where it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        problem = Problem("PyTorch is not installed", "measure", "pip install torch, and a GPU")
        raise UsageError(problem) from None


class Operands:
    """Tensors of random numbers: parts of a large one, each after the one before, the first after the last."""

    def __init__(self, torch: ModuleType, device: str, form: Format) -> None:
        kind, count = getattr(torch, form.torch), MOST_B // 8 + form.multiple * 4096
        whole = torch.randn(count, dtype=torch.float32 if form.element_B > 2 else torch.float16, device=device)
        self._whole = (64 * whole).clamp(-127, 127).to(kind) if form.torch == "int8" else whole.to(kind)
        self._next = 0

    def zero(self) -> None:
        """Fill all operands with zeros from now on."""
        self._whole.zero_()

    def __call__(self, *shape: int) -> Tensor:
        """Return a tensor that begins at a multiple of 256 elements."""
        count = prod(shape)
        if self._next + count > len(self._whole):
            self._next = 0
        found = self._whole[self._next : self._next + count].view(*shape)
        self._next += 256 * ceil(count / 256)
        return found


def check(torch: ModuleType, device: str, ops: Sequence[str], dtype: str) -> None:
    """Raises UsageError for ops, a format or a device that are not there, all at once."""
    problems = [Problem(f"op {op!r}", "--ops", ", ".join(OPS), nearest(op, OPS)) for op in ops if op not in OPS]
    if dtype not in FORMATS:
        problems.append(Problem(f"dtype {dtype!r}", "--dtype", ", ".join(FORMATS), nearest(dtype, FORMATS)))
    elif known := FORMATS[dtype].ops:
        problems += [
            Problem(f"{op} in {dtype}", "--ops", f"in this format: {', '.join(sorted(known))}")
            for op in ops
            if op in OPS and op not in known
        ]
    UsageError.raise_for(problems + absent(torch, device))


def absent(torch: ModuleType, device: str) -> list[Problem]:
    """The problem that there is no GPU, if so."""
    if torch.cuda.is_available():
        return []
    return [Problem(f"no GPU at {device}", "--on", "a device that PyTorch finds, such as cuda:0")]


def measured(
    torch: ModuleType, device: str, ops: Sequence[str], count: int, dtype: str, seed: int, called: bool = False,
    metered: int = 0, meter: Callable[[Call, int], Mapping[str, str]] | None = None, most_sets: int = MOST_SETS,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The rows of a table, one after the other.

    ``called``: times of calls, host included, else of kernels alone; with ``meter`` the first ``metered`` rows of each
    op have its columns too; there are no more than ``most_sets`` of operands. A kernel that PyTorch refuses has ``why``
    instead of a time. Raises UsageError as ``check``.
    """
    check(torch, device, ops, dtype)
    FORMATS[dtype].use(torch, device)
    form, tensor = FORMATS[dtype], Operands(torch, device, FORMATS[dtype])
    title, l2_B = torch.cuda.get_device_name(device), torch.cuda.get_device_properties(device).L2_cache_size
    source = f"accelsim measure, PyTorch {torch.__version__}, {'calls' if called else 'CUDA graph'}"
    source += ", one set of operands" if most_sets == 1 else ""
    clock = host_seconds if called else graph_seconds
    for op in ops:
        what = OPS[op]
        name = what.called if called else what.name
        for number, size in enumerate(drawn(op, count, seed, form.multiple)):
            sets = ceil(COLD * l2_B / (form.element_B * what.elements(size)))
            calls = [what.make(torch, size, tensor, form.product) for _ in range(max(1, min(most_sets, sets)))]
            row = {"op": name or op, "device": title, "dtype": dtype, **size, "data": "random", "source": source}
            try:
                row["time_us"] = f"{clock(torch, calls) * 1e6:.6g}"
                if meter is not None and number < metered:
                    row |= meter(*captured(torch, calls))
            except RuntimeError as error:
                row["why"] = str(error).splitlines()[0]
            torch.cuda.empty_cache()
            yield row
