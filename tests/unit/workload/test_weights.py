"""Seeded weights: independent of order, of the right spread, and only where something is learnt."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.values import contain
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import DRAWN, VARIANCE, Law, Seeded, drawn, parse_weights, randomise


@given(st.integers(0, 2**32), st.text(min_size=1, max_size=20), st.sampled_from(["fp32", "fp16", "bf16", "fp64"]))
def test_values_depend_on_seed_and_name_only(seed: int, name: str, dtype: str) -> None:
    source = Seeded(seed, name, (3, 4), Law(0.0, 1.0), dtype)
    values = source()
    assert values.shape == (3, 4)
    assert np.array_equal(values, pickle.loads(pickle.dumps(source))())
    assert not np.array_equal(values, Seeded(seed + 1, name, (3, 4), Law(0.0, 1.0), dtype)())
    assert not np.array_equal(values, Seeded(seed, name + "'", (3, 4), Law(0.0, 1.0), dtype)())


@pytest.mark.parametrize("dtype", sorted(DRAWN))
def test_values_of_every_format_can_be_drawn(dtype: str) -> None:
    values = drawn(1, "w", (40, 5), dtype)()
    assert values.shape == (40, 5)
    np.testing.assert_array_equal(values, contain(values, dtype))
    assert len(np.unique(values)) > 1 or dtype == "int32"
    assert drawn(1, "scale", (), dtype)().shape == ()


def test_values_fit_their_format() -> None:
    values = Seeded(0, "w", (1000,), Law(0.0, 1.0), "fp16")()
    assert values.dtype == np.float32
    assert np.array_equal(values, values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(("name", "fan_in"), [("gpu_0/conv1_w_0", 3 * 7 * 7), ("gpu_0/pred_w_0", 2048)])
def test_matrix_weights_are_he_normal(name: str, fan_in: int) -> None:
    values = load_model("resnet50").tensors[name].value()
    assert abs(values.mean()) < 0.01
    assert values.std() == pytest.approx(np.sqrt(2 / fan_in), rel=0.03)


def test_normalisation_is_near_the_identity() -> None:
    graph = load_model("densenet121")
    for node in graph.nodes:
        if node.op == "BatchNormalization":
            scale, bias, mean, variance = (graph.tensors[name].value() for name in node.inputs[1:])
            assert abs(scale.mean() - 1) < 0.05 and abs(bias).max() < 0.4 and abs(mean).max() < 0.4
            assert variance.min() > 0
    assert (Seeded(0, "v", (100_000,), VARIANCE)() > 0).all()


def test_activations_stay_in_range_through_121_layers() -> None:
    from accelsim.workload.execute import run
    from tests.helpers.onnx_models import feeds_of

    graph = load_model("densenet121")
    values = run(graph, feeds_of(graph), keep=True)
    sizes = [float(np.abs(values[node.outputs[0]]).max()) for node in graph.nodes]
    assert min(sizes) > 0.1 and max(sizes) < 100


def test_what_is_not_learnt_keeps_its_values() -> None:
    scalar = Tensor("half", (), data=np.array(0.5, np.float32))
    table = Tensor("mask", (2, 3), data=np.ones((2, 3), np.float32))
    vector = Tensor("shift", (3,), data=np.zeros(3, np.float32))
    count = Tensor("count", (3,), "int64", data=np.arange(3))
    inputs = {"x": Tensor("x", (2, 3)), "i": Tensor("i", (3,), "int64"), "half": scalar, "mask": table,
              "shift": vector, "count": count}  # fmt: skip
    outs = {name: Tensor(name, (2, 3)) for name in ("a", "b", "c")} | {"d": Tensor("d", (3,), "int64")}
    nodes = [Node("1", "Mul", ["x", "half"], ["a"]), Node("2", "Add", ["a", "mask"], ["b"]),
             Node("3", "Add", ["b", "shift"], ["c"]), Node("4", "Add", ["i", "count"], ["d"])]  # fmt: skip
    graph = randomise(Graph("g", nodes, inputs | outs, ["x", "i"], ["c", "d"]), 3)
    assert scalar.value() == 0.5 and table.value().all() and (count.value() == np.arange(3)).all()
    assert vector.value().any(), "an added vector is a bias"
    assert graph.values_from == "random:3"


@pytest.mark.parametrize("text", ["random", "random:", "random:-1", "random:x", "stored", ""])
def test_bad_weights_option(text: str) -> None:
    with pytest.raises(UsageError, match="random:SEED"):
        parse_weights(text)


def test_good_weights_option() -> None:
    assert parse_weights("model") is None
    assert parse_weights("random:17") == 17
