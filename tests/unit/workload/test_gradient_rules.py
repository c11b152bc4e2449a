"""The gradient rule of every op: finite differences, formats, ties, and the ops that have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.gradient import ENDS, NOT_DIFFERENTIABLE, REFUSED, RULES, backward
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import REGISTRY
from tests.helpers.gradient_cases import Case, append, check, graph_of
from tests.helpers.gradient_op_cases import CASES, apart, normal, window
from tests.helpers.torch_oracle import torch_says

STRAIGHT_THROUGH = {"FakeQuantize"}
"""Its gradient is no derivative; it has a test of its own."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_finite_differences(case: Case) -> None:
    check(case)


def test_every_op_has_a_rule_and_a_case_or_a_reason() -> None:
    assert {case.op for case in CASES} | STRAIGHT_THROUGH == set(RULES)
    assert set(RULES) | set(NOT_DIFFERENTIABLE) == set(REGISTRY)
    assert not set(RULES) & set(NOT_DIFFERENTIABLE)
    assert all(NOT_DIFFERENTIABLE.values())


def gradients(case: Case, dtype: str) -> list[Array]:
    graph, feeds, wrt = graph_of(case, dtype)
    before = len(graph.nodes)
    found = backward(graph, graph.outputs[0], wrt)
    kept = {"fp64"} if case.op == "Cast" else {dtype}
    made = {graph.tensors[out].dtype for node in graph.nodes[before:] for out in node.outputs} - {"int64"}
    assert made <= kept | {dtype}
    assert all(graph.tensors[grad].dtype == dtype for grad in found.values())
    graph.outputs = list(found.values())
    values = run(graph, feeds)
    return [values[grad] for grad in found.values()]


FORMATS = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1}


ROUNDED = [
    pytest.param(case, dtype, id=f"{case}-{dtype}")
    for case in CASES
    for dtype in FORMATS
    if case.op != "Mod" or dtype == "fp32"  # the quotient itself differs where the operands are rounded
]


@pytest.mark.parametrize(("case", "dtype"), ROUNDED)
def test_keeps_the_format(case: Case, dtype: str) -> None:
    for got, want in zip(gradients(case, dtype), gradients(case, "fp64"), strict=True):
        error = np.linalg.norm(got.astype(np.float64) - want) / max(float(np.linalg.norm(want)), 1e-3)
        assert error < FORMATS[dtype]


def one_op(op: str, *values: Array, **attrs: Any) -> list[Array]:
    graph, feeds, wrt = graph_of(Case(op, list(values), attrs))
    graph.tensors["g"] = Tensor("g", graph.tensors["y0"].shape, "fp64", data=np.ones(graph.tensors["y0"].shape))
    found = backward(graph, "y0", wrt, seed="g")
    graph.outputs = list(found.values())
    result = run(graph, feeds)
    return [result[name] for name in found.values()]


def theirs(key: str, function: Callable[..., Any], *inputs: Array) -> list[Array]:
    """Return the gradients of the sum of a function of PyTorch by its inputs."""

    def compute(torch: Any) -> list[Any]:
        leaves = [torch.tensor(value, requires_grad=True) for value in inputs]
        function(torch, *leaves).sum().backward()
        return [leaf.grad for leaf in leaves]

    return torch_says(f"gradient of {key}", inputs, compute)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 7, 8)).astype(np.float64)
    attrs = {**window(2, (3, 3)), "strides": [2, 1], "pads": [1, 1, 1, 1], "ceil_mode": 0}
    (want,) = theirs("max pool", lambda torch, x: torch.nn.functional.max_pool2d(x, 3, (2, 1), 1), x)
    np.testing.assert_array_equal(one_op("MaxPool", x, **attrs)[0], want)


def test_ties_share_the_gradient() -> None:
    x = np.random.default_rng(0).integers(0, 3, (4, 5)).astype(np.float64)
    (want,) = theirs("largest", lambda torch, x: x.amax(1), x)
    np.testing.assert_allclose(one_op("ReduceMax", x, axes=[1], keepdims=0)[0], want)
    other = x[::-1].copy()
    pair = theirs("smaller", lambda torch, x, y: torch.minimum(x, y), x, other)
    for got, want in zip(one_op("Min", x, other), pair, strict=True):
        np.testing.assert_array_equal(got, want)


def test_kinks_and_zeros_as_pytorch() -> None:
    x = np.array([-4.0, -3.0, -1.0, 0.0, 0.5, 1.0, 3.0, 6.0, 7.0])
    for op, attrs, oracle in (
        ("Relu", {}, lambda torch, v: torch.nn.functional.relu(v)),
        ("Abs", {}, lambda torch, v: torch.abs(v)),
        ("Clip", {"min": -1.0, "max": 6.0}, lambda torch, v: torch.nn.functional.hardtanh(v, -1, 6)),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, lambda torch, v: torch.nn.functional.hardsigmoid(v)),
        ("LeakyRelu", {"alpha": 0.1}, lambda torch, v: torch.nn.functional.leaky_relu(v, 0.1)),
    ):
        (want,) = theirs(op, oracle, x)
        np.testing.assert_allclose(one_op(op, x, **attrs)[0], want, rtol=1e-6, err_msg=op)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_product_with_zeros(zeros: int) -> None:
    x = apart(3, 4, rng=np.random.default_rng(0))
    x[0, :zeros] = 0
    (want,) = theirs(f"product with {zeros} zeros", lambda torch, x: x.prod(1), x)
    np.testing.assert_allclose(one_op("ReduceProd", x, axes=[1], keepdims=0)[0], want, rtol=1e-12)


def test_norm_and_power_of_zero() -> None:
    assert np.array_equal(one_op("ReduceL2", np.zeros((2, 3)), axes=[1], keepdims=0)[0], np.zeros((2, 3)))
    base, exponent = one_op("Pow", np.zeros(3), np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(base, [0, 1, 0])
    np.testing.assert_array_equal(exponent, [0, 0, 0])


def test_infinities_do_not_leak_past_a_mask() -> None:
    x = np.array([-np.inf, -1.0, 1.0, np.inf])
    np.testing.assert_array_equal(one_op("Relu", x)[0], [0, 0, 1, 1])
    np.testing.assert_array_equal(one_op("Elu", x, alpha=1.0)[0], [0, np.exp(-1.0), 1, 1])


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0])
def test_constant_exponents(exponent: float) -> None:
    graph = Graph("power", [], {}, ["x"], [], 20)
    x = np.array([0.5, 1.0, 2.0])
    graph.tensors["x"] = Tensor("x", (3,), "fp64")
    graph.tensors["n"] = Tensor("n", (), "fp64", data=np.asarray(exponent))
    append(graph, "power", "Pow", ["x", "n"], ["y"])
    append(graph, "sum", "ReduceSum", ["y"], ["loss"], axes=[0], keepdims=0)
    graph.outputs = [backward(graph, "loss", ["x"])["x"]]
    assert "Log" not in {node.op for node in graph.nodes}
    np.testing.assert_allclose(next(iter(run(graph, {"x": x}).values())), exponent * x ** (exponent - 1))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_as_pytorch(approximate: str) -> None:
    x = np.linspace(-6, 6, 101)
    (want,) = theirs(f"gelu {approximate}", lambda torch, x: torch.nn.functional.gelu(x, approximate=approximate), x)
    np.testing.assert_allclose(one_op("Gelu", x, approximate=approximate)[0], want, rtol=1e-6, atol=1e-6)


NO_FLOATS = {"And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"}
STEP_ATTRS: dict[str, dict[str, Any]] = {
    "ArgMax": {"axis": 0, "keepdims": 0},
    "ArgMin": {"axis": 0, "keepdims": 0},
    "IsInf": {"detect_negative": 1, "detect_positive": 1},
}


@pytest.mark.parametrize("op", sorted(set(ENDS) - NO_FLOATS))
def test_nothing_flows_through_a_step(op: str) -> None:
    """x + f(x) has the gradient of x alone."""
    graph = Graph(op, [], {"x": Tensor("x", (4,), "fp64")}, ["x"], [], 20)
    two = op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    append(graph, "f", op, ["x", "x"] if two else ["x"], ["f"], **STEP_ATTRS.get(op, {}))
    append(graph, "cast", "Cast", ["f"], ["c"], to="fp64")
    append(graph, "add", "Add", ["x", "c"], ["y"])
    append(graph, "sum", "ReduceSum", ["y"], ["loss"], axes=[0], keepdims=0)
    graph.outputs = [backward(graph, "loss", ["x"])["x"]]
    np.testing.assert_array_equal(next(iter(run(graph, {"x": apart(4)}).values())), np.ones(4))


def test_ops_without_a_gradient_are_named_all_at_once() -> None:
    graph = Graph("m", [], {"x": Tensor("x", (4,))}, ["x"], [], 20)
    code = {"scale": np.float32(0.1), "zero_point": 0, "axis": None}
    append(graph, "first", "Quantize", ["x"], ["q"], dtype="int8", **code)
    append(graph, "beside", "Dequantize", ["q"], ["beside"], **code)
    append(graph, "fine", "Tanh", ["x"], ["t"])
    append(graph, "sum", "ReduceSum", ["t"], ["loss"], axes=[0], keepdims=0)
    graph.nodes[2].op = "onnx::Tanh"
    with pytest.raises(ModelError, match=r"fine: onnx::Tanh has no gradient: no rule knows this op") as error:
        backward(graph, "loss", ["x"])
    assert len(error.value.problems) == 1  # what is not on the way does not matter
    assert set(REFUSED) < set(REGISTRY)


@pytest.mark.parametrize("op", sorted(REFUSED))
def test_a_refused_op_gives_its_reason(op: str) -> None:
    graph = Graph("m", [], {"x": Tensor("x", ()), "y": Tensor("y", ())}, ["x"], ["y"], 20)
    append(graph, "before", "Tanh", ["x"], ["t"])
    append(graph, "after", "Tanh", ["t"], ["y"])
    graph.nodes[1].op = op
    with pytest.raises(ModelError) as error:
        backward(graph, "y", ["x"])
    assert REFUSED[op] in str(error.value) and "after" in str(error.value)


@pytest.mark.parametrize("reduction", ["mul", "max", "min"])
def test_a_scatter_that_combines_is_refused(reduction: str) -> None:
    case = Case("ScatterND", [normal(4), np.array([[1]]), normal(1)], {"reduction": reduction})
    graph, _, wrt = graph_of(case)
    with pytest.raises(ModelError, match=f"op: ScatterND with reduction '{reduction}' has no gradient"):
        backward(graph, graph.outputs[0], wrt)


def fake(x: Array, scale: Array, seed: Array, dtype: str, axis: int | None, **attrs: Any) -> list[Array]:
    graph = Graph("fake", [], {"x": Tensor("x", x.shape), "s": Tensor("s", scale.shape)}, ["x", "s"], [], 20)
    append(graph, "fake", "FakeQuantize", ["x", "s"], ["y"], dtype=dtype, axis=axis, **attrs)
    graph.tensors["g"] = Tensor("g", x.shape, data=seed)
    found = backward(graph, "y", ["x", "s"], seed="g")
    graph.outputs = ["y", *found.values()]
    return list(run(graph, {"x": x, "s": scale}).values())


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("int4", -8, 7), ("uint8", 0, 255)])
def test_fake_quantisation_as_pytorch(axis: int | None, dtype: str, low: int, high: int) -> None:
    rng = np.random.default_rng(0)
    x, seed = (normal(4, 3, 5, rng=rng).astype(np.float32) * 2 for _ in range(2))
    scale = np.array([0.03, 0.1, 0.25], np.float32) if axis is not None else np.asarray(0.07, np.float32)

    def compute(torch: Any) -> list[Any]:
        given, step = (torch.tensor(each, requires_grad=True) for each in (x, np.atleast_1d(scale)))
        zero = torch.zeros(scale.size)
        if axis is None:
            y = torch._fake_quantize_learnable_per_tensor_affine(given, step, zero, low, high, 1.0)
        else:
            y = torch._fake_quantize_learnable_per_channel_affine(given, step, zero, axis, low, high, 1.0)
        y.backward(torch.tensor(seed))
        return [y, given.grad, step.grad]

    got, wanted = (fake(x, scale, seed, dtype, axis), torch_says(f"fake {dtype} {axis}", [x, scale, seed], compute))
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_allclose(got[2].reshape(-1), wanted[2], rtol=1e-4, atol=1e-4)


def test_fake_quantisation_takes_a_range_and_a_factor() -> None:
    x, one = np.array([-3.0, -0.4, 0.4, 3.0], np.float32), np.ones(4, np.float32)
    scale = np.asarray(1.0, np.float32)
    y, dx, ds = fake(x, scale, one, "int8", None, qmin=-1, qmax=2, factor=0.5)
    np.testing.assert_array_equal(y, [-1, 0, 0, 2])
    np.testing.assert_array_equal(dx, [0, 1, 1, 0])
    np.testing.assert_allclose(ds, 0.5 * (-1 + 0.4 - 0.4 + 2), rtol=1e-6)


def test_binary_fake_quantisation_keeps_only_signs() -> None:
    x, seed = np.array([[-2.0, -0.0, 0.3], [0.5, 4.0, -1.0]], np.float32), np.ones((2, 3), np.float32)
    scale = np.array([0.5, 2.0], np.float32)
    y, dx, ds = fake(x, scale, seed, "int1", 0)
    np.testing.assert_array_equal(y, [[-0.5, 0.5, 0.5], [2, 2, -2]])
    np.testing.assert_array_equal(dx, [[0, 1, 1], [1, 0, 1]])
    np.testing.assert_array_equal(ds, [1, 1])


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "ops"),
    [
        ("MaxPoolGrad", [(1, 2, 4, 4), (1, 2, 2, 2), (1, 2, 2, 2)],
         {**window(2, (2, 2)), "strides": [2, 2], "ceil_mode": 0}, 8 * (4 + 1)),
        ("GatherGrad", [(3, 4), (3,)], {"axis": 0, "size": 9}, 12),
        ("AttentionGrad", [(1, 2, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4), (1, 2, 3, 4), (1, 2, 3, 4)],
         {"causal": 1, "scale": 0.5}, 6 * 2 * 3 * 5),
        ("FakeQuantize", [(2, 3), ()], {"dtype": "int8", "axis": None}, 6 * 6),
        ("FakeQuantizeGrad", [(2, 3), (3,), (2, 3)], {"dtype": "int8", "axis": 1}, 10 * 6),
    ],
)  # fmt: skip
def test_new_ops_count_their_work_and_check_their_shapes(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], ops: int
) -> None:
    node, row = Node("the-node", op, [], ["y"], attrs), REGISTRY[op]
    ins: list[Tensor | None] = [Tensor(f"x{i}", shape) for i, shape in enumerate(shapes)]
    outs = [Tensor("y", *shape) for shape in row.infer(node, ins)]
    assert row.work(node, ins, outs).ops == ops
    ins[-1] = Tensor("wrong", (7, 7))
    with pytest.raises(ModelError, match="the-node"):
        row.infer(node, ins)


@pytest.mark.parametrize("causal", [0, 1])
def test_the_gradient_of_attention_is_that_of_its_operators(causal: int) -> None:
    """By finite differences; two heads share keys and values."""
    rng = np.random.default_rng(3)
    q, g = (rng.standard_normal((1, 2, 3, 4)) for _ in range(2))
    k, v = (rng.standard_normal((1, 1, 5, 4)) for _ in range(2))

    def attended(q: Array, k: Array, v: Array) -> Array:
        scores = q @ np.swapaxes(k, 2, 3) * 0.5
        scores = np.where(np.triu(np.ones((3, 5)), 3) * causal > 0, -np.inf, scores)
        shares = np.exp(scores)
        return np.asarray(shares / shares.sum(axis=3, keepdims=True) @ v)

    node = Node("back", "AttentionGrad", [], [], {"causal": causal, "scale": 0.5})
    found = REGISTRY["AttentionGrad"].kernel(node, [q, k, v, attended(q, k, v), g])
    for index, given in enumerate((q, k, v)):
        for place in np.ndindex(given.shape):
            sums = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in (q, k, v)]
                moved[index][place] += step
                sums.append((attended(*moved) * g).sum())
            assert found[index][place] == pytest.approx((sums[0] - sums[1]) / 2e-5, abs=1e-6)
