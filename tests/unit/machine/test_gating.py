"""Counting multiplications without a zero operand, by hand and by the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.energy import energy_table
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.machine.values.gating import nonzero_macs, of_node
from accelsim.program.actions import MAC
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Array, Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder


def chip(gating: bool = True, **fields: Any) -> Chip:
    base = load_chip("edu-mixed")
    assert base.matrix is not None
    matrix = base.matrix.model_copy(update={"zero_gating": gating, **fields})
    return base.with_engine(matrix).model_copy(update={"peak": {}})


def sparse(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> Array:
    return (rng.standard_normal(shape) * (rng.random(shape) < share)).astype(np.float32)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.floats(0, 1), st.integers(0, 99), st.booleans())
@settings(max_examples=60)
def test_the_count_is_that_of_all_products_one_by_one(
    m: int, k: int, n: int, share: float, seed: int, batched: bool
) -> None:
    rng = np.random.default_rng(seed)
    lead = (2,) if batched else ()
    a, b = sparse(rng, (*lead, m, k), share), sparse(rng, (*lead, k, n), 0.5)
    assert nonzero_macs(a, b) == np.count_nonzero(a[..., :, :, None] * b[..., None, :, :])


def test_counts_beyond_32_bits() -> None:
    ones = np.ones((1, 1), np.float32)
    a, b = np.broadcast_to(ones, (70_000, 3)), np.broadcast_to(ones, (3, 70_000))
    assert nonzero_macs(a, b) == 3 * 70_000**2


def test_nothing_is_gated_where_there_is_no_zero() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 5, (4, 6)).astype(np.int8), -rng.integers(1, 5, (6, 3)).astype(np.int8)
    assert nonzero_macs(a, b) == 4 * 6 * 3
    assert nonzero_macs(0 * a, b) == nonzero_macs(a, 0 * b) == 0


class Small(Builder):
    """The zoo's builder with one random weight after the other."""

    def __init__(self) -> None:
        super().__init__("small")
        self.rng = np.random.default_rng(3)

    def weight(self, name: str, shape: Any) -> str:
        return self.constant(name, sparse(self.rng, tuple(shape), 0.7))


def convolution(pad: int, group: int, stride: int) -> Graph:
    g = Small()
    x, w = g.input("x", (2, 4, 7, 7)), g.weight("w", (6, 4 // group, 3, 3))
    y = g.op("Conv", [x, w], "y", kernel_shape=[3, 3], strides=[stride] * 2, pads=[pad] * 4, dilations=[1, 1], group=group,
             a_zero_point=0, b_zero_point=0)  # fmt: skip
    return g.finish(y)


def by_windows(x: Array, w: Array, pad: int, group: int, stride: int) -> int:
    """One multiplication after the other; the padding is zeros."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    per, filters, total = x.shape[1] // group, w.shape[0] // group, 0
    size = (padded.shape[2] - 3) // stride + 1
    for i in range(size):
        for j in range(size):
            seen = padded[:, :, i * stride : i * stride + 3, j * stride : j * stride + 3]
            for g in range(group):
                part, rows = seen[:, g * per : (g + 1) * per], w[g * filters : (g + 1) * filters]
                total += int(np.count_nonzero(part[:, None] * rows[None]))
    return total


@pytest.mark.parametrize(("pad", "group", "stride"), [(0, 1, 1), (1, 1, 1), (1, 2, 1), (1, 2, 2)])
@pytest.mark.parametrize("policy", ["exact", "fast"])
def test_padding_of_a_convolution_is_gated_too(policy: str, pad: int, group: int, stride: int) -> None:
    graph = convolution(pad, group, stride)
    x = sparse(np.random.default_rng(1), (2, 4, 7, 7), 0.6)
    program = compile(graph.copy(), chip(rows=8, cols=8), Options(dtype="fp32"))
    expected = by_windows(x, graph.tensors["w"].value(), pad, group, stride)
    run = simulate(program, {"x": x}, policy)
    assert run.nonzero_macs == {0: expected}
    (node,) = program.graph.nodes
    assert of_node(node, program.graph, [x, graph.tensors["w"].value()]) == expected
    if pad:
        ones = simulate(program, {"x": np.ones_like(x)}, policy).nonzero_macs[0]
        assert ones < program.steps[0].macs * 0.7


def macs_J(run: Run) -> float:
    return sum(row.energy_J for row in energy_table(run) if row.action.kind == MAC)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "int4", "int1", "tf32", "fp8_e4m3fn"])
@pytest.mark.parametrize("name", ["cnn", "mlp?hidden=16"])
def test_policies_agree_and_the_rest_of_the_run_does_not_change(name: str, dtype: str) -> None:
    graph = load_model(name, weights="random:0")
    feeds = synthetic(graph, 1)
    with_it, without = (
        compile(graph.copy(), chip(gating), Options(dtype=dtype, ranges_from=feeds)) for gating in (True, False)
    )
    exact, fast, off = (simulate(with_it, None if p == "off" else feeds, p) for p in ("exact", "fast", "off"))
    plain = simulate(without, feeds, "exact")
    assert exact.nonzero_macs == fast.nonzero_macs
    assert off.nonzero_macs == plain.nonzero_macs == {}
    for run in (fast, off, plain):
        assert (run.slices, run.ledger) == (exact.slices, exact.ledger)
    assert macs_J(exact) == macs_J(fast) <= macs_J(off) == macs_J(plain)
    assert (macs_J(exact) < macs_J(off)) == (
        any(count < with_it.steps[op].macs for op, count in exact.nonzero_macs.items())
    )


@pytest.mark.parametrize("policy", ["exact", "fast"])
def test_zero_is_what_the_unit_multiplies_not_what_the_memory_holds(policy: str) -> None:
    """TF32 rounds the smallest FP32 numbers to zero as it reads them."""
    g = Small()
    graph = g.finish(g.matmul(g.input("x", (2, 8)), g.constant("w", np.ones((8, 4), np.float32)), "y"))
    program = compile(graph, chip(), Options(dtype="tf32"))
    assert simulate(program, {"x": np.full((2, 8), 1e-44, np.float32)}, policy).nonzero_macs == {0: 0}


def test_zero_points_count_as_zeros() -> None:
    """Codes equal to the zero point are the number 0."""
    g = Small()
    graph = g.finish(g.matmul(g.input("x", (4, 8)), g.constant("w", np.ones((8, 4), np.float32)), "y"))
    x = np.random.default_rng(0).uniform(0, 3, (4, 8)).astype(np.float32)
    x[:, ::2] = 0
    program = compile(graph, chip(), Options(dtype="int8", scheme="affine", ranges_from={"x": x}))
    for policy in ("exact", "fast"):
        (count,) = simulate(program, {"x": x}, policy).nonzero_macs.values()
        assert count == np.count_nonzero(np.rint(x / (x.max() / 255))) * 4


def test_cores_add_up() -> None:
    graph = load_model("gemm?M=8,N=6,K=10", weights="random:0")
    x = sparse(np.random.default_rng(2), (8, 10), 0.5)
    count = int(np.count_nonzero(x)) * 6
    one, two = (
        simulate(compile(graph, chip().with_cores(cores), Options(dtype="fp32")), {"a": feed}, "exact")
        for cores, feed in ((1, x), (2, np.concatenate([x, x])))
    )
    assert one.nonzero_macs == {0: count} and two.nonzero_macs == {0: 2 * count}
    assert macs_J(two) == pytest.approx(2 * macs_J(one), rel=1e-9, abs=0) and count < 8 * 6 * 10
