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
    """A row of constants, what it was fitted on, and how far off it is on rows that had no part in the fit."""

    rows: Count = Field(
        0, description="measured kernels that the constants were fitted on; 0: they are defaults"
    )
    unseen: Count = Field(0, description="measured kernels that had no part in the fit")
    mean: Soft | None = Field(None, description="mean of the size of model / measured - 1 on these")
    intervals: dict[str, IntervalOf] = Field(
        {},
        description="regime (`launch`, `short`, `long`) or `all` -> interval that holds nine of ten of the rows",
    )


class Layer(Measured):
    """A linear layer in one format: product of an input by weights, in a graph of kernels."""

    launch: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        2.1e-6, description="of its product in a graph of kernels"
    )
    sustained: Annotated[Share, found_in(0.2, 1.0)] = Field(
        0.95, description="share of the peak of the loop over K"
    )
    feed: Annotated[Times, found_in(0.0, 192.0)] = Field(
        0.7, description="clocks to bring 1,000 elements of the operands of a tile into the multiprocessor"
    )
    block: Annotated[Times, found_in(0.0, 6000.0)] = Field(
        620.0, description="clocks of a block beside its loop"
    )
    results: Annotated[Times, found_in(0.0, 500.0)] = Field(
        140.0, description="clocks of a block for 1,000 results that it writes"
    )
    softness: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.6, description="how much of a whole wave the last one takes"
    )
    vector: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        2e-6, description="of the product of one row by a matrix, beside moving it"
    )
    memory: Annotated[Share, found_in(0.3, 1.0)] = Field(0.8, description="share of the DRAM's peak")
    cached: Annotated[Times, found_in(1.0, 8.0)] = Field(
        2.0, description="how many times the DRAM's peak the L2 cache brings what it holds at"
    )
    room: Annotated[Times, found_in(0.2, 1.2)] = Field(
        0.7, description="share of the L2 cache that operands and results stay in"
    )
    reduction: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        1.9e-6, description="to add up the parts of a loop that was cut, beside moving them"
    )
    added: Annotated[Times, found_in(0.0, 2.0)] = Field(
        0.54, description="share of the bytes of these sums that is moved"
    )
    quantiser: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        2.8e-6, description="launch of the kernel that quantises the input"
    )
    row: Annotated[Seconds, found_in(0.0, 20e-9, "s")] = Field(
        5.2e-9, description="of that kernel for each row of the input"
    )
    along: Annotated[Seconds, found_in(0.0, 4e-9, "s")] = Field(
        0.15e-9, description="of that kernel for each element along a row, which all rows take together"
    )
    quantising: Annotated[Share, found_in(0.05, 1.0)] = Field(
        0.64, description="share of the DRAM's peak at which it reads and writes"
    )


class Prefill(Measured):
    """Attention of prompts with one format of keys and values, writing to the cache of keys and values included."""

    launch: Annotated[Seconds, found_in(0.0, 30e-6, "s")] = Field(
        8.2e-6, description="of the kernels of an attention in a graph"
    )
    sustained: Annotated[Share, found_in(0.2, 1.0)] = Field(
        0.63, description="share of the peak of both products"
    )
    exponential: Annotated[Times, found_in(0.0, 4.0)] = Field(
        0.31, description="time of a softmax, that of its exponentials on the special functions being 1"
    )
    block: Annotated[Times, found_in(0.0, 20_000.0)] = Field(
        4300.0, description="clocks of a block beside its loop"
    )
    wide: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.28, description="share of `block` that grows with the elements of a head, 128 being 1"
    )
    softness: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.94, description="how much of a whole wave the last one takes"
    )
    first: Annotated[Share, found_in(0.3, 1.0)] = Field(
        0.97, description="share of its time that the longest block adds where it binds"
    )
    memory: Annotated[Share, found_in(0.1, 1.0)] = Field(0.65, description="share of the DRAM's peak")
    token: Annotated[Seconds, found_in(0.0, 20e-9, "s")] = Field(
        0.6e-9, description="of the write to the cache and of quantising, for each token"
    )
    queries: Side = Field(128, description="rows of queries of a block")
    packs: bool = Field(True, description="whether query heads that share keys are rows of one block")


class Decode(Measured):
    """Attention of one query per sequence with one format of keys and values, writing to their cache included."""

    launch: Annotated[Seconds, found_in(0.0, 30e-6, "s")] = Field(
        8.1e-6, description="of the kernels of an attention in a graph"
    )
    block: Annotated[Seconds, found_in(0.0, 20e-6, "s")] = Field(
        2.9e-6, description="of a block with up to 128 keys: a sequence and a head of keys"
    )
    wide: Annotated[Soft, found_in(0.0, 1.0)] = Field(
        0.33, description="share of `block` that grows with the elements of a head, 128 being 1"
    )
    query: Annotated[Seconds, found_in(0.0, 0.5e-6, "s")] = Field(
        0.019e-6, description="of a block for each query head that shares its keys"
    )
    step: Annotated[Seconds, found_in(0.0, 6e-6, "s")] = Field(
        1.06e-6, description="of a block for 128 more keys of 128 elements"
    )
    join: Annotated[Seconds, found_in(0.0, 12e-6, "s")] = Field(
        3.1e-6, description="of the kernel that joins parts of the keys, from 129 keys on"
    )
    memory: Annotated[Share, found_in(0.3, 1.0)] = Field(0.86, description="share of the DRAM's peak")
    cached: Annotated[Times, found_in(1.0, 8.0)] = Field(
        1.1, description="how many times the DRAM's peak keys come at that the L2 cache holds"
    )
    room: Annotated[Times, found_in(0.2, 1.2)] = Field(
        1.0, description="share of the L2 cache that keys stay in"
    )
    lone: bool = Field(
        False,
        description="whether each query head has a block of its own that no part of the keys is cut from, where "
        "a window is given or heads do not share keys (FlashAttention 2)",
    )
    stream: Times = Field(
        0.0,
        description="bytes of keys and values that a multiprocessor reads per clock where a block has one query head "
        "and reads all its keys, shared or not (masked multi-head attention on lanes); 0: blocks have Tensor Cores",
    )
    walk: Annotated[Seconds, found_in(0.0, 6e-6, "s")] = Field(1.4e-6, description="`step` of such a block")
    packing: Annotated[Seconds, found_in(0.0, 10e-6, "s")] = Field(
        0.5e-6, description="where `lone`, of heads that share keys: more of a launch"
    )
    copying: Annotated[Seconds, found_in(0.0, 15e-6, "s")] = Field(
        5e-6,
        description="the same, of several sequences with several heads of keys: copies of queries and results",
    )


class Experts(Measured):
    """A mixture of experts in one format: routing, two grouped products, activation and sum, in a graph."""

    launch: Annotated[Seconds, found_in(0.0, 90e-6, "s")] = Field(
        30e-6, description="of all its kernels in a graph"
    )
    sustained: Annotated[Share, found_in(0.05, 1.0)] = Field(
        0.45, description="share of the peak of the products"
    )
    memory: Annotated[Share, found_in(0.05, 1.0)] = Field(
        0.98, description="share of the DRAM's peak at which weights come"
    )
    moved: Annotated[Share, found_in(0.05, 1.0)] = Field(
        0.48, description="share of the DRAM's peak at which activations are moved"
    )
    token: Annotated[Seconds, found_in(0.0, 100e-9, "s")] = Field(0.0, description="for each token")
    local: Annotated[Seconds, found_in(0.0, 1.5e-6, "s")] = Field(
        0.0, description="for each expert of the device"
    )
    active: Annotated[Seconds, found_in(0.0, 3e-6, "s")] = Field(
        0.0, description="for each expert of the device that has a token"
    )
    ragged: Annotated[Times, found_in(1.0, 6.0)] = Field(
        2.0, description="how much longer products take whose inner size is no multiple of 16"
    )
    padding: Annotated[Times, found_in(0.0, 128.0)] = Field(
        46.0, description="rows that each expert with a token computes beside those of its tokens"
    )
    everywhere: bool = Field(
        True,
        description="whether activations of all tokens and their experts are moved, those of other devices too",
    )


class Serving(Model):
    """Constants of a serving stack on one GPU; a key is `FORMAT`, or `FORMAT/LIBRARY`, the usual library first."""

    title: Words = Field(description="stack and version")
    device: Name = Field(description="the chip that was measured; on others the constants are not calibrated")
    host: Annotated[Seconds, Field(ge=0, le=1)] = Field(
        0.0,
        description="time of the host for a kernel, where it asks for them one by one; 0: a graph has them",
    )
    layers: dict[str, Layer] = Field({}, description="format -> constants of linear layers")
    prefill: dict[str, Prefill] = Field({}, description="format of keys and values -> those of prompts")
    decode: dict[str, Decode] = Field({}, description="format of keys and values -> those of single queries")
    experts: dict[str, Experts] = Field({}, description="format -> those of mixtures of experts")


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
