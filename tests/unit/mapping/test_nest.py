"""Loop nests against what the ops themselves compute, and distinct elements against sets written out."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelsim
from accelsim.errors import UsageError
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nest import Form, LoopNest, Operand, conv_nest, nest_of, product_nest
from accelsim.workload.ops.base import Conv, find


def test_gemm_view_is_that_of_the_op() -> None:
    seen = set()
    for model in ("mobilenet-v2", "mlp?hidden=16,layers=2"):
        graph = accelsim.load_model(model)
        for node in graph.nodes:
            op = find(node.op)
            if node.op in ("MatMul", "Gemm", "Conv") and op is not None and op.gemm is not None:
                ins = [graph.tensors[name] if name else None for name in node.inputs]
                gemm = op.gemm(node, ins, [graph.tensors[name] for name in node.outputs])
                nest = nest_of(graph, node)
                assert nest.gemm() == gemm and gemm is not None and nest.macs == gemm.macs
                seen.add(node.op)
    assert seen == {"Conv", "Gemm"}


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((3, 4, 5), (5, 6), {"m": 12, "n": 6, "k": 5}),
        ((2, 3, 4, 5), (2, 3, 5, 6), {"b": 6, "m": 4, "n": 6, "k": 5}),
        ((2, 1, 4, 5), (3, 5, 6), {"b": 2, "g": 3, "m": 4, "n": 6, "k": 5}),
        ((4, 5), (3, 5, 6), {"b": 3, "m": 4, "n": 6, "k": 5}),
    ],
)
def test_batches_that_are_broadcast(a: tuple[int, ...], b: tuple[int, ...], axes: dict[str, int]) -> None:
    batch = (2, 3) if len(a) == 4 else ((3,) if len(b) == 3 else ())
    out = Tensor("y", (*batch, a[-2], b[-1]))
    tensors = {"a": Tensor("a", a), "b": Tensor("b", b), "y": out}
    node = Node("mul", "MatMul", ["a", "b"], ["y"])
    nest = nest_of(Graph("g", [node], tensors, ["a", "b"], ["y"]), node)
    assert nest.axes == axes
    for operand, shape in (("A", a), ("B", b)):
        size = 1
        for extent in shape:
            size *= extent
        assert nest.distinct(operand) == size
    op = find("MatMul")
    assert op is not None and op.gemm is not None
    assert nest.gemm() == op.gemm(node, [tensors["a"], tensors["b"]], [out])


@given(
    st.integers(1, 4), st.integers(1, 4), st.tuples(st.integers(1, 7), st.integers(1, 4)),
    st.tuples(st.integers(0, 3), st.integers(0, 2)), st.integers(0, 2), st.booleans(),
)  # fmt: skip
def test_distinct_is_the_union(
    stride: int, dilation: int, extents: tuple[int, int], starts: tuple[int, int], pad: int, padding: bool
) -> None:
    form = Form((("p", stride), ("r", dilation)), -pad, 9)
    plain = Operand("Y", {"p": Form((("p", 1),))}, "writes")
    nest = LoopNest({"p": 20, "r": 20}, (Operand("A", {"h": form}), plain))
    ranges = [range(start, start + extent) for start, extent in zip(starts, extents, strict=True)]
    index = {stride * p + dilation * r - pad for p, r in product(*ranges)}
    expected = {i for i in index if padding or 0 <= i < 9}
    box = {"p": (starts[0], extents[0]), "r": (starts[1], extents[1])}
    assert nest.distinct("A", box, padding=padding) == len(expected)


def test_a_convolution_without_padding_reads_its_input_once() -> None:
    conv = Conv(2, 3, 9, 11, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (5, 6))
    nest = conv_nest(conv, 8, 4)
    assert nest.distinct("A", padding=False) == 2 * 4 * 3 * 9 * 11
    assert nest.distinct("A") == 2 * 4 * 3 * 11 * 13
    assert nest.macs == nest.gemm().macs == nest.macs_of({})
    assert nest.macs_of({"p": (1, 2), "k": (0, 3)}) == nest.macs * 2 * 3 // (5 * 8)
    assert nest.reduced(nest.result) == ("c", "r", "s")


def test_faults_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        LoopNest(
            {"m": 0, "n": 4},
            (
                Operand("A", {"h": Form((("m", 0), ("x", 1), ("n", 1)))}),
                Operand("A", {"m": Form((("m", 1), ("m", 1)))}),
            ),
        )
    assert len(caught.value.problems) == 7
    with pytest.raises(KeyError, match="nearest 'A'"):
        product_nest(2, 3, 4, 5).operand("a")
    graph = Graph("g", [], {"x": Tensor("x", (2,)), "y": Tensor("y", (2,))}, ["x"], ["y"])
    with pytest.raises(UsageError, match="no loop nest"):
        nest_of(graph, Node("act", "Relu", ["x"], ["y"]))
