"""Execution of graphs: fused nodes, formats, what is kept, host kernels, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.errors import ModelError, UsageError
from accelsim.workload.execute import run, run_node
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import get
from accelsim.workload.ops.foreign import foreign_kernel, knows

X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def graph(
    *nodes: Node, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None, **constants: Array
) -> Graph:
    """All tensors of ``shapes``; inputs are those that nothing makes, outputs those that nothing reads."""
    tensors = {name: Tensor(name, shape, (dtypes or {}).get(name, "fp32")) for name, shape in shapes.items()}
    tensors |= {name: Tensor(name, value.shape, "fp32", value) for name, value in constants.items()}
    made = {name for node in nodes for part in (node, *node.epilogue) for name in part.outputs}
    read = {name for node in nodes for name in node.reads}
    inputs = [name for name in shapes if name not in made]
    outputs = [name for node in nodes for name in node.writes if name not in read]
    return Graph("test", list(nodes), tensors, inputs, outputs, opset=17)


def chain() -> Graph:
    return graph(
        Node("mm", "MatMul", ["x", "w"], ["a"]),
        Node("relu", "Relu", ["a"], ["b"]),
        Node("add", "Add", ["b", "x"], ["y"]),
        shapes={"x": (3, 4), "a": (3, 4), "b": (3, 4), "y": (3, 4)},
        w=np.eye(4, dtype=np.float32),
    )


def test_outputs_only_and_everything() -> None:
    want = np.maximum(X, 0) + X
    assert list(run(chain(), {"x": X})) == ["y"]
    kept = run(chain(), {"x": X}, keep=True)
    assert set(kept) == {"x", "a", "b", "y"}
    np.testing.assert_array_equal(kept["y"], want)
    np.testing.assert_array_equal(run(chain(), {"x": X})["y"], want)


def test_fused_epilogue_is_the_same_and_hides_what_is_between() -> None:
    plain = chain()
    fused = plain.copy()
    fused.nodes[0].epilogue = fused.nodes[1:]
    del fused.nodes[1:]
    kept = run(fused, {"x": X}, keep=True)
    assert set(kept) == {"x", "y"}
    np.testing.assert_array_equal(kept["y"], run(plain, {"x": X})["y"])
    np.testing.assert_array_equal(run_node(fused.nodes[0], fused, {"x": X})[0], kept["y"])


def test_dead_tensors_are_freed_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelsim.workload import execute

    alive: list[set[str]] = []

    def spy(node: Node, g: Graph, values: Any) -> list[Array]:
        alive.append(set(values))
        return run_node(node, g, values)

    monkeypatch.setattr(execute, "run_node", spy)
    execute.run(chain(), {"x": X})
    assert alive == [{"x"}, {"x", "a"}, {"x", "b"}]


def test_a_constant_or_an_input_may_be_an_output() -> None:
    g = chain()
    g.outputs += ["w", "x"]
    out = run(g, {"x": X})
    np.testing.assert_array_equal(out["w"], np.eye(4))
    np.testing.assert_array_equal(out["x"], X)


@pytest.mark.parametrize(("dtype", "want"), [("fp16", 2049.0 - 1), ("bf16", 2048.0), ("fp32", 2049.0)])
def test_results_are_rounded_to_the_format_of_their_tensor(dtype: str, want: float) -> None:
    shapes = {"x": (2,), "z": (2,), "y": (2,)}
    g = graph(Node("add", "Add", ["x", "z"], ["y"]), shapes=shapes, dtypes=dict.fromkeys(shapes, dtype))
    y = run(g, {"x": np.full(2, 2048.0), "z": np.ones(2)})["y"]
    assert y.dtype == np.float32
    assert y.tolist() == [want, want]


def test_several_outputs_and_an_unused_one() -> None:
    g = graph(
        Node("split", "Split", ["x"], ["a", ""], {"axis": 1, "split": [1, 3]}),
        Node("neg", "Neg", ["a"], ["y"]),
        shapes={"x": (3, 4), "a": (3, 1), "y": (3, 1)},
    )
    np.testing.assert_array_equal(run(g, {"x": X})["y"], -X[:, :1])


def test_foreign_op_runs_on_the_host() -> None:
    g = graph(Node("unit", "LpNormalization", ["x"], ["y"], {"axis": 1, "p": 2}), shapes={"x": (3, 4), "y": (3, 4)})
    np.testing.assert_allclose(run(g, {"x": X})["y"], X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-6)


def test_foreign_node_with_the_name_of_a_registered_op() -> None:
    node = Node("pool", "onnx::MaxPool", ["x"], ["y", "i"], {"kernel_shape": [2, 2], "strides": [2, 2]})
    y, index = foreign_kernel(node, 17, [X[:2].reshape(1, 1, 2, 4)])
    assert y.tolist() == [[[[-1, 1]]]]
    assert index.tolist() == [[[[5, 7]]]]


def test_foreign_op_defined_by_others_and_of_another_domain() -> None:
    gelu = foreign_kernel(Node("g", "onnx::Gelu", ["x"], ["y"]), 20, [X])[0]
    from math import erf

    np.testing.assert_allclose(gelu, [[v * 0.5 * (1 + erf(v / 2**0.5)) for v in row] for row in X], atol=1e-6)
    node = Node("s", "Scaler", ["x"], ["y"], {"domain": "ai.onnx.ml", "offset": [1.0], "scale": [2.0]})
    np.testing.assert_array_equal(foreign_kernel(node, 3, [X])[0], (X - 1) * 2)


@pytest.mark.parametrize(
    ("op", "domain", "opset", "known"),
    [
        ("CumSum", "", 17, True),
        ("ConvTranspose", "", 11, True),
        ("Gelu", "", 20, True),
        ("Attention", "", 23, True),
        ("Scaler", "ai.onnx.ml", 3, True),
        ("NoSuchOp", "", 17, False),
        ("NoSuchOp", "ai.onnx.ml", 3, False),
        ("Relu", "com.example", 1, False),
        ("If", "", 17, False),
    ],
)
def test_what_the_host_knows(op: str, domain: str, opset: int, known: bool) -> None:
    assert knows(op, domain, opset) is known


def test_unknown_op_names_node_op_and_opset() -> None:
    g = graph(Node("odd", "NoSuchOp", ["x"], ["y"]), shapes={"x": (3, 4), "y": (3, 4)})
    with pytest.raises(ModelError, match=r"odd: no kernel knows op NoSuchOp of opset 17"):
        run(g, {"x": X})


def test_failing_foreign_op_names_the_node() -> None:
    with pytest.raises(ModelError, match="odd: CumSum of opset 17 failed"):
        foreign_kernel(Node("odd", "CumSum", ["x", "a"], ["y"]), 17, [X, np.array(9)])


def test_wrong_feeds_are_all_reported() -> None:
    with pytest.raises(UsageError) as caught:
        run(chain(), {"X": X})
    assert len(caught.value.problems) == 2
    assert "did you mean 'x'" in str(caught.value)
    with pytest.raises(UsageError, match=r"has shape \[4, 3\]; expected \[3, 4\]"):
        run(chain(), {"x": X.T})


def test_a_result_of_another_shape_is_an_error() -> None:
    g = graph(Node("neg", "Neg", ["x"], ["y"]), shapes={"x": (3, 4), "y": (4, 3)})
    with pytest.raises(ModelError, match=r"neg: Neg gives 'y' the shape \[3, 4\]; expected \[4, 3\]"):
        run(g, {"x": X})


@pytest.mark.parametrize(
    ("op", "real", "whole"),
    [("ReduceSum", 0, 0), ("ReduceMean", np.nan, 0), ("GlobalAveragePool", np.nan, 0),
     ("ReduceMax", -np.inf, -(2**31)), ("GlobalMaxPool", -np.inf, -(2**31))],
)  # fmt: skip
def test_reductions_of_no_elements(op: str, real: float, whole: int) -> None:
    """Neither warning nor error: the mean of nothing is no number, the largest of nothing loses against every other."""
    node = Node("n", op, ["x"], ["y"], {"axes": [2, 3], "keepdims": 1})
    for dtype, expected in ((np.float32, real), (np.int32, whole)):
        (y,) = get(op).kernel(node, [np.zeros((1, 2, 3, 0), dtype)])
        np.testing.assert_array_equal(y, np.full((1, 2, 1, 1), expected, dtype))


@pytest.mark.parametrize("size", [6, 7, 100, 2**60])
def test_a_window_over_more_channels_than_there_are(size: int) -> None:
    """All channels, divided by the size that was stated; the additions are those of the channels."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)
    attrs = {"size": size, "alpha": float(size), "beta": 1.0, "bias": 0.0}
    node = Node("n", "LRN", ["x"], ["y"], attrs)
    (y,) = get("LRN").kernel(node, [x])
    ahead = 4 if size > 6 else 3  # a window of 6 has 2 channels before its own, and 3 behind
    sums = [(x[:, max(0, c - 2 if ahead == 3 else 0) : c + ahead + 1] ** 2).sum(axis=1) for c in range(4)]
    np.testing.assert_allclose(y, x / np.stack(sums, axis=1), rtol=1e-6)
    t = Tensor("x", x.shape, "fp32")
    work = get("LRN").work(node, [t], [t])
    assert work.ops == x.size * (5 + (5 if size == 6 else 6))


def test_a_grid_needs_samples() -> None:
    node = Node("n", "GridSample", ["x", "g"], ["y"], {"mode": "linear", "padding_mode": "zeros", "align_corners": 0})
    with pytest.raises(ModelError, match="no samples in"):
        get("GridSample").infer(node, [Tensor("x", (1, 2, 6, 0), "fp32"), Tensor("g", (1, 4, 4, 2), "fp32")])


def test_groups_of_no_images() -> None:
    x, per_channel = np.zeros((0, 4, 3), np.float32), np.ones(4, np.float32)
    node = Node("n", "GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 2, "epsilon": 1e-5})
    (y,) = get("GroupNormalization").kernel(node, [x, per_channel, per_channel])
    assert y.shape == x.shape
