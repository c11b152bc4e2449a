"""Pooling behind a convolution of any number of spatial axes: fused or not, tile by tile or at once, the same values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.machine.values.epilogue import TileShape
from accelsim.program.commands import Tile
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Array, Graph, Node
from accelsim.workload.ops.base import Conv, Gemm
from accelsim.workload.zoo.build import Builder

POOLS = ("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")


def window(rank: int, size: int, stride: int, pad: int = 0) -> dict[str, list[int]]:
    return {"kernel_shape": [size] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank,
            "dilations": [1] * rank}  # fmt: skip


def network(rank: int, op: str, relu: bool, images: int) -> tuple[Graph, Array]:
    """Convolution, perhaps a bound per channel, pooling; and an input."""
    rng, b = np.random.default_rng(rank), Builder("pooled")
    shape = (images, 3, 6, 5, 4)[: 2 + rank]
    b.input("x", shape)
    b.constant("w", rng.standard_normal((6, 3, *[3] * rank)))
    b.constant("bias", rng.standard_normal(6))
    b.constant("slope", rng.uniform(0.1, 1, (6, *[1] * rank)))
    y = b.op("Conv", ["x", "w", "bias"], "sum", **window(rank, 3, 1, 1), group=1, a_zero_point=0, b_zero_point=0)
    if relu:
        y = b.op("Max", [y, "slope"], "relu")
    extra = {"MaxPool": {"ceil_mode": 0}, "AveragePool": {"ceil_mode": 0, "count_include_pad": 0},
             "LpPool": {"ceil_mode": 0, "p": 2}}  # fmt: skip
    attrs = {} if op.startswith("Global") else {**window(rank, 2, 2), **extra[op]}
    return b.finish(b.op(op, [y], "y", **attrs)), rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("rank", "op", "relu"), list(product((1, 2, 3), POOLS, (False, True))))
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_pooling_behind_a_convolution(rank: int, op: str, relu: bool, dtype: str) -> None:
    chip = load_chip("edu-4x4")
    graph, x = network(rank, op, relu, images=2)
    found = {}
    for fuse, policy in product((True, False), ("exact", "fast")):
        program = compile(graph, chip, Options(dtype=dtype, fusion="compiled" if fuse else "eager"))
        found[fuse, policy] = simulate(program, {"x": x}, policy).outputs["y"]
        if fuse and rank < 3 and op in ("MaxPool", "AveragePool"):
            parts = [part.op for step in program.steps if step.engine == "matrix" for part in step.node.epilogue]
            assert op in parts
    for fuse in (True, False):
        np.testing.assert_allclose(found[fuse, "exact"], found[fuse, "fast"], rtol=1e-5, atol=1e-5)
    if dtype == "fp32":
        np.testing.assert_allclose(found[True, "exact"], found[False, "exact"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("ops", "groups", "layout"),
    [
        ((), 1, (1, 8, 3)),
        (("Relu",), 1, (1, 8, 3)),
        (("Relu",), 2, (2, 6, 2, 2)),
        (("MaxPool",), 1, (2, 3, 2, 2)),
        (("Relu", "MaxPool"), 1, (2, 3, 2, 2)),
        (("MaxPool", "Relu"), 1, (2, 3, 2, 2)),
    ],
)
def test_a_tile_takes_the_layout_of_the_result_where_a_function_needs_it(
    ops: tuple[str, ...], groups: int, layout: tuple[int, ...]
) -> None:
    """Two images of 2 x 2 positions, three channels of each group; element by element channels may stay last. There and
    back no element changes its place."""
    conv = Conv(2, 1, 2, 2, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (2, 2))
    gemm = Gemm(groups, 8, 3, 1, "x", "w", conv)
    node = Node("y", "Conv", ["x", "w"], ["y"], epilogue=[Node(op, op, ["y"], [op]) for op in ops])
    shape = TileShape.of_product(gemm, Tile(0, groups, 0, 8, 0, 3, 0, 1), (2, groups * 3, 2, 2), node)
    assert shape.layout == layout
    sums = np.arange(groups * 8 * 3).reshape(groups, 8, 3)
    np.testing.assert_array_equal(shape.gather(shape.spread(sums)), sums)
