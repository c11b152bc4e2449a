"""Rules of accumulation: what a dot product gives on a given unit, bit for bit, named as a chip's spec names them.

``product`` multiplies matrices by a rule. A rule is a row of ``RULES``; the Tensor Core rules are nothing but their
parameters (see ``dot_block``), which reproduce real V100, A100, H100 and H200 outputs bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import Problem, UsageError, begun, nearest
from accelsim.formats import dot_plain
from accelsim.formats.dot_block import NO_FLOOR, Block, aligned_product
from accelsim.formats.table import Format, get
from accelsim.types import Array

KHATTAK = "Khattak, Mikaitis, arXiv:2512.07004"
FASI = "Fasi et al., PeerJ CS 7:e330 (2021)"
OWN = "products of cuBLAS on H100 and H200, measured for this project"
FLOATS, WHOLE = "float", "integer"


@dataclass(frozen=True)
class DotRule:
    """One rule of accumulation.

    ``kernel`` multiplies by it, or ``blocks`` are its parameters: input format -> output format -> block. ``takes``
    says which formats a kernel works on: 'float' or 'integer'. ``native`` is the output format without further
    rounding; ``assumption`` says what about the rule is not known of hardware, '' where nothing is open.
    """

    name: str
    title: str
    source: str
    kernel: Callable[[Array, Array, Array], Array] | None = None
    blocks: Mapping[str, Mapping[str, Block]] = field(default_factory=dict)
    takes: str = FLOATS
    native: str = "fp32"
    assumption: str = ""

    def accepts(self, fmt: str) -> bool:
        """Return whether the rule multiplies operands of this format, or of this pair (``int4xint8``)."""
        try:
            formats = operands(fmt)
        except UsageError:
            return False
        if self.blocks:
            return bool(self._by_output(formats))
        return all(_kind(row) == self.takes for row in formats)

    def block(self, formats: tuple[Format, Format], out: str) -> Block | None:
        """Parameters for operands of these formats; None where the unit does not multiply them (alike) to ``out``."""
        return self._by_output(formats).get(out)

    def _by_output(self, formats: tuple[Format, Format]) -> Mapping[str, Block]:
        left, right = (self.blocks.get(row.name, {}) for row in formats)
        return left if left == right else {}

    def outputs(self, fmt: str) -> tuple[str, ...]:
        """Output formats of the rule for this input format (or pair). Raises UsageError for an unknown format."""
        if self.native == "int32":
            return ("int32",)
        return tuple(self._by_output(operands(fmt))) or ("fp32", "fp16")


def _gpu(
    name: str,
    title: str,
    wide: Mapping[str, Block],
    narrow: Block | None = None,
    fp8: Mapping[str, Block] | None = None,
    assumption: str = "",
) -> DotRule:
    """A Tensor Core rule: ``wide`` for fp16 and (with ``narrow`` for tf32) bf16, ``fp8`` for both FP8 formats."""
    blocks = {"fp16": wide}
    if narrow:
        blocks |= {"bf16": {"fp32": wide["fp32"]}, "tf32": {"fp32": narrow}}
    if fp8:
        blocks |= {"fp8_e4m3fn": fp8, "fp8_e5m2": fp8}
    return DotRule(name, title, f"{FASI}; {KHATTAK}", blocks=blocks, assumption=assumption)


def _to_half(row: DotRule) -> DotRule:
    """Return the unit with fp16 accumulators and results, for the formats that have them."""
    blocks = {fmt: {"fp16": by["fp16"]} for fmt, by in row.blocks.items() if "fp16" in by}
    found = [MMA_SYNC] if any(by["fp16"].turns > 1 for by in blocks.values()) else []
    found += [OTHERS] if OTHERS in row.assumption else []
    return replace(
        row,
        name=f"{row.name}-fp16",
        title=f"{row.title}, results of fp16",
        blocks=blocks,
        native="fp16",
        assumption="; ".join(found),
    )


def _wide(size: int, fraction: int, floor: int = NO_FLOOR, half_floor: int = NO_FLOOR) -> dict[str, Block]:
    """Blocks that give FP32 and FP16; the floor is that of the output."""
    return {"fp32": Block(size, fraction, floor), "fp16": Block(size, fraction, half_floor)}


OTHERS = "the fp16 results of fp16 are those of H100"
MMA_SYNC = "fp8: found on mma.sync, one block of 32 products at a time"
HOPPER = (
    _wide(16, 25, -133, -21),
    Block(8, 25, -133),
    {"fp32": Block(32, 13, -133, result=13), "fp16": Block(32, 25, -21, apart=True, turns=2)},
)
"""fp16 and bf16; tf32; fp8, whose FP16 result is formed in two turns of the fp16 rule, c added after them."""
PROMOTED = {"fp32": replace(HOPPER[2]["fp32"], promote=128)}
"""fp8 as libraries add it without fast accumulation."""
B200_FP8 = {"fp32": Block(32, 25, -133, apart=True), "fp16": HOPPER[2]["fp16"]}
_ROWS = (
    DotRule("fp32", "FP32 accumulators, summed in the order of the host's linear algebra library",
            "NumPy matmul", dot_plain.blas, assumption="the order of additions is the host's"),
    DotRule("fp32-sequential", "FP32 accumulators, one product after the other along K (per column of PEs)",
            "IEEE 754-2019 arithmetic", dot_plain.sequential,
            assumption="no vendor publishes the order and rounding of the TPU's matrix unit"),
    DotRule("fp16-accumulate", "FP16 accumulators: each product and each sum rounded to FP16, along K",
            "IEEE 754-2019 arithmetic", dot_plain.half, native="fp16"),
    DotRule("int32", "INT32 accumulators, exact until they wrap around", "two's complement", dot_plain.whole,
            takes=WHOLE, native="int32"),
    DotRule("bf16-fp32", "operands rounded to BF16, FP32 accumulators: the default of a TPU for FP32 operands",
            "PyTorch/XLA documentation, precision tutorial", dot_plain.bf16_1,
            assumption="the order of additions is the host's"),
    DotRule("bf16x3", "FP32 operands as two BF16 parts each, three passes, FP32 accumulators",
            "PyTorch/XLA documentation, precision tutorial (precision 'high')", dot_plain.bf16_3,
            assumption="the order of additions is the host's, that of the passes ours"),
    DotRule("bf16x6", "FP32 operands as three BF16 parts each, six passes, FP32 accumulators",
            "PyTorch/XLA documentation, precision tutorial (precision 'highest')", dot_plain.bf16_6,
            assumption="the order of additions is the host's, that of the passes ours"),
)  # fmt: skip
_GPUS = (
    _gpu("tensor-core-v100", "Tensor Core of V100", _wide(4, 23, half_floor=-19)),
    _gpu("tensor-core-a100", "Tensor Core of A100", _wide(8, 24, -132, -20), Block(4, 24, -132)),
    _gpu("tensor-core-ada", "Tensor Core of Ada", _wide(8, 24, -132, -20), Block(4, 24, -132),
         {"fp32": Block(16, 13, -132, result=13), "fp16": Block(16, 13, -20, result=13)}),
    _gpu("tensor-core-h100", "Tensor Core of H100", *HOPPER,
         assumption="fp8_e5m2: compared with c = 0"),
    _gpu("tensor-core-h200", "Tensor Core of H200", *HOPPER,
         assumption=f"fp8_e5m2: compared with c = 0; {OTHERS}"),
    _gpu("tensor-core-b200", "Tensor Core of B200 (fp8 to fp32: blocks assumed)", *HOPPER[:2], B200_FP8,
         assumption="tf32: 8 per block is published, vectors of 4 were compared; fp8 to fp32: one block of 32 is an"
         " assumption: two interleaved blocks of 16 fit all measured results too, and give others on wide ranges"),
)  # fmt: skip

_LIBRARIES = (
    DotRule(
        "tensor-core-h100-promoted",
        "Tensor Core of H100, FP32 lanes adding up sums of 128 products",
        f"{KHATTAK}; {OWN}",
        blocks={"fp8_e4m3fn": PROMOTED, "fp8_e5m2": PROMOTED},
        assumption="fp8_e5m2: not compared; compared up to two sums of 128, c = 0",
    ),
)

RULES: dict[str, DotRule] = {row.name: row for row in (*_ROWS, *_GPUS, *_LIBRARIES, *map(_to_half, _GPUS))}
"""Every rule of accumulation."""


def rule_of(name: str) -> DotRule:
    """The rule of this name. Raises UsageError for an unknown one, with the nearest name."""
    if name not in RULES:
        what = f"{name!r} is not a rule of accumulation"
        raise UsageError(what, "", "one of " + ", ".join(RULES), nearest(name, RULES))
    return RULES[name]


def rules_for(fmt: str) -> tuple[str, ...]:
    """Names of the rules that multiply this format (or pair, as ``int4xint8``). UsageError for an unknown format."""
    operands(fmt)
    return tuple(name for name, row in RULES.items() if row.accepts(fmt))


def operands(fmt: str) -> tuple[Format, Format]:
    """Formats of the two operands (a: activations, b: weights) of ``bf16`` or of a pair ``weights x activations``.

    Raises UsageError for an unknown format.
    """
    for match in re.finditer("x", fmt):
        try:
            return get(fmt[match.end() :]), get(fmt[: match.start()])
        except UsageError:
            continue
    return get(fmt), get(fmt)


def product(
    a: ArrayLike, b: ArrayLike, rule: str, fmt: str, out: str | None = None, c: ArrayLike | None = None, every: int = 0
) -> Array:
    """``c + a @ b`` by ``rule``; a [..., M, K], b [..., K, N], c anything that broadcasts to [..., M, N].

    Operands hold values of ``fmt`` (a pair ``int4xint8`` is b's format, then a's) in their usual containers. The
    result is float32 holding values of ``out``: 'fp32' or 'fp16', by default the rule's own; int32 for 'int32'.
    Infinities and NaN propagate. With ``every`` the sum of each so many products begins at zero and is added to c in
    FP32 (RNE), in order: a library that cuts K into parts. Raises UsageError for an unknown rule or format, for a
    format or output that the rule does not have, for shapes that do not multiply, and for parts of less than one
    product or of other results than fp32.
    """
    row, formats = rule_of(rule), operands(fmt)
    wanted = out or row.native
    UsageError.raise_for([*_problems(row, fmt, wanted), *_of_parts(every, wanted)])
    container = np.int64 if row.takes == WHOLE else np.float32
    left, right = np.asarray(a, container), np.asarray(b, container)
    start = np.broadcast_to(np.asarray(0 if c is None else c, container), _shape(left, right))
    block = row.block(formats, wanted)
    step = every or (block.promote if block else 0)

    def added(x: Array, y: Array, to: Array) -> Array:
        if row.kernel is None:
            assert block is not None  # accepted above
            return _aligned(x, y, to, block, wanted, (formats[0].min_normal, formats[1].min_normal))
        return row.kernel(x, y, to)

    with np.errstate(invalid="ignore", over="ignore"):
        result = _by_parts(added, left, right, start, step) if step else added(left, right, start)
    return dot_plain.to_half(result) if row.kernel and wanted == "fp16" != row.native else result


def _by_parts(added: Callable[[Array, Array, Array], Array], a: Array, b: Array, c: Array, step: int) -> Array:
    """c and the sums of every ``step`` products along K, each from zero, added in FP32 one after the other."""
    total, zero = np.array(c, np.float32), np.zeros_like(c)
    for k in range(0, a.shape[-1], step):
        total += added(a[..., k : k + step], b[..., k : k + step, :], zero)
    return total


def _of_parts(every: int, out: str) -> Iterator[Problem]:
    if every < 0:
        yield Problem(f"parts of {every} products", "", "1 or more, 0 for no parts")
    if every and out != "fp32":
        yield Problem(f"sums of parts with results of {out}", "", "results of fp32")


def _problems(row: DotRule, fmt: str, out: str) -> Iterator[Problem]:
    if not row.accepts(fmt):
        others = [name for name, other in RULES.items() if other.accepts(fmt)]
        takes = ", ".join(row.blocks) or f"{row.takes} formats"
        expected = f"one of {takes}" + (f" (rules for {fmt}: {', '.join(others)})" if others else "")
        yield Problem(f"{row.name} does not multiply {fmt}", "", expected, begun(fmt, row.blocks))
    elif out not in row.outputs(fmt):
        expected = " or ".join(row.outputs(fmt))
        yield Problem(f"{row.name} has no {out} output for {fmt}", "", expected, nearest(out, row.outputs(fmt)))


def _shape(a: Array, b: Array) -> tuple[int, ...]:
    """Shape of the product."""
    if a.ndim >= 2 and b.ndim >= 2 and a.shape[-1] == b.shape[-2]:
        try:
            return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        except ValueError:
            pass
    raise UsageError(f"{a.shape} and {b.shape} do not multiply", "", "[..., M, K] and [..., K, N]")


def _aligned(a: Array, b: Array, c: Array, block: Block, out: str, least: tuple[float, float]) -> NDArray[np.float32]:
    """Shapes down to one batch axis; rows of all batches together where b has no batch."""
    if b.ndim == 2:
        rows = a.reshape(1, -1, a.shape[-1])
        return aligned_product(rows, b[None], c.reshape(1, rows.shape[1], -1), block, out, least).reshape(c.shape)
    batch = c.shape[:-2]
    left = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    right = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    return aligned_product(left, right, c.reshape(-1, *c.shape[-2:]), block, out, least).reshape(c.shape)


def _kind(row: Format) -> str:
    """'float' for floats of up to 32 bits and blocks of them, 'integer' for integers of up to 16 bits, else ''."""
    if row.kind in ("float", "block"):
        return FLOATS if row.bits <= 32 else ""
    return WHOLE if row.kind in ("int", "binary") and row.bits <= 16 else ""
