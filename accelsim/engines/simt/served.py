"""Kernels of a serving stack within a run: nodes as rows of ``serving.KINDS``, timed by the closed forms of these.

A run cuts a kernel into pieces, whose loads and work overlap, and counts bytes and operations as for any other one.
How long all of it takes is what ``accelsim kernel`` says of the same row, with three differences: kernels of a whole
network follow each other in one graph, so attention, which was measured with a graph of its own, starts ``follow``
after the kernel before; products are of numbers, under which the clock of some chips falls; and no run moves bytes
faster than the memory of its chip does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.base import Beside, Lowering
from accelsim.engines.kernel_times import Columns, ServingKernel
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.products import slowed
from accelsim.engines.simt.serving import KINDS, parts_of, row
from accelsim.engines.simt.serving_layers import COLUMNS, overlapped
from accelsim.engines.simt.spec import Simt
from accelsim.formats.table import FP4, FP4_BLOCKS
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import operands_B
from accelsim.spec.serving import Measured, served
from accelsim.types import Floats
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.nodes import gemm_view, is_attention, is_product, multiplies
from accelsim.workload.ops.base import Gemm

LAYER, PREFILL, DECODE = "layer", "prefill", "decode"
"""Families of ``serving.KINDS`` that nodes of a run are kernels of."""
KERNEL = "kernel"
"""Way in which inputs of narrow layers are quantised: by a kernel of its own; else with what comes before."""
STACKED = {FP4: "nvfp4"}
"""Format of a run -> as a serving stack has it: FP4 with a scale for each block."""
FEWEST_ROWS = 16
"""Rows of queries without a mask up to which attention is that of single queries: heads that share keys."""


MOST_LOOKED_AT = 1 << 26
"""Elements of a constant up to which its values are looked at."""
HIDDEN = -1e4
"""A mask hides what it adds this much to, or less: its exponential is 0."""


class ServedRow(NamedTuple):
    """A node as a row: its family, its format by a name of ``spec.serving.served``, its columns."""

    family: str
    format: str
    columns: Mapping[str, float]


class Timed(NamedTuple):
    """Seconds of a kernel: of its launch, and of the rest."""

    launch: float
    rest: float


def row_of(graph: Graph, node: Node, quantiser: bool = False) -> ServedRow | None:
    """Return a node as a kernel of a serving stack; None where it is none: neither a product of activations by weights
    nor attention, or not in a format of at most 16 bits. ``quantiser``: a kernel quantises inputs of narrow layers."""
    if not node.format or max(operands_B(node.format)) > 2:
        return None
    if is_attention(node):
        return _attention(graph, node) if node.epilogue else None
    gemm = gemm_view(graph, node) if is_product(node) else None
    if gemm is None or gemm.conv is not None or gemm.groups > 1 or not graph.tensors[gemm.b].is_constant:
        return None
    weights = graph.tensors[gemm.b].memory_format
    both, alike = f"{weights}x{node.format}", weights == node.format
    name = STACKED.get(node.format, node.format) if alike or served(both) is None else both
    if node.format == FP4 and weights in FP4_BLOCKS:
        name = weights
    columns = {"M": gemm.M, "K": gemm.K, "N": gemm.N, "layers": 0, "quantiser": quantiser}
    return ServedRow(LAYER, name, columns)


def _attention(graph: Graph, node: Node) -> ServedRow:
    shape = attention_shape(graph, node)
    cached = node.inputs[1] in graph.states.values()
    single = not shape.causal and (shape.rows < FEWEST_ROWS or cached)
    batch = shape.batch if shape.kv_heads % shape.batch == 0 else 1
    keys = graph.tensors[node.inputs[1]]
    columns = {
        "batch": batch, "tokens": 1 if single else shape.rows, "kv": shape.keys,
        "heads": (shape.heads * shape.rows if single else shape.heads) / batch, "kv_heads": shape.kv_heads / batch,
        "head_dim": shape.depth, "causal": shape.causal, "window": shape.window, "kv_B": keys.nbytes / keys.elements,
        "cache_write": 0, "layers": 0, "library": 0,
    }  # fmt: skip
    return ServedRow(DECODE if single else PREFILL, node.format, columns)


def timed(step: Lowering) -> Timed | None:
    """Return how long a node takes as a kernel of the serving stack that its chip has constants of; None where the run
    asks for other kernels, the chip has no such constants, or the node is no such kernel."""
    spec: Simt = step.unit.spec
    if not step.serving or spec.serving is None:
        return None
    found = row_of(step.layout.graph, step.node, step.serving == KERNEL)
    if found is None:
        return None
    key = ("served", step.unit.name, found.family, found.format, *sorted(found.columns.items()))
    device = step.once(("device", step.unit.name), lambda: Device(step.layout.roles.chip, step.unit.name))
    return step.once(key, lambda: _seconds(device, found))


def as_kernel(device: Device, graph: Graph, node: Node) -> ServingKernel | None:
    """Return a node by the row of constants that it takes; None where the chip has none, or the node is no such
    kernel."""
    serving = device.spec.serving
    found = row_of(graph, node) if serving is not None else None
    if serving is None or found is None:
        return None
    columns = {name: np.array([float(value)]) for name, value in found.columns.items()}
    pooled = _constants(device, found.family, found.format, columns)[0].intervals.get("all")
    own = serving.device == device.roles.chip.name
    return ServingKernel(found.family, found.format, pooled.factor if own and pooled is not None else 0.0)


def _constants(device: Device, family: str, name: str, columns: Columns) -> tuple[Measured, Columns]:
    """The constants of rows of a format, and their columns with what follows from them."""
    (part,) = parts_of(KINDS[family], device, name, columns)
    return row(device, KINDS[family], part.key), part.columns


def layers_s(chip: Chip, engine: str, name: str, products: Sequence[Gemm]) -> list[float] | None:
    """Return the seconds of linear layers in a format, as short as they can be in a run, 0 of products of activations;
    None where the chip has no constants of them."""
    device = Device(chip, engine)
    if device.spec.serving is None or served(name) is None or max(operands_B(name)) > 2:
        return None
    if not products:  # of a model whose products are not bounded
        return []
    sizes = zip(*((each.M, each.K, each.N, 0, 0) for each in products), strict=True)
    columns = {column: np.array(each, float) for column, each in zip(COLUMNS, sizes, strict=True)}
    launch, rest = _times(device, LAYER, name, columns)
    learnt = np.array([bool(each.b) for each in products])
    return list(np.where(learnt, launch + rest, 0.0).tolist())


def attention_s(device: Device, name: str, kernel: Beside) -> float:
    """Return the least seconds of attention, of prompts or of single queries; 0 where the chip has no constants of it.
    What of its bytes its work does not hide is left out of that of prompts, which may have them in the cache."""
    single = kernel.tokens == 1
    if device.spec.serving is None or served(name) is None or max(operands_B(name)) > 2:
        return 0.0
    if not single and kernel.tokens < FEWEST_ROWS:
        return 0.0
    element_B = float(operands_B(name)[0])
    sizes = {
        "batch": kernel.batch, "tokens": kernel.tokens, "kv": kernel.keys, "heads": kernel.heads,
        "kv_heads": kernel.kv_heads, "head_dim": kernel.depth, "causal": not single, "window": 0, "kv_B": element_B,
        "cache_write": 0, "layers": 0, "library": 0,
    }  # fmt: skip
    found = _seconds(device, ServedRow(DECODE if single else PREFILL, name, sizes))
    numbers = kernel.batch * kernel.depth * 2 * (kernel.tokens * kernel.heads + kernel.keys * kernel.kv_heads)
    shown_s = 0.0 if single else numbers * element_B / device.rates.dram_Bps
    return found.launch + max(0.0, found.rest - shown_s)


def _seconds(device: Device, found: ServedRow) -> Timed:
    columns = {name: np.array([float(value)]) for name, value in found.columns.items()}
    launch, rest = _times(device, found.family, found.format, columns)
    return Timed(float(launch[0]), float(rest[0]))


def _times(device: Device, family: str, name: str, columns: Columns) -> tuple[Floats, Floats]:
    """Seconds of launches, and of the rest."""
    form = served(name)
    assert form is not None
    constants, columns = _constants(device, family, name, columns)
    cost = KINDS[family].cost(constants, form, device.peak(form.arithmetic), columns)
    seconds, launch, computing, moving = cost[:4]
    rest = seconds - launch
    if family != DECODE:
        longer = _under_load(device, form.arithmetic, computing)
        rest = rest + (overlapped(longer, moving) - overlapped(computing, moving))
    follow = min(float(device.spec.follow), float(device.spec.launch))
    if family == LAYER:
        return np.maximum(launch, follow), rest
    return launch - float(getattr(constants, "launch", 0.0)) + follow, rest


def _under_load(device: Device, name: str, computing: Floats) -> Floats:
    """Seconds of multiplying numbers, where the chip's clock was measured to fall: weights of the tables that serving
    kernels are fitted to are all alike and switch few wires (docs/gpu-kernels.md)."""
    if device.spec.droop is None:
        return computing
    none = np.zeros(len(computing))
    return slowed(device.spec, device.rates, name, computing, none, none + 1, none + 1)


def work_clocks(rest: float, moving: float, ends: float, pieces: int, clock_Hz: float) -> int:
    """Return the clocks of the pieces of a kernel that takes ``rest`` seconds beside its launch; its bytes take
    ``moving`` of them at the rate of the memory, the first that it reads and the last that it writes ``ends``. Nothing
    hides these; where memory takes nearly all of the time, nothing hides the last piece of its work."""
    computing = rest - ends
    if computing < moving:
        computing = max(0.0, rest - moving) * pieces
    return max(1, ceil(min(computing, rest) * clock_Hz))


class Shape(NamedTuple):
    """Attention: sequences, rows of queries of a head, keys, heads of queries and of keys of all sequences, elements of
    a head, whether a mask hides later keys, and keys that a query sees at most (0: all)."""

    batch: int
    rows: int
    keys: int
    heads: int
    kv_heads: int
    depth: float
    causal: bool
    window: int = 0


def attention_shape(graph: Graph, node: Node) -> Shape:
    """Return the sizes of attention in one kernel."""
    first, last, scores = (node, [part for part in node.epilogue if multiplies(part)][-1], _scores(graph, node).shape)
    keys, values = graph.tensors[first.inputs[1]], graph.tensors[last.inputs[1]]
    queries, kv = scores[-2], scores[-1]
    heads, dims = prod(scores[:-2]), (_depth(first, keys.shape), _width(last, values.shape))
    kv_heads = max(1, keys.elements // (kv * dims[0]))
    batch = keys.shape[0] if len(keys.shape) > 3 else 1
    mask = causal_mask(graph, node)
    made = graph.tensors[mask].source if mask else None
    window = made.window if isinstance(made, CausalMask) else 0
    return Shape(batch, queries, kv, heads, kv_heads, sum(dims) / 2, bool(mask), window)


def causal_mask(graph: Graph, node: Node) -> str:
    """Return the mask of attention in one kernel that hides later keys, '' for none."""
    names = [name for part in node.epilogue if part.op == "Add" for name in part.inputs]
    shape = _scores(graph, node).shape
    masks = [name for name in names if _is_causal(graph.tensors[name], shape)]
    return masks[0] if masks else ""


def _scores(graph: Graph, node: Node) -> Tensor:
    """Return the operand of the softmax."""
    (soft,) = (part for part in node.epilogue if part.op == "Softmax")
    return graph.tensors[soft.inputs[0]]


def _depth(product: Node, shape: tuple[int, ...]) -> int:
    return shape[-1] if product.attrs.get("transB") else shape[-2]


def _width(product: Node, shape: tuple[int, ...]) -> int:
    return shape[-2] if product.attrs.get("transB") else shape[-1]


def _is_causal(mask: Tensor, scores: tuple[int, ...]) -> bool:
    """Return whether a constant hides from each query the keys behind its own, and nothing else."""
    rows = scores[-2:]
    if not mask.is_constant or len(mask.shape) < 2 or mask.shape[-2:] != rows or mask.elements != prod(rows):
        return False
    if isinstance(mask.source, CausalMask):
        return mask.source.past == rows[1] - rows[0]
    if mask.elements > MOST_LOOKED_AT:
        return False
    values = mask.value().reshape(rows)
    later = np.triu(np.ones(rows, bool), rows[1] - rows[0] + 1)
    return bool((values[later] <= HIDDEN).all() and not values[~later].any())
