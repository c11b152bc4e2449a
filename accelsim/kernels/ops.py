"""Kernels by the names that tables of measurements call them, and what each is to the families of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from accelsim.engines.kernel_times import ROW_CLOCKS


class Function(NamedTuple):
    """A function of rows x cols elements: what it reads and writes per element, passes over what it reads, special
    functions per element, how much more is moved where it is no single kernel; the host's work for the call where a
    framework asks for each kernel, that for an addition of two tensors being 1."""

    reads: float = 1
    writes: float = 1
    passes: float = 1
    special: float = 0
    traffic: float = 1
    host: float = 1.18
    reductions: float = 0
    """Reductions of a row, one after the other."""
    row: float = 0
    """Clocks of a multiprocessor for each row, where a block of threads has one."""
    along: float = 0
    """Clocks for each element of a row, which the threads of a block take in turn: once, for the first rows."""
    ragged: float = 0
    """Extra time of moving, relative, where rows do not begin at multiples of 16 B and are read by elements."""
    launch: float = 1
    """Share of a kernel's launch that it takes to begin."""


_BINARY = Function(reads=2, host=1.0)
_SCALAR = Function(host=1.18)
_NORM = Function(passes=2, special=13.2, host=1.8)
FUNCTIONS: Mapping[str, Function] = {
    "add": _BINARY, "sub": _BINARY, "mul": _BINARY, "div": _BINARY._replace(special=1),
    "pow": _BINARY._replace(special=2), "addu": _SCALAR, "subu": _SCALAR, "mulu": _SCALAR, "divu": _SCALAR,
    "powu": _SCALAR._replace(special=2, host=1.11),
    "relu": Function(host=1.19), "gelu": Function(special=1, host=1.16), "tanh": Function(special=1, host=0.98),
    "sigmoid": Function(special=2), "silu": Function(special=2), "exp": Function(special=1), "cast": Function(),
    "softmax": Function(special=9, traffic=1.2, host=1.25, reductions=2, along=0.4),
    "layernorm": Function(passes=2, traffic=1.08, host=1.8, row=ROW_CLOCKS["LayerNormalization"], along=2, ragged=1.1),
    "batchnorm": Function(passes=1, host=1.8),
    "rmsnorm": Function(passes=2, traffic=1.08, host=1.8, row=ROW_CLOCKS["RMSNormalization"], along=2, ragged=1.1),
    "input_layernorm": _NORM, "post_layernorm": _NORM, "attn_rope": Function(special=10.4),
    "mlp_act": Function(writes=0.5, special=6.5),
    "embedding": Function(), "copy": Function(traffic=1.45, host=1.0, launch=0.75),
}  # fmt: skip
"""Name -> function. ``..u``: with a scalar. Norms, rotary embeddings and activations of language models as their
profiles have them are bound by instructions, so many special functions for an element, where memory is as fast as on
an A100 and an H100, and by what they move where it is slower: the middle of both in the profiles of Vidur. The host's
work is that of NeuSight on five devices, where its ratios are alike. Copies are the driver's and no kernel: they begin
sooner and move less per second, both fitted to 60 of an H200 (``tests/golden``)."""


class Product(NamedTuple):
    """A matrix product: the host's work for the call, that for an addition being 1; whether its name is that of a
    framework's function, so that measured times are those of calls, else of kernels alone; what its operands make a
    multiplication draw, that of random numbers being 1 (``products.slowed``)."""

    host: float = 1.15
    called: bool = False
    activity: float = 1.0


ALIKE = 1 / 1.1
"""Power of multiplying numbers that are small or near each other, relative to random numbers: fewer wires switch.
Inferred, in twentieths, from the projection behind attention in the profiles of Vidur: of all products it
alone is 5 to 12 % slower on A100 and H100 than others of its size, where it takes more than 200 us and not where it
takes less. Its operand is drawn at random there, those of the others come out of layers with dummy weights (recalled).
On an H100 products of zeros draw 42 % less than those of random numbers, and take 14 % less time (``tests/golden``)."""

PRODUCTS: Mapping[str, Product] = {
    "gemm": Product(),
    "matmul": Product(called=True),
    "mm": Product(called=True),
    "bmm": Product(called=True),
    "linear": Product(host=1.95, called=True),
    "attn_pre_proj": Product(activity=ALIKE),
    "attn_post_proj": Product(),
    "mlp_up_proj": Product(activity=ALIKE),
    "mlp_down_proj": Product(activity=ALIKE),
}
"""Name -> product. The host's work is that of the shortest calls of NeuSight on four GPUs, beside its additions there:
1.10 to 1.17 for ``torch.bmm``, 1.9 to 2.0 for ``torch.nn.Linear``, which adds a bias."""
CONVOLUTIONS = "conv", "conv2d"
ATTENTION = "attention", "flash_attention", "attention_prefill", "attention_decode"

SERVING: Mapping[str, str] = {
    "serving_linear": "layer",
    "serving_prefill": "prefill",
    "serving_decode": "decode",
    "moe": "experts",
}
"""Kernels of a serving stack in a graph, with what belongs to them there: the quantiser of a layer's input, the write
of new keys and values to their cache, routing and sum of a mixture of experts."""

FAMILY_OF: Mapping[str, str] = {
    **dict.fromkeys(PRODUCTS, "product"),
    **dict.fromkeys(FUNCTIONS, "function"),
    **dict.fromkeys(CONVOLUTIONS, "convolution"),
    **dict.fromkeys(ATTENTION, "attention"),
    **SERVING,
}
"""Name of a kernel -> its family."""

FORMATS: Mapping[str, str] = {
    "fp16_in_fp32_acc_tensorcore": "fp16",
    "fp16_storage_fp32_math": "fp32",
    "int8_in_int32_acc": "int8",
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "float": "fp32",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3fn",
}
"""Name of a number format in tables -> its name here."""

DIRECTIONS: Mapping[str, int] = {"": 0, "fwd": 0, "forward": 0, "bwd_inputs": 1, "bwd_params": 2}
"""Directions of a convolution."""

SIZES: Mapping[str, tuple[str, ...]] = {
    "product": ("M", "K", "N", "B"),
    "function": ("rows", "cols"),
    "convolution": ("B", "C_in", "C_out", "kernel", "H_W", "stride", "padding"),
    "attention": ("tokens", "kv", "heads", "kv_heads", "head_dim", "batch"),
    "layer": ("M", "K", "N"),
    "prefill": ("tokens", "kv", "heads", "kv_heads", "head_dim", "batch"),
    "decode": ("kv", "heads", "kv_heads", "head_dim", "batch"),
    "experts": ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep"),
}
"""Family of kernels -> names of its sizes, in the order in which they may stand."""
