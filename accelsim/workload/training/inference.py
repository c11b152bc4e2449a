"""From learnt states back to models that one can run, export and compile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.errors import UsageError
from accelsim.formats.sparsity import mask
from accelsim.formats.sparsity import pattern as parsed
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.fake import MATRIX, QuantConfig, channel_axis
from accelsim.workload.training.forward import Forward, logits_of
from accelsim.workload.training.precision import precision_of


def with_weights(model: Graph, values: Mapping[str, Array], values_from: str = "training") -> Graph:
    """A copy of ``model`` whose constants named in ``values`` have those values (float32)."""
    graph = model.copy()
    for name, array in values.items():
        if name in graph.tensors:
            graph.tensors[name].data = np.asarray(array, np.float32)
            graph.tensors[name].source = None
    graph.values_from = values_from
    return graph


def fake_quantised(model: Graph, config: QuantConfig, values: Mapping[str, Array]) -> Graph:
    """The model with its fake quantisation as nodes; ``values``: weights and learnt scales. It gives the logits."""
    e = Emitter(f"{model.name}-fake-quantised")
    e.graph.opset = model.opset
    forward = Forward(e, model, precision_of("fp32"), config)
    e.graph.outputs.append(forward.write(logits_of(model)))
    for name in [name for name in e.graph.inputs if name not in model.inputs]:
        e.graph.inputs.remove(name)
        e.graph.tensors[name].data = np.asarray(values[name], np.float32)
    e.graph.values_from = "training"
    return e.graph


def sparse_masks(graph: Graph, pattern: str = "2:4") -> dict[str, Array]:
    """Weight -> 1 and 0 (float32) of its shape: of every M neighbours along the reduction the N largest stay.

    Along the reduction as the array sees it: (channel, row, column) of a convolution, the inner size of a product. A
    weight whose reduction is no multiple of M (often the first layer) stays dense. Raises UsageError for a pattern
    that is not N:M, and when no weight can have it.
    """
    n, m = parsed(pattern)
    if n == m:
        raise UsageError(f"sparsity {pattern!r}", "", "N:M with N below M, such as 2:4")
    masks: dict[str, Array] = {}
    for node in graph.nodes:
        tensor = graph.tensors[node.inputs[1]] if node.op in MATRIX else None
        if tensor is None or not tensor.is_constant:
            continue
        values = tensor.value()
        rows = values.reshape(len(values), -1) if node.op == "Conv" else values
        axis = rows.ndim - 2 if channel_axis(node, rows.ndim) == rows.ndim - 1 else rows.ndim - 1
        if rows.shape[axis] % m == 0:
            masks[tensor.name] = mask(rows, n, m, axis).astype(np.float32).reshape(tensor.shape)
    if not masks:
        raise UsageError(f"no weight of {graph.name} can be {pattern}", "", f"sizes that are multiples of {m}")
    return masks
