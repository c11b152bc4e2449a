"""Masks of N:M sparsity for the weights of a model: chosen once by magnitude, kept while it is fine-tuned."""

from __future__ import annotations

import numpy as np

from accelsim.errors import Problem, UsageError
from accelsim.formats.sparsity import mask
from accelsim.formats.sparsity import pattern as parsed
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.training.fake import MATRIX, channel_axis


def sparse_masks(graph: Graph, pattern: str = "2:4") -> dict[str, Array]:
    """Weight -> 1 and 0 (float32) of its shape: of every M neighbours along the reduction the N largest stay.

    Along the reduction as the array sees it: (channel, row, column) of a convolution, the inner size of a product. A
    weight whose reduction is no multiple of M (often the first layer) stays dense. Raises UsageError for a pattern
    that is not N:M, and when no weight can have it.
    """
    n, m = parsed(pattern)
    if n == m:
        raise UsageError(Problem(f"sparsity {pattern!r}", "", "N:M with N below M, such as 2:4"))
    masks: dict[str, Array] = {}
    for node in graph.nodes:
        tensor = graph.tensors[node.inputs[1]] if node.op in MATRIX else None
        if tensor is None or not tensor.is_constant:
            continue
        values = tensor.value()
        rows = values.reshape(len(values), -1) if node.op == "Conv" else values
        axis = _reduction_axis(channel_axis(node, rows.ndim), rows.ndim)
        if rows.shape[axis] % m == 0:
            masks[tensor.name] = mask(rows, n, m, axis).astype(np.float32).reshape(tensor.shape)
    if not masks:
        raise UsageError(
            Problem(f"no weight of {graph.name} can be {pattern}", "", f"sizes that are multiples of {m}")
        )
    return masks


def _reduction_axis(channels: int, rank: int) -> int:
    return rank - 2 if channels == rank - 1 else rank - 1
