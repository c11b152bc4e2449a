"""What is fused behind a product broadcasts against its result as ONNX says, whatever the ranks of its operands are.

Operands are small whole numbers, so that every sum is exact: the simulator, layer by layer and tile by tile, must give
what NumPy gives, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, product
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import REGISTRY, base
from accelsim.workload.zoo.build import Builder

Binary = Callable[[Array, Array], Array]

REAL: dict[str, Binary] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Min": np.minimum,
    "Max": np.maximum, "Sum": np.add, "Mean": lambda a, b: (a + b) / np.float32(2),
    "PRelu": lambda a, b: np.where(a < 0, a * b, a), "Mod": np.fmod,
    "Less": np.less, "Greater": np.greater, "Equal": np.equal, "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}  # fmt: skip
"""What NumPy says of ops of two operands behind a product of real numbers."""

ATTRS: dict[str, dict[str, Any]] = {"Mod": {"fmod": 1}}
ONE_SIDED = ("PRelu",)
"""Ops that broadcast their second operand to the first."""


def whole_numbers(shape: tuple[int, ...], seed: int) -> Array:
    """1 to 3 with either sign: no division by zero, and every sum is exact."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.integers(1, 4, shape) * rng.choice([-1, 1], shape), np.float32)


def of_the_registry(op: str, *values: Array) -> Array:
    """The op on whole arrays, without a compiler, a tile or a chip."""
    return base.get(op).kernel(Node(op, op, ["a", "b"], ["y"], ATTRS.get(op, {})), list(values))[0]


def takes_two(op: str) -> bool:
    """Return whether the op takes two operands of real numbers of which the second broadcasts to the first, and reads
    both."""
    x, side, other = whole_numbers((5, 6), 0), whole_numbers((6,), 1), whole_numbers((6,), 2)
    try:
        first, second = of_the_registry(op, x, side), of_the_registry(op, x, other)
        ((shape, _),) = base.get(op).infer(
            Node(op, op, ["a", "b"], ["y"], ATTRS.get(op, {})), [Tensor("a", (5, 6)), Tensor("b", (6,))]
        )
    except Exception:  # of one operand or three, of codes, of flags: each says so in a way of its own
        return False
    return first.shape == shape == (5, 6) and not np.array_equal(first, second, equal_nan=True)


OPS = (
    *REAL,
    *(op.name for op in REGISTRY.values() if op.kind == "elementwise" and op.name not in REAL and takes_two(op.name)),
)


@cache
def roomy() -> Chip:
    """A small array with buffers in which a tile is less than a product, and a vector unit that can do every op."""
    chip = load_chip("edu-4x4")
    assert chip.vector is not None
    functions = {**dict.fromkeys((*OPS, "Where"), 1), **chip.vector.functions}
    return chip.with_engine(chip.vector.model_copy(update={"functions": functions}))


def broadcasting(result: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every shape that broadcasts to ``result``: any axes of size 1, any leading axes left out; one rank more, too."""
    shapes = {(1, *result)} if len(result) < 4 else set()
    for first in range(len(result) + 1):
        shapes |= set(product(*({1, extent} for extent in result[first:])))
    return sorted(shapes)


A_SHAPES = ((6,), (5, 6), (3, 5, 6), (2, 1, 5, 6))
B_SHAPES = ((6,), (6, 7), (6, 1), (3, 6, 5), (2, 1, 6, 5))


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.zeros(a) @ np.zeros(b)
    except ValueError:
        return False
    return True


class Cases:
    """One graph of many products, each followed by an op with another side operand, and what NumPy says."""

    def __init__(self) -> None:
        self.builder, self.feeds, self.expected = Builder("broadcast"), dict[str, Array](), dict[str, Array]()
        self._known: dict[tuple[tuple[int, ...], bool], str] = {}
        self._numbers = count()

    def operand(self, shape: tuple[int, ...], constant: bool) -> str:
        """A constant or an input of that shape, with values of its own."""
        key = (shape, constant)
        if key not in self._known:
            number = len(self._known)
            name = f"side{number}"
            values = whole_numbers(shape, number)
            if constant:
                self.builder.constant(name, values)
            else:
                self.builder.input(name, shape)
                self.feeds[name] = values
            self._known[key] = name
        return self._known[key]

    def value(self, name: str) -> Array:
        return self.feeds[name] if name in self.feeds else self.builder.graph.tensors[name].value()

    def add(self, sums: str, value: Array, op: str, side: str, swapped: bool) -> None:
        """The op behind ``sums``, which nobody else reads; ``swapped``: the side operand comes first."""
        number = next(self._numbers)
        operands, values = [sums, side], [value, self.value(side)]
        if swapped:
            operands, values = operands[::-1], values[::-1]
        name = self.builder.op(op, operands, f"{op}{number}", **ATTRS.get(op, {}))
        with np.errstate(all="ignore"):  # a sum may be zero
            self.expected[name] = np.asarray(REAL[op](*values) if op in REAL else of_the_registry(op, *values))

    def graph(self) -> Graph:
        return self.builder.finish(*self.expected)


def check(cases: Cases, fused: bool = True) -> None:
    program = compile(cases.graph(), roomy(), Options(dtype="fp32"))
    for policy in ("exact", "fast"):
        result = simulate(program, cases.feeds, policy)
        for name, expected in cases.expected.items():
            np.testing.assert_array_equal(
                result.outputs[name], expected.astype(result.outputs[name].dtype), err_msg=f"{policy} {name}"
            )
            assert result.outputs[name].shape == expected.shape
    assert not fused or any(step.node.epilogue for step in program.steps if step.engine == "matrix")


MATMULS = [(a, b) for a in A_SHAPES for b in B_SHAPES if fits(a, b)]
"""Operands of every rank from 1 to 4, matrices of one row and of one column, batches that broadcast."""


def sided(constant: bool, swapped: bool, op: str, shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return whether ONNX knows the op with these operands."""
    return op not in ONE_SIDED or (not swapped and len(shape) <= len(result))


FINITE = ("Add", "Sub", "Mul", "Min", "Max", "PRelu", "Less")
"""Ops that give finite numbers for all operands."""


def behind(a: tuple[int, ...], b: tuple[int, ...], ops: Sequence[str] = OPS) -> Cases:
    """a @ b, followed by every shape of a side operand."""
    cases, turn = Cases(), count()
    cases.builder.input("a", a)
    cases.feeds["a"] = whole_numbers(a, 100)
    result = np.zeros(a) @ np.zeros(b)
    weights = whole_numbers(b, 101)
    cases.builder.constant("b", weights)
    for shape, constant, swapped in product(broadcasting(result.shape), (True, False), (True, False)):
        op = ops[next(turn) % len(ops)]
        if not sided(constant, swapped, op, shape, result.shape):
            op = "Sub"
        side = cases.operand(shape, constant)
        sums = cases.builder.matmul("a", "b", f"sum{len(cases.expected)}")
        cases.add(sums, cases.feeds["a"] @ weights, op, side, swapped)
    return cases


@pytest.mark.parametrize(("a", "b"), MATMULS, ids=str)
def test_every_shape_behind_every_product(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """All shapes that broadcast, constants and activations, in either place; the op changes from case to case."""
    check(behind(a, b))


@pytest.mark.parametrize("b", [(6,), (6, 7)], ids=["vector", "matrix"])
def test_codes_broadcast_as_numbers_do(b: tuple[int, ...]) -> None:
    """In int8 the two ways to compute agree to the last bit, whatever stands beside the sums."""
    cases = behind((3, 5, 6), b, FINITE)
    program = compile(cases.graph(), roomy(), Options(dtype="int8"))
    exact, fast = (simulate(program, cases.feeds, policy).outputs for policy in ("exact", "fast"))
    for name, values in exact.items():
        np.testing.assert_array_equal(values, fast[name], err_msg=name)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("weights", [(6,), (6, 7)], ids=["vector", "matrix"])
def test_every_op_behind_a_matrix_and_a_vector(op: str, weights: tuple[int, ...]) -> None:
    cases = Cases()
    cases.builder.input("a", (3, 5, 6))
    cases.feeds["a"] = whole_numbers((3, 5, 6), 100)
    cases.builder.constant("b", whole_numbers(weights, 101))
    value = cases.feeds["a"] @ cases.value("b")
    for shape, constant, swapped in product(broadcasting(value.shape), (True, False), (True, False)):
        if sided(constant, swapped, op, shape, value.shape):
            sums = cases.builder.matmul("a", "b", f"sum{len(cases.expected)}")
            cases.add(sums, value, op, cases.operand(shape, constant), swapped)
    check(cases)


@pytest.mark.parametrize("b", [(6, 5), (6,), (2, 6, 7)], ids=str)
def test_products_of_two_activations(b: tuple[int, ...]) -> None:
    cases, turn = Cases(), count()
    for name, shape in (("a", (2, 5, 6)), ("b", b)):
        cases.builder.input(name, shape)
        cases.feeds[name] = whole_numbers(shape, 100 + len(shape))
    value = cases.feeds["a"] @ cases.feeds["b"]
    for shape, constant, swapped in product(broadcasting(value.shape), (True, False), (True, False)):
        op = OPS[next(turn) % len(OPS)]
        if sided(constant, swapped, op, shape, value.shape):
            sums = cases.builder.matmul("a", "b", f"sum{len(cases.expected)}")
            cases.add(sums, value, op, cases.operand(shape, constant), swapped)
    check(cases)


@pytest.mark.parametrize("trans", list(product((0, 1), (0, 1))), ids=str)
def test_a_gemm_with_every_shape_of_c_and_of_what_follows(trans: tuple[int, int]) -> None:
    """C of a Gemm broadcasts to its result; alpha and beta scale."""
    cases, turn = Cases(), count()
    shapes = {"a": (6, 5) if trans[0] else (5, 6), "b": (7, 6) if trans[1] else (6, 7)}
    cases.builder.input("a", shapes["a"])
    cases.feeds["a"] = whole_numbers(shapes["a"], 100)
    cases.builder.constant("b", whole_numbers(shapes["b"], 101))
    left, right = cases.feeds["a"], cases.value("b")
    sums = (left.T if trans[0] else left) @ (right.T if trans[1] else right)
    within = [shape for shape in broadcasting((5, 7)) if len(shape) <= 2]
    for c_shape, shape, constant in product(within, broadcasting((5, 7)), (True, False)):
        alpha, beta = ((1.0, 1.0), (2.0, 0.5))[next(turn) % 2]
        c = cases.operand(c_shape, constant)
        name = cases.builder.op(
            "Gemm", ["a", "b", c], f"sum{len(cases.expected)}", alpha=alpha, beta=beta, transA=trans[0],
            transB=trans[1], a_zero_point=0, b_zero_point=0,
        )  # fmt: skip
        value = np.asarray(alpha * sums + beta * cases.value(c), np.float32)
        op = OPS[next(turn) % len(OPS)]
        op = op if sided(constant, False, op, shape, value.shape) else "Sub"
        cases.add(name, value, op, cases.operand(shape, constant), False)
    check(cases)


@pytest.mark.parametrize("spatial", [(5,), (3, 4), (2, 3, 2)], ids=["1-D", "2-D", "3-D"])
@pytest.mark.parametrize("group", [1, 2])
def test_every_shape_behind_a_convolution(spatial: tuple[int, ...], group: int) -> None:
    """A 1x1 convolution with bias, of which NumPy's answer is a product of matrices."""
    cases, turn = Cases(), count()
    x, w, bias = (whole_numbers((2, 4, *spatial), 100), whole_numbers((6, 4 // group), 101), whole_numbers((6,), 102))
    cases.builder.input("a", x.shape)
    cases.feeds["a"] = x
    cases.builder.constant("w", w.reshape(*w.shape, *[1] * len(spatial)))
    cases.builder.constant("bias", bias)
    parts = zip(np.split(w, group), np.split(x.reshape(2, 4, -1), group, axis=1), strict=True)
    value = np.concatenate([kernel @ image for kernel, image in parts], axis=1) + bias[:, np.newaxis]
    value = value.reshape(2, 6, *spatial)
    rank = len(spatial)
    window = {"kernel_shape": [1] * rank, "strides": [1] * rank, "pads": [0] * 2 * rank, "dilations": [1] * rank}
    for shape, constant, swapped in product(broadcasting(value.shape), (True, False), (True, False)):
        op = OPS[next(turn) % len(OPS)]
        op = op if sided(constant, swapped, op, shape, value.shape) else "Sub"
        name = f"sum{len(cases.expected)}"
        cases.builder.op("Conv", ["a", "w", "bias"], name, **window, group=group, a_zero_point=0, b_zero_point=0)
        cases.add(name, value, op, cases.operand(shape, constant), swapped)
    check(cases, fused=rank < 3)


@pytest.mark.parametrize("weights", [(6,), (6, 7)], ids=["vector", "matrix"])
def test_a_choice_between_the_sums_and_something_else(weights: tuple[int, ...]) -> None:
    """Where with every shape of the condition and of the other choice."""
    b, x = Builder("where"), whole_numbers((5, 6), 100)
    b.input("a", x.shape)
    b.constant("b", whole_numbers(weights, 101))
    value = x @ b.graph.tensors["b"].value()
    expected = {}
    for number, (flags, other) in enumerate(product(broadcasting(value.shape), repeat=2)):
        chosen = b.constant(f"flags{number}", whole_numbers(flags, number))
        test = b.op("Less", [chosen, b.constant(f"one{number}", 1.0)], f"test{number}")
        side = b.constant(f"other{number}", whole_numbers(other, 1000 + number))
        name = b.op("Where", [test, b.matmul("a", "b", f"sum{number}"), side], f"choice{number}")
        expected[name] = np.where(b.graph.tensors[chosen].value() < 1, value, b.graph.tensors[side].value())
    program = compile(b.finish(*expected), roomy(), Options(dtype="fp32"))
    for policy in ("exact", "fast"):
        outputs = simulate(program, {"a": x}, policy).outputs
        for name, values in expected.items():
            np.testing.assert_array_equal(outputs[name], values, err_msg=f"{policy} {name}")


@pytest.mark.parametrize("op", REAL)
def test_an_op_of_two_operands_is_known_as_one(op: str) -> None:
    """So that one which is added is among those that stand behind products here."""
    assert takes_two(op)
