"""With zero points the program follows from the scheme, never from the values."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


def network(lone: bool, shift: float) -> Graph:
    """A Relu fused behind a product, or alone between nodes of the host; the shift moves the zero point."""
    rng, b = np.random.default_rng(0), Builder("affine")
    x = b.input("x", (1, 4, 8, 8))
    y = x if lone else b.op("Conv", [x, b.constant("w", rng.standard_normal((6, 4, 3, 3))),
                                     b.constant("b", np.full(6, shift))], "conv", kernel_shape=[3, 3], strides=[1, 1],
                            pads=[0] * 4, dilations=[1, 1], group=1, a_zero_point=0, b_zero_point=0)  # fmt: skip
    if lone:
        y = b.op("Tile", [b.matmul(x, b.constant("v", shift + rng.standard_normal((8, 8))), "sum")], "tile",
                 repeats=[1, 1, 2, 1])  # fmt: skip
    return b.finish(b.op("Tile", [b.op("Relu", [y], "relu")], "y", repeats=[1, 2, 1, 1]))


@pytest.mark.parametrize("shift", [-2.0, 0.0, 30.0])
@pytest.mark.parametrize("lone", [True, False])
@pytest.mark.parametrize("scheme", ["affine", "symmetric"])
def test_the_policies_have_one_timeline_and_ledger(scheme: str, lone: bool, shift: float) -> None:
    graph, chip = network(lone, shift), load_chip("edu-4x4")
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype(np.float32)}
    runs = []
    for values in ("exact", "fast", "off"):
        program = compile(graph, chip, Options(dtype="int8", scheme=scheme, values=values))
        runs.append(simulate(program, None if values == "off" else feeds, values))
    assert runs[0].slices == runs[1].slices == runs[2].slices
    assert runs[0].ledger == runs[1].ledger == runs[2].ledger
