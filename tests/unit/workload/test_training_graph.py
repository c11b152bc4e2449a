"""Training graphs: an ordinary graph with states, update rules by hand, skipped steps, masks, fake quantisation."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accelsim.errors import ModelError, UsageError
from accelsim.formats.sparsity import mask
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph
from accelsim.workload.ops.values import contain
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import (
    PRECISIONS,
    SGD,
    Adam,
    QuantConfig,
    Session,
    TrainingGraph,
    fake_quantised,
    optimiser_of,
    sparse_masks,
    training_graph,
    with_weights,
)
from accelsim.workload.training.fake import RANGES
from accelsim.workload.training.forward import logits_of
from accelsim.workload.training.session import SMALL, rounded
from accelsim.workload.zoo.build import Builder

BATCH, CLASSES = 4, 3
RULES = {"sgd": SGD(0.1), "momentum": SGD(0.1, momentum=0.9), "adam": Adam(0.01)}


def small(batch: int = BATCH) -> Graph:
    b = Builder("small")
    x = b.dense(b.input("x", (batch, 8)), 8, "fc1", relu=True)
    graph = b.finish(b.dense(x, CLASSES, "fc2"))
    rng = np.random.default_rng(7)
    for tensor in graph.constants():
        tensor.data = rng.standard_normal(tensor.shape, dtype=np.float32) / 2
    return graph


def feeds(step: TrainingGraph, seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    given: dict[str, Array] = {name: step.start[name] for name in step.graph.states}
    given["x"] = rng.standard_normal((BATCH, 8), dtype=np.float32)
    given["labels"] = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, BATCH)]
    given["lr"] = np.asarray(0.1, np.float32)
    return given | ({"loss_scale": np.asarray(scale, np.float32)} if step.scaled else {})


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rule", RULES)
def test_it_is_an_ordinary_graph(precision: str, rule: str) -> None:
    step = training_graph(small(), optimiser=RULES[rule], precision=precision)
    graph, policy = step.graph, PRECISIONS[precision]
    assert set(graph.states) <= set(graph.inputs) and set(graph.states.values()) <= set(graph.outputs)
    assert set(graph.inputs) - set(graph.states) == {"x", "labels", "lr", *(["loss_scale"] if policy.scaled else [])}
    assert set(step.start) == set(graph.states)
    for state, new in graph.states.items():
        old, after = graph.tensors[state], graph.tensors[new]
        assert (old.shape, old.dtype) == (after.shape, after.dtype)
        assert old.dtype == ("fp32" if state.startswith("adam.") else policy.master)
    products = [node for node in graph.nodes if node.op == "Gemm"]
    assert len(products) == 5
    assert {graph.tensors[node.outputs[0]].dtype for node in products} == {policy.compute}
    assert graph.tensors["loss"].dtype == "fp32" and graph.tensors["loss"].shape == ()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_session_is_execution_node_by_node(precision: str) -> None:
    step = training_graph(small(), optimiser=Adam(0.01), precision=precision)
    session, given = Session(step.graph), feeds(step, scale=64)
    for seed in range(3):
        fresh = feeds(step, seed, 64)
        given |= {name: fresh[name] for name in ("x", "labels")}
        want = execute.run(step.graph, given)
        got = session.run(fresh if not seed else {name: fresh[name] for name in ("x", "labels")})
        assert all(np.array_equal(got[name], want[name]) for name in step.graph.outputs)
        given |= {state: want[new] for state, new in step.graph.states.items()}


def test_session_refuses_what_it_cannot_run() -> None:
    graph = small()
    graph.nodes[0].op = "Cosine"
    with pytest.raises(ModelError, match="Cosine"):
        Session(graph)
    graph = small()
    graph.tensors["fc1"].shape = (BATCH, 9)
    with pytest.raises(ModelError, match=r"gives 'fc1' the shape \[4, 8\]"):
        Session(graph).run({"x": np.zeros((BATCH, 8), np.float32)})


@settings(max_examples=50)
@given(arrays(np.float32, st.sampled_from([3, SMALL + 5]), elements=st.floats(width=32)))
def test_rounding_is_that_of_the_codec(x: Array) -> None:
    for dtype in ("fp16", "bf16"):
        want, got = contain(x, dtype), rounded(x, dtype)
        assert np.array_equal(want, got, equal_nan=True)
        assert np.array_equal(np.signbit(want), np.signbit(got)) or np.isnan(x).any()


def test_rounding_of_every_midpoint_of_fp16() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    middle = (every[1:] + every[:-1]) / 2
    edge = np.resize(np.array([65519.99, 65520, -65520, 65535], np.float32), SMALL + 4)
    for x in (edge, every, middle, np.nextafter(middle, np.float32(0)), middle[np.abs(middle) < 2e4]):
        want, got = contain(x, "fp16"), rounded(x, "fp16")
        assert np.array_equal(want, got) and np.array_equal(np.signbit(want), np.signbit(got))


def test_first_step_of_sgd_by_hand() -> None:
    graph = small()
    step = training_graph(graph, optimiser=SGD(0.1, momentum=0.5))
    given = feeds(step)
    out = execute.run(step.graph, given)
    logits = execute.run(graph, {"x": given["x"]})["fc2"].astype(np.float64)
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert out["loss"] == pytest.approx(-np.log((odds * given["labels"]).sum(axis=1)).mean(), rel=1e-6)
    slope = (odds - given["labels"]).sum(axis=0) / BATCH
    new = out[step.graph.states["fc2.bias"]]
    np.testing.assert_allclose(new, graph.tensors["fc2.bias"].value() - 0.1 * slope, atol=1e-6)
    np.testing.assert_allclose(out[step.graph.states["fc2.bias.momentum"]], slope, atol=1e-6)


def test_corrections_of_adam() -> None:
    step = training_graph(small(), optimiser=Adam(0.01, betas=(0.9, 0.999)))
    session, given = Session(step.graph), feeds(step)
    for t in range(1, 200):
        session.run(given)
        given = {}
        for name, beta in (("adam.correction1", 0.9), ("adam.correction2", 0.999)):
            assert session.values[name] == pytest.approx(1 - beta**t, rel=2e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_step_with_gradients_that_are_not_finite_changes_nothing(rule: str, bad: float) -> None:
    step = training_graph(small(), optimiser=RULES[rule], precision="mixed")
    session, given = Session(step.graph), feeds(step, scale=8)
    assert session.run(given)["found_inf"] == 0
    before = {state: session.values[state].copy() for state in step.graph.states}
    x = given["x"].copy()
    x[1, 2] = bad
    assert session.run({"x": x})["found_inf"] == 1
    assert all(np.array_equal(before[state], session.values[state]) for state in before)
    assert session.run({"x": given["x"]})["found_inf"] == 0
    assert all(not np.array_equal(before[state], session.values[state]) for state in step.weights)


def test_a_scale_that_is_too_large_is_found() -> None:
    step = training_graph(small(), precision="mixed")
    assert Session(step.graph).run(feeds(step, scale=2.0**20))["found_inf"] == 1
    assert Session(step.graph).run(feeds(step, scale=2.0**4))["found_inf"] == 0


def test_gradients_close_to_the_largest_number_are_finite() -> None:
    step = training_graph(small(), precision="fp32", scaled=True)
    session = Session(step.graph)
    session.run(feeds(step))
    top = max(float(np.abs(session.values[f"{name}.unscaled"]).max()) for name in step.weights)
    for scale, found in ((2e38 / top, 0), (3.4e38, 1)):
        assert Session(step.graph).run(feeds(step, scale=scale))["found_inf"] == found
    assert top > 1.01


def test_the_scale_cancels_where_nothing_is_rounded() -> None:
    step = training_graph(small(), precision="fp32", scaled=True)
    one, many = (execute.run(step.graph, feeds(step, scale=scale)) for scale in (1.0, 1024.0))
    assert all(np.array_equal(one[name], many[name]) for name in step.graph.outputs)


def test_fp16_loses_small_gradients_and_the_scale_keeps_them() -> None:
    graph = small()
    graph.tensors["fc2.weight"].data = graph.tensors["fc2.weight"].value() * np.float32(1e-7)
    step = training_graph(graph, optimiser=SGD(1.0), precision="mixed")
    exact = training_graph(graph, optimiser=SGD(1.0))
    name = "fc1.bias"
    want = execute.run(exact.graph, feeds(exact))[exact.graph.states[name]] - exact.start[name]
    assert 0 < np.abs(want).max() < 1e-7
    for scale, close in ((1.0, False), (2.0**14, True)):
        moved = execute.run(step.graph, feeds(step, scale=scale))[step.graph.states[name]] - step.start[name]
        assert np.allclose(moved, want, rtol=0.02, atol=2e-9) == close


def test_pure_formats_round_weights_and_states() -> None:
    for precision in ("fp16", "bf16"):
        step = training_graph(small(), optimiser=Adam(0.01), precision=precision)
        session = Session(step.graph)
        session.run(feeds(step))
        for state in (*step.weights, "fc1.weight.moment1", "fc1.weight.moment2"):
            value = session.values[state]
            assert np.array_equal(value, contain(value, precision))


def test_masks_stay() -> None:
    graph = load_model("digits-cnn", batch=4)
    masks = sparse_masks(graph, "2:4")
    assert set(masks) == {"conv2.weight", "fc.weight"}
    kept = masks["conv2.weight"]
    rows = graph.tensors["conv2.weight"].value().reshape(16, -1)
    assert np.array_equal(kept.astype(bool).reshape(16, -1), mask(rows, 2, 4, 1))
    step = training_graph(graph, optimiser=SGD(0.1, momentum=0.9), masks=masks)
    session = Session(step.graph)
    given = {**step.start, "x": np.random.default_rng(0).random((4, 1, 8, 8), np.float32),
             "labels": np.eye(10, dtype=np.float32)[[1, 5, 7, 2]], "lr": np.float32(0.1)}  # fmt: skip
    for _ in range(3):
        session.run(given)
        given = {}
    for name, chosen in masks.items():
        value = session.values[name]
        assert not value[chosen == 0].any() and value[chosen == 1].all()
        assert not np.array_equal(value, step.start[name])


@pytest.mark.parametrize("dtype", RANGES)
def test_weights_have_the_codes_of_their_format(dtype: str) -> None:
    config = QuantConfig(dtype, "int8")
    step = training_graph(small(), fake_quant=config)
    session = Session(step.graph)
    session.run(feeds(step))
    for name in ("fc1.weight", "fc2.weight"):
        fake = session.values[f"{name}.fake"]
        levels = [len(np.unique(row)) for row in fake]
        low, high = RANGES[dtype]
        assert max(levels) <= (2 if dtype == "int1" else high - low + 1)
        if dtype == "int1":
            np.testing.assert_allclose(
                np.abs(fake), np.abs(step.start[name]).mean(axis=1, keepdims=True) * np.ones((1, 8)), rtol=1e-6
            )
        else:
            scale = step.start[f"{name}.fake_scale"]
            np.testing.assert_allclose(
                fake, np.clip(np.rint(step.start[name] / scale[:, None]), low, high) * scale[:, None], rtol=1e-5
            )


def test_scales_are_learnt_and_stay_positive() -> None:
    step = training_graph(small(), optimiser=SGD(50.0), fake_quant=QuantConfig("int4", "int4"))
    session, given = Session(step.graph), feeds(step)
    given["lr"] = np.float32(50)
    session.run(given)
    scales = {item.scale for item in step.wrapped.values()}
    assert len(scales) == 4
    assert all((session.values[name] > 0).all() for name in scales)
    assert all(not np.array_equal(session.values[name], step.start[name]) for name in scales)


def test_first_and_last_layer_may_differ() -> None:
    graph = load_model("digits-mlp", batch=2)
    step = training_graph(graph, fake_quant=QuantConfig.parse("int2xint4", "int8"))
    formats = {name: item.dtype for name, item in step.wrapped.items()}
    assert formats == {"flat": "int8", "fc1.weight": "int8", "fc1.relu": "int4", "fc2.weight": "int2",
                       "fc2.relu": "int8", "fc3.weight": "int8"}  # fmt: skip


def test_scales_follow_the_output_channels_of_every_product() -> None:
    b = Builder("products")
    x = b.op("Flatten", [b.conv(b.input("x", (2, 3, 4, 4)), 5, 3, "conv", pad=1)], "flat", axis=1)
    x = b.project(x, 6, "linear")
    x = b.op("Gemm", [x, b.weight("plain", (6, 7))], "gemm", alpha=1.0, beta=1.0, transA=0, transB=0,
             a_zero_point=0, b_zero_point=0)  # fmt: skip
    step = training_graph(b.finish(b.dense(x, 3, "fc")), fake_quant=QuantConfig("int4", "int4"))
    shapes = {name: step.start[item.scale].shape for name, item in step.wrapped.items()}
    assert shapes == {"x": (), "conv.weight": (5,), "flat": (), "linear.weight": (6,), "linear": (), "plain": (7,),
                      "gemm": (), "fc.weight": (3,)}  # fmt: skip
    factors = {node.inputs[0]: node.attrs["factor"] for node in step.graph.nodes if node.op == "FakeQuantize"}
    assert factors["conv.weight"] == pytest.approx(1 / np.sqrt(3 * 9 * 7))
    assert factors["plain"] == pytest.approx(1 / np.sqrt(6 * 7))
    assert factors["flat"] == pytest.approx(1 / np.sqrt(80 * 7))


def test_start_scales_are_those_of_lsq() -> None:
    step = training_graph(small(), fake_quant=QuantConfig("int4", "int8"), scales={"x": np.float32(0.5)})
    weight = np.abs(step.start["fc1.weight"])
    np.testing.assert_allclose(step.start["fc1.weight.fake_scale"], 2 * weight.mean(axis=1) / np.sqrt(7), rtol=1e-6)
    assert step.start["x.fake_scale"] == 0.5


def test_binary_weights_pass_the_gradient_of_their_sign_and_of_their_mean() -> None:
    """d loss / d w = sum over the channel of (g * sign) * sign(w) / n, and g * mean where |w| <= 1 (XNOR-Net, eq. 11)."""
    graph = small()
    graph.tensors["fc2.weight"].data[0, :2] = [1.5, -1.0]
    step = training_graph(graph, optimiser=SGD(1.0), fake_quant=QuantConfig("int1", "int8"))
    session, given = Session(step.graph), feeds(step) | {"lr": np.float32(1)}
    out = session.run(given)
    w = step.start["fc2.weight"].astype(np.float64)
    fake = session.values["fc1.relu.fake"]
    odds = np.exp(out[step.logits]) / np.exp(out[step.logits]).sum(axis=1, keepdims=True)
    upstream = ((odds - given["labels"]) / BATCH).T @ fake
    sign = np.where(w >= 0, 1, -1)
    want = (upstream * sign).sum(axis=1, keepdims=True) * sign / 8
    want += upstream * np.abs(w).mean(axis=1, keepdims=True) * (np.abs(w) <= 1)
    np.testing.assert_allclose(w - out[step.graph.states["fc2.weight"]], want, atol=1e-6)


def test_fake_quantised_model_gives_the_logits_of_the_step() -> None:
    graph, config = small(), QuantConfig("int4", "int8", "int8")
    step = training_graph(graph, fake_quant=config)
    given = feeds(step)
    model = fake_quantised(graph, config, step.start)
    assert model.inputs == ["x"]
    logits = execute.run(model, {"x": given["x"]})[model.outputs[0]]
    assert np.array_equal(logits, execute.run(step.graph, given)[step.logits])


def test_a_softmax_at_the_end_is_left_out() -> None:
    graph = small()
    plain = training_graph(graph)
    b = Builder("small")
    b.graph = graph
    graph.outputs = [b.op("Softmax", [graph.outputs[0]], "odds", axis=1)]
    ended = training_graph(graph)
    out = [execute.run(step.graph, feeds(step)) for step in (plain, ended)]
    assert out[0]["loss"] == out[1]["loss"]
    assert "odds" not in ended.graph.tensors


def test_with_weights_changes_a_copy() -> None:
    graph = small()
    before = graph.tensors["fc1.bias"].value().copy()
    learnt = with_weights(graph, {"fc1.bias": before + 1})
    assert np.array_equal(graph.tensors["fc1.bias"].value(), before)
    assert np.array_equal(learnt.tensors["fc1.bias"].value(), before + 1)


def test_frozen_statistics_are_not_trained() -> None:
    b = Builder("normal")
    x = b.batch_norm(b.conv(b.input("x", (2, 4, 4, 4)), 4, 3, "conv", bias=0), "bn")
    b.finish(b.dense(b.op("Flatten", [x], "flat", axis=1), 3, "fc"))
    assert training_graph(b.graph).weights == ("conv.weight", "bn.scale", "bn.bias", "fc.weight", "fc.bias")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "mse"}, "no loss 'mse'"),
        ({"precision": "mixed-fp16"}, "did you mean 'mixed-bf16'"),
        ({"masks": {"fc1.weigt": np.ones((8, 8))}}, "did you mean 'fc1.weight'"),
        ({"masks": {"fc1.weight": np.ones((8, 9))}}, r"shape \[8, 9\]"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        training_graph(small(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(-1), lambda: SGD(0.1, nesterov=True), lambda: SGD(0.1, momentum=1.0),
        lambda: Adam(betas=(0.9, 1.0)), lambda: Adam(eps=float("nan")), lambda: optimiser_of("sgdd"),
        lambda: QuantConfig("int5"), lambda: QuantConfig.parse(""), lambda: QuantConfig("int8", "int8", "int3"),
        lambda: sparse_masks(small(), "4:2"), lambda: sparse_masks(small(), "2-4"), lambda: sparse_masks(small(), "1:7"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]


def test_models_that_cannot_be_trained() -> None:
    b = Builder("bare")
    with pytest.raises(ModelError, match="no weight"):
        training_graph(b.finish(b.op("Relu", [b.input("x", (2, 3))], "y")))
    graph = small()
    graph.outputs.append("fc1")
    with pytest.raises(ModelError, match="2 outputs"):
        training_graph(graph)
    with pytest.raises(ModelError, match="classes"):
        training_graph(load_model("gemm?M=4,N=1,K=2"))


def test_of_several_outputs_the_scores_are_trained() -> None:
    """BERT has all states and a pooled one; a graph with two that could be scores is refused above."""
    graph = load_model("bert-base?layers=1,hidden=16,heads=2,ffn=32,vocab=50,context=8,seq=8", batch=2)
    assert [len(graph.tensors[name].shape) for name in graph.outputs] == [2, 3]
    assert logits_of(graph) == graph.outputs[0]


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), rule=st.sampled_from(sorted(RULES)), precision=st.sampled_from(sorted(PRECISIONS)))
def test_a_rate_of_zero_changes_no_weight(seed: int, rule: str, precision: str) -> None:
    step = training_graph(small(), optimiser=RULES[rule], precision=precision)
    given = feeds(step, seed) | {"lr": np.float32(0)}
    out = execute.run(step.graph, given)
    assert all(np.array_equal(out[step.graph.states[name]], step.start[name]) for name in step.weights)


def test_loss_falls_on_one_batch() -> None:
    for rule in RULES.values():
        step = training_graph(small(), optimiser=rule)
        session, given = Session(step.graph), feeds(step) | {"lr": np.float32(rule.lr)}
        losses = [float(session.run(given if not i else {})["loss"]) for i in range(60)]
        assert losses[-1] < losses[0] / 2
        assert all(b < a for a, b in islice(pairwise(losses), 3))
