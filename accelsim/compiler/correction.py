"""Bias correction: what rounding the weights of a layer changes on average, taken back by its bias."""

from __future__ import annotations

from collections.abc import Callable

from accelsim.compiler import calibrate, edit
from accelsim.compiler.number_formats import Operands
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.formats.bias_correction import output_shift
from accelsim.workload.graph import Array, Node

ScaleOf = Callable[[Node, Operands], "tuple[Array, int | None]"]


def mean_shift(state: State, node: Node, operands: Operands, scale_of: ScaleOf) -> Array | float:
    """What to add to the bias per output channel: E[x] times the error of the rounded weights.

    0.0 unless ``Options.bias_correction`` is set, values are known and the layer has a bias. Nagel et al., arXiv
    1906.04721, section 4.2, with the mean of the inputs measured on the calibration data.
    """
    has_bias = bool(node.epilogue) and node.epilogue[0].op == "Bias"
    if not state.options.bias_correction or state.options.values == "off" or not has_bias:
        return 0.0
    weights = edit.peek(state.graph.tensors[node.inputs[1]])
    scale, axis = scale_of(node, operands)
    codes = integer.quantise(weights, scale, operands.weights, axis=axis)
    rounded = integer.dequantise(codes, scale, axis=axis)
    means = state.means.get(node.inputs[0])
    if means is None:
        return 0.0
    conv = node.op == "Conv"
    if not conv and weights.ndim != 2:
        return 0.0
    group = node.attrs["group"] if conv else 1
    return -output_shift(weights, rounded, means, group, axis=0 if conv else 1)


def input_means(state: State) -> dict[str, Array]:
    """Mean per channel, over the calibration data, of what every matrix node streams."""
    tensors = state.graph.tensors
    nodes = [node for node in state.graph.nodes if node.engine == "matrix"]
    axes = {
        node.inputs[0]: 1 if node.op == "Conv" else len(tensors[node.inputs[0]].shape) - 1 for node in nodes
    }
    return calibrate.channel_means(state.graph, state.options, axes)
