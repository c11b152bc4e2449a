"""Constants of the kernels of a serving stack on a GPU: linear layers, attention, mixtures of experts.

A row is of one kind of kernel and one number format, and of one library where a stack has several. What the constants
mean, the closed forms say (``serving_layers.py``, ``serving_attention.py`` and ``serving_experts.py`` in
``accelsim/engines/simt``). A constant that a file does not state is about the median over six GPUs of five families.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from accelsim.formats.table import FP4, FP4_BLOCKS, get
from accelsim.spec.base import Model
from accelsim.spec.constants import Fitted, IntervalOf
from accelsim.spec.counts import Name, Share, Side, Words
from accelsim.spec.declaring import Field
from accelsim.spec.names import operand_formats
from accelsim.spec.quantity import Seconds


def found_in(low: float, high: float, unit: str = "") -> Fitted:
    """Mark a constant that is looked for in a range; simulations do not read it."""
    return Fitted(low, high, unit, simulated=False)


Count = Annotated[int, Field(ge=0, le=10**9)]
"""Measured kernels."""
Soft = Annotated[float, Field(ge=0, le=1)]
"""A share, 0 to 1."""
Times = Annotated[float, Field(ge=0, le=100_000)]
"""A factor, or clocks."""

LIBRARIES = ("", "triton", "cutlass", "trtllm", "marlin")
"""Names of libraries in keys of constants; the first is the usual one of a stack."""


class Measured(Model):
    """Constants of one kernel kind, with the error on rows without part in the fit."""

    rows: Count = Field(0, description="fitted kernels; 0: defaults")
    unseen: Count = Field(0, description="measured kernels without part in the fit")
    mean: Soft | None = Field(None, description="mean size of model / measured - 1 on these")
    intervals: dict[str, IntervalOf] = Field({}, description="regime (`launch`, `short`, `long`) or `all` -> interval")


class Layer(Measured):
    """A linear layer in one format, in a graph of kernels."""

    launch: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(2.1e-6, description="of the product")
    sustained: Annotated[Share, found_in(0.2, 1.0)] = Field(0.95, description="share of peak")
    feed: Annotated[Times, found_in(0.0, 192.0)] = Field(
        0.7, description="clocks per 1,000 operand elements brought in"
    )
    block: Annotated[Times, found_in(0.0, 6000.0)] = Field(620.0, description="clocks of a block beside its loop")
    results: Annotated[Times, found_in(0.0, 500.0)] = Field(140.0, description="clocks per 1,000 results written")
    softness: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.6, description="share of a whole wave that the last one takes"
    )
    vector: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        2e-6, description="one row times a matrix, beside moving"
    )
    memory: Annotated[Share, found_in(0.3, 1.0)] = Field(0.8, description="share of the DRAM's peak")
    cached: Annotated[Times, found_in(1.0, 8.0)] = Field(2.0, description="rate of the L2 cache, in DRAM peaks")
    room: Annotated[Times, found_in(0.2, 1.2)] = Field(
        0.7, description="share of the L2 cache for operands and results"
    )
    reduction: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        1.9e-6, description="to sum parts of a cut loop, beside moving"
    )
    added: Annotated[Times, found_in(0.0, 2.0)] = Field(0.54, description="share of these sums' bytes that is moved")
    quantiser: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        2.8e-6, description="launch of the input quantiser"
    )
    row: Annotated[Seconds, found_in(0.0, 20e-9, "s")] = Field(5.2e-9, description="quantiser, per input row")
    along: Annotated[Seconds, found_in(0.0, 4e-9, "s")] = Field(
        0.15e-9, description="quantiser, per element along a row, all rows together"
    )
    quantising: Annotated[Share, found_in(0.05, 1.0)] = Field(0.64, description="quantiser, share of the DRAM's peak")


class Prefill(Measured):
    """Prompt attention with one key and value format, cache writes included."""

    launch: Annotated[Seconds, found_in(0.0, 30e-6, "s")] = Field(8.2e-6, description="of an attention in a graph")
    sustained: Annotated[Share, found_in(0.2, 1.0)] = Field(0.63, description="share of the peak, both products")
    exponential: Annotated[Times, found_in(0.0, 4.0)] = Field(
        0.31, description="softmax time, 1 being its exponentials on special-function units"
    )
    block: Annotated[Times, found_in(0.0, 20_000.0)] = Field(4300.0, description="clocks of a block beside its loop")
    wide: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.28, description="share of `block` that grows with head elements (128: 1)"
    )
    softness: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.94, description="share of a whole wave that the last one takes"
    )
    first: Annotated[Share, found_in(0.3, 1.0)] = Field(
        0.97, description="share of its time that the longest block adds if it binds"
    )
    memory: Annotated[Share, found_in(0.1, 1.0)] = Field(0.65, description="share of the DRAM's peak")
    token: Annotated[Seconds, found_in(0.0, 20e-9, "s")] = Field(
        0.6e-9, description="cache write and quantising, per token"
    )
    queries: Side = Field(128, description="query rows of a block")
    packs: bool = Field(True, description="query heads that share keys are rows of one block")


class Decode(Measured):
    """Attention of one query per sequence with one key and value format, cache writes included."""

    launch: Annotated[Seconds, found_in(0.0, 30e-6, "s")] = Field(8.1e-6, description="of an attention in a graph")
    block: Annotated[Seconds, found_in(0.0, 20e-6, "s")] = Field(
        2.9e-6, description="a block (sequence and key head), up to 128 keys"
    )
    wide: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.33, description="share of `block` that grows with head elements (128: 1)"
    )
    query: Annotated[Seconds, found_in(0.0, 0.5e-6, "s")] = Field(
        0.019e-6, description="per query head that shares its keys"
    )
    step: Annotated[Seconds, found_in(0.0, 6e-6, "s")] = Field(1.06e-6, description="per 128 more keys of 128 elements")
    join: Annotated[Seconds, found_in(0.0, 12e-6, "s")] = Field(
        3.1e-6, description="kernel that joins key parts, from 129 keys"
    )
    memory: Annotated[Share, found_in(0.3, 1.0)] = Field(0.86, description="share of the DRAM's peak")
    cached: Annotated[Times, found_in(1.0, 8.0)] = Field(1.1, description="rate of keys in the L2 cache, in DRAM peaks")
    room: Annotated[Times, found_in(0.2, 1.2)] = Field(1.0, description="share of the L2 cache for keys")
    lone: bool = Field(
        False,
        description="with a window or unshared keys, each query head has one block for all keys (FlashAttention 2)",
    )
    stream: Times = Field(
        0.0,
        description="key and value bytes per clock where a block has one query head and all its keys (masked "
        "attention on lanes); 0: Tensor Cores",
    )
    walk: Annotated[Seconds, found_in(0.0, 6e-6, "s")] = Field(1.4e-6, description="`step` of such a block")
    packing: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        0.5e-6, description="with `lone` and shared keys: added to the launch"
    )
    copying: Annotated[Seconds, found_in(0.0, 15e-6, "s")] = Field(
        5e-6, description="the same, several sequences and key heads: copies of queries and results"
    )


class Experts(Measured):
    """A mixture of experts in one format: routing, two grouped products, activation, sum."""

    launch: Annotated[Seconds, found_in(0.0, 90e-6, "s")] = Field(30e-6, description="of all its kernels")
    sustained: Annotated[Share, found_in(0.05, 1.0)] = Field(0.45, description="share of the peak, products")
    memory: Annotated[Share, found_in(0.05, 1.0)] = Field(0.98, description="share of the DRAM's peak, weights")
    moved: Annotated[Share, found_in(0.05, 1.0)] = Field(0.48, description="share of the DRAM's peak, activations")
    token: Annotated[Seconds, found_in(0.0, 100e-9, "s")] = Field(0.0, description="per token")
    local: Annotated[Seconds, found_in(0.0, 1.5e-6, "s")] = Field(0.0, description="per expert on the device")
    active: Annotated[Seconds, found_in(0.0, 3e-6, "s")] = Field(
        0.0, description="per expert on the device with a token"
    )
    ragged: Annotated[Times, found_in(1.0, 6.0)] = Field(
        2.0, description="how much longer products take if the inner size is no multiple of 16"
    )
    padding: Annotated[Times, found_in(0.0, 128.0)] = Field(46.0, description="padded rows per expert with a token")
    everywhere: bool = Field(True, description="activations of all experts are moved, also other devices'")


class Serving(Model):
    """Constants of a serving stack on one GPU. Keys are `FORMAT` or `FORMAT/LIBRARY`, usual library first."""

    title: Words = Field(description="stack and version")
    device: Name = Field(description="measured chip; on others uncalibrated")
    host: Annotated[Seconds, Field(ge=0, le=1)] = Field(
        0.0, description="host time per kernel; 0: kernels are in a graph"
    )
    layers: dict[str, Layer] = Field({}, description="format -> linear layers")
    prefill: dict[str, Prefill] = Field({}, description="key and value format -> prompts")
    decode: dict[str, Decode] = Field({}, description="key and value format -> single queries")
    experts: dict[str, Experts] = Field({}, description="format -> mixtures of experts")


class Served(NamedTuple):
    """A number format as serving stacks have it: bytes of a weight and of an activation with their share of scales,
    the format of the chip that multiplies, whether the input is quantised by a kernel."""

    weight_B: float
    activation_B: float
    arithmetic: str
    quantises: bool


FAMILIES = ("layers", "prefill", "decode", "experts")
"""Fields of ``Serving`` that hold constants by key."""


def merged(of: Serving, rest: Serving) -> Serving:
    """Return a stack with the constants that it does not state from another one."""
    return of.model_copy(update={name: {**getattr(rest, name), **getattr(of, name)} for name in FAMILIES})


GROUP, SCALE_B = 128, 2.0
"""Weights narrower than 8 bits that share a scale, and bytes of it (AWQ, GPTQ: 128 and FP16)."""


def fp4_B(name: str) -> float:
    """Return the bytes of an element of a format of ``FP4_BLOCKS`` with its share of the scale."""
    return (4 + 8 / FP4_BLOCKS[name]) / 8


SPECIAL: Mapping[str, Served] = {
    "nvfp4": Served(fp4_B("nvfp4"), fp4_B("nvfp4"), FP4, True),
    "fp8_block": Served(1.0, 1 + 4 / 128, "fp8_e4m3fn", True),
}
"""Formats that are no row of the table of formats: FP4 with a scale in FP8 for each 16, FP8 with a scale for each block
of 128 x 128 weights and each 128 activations."""


def served(name: str) -> Served | None:
    """Return a format by its name (``bf16``, ``fp8_e4m3fn``, ``int4xbf16``: weights x activations); None for no
    format."""
    if name in SPECIAL:
        return SPECIAL[name]
    formats = operand_formats(name)
    if formats is None:
        return None
    weights, activations = formats[0], formats[-1]
    narrow = weights.storage_bits < 8 and not weights.element and activations is not weights
    weight_B = weights.storage_bits / 8 + (SCALE_B / GROUP if narrow else 0.0)
    arithmetic = activations.element or activations.name
    return Served(weight_B, activations.storage_bits / 8, arithmetic, get(arithmetic).bits < 16)
