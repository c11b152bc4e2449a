"""Memory that values take on this machine, estimated from the shapes before any is made."""

from __future__ import annotations

from math import prod

import numpy as np

from accelsim.errors import memory_text
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import check_memory
from accelsim.workload.ops.base import find
from accelsim.workload.ops.values import CONTAINERS
from accelsim.workload.ops.window import window_of

CODES = 1.5
"""Memory per byte of all constants: real numbers, and codes or rounded numbers beside them."""
TEMPORARY_B = 20
"""Bytes per element of the largest tensor while it is drawn, scaled and rounded in float64."""
CONTAINER_B = 4


def value_B(graph: Graph, cores: int = 1) -> int:
    """Bytes that the values of a run take at their peak: all constants, all activations of each core, the temporary
    copies of the largest tensor, and the largest operand of a window: padded, and for a convolution also as a matrix
    (each input pixel once per position of the kernel). Measured peaks are 0.2 to 1.6 times as much: activations may go
    after their last reader."""
    constants = sum(_held_B(tensor) for tensor in graph.constants())
    others = sum(_held_B(tensor) for tensor in graph.tensors.values() if not tensor.is_constant)
    widest = max((_matrix_B(graph, node) + _frame_B(graph, node) for node in graph.nodes), default=0)
    largest = max((tensor.elements for tensor in graph.tensors.values()), default=0)
    return int(CODES * constants) + cores * others + TEMPORARY_B * largest + widest


def check_values(graph: Graph, cores: int = 1) -> None:
    """TooLarge when computing values would take more memory than the limit; for before any is drawn."""
    needed_B = value_B(graph, cores)
    text = f"the values of {graph.name} take about {memory_text(needed_B)} of memory"
    check_memory(graph.name, needed_B, text, "--values off (time and energy without values), a smaller batch or model")


def _held_B(tensor: Tensor) -> int:
    container = CONTAINERS.get(tensor.dtype)
    return tensor.elements * (CONTAINER_B if container is None else np.dtype(container).itemsize)


def _frame_B(graph: Graph, node: Node) -> int:
    """Bytes of the input of a convolution or a pooling with its padding around it."""
    if not any(node.attrs.get("pads") or ()) or not {"kernel_shape", "strides", "dilations"} <= node.attrs.keys():
        return 0
    x = graph.tensors[node.inputs[0]]
    window = window_of(node, x.shape[2:])
    sizes = zip(window.before, window.size, window.after, strict=True)
    return prod(x.shape[:2]) * prod(sum(parts) for parts in sizes) * CONTAINER_B


def _matrix_B(graph: Graph, node: Node) -> int:
    """Bytes of the streamed operand of one group of a product, as a matrix."""
    op = find(node.op)
    if op is None or op.gemm is None:
        return 0
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    gemm = op.gemm(node, ins, [graph.tensors[name] for name in node.outputs])
    return 0 if gemm is None or gemm.conv is None else gemm.M * gemm.K * CONTAINER_B
