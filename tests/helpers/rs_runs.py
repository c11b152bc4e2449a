"""Convolutions as models of one layer, and the chip ``eyeriss`` with another array."""

from __future__ import annotations

from accelsim.engines.row_stationary.shape import Conv, Geometry
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from tests.helpers.pass_graphs import Graphs


def one_layer(conv: Conv, seed: int = 0, pad: int = 0) -> Graph:
    """A convolution of images that have their padding already (but for ``pad``), with random weights."""
    g = Graphs(seed)
    x = g.input("x", (conv.N, conv.G * conv.C, conv.H - 2 * pad, conv.W - 2 * pad))
    w = g.weight("conv.weight", (conv.G * conv.M, conv.C, conv.R, conv.S))
    window = {"kernel_shape": [conv.R, conv.S], "strides": [conv.U] * 2, "pads": [pad] * 4, "dilations": [1, 1]}
    g.graph.outputs.append(g.op("Conv", [x, w], "conv", **window, group=conv.G, a_zero_point=0, b_zero_point=0))
    return g.graph


def chip_of(array: Geometry) -> Chip:
    """The chip with this array in the place of its own."""
    chip = load_chip("eyeriss")
    unit = chip.engines["array"].model_copy(update={
        "rows": array.rows, "cols": array.cols, "filter_register": array.filter_pad,
        "ifmap_register": array.ifmap_pad, "psum_register": array.psum_pad, "filter_bus": array.filter_words,
        "ifmap_bus": array.ifmap_words, "psum_bus": array.psum_words,
    })  # fmt: skip
    return chip.with_core(engines={**chip.engines, "array": unit})
