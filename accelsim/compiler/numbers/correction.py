"""Bias correction: what rounding the weights of a layer changes on average, taken back by its bias."""

from __future__ import annotations

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers import ranges
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.nodes import is_product


def mean_shift(state: State, node: Node, weights: Tensor, codes: Tensor) -> Array | float:
    """Return what to add to the bias per output channel: minus E[x] times the error of the rounded weights.

    0.0 unless ``Options.bias_correction`` is set, values are known and the layer has a bias. Nagel et al., arXiv
    1906.04721, section 4.2, with the mean of the inputs measured on the data for ranges.
    """
    has_bias = bool(node.epilogue) and node.epilogue[0].op == "Bias"
    means, conv = state.means.get(node.inputs[0]), node.op == "Conv"
    if not has_bias or means is None or codes.quant is None or (not conv and len(weights.shape) != 2):
        return 0.0
    from accelsim.formats.bias_correction import output_shift

    rounded = integer.dequantise(codes.value(), codes.quant.scale, axis=codes.quant.axis)
    group = node.attrs["group"] if conv else 1
    return -output_shift(edit.peek(weights), rounded, means, group, axis=0 if conv else 1)


def input_means(state: State) -> dict[str, Array]:
    """Mean per channel, over the data for ranges, of what every matrix node streams."""
    tensors = state.graph.tensors
    nodes = [node for node in state.graph.nodes if is_product(node)]
    axes = {node.inputs[0]: 1 if node.op == "Conv" else len(tensors[node.inputs[0]].shape) - 1 for node in nodes}
    return ranges.channel_means(state.graph, state.options, axes)
