"""Training end to end: accuracies, loss scaling, quantisation, sparsity, files, chips, and what is refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import ModelError, UsageError
from accelsim.explore.training import TrainingResult, accuracy, evaluate, save_model, simulate_step, train
from accelsim.formats.integer import code_range
from accelsim.machine.check import check
from accelsim.spec.yaml.load import load_chip
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import Dataset, load_dataset, one_hot
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam, QuantConfig, training_graph
from accelsim.workload.zoo.build import Builder

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


@pytest.fixture(scope="module")
def mlp(digits: Dataset) -> TrainingResult:
    return train("digits-mlp", digits, steps=300, lr=0.05)


@pytest.fixture(scope="module")
def cnn(digits: Dataset) -> TrainingResult:
    return train("digits-cnn", digits, steps=300, lr=0.05)


def tiny(seed: int = 0) -> Dataset:
    """Two classes that a line separates."""
    x = np.random.default_rng(seed).standard_normal((64, 4)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    return Dataset("tiny", x[:48], y[:48], x[48:], y[48:], 2, {})


def line(batch: int = 16) -> Graph:
    b = Builder("line")
    graph = b.finish(b.dense(b.dense(b.input("x", (batch, 4)), 8, "fc1", relu=True), 2, "fc2"))
    for tensor in graph.constants():
        tensor.data = np.random.default_rng(3).standard_normal(tensor.shape, dtype=np.float32)
    return graph


def test_accuracy_in_fp32(mlp: TrainingResult, cnn: TrainingResult) -> None:
    assert mlp.test_accuracy >= 0.97 and mlp.train_accuracy >= 0.99
    assert cnn.test_accuracy >= 0.985 and cnn.train_accuracy >= 0.99
    assert mlp.losses[0] == pytest.approx(np.log(10), rel=0.2) and mlp.losses[-1] < 0.05
    assert mlp.steps == 300 and not mlp.skipped.any() and (mlp.scales == 1).all()


@pytest.mark.parametrize("precision", ["mixed", "mixed-bf16", "bf16", "fp16"])
def test_other_precisions_learn_as_much(precision: str, digits: Dataset, mlp: TrainingResult) -> None:
    result = train("digits-mlp", digits, steps=200, lr=0.05, precision=precision)
    assert result.test_accuracy >= 0.97
    assert np.abs(result.losses[:20] - mlp.losses[:20]).max() < 0.05
    assert not np.array_equal(result.losses, mlp.losses[:200])
    assert (result.scales == (65536 if "fp16" in (precision, result.training.precision.compute) else 1)).all()


def vanishing(batch: int = 512) -> Graph:
    graph = load_model("digits-sigmoid?layers=8", batch=batch, weights="random:0")
    for tensor in graph.constants():
        if tensor.name.endswith(".weight"):
            tensor.data = np.float32(0.6) * tensor.value()
    return graph


def test_fp16_without_loss_scaling_learns_nothing(digits: Dataset) -> None:
    losses = {}
    for scale in ("none", "dynamic", 4096.0):
        result = train(
            vanishing(), digits, steps=80, optimiser=Adam(5e-3, eps=1e-12), precision="mixed", loss_scale=scale
        )
        losses[scale] = result.losses[-20:].mean()
    assert abs(losses["none"] - np.log(10)) < 0.02
    assert losses["dynamic"] < 2.0 and losses[4096.0] < 2.0


def test_dynamic_scaling_is_that_of_gradscaler() -> None:
    """A scale of 2^16 is too large here: it is halved, the step skipped, until the gradients fit."""
    result = train(line(), _loud(), steps=12, lr=1e-9, precision="mixed")
    skipped = int(result.skipped.sum())
    assert 1 <= skipped < 12
    assert result.skipped[:skipped].all() and not result.skipped[skipped:].any()
    assert result.scales.tolist() == [65536.0 * 0.5 ** min(i, skipped) for i in range(12)]


def _loud() -> Dataset:
    data = tiny()
    return Dataset("loud", data.x_train * 256, data.y_train, data.x_test * 256, data.y_test, 2, {})


def test_static_scale_stays_and_skips() -> None:
    result = train(line(), _loud(), steps=5, lr=1e-9, precision="mixed", loss_scale=65536)
    assert result.skipped.all() and (result.scales == 65536).all()
    start = {name: line().tensors[name].value() for name in result.weights}
    assert all(np.array_equal(result.weights[name], start[name]) for name in start)


@pytest.mark.parametrize(("text", "points"), [("int8", 0.005), ("int4", 0.02)])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_quantisation_aware_training_costs_little(
    text: str, points: float, model: str, request: pytest.FixtureRequest, digits: Dataset
) -> None:
    base = request.getfixturevalue(model)
    result = train(base.graph, digits, steps=60, lr=0.01, fake_quant=QuantConfig.parse(text, edges="int8"))
    assert result.test_accuracy >= base.test_accuracy - points


def test_quantisation_and_mixed_precision_together(digits: Dataset) -> None:
    config = QuantConfig.parse("int8")
    result = train("digits-mlp", digits, steps=100, lr=0.05, precision="mixed", fake_quant=config)
    assert result.test_accuracy > 0.95 and not result.skipped.any()


def test_two_bits_and_binary_weights_learn(digits: Dataset, mlp: TrainingResult) -> None:
    for text in ("int2", "int1xint8"):
        result = train(mlp.graph, digits, steps=100, lr=0.01, fake_quant=QuantConfig.parse(text, "int8"))
        assert result.test_accuracy > 0.9


def test_binary_activations_need_a_sign(digits: Dataset) -> None:
    relu, tanh = (
        train(name, digits, steps=150, lr=0.05, fake_quant=QuantConfig.parse("int1", "int8"))
        for name in ("digits-mlp", "digits-tanh")
    )
    assert relu.test_accuracy < 0.3 and tanh.test_accuracy > 0.9


def test_quantised_scales_say_everything(digits: Dataset) -> None:
    result = train("digits-cnn", digits, steps=5, lr=0.05, fake_quant=QuantConfig("int1", "int4", "int8"))
    scales, found = {**result.activation_scales, **result.weight_scales}, result.training.wrapped
    products = [node for node in result.graph.nodes if node.op in ("Conv", "Gemm")]
    assert set(scales) == set(found) == {name for node in products for name in node.inputs[:2]}
    assert {name: item.dtype for name, item in found.items()} == {
        "x": "int8", "conv1.weight": "int8", "relu1": "int4", "conv2.weight": "int1", "flat": "int8",
        "fc.weight": "int8",
    }  # fmt: skip
    for name, scale in scales.items():
        weight = name.endswith("weight")
        assert found[name].axis == (0 if weight else None)
        assert scale.shape == ((result.weights[name].shape[0],) if weight else ())
        assert scale.dtype == np.float32 and (scale > 0).all()
    mean = np.abs(result.weights["conv2.weight"]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(scales["conv2.weight"], mean, rtol=1e-6)


def test_codes_by_the_learnt_scales_give_the_fake_quantised_product(digits: Dataset) -> None:
    result = train("digits-mlp", digits, steps=20, lr=0.05, fake_quant=QuantConfig("int4", "int8"))
    assert result.fake_graph is not None
    kept = execute.run(result.fake_graph, {"x": digits.x_test[:64]}, keep=True)
    scales, found = {**result.activation_scales, **result.weight_scales}, result.training.wrapped
    a, b = (
        np.clip(np.rint(value / np.reshape(scales[name], shape)), *code_range(found[name].dtype))
        for name, value, shape in (("flat", kept["flat"], ()), ("fc1.weight", result.weights["fc1.weight"], (-1, 1)))
    )
    real = (a @ b.T) * scales["flat"] * scales["fc1.weight"] + result.weights["fc1.bias"]
    np.testing.assert_allclose(real, kept["fc1"], atol=1e-4)


def test_fine_tuning_with_2_of_4(digits: Dataset, mlp: TrainingResult) -> None:
    result = train(mlp.graph, digits, steps=100, lr=0.02, sparsity="2:4")
    assert result.test_accuracy >= mlp.test_accuracy - 0.02
    for name in ("fc1.weight", "fc2.weight", "fc3.weight"):
        assert (np.count_nonzero(result.weights[name].reshape(-1, 4), axis=1) <= 2).all()


def test_same_seed_same_bytes_another_seed_another_model() -> None:
    a, b = (train(line(), tiny(), steps=20, seed=1) for _ in range(2))
    assert a.losses.tobytes() == b.losses.tobytes()
    assert all(a.weights[name].tobytes() == b.weights[name].tobytes() for name in a.weights)
    assert train(line(), tiny(), steps=20, seed=2).losses.tobytes() != a.losses.tobytes()


def test_learnt_model_as_a_file(tmp_path: Path, mlp: TrainingResult, digits: Dataset) -> None:
    path = save_model(mlp, tmp_path / "model.onnx")
    again = load_model(path)
    assert evaluate(again, digits) == mlp.test_accuracy
    assert evaluate(load_model(path, batch=7), digits) == mlp.test_accuracy
    more = train(path, digits, steps=3, lr=0.0)
    assert all(np.array_equal(more.weights[name], mlp.weights[name]) for name in mlp.weights)
    with pytest.raises(UsageError, match="its directory does not exist"):
        save_model(mlp, tmp_path / "none" / "model.onnx")


def test_evaluate_counts_a_last_batch_that_is_not_full() -> None:
    data, graph = tiny(), line()
    scores = execute.run(line(48), {"x": data.x_train})["fc2"]
    assert accuracy(graph, data.x_train, data.y_train) == np.mean(scores.argmax(axis=1) == data.y_train)
    assert accuracy(graph, data.x_train[:5], data.y_train[:5]) == np.mean(scores[:5].argmax(axis=1) == data.y_train[:5])
    assert np.isnan(accuracy(graph, data.x_train[:0], data.y_train[:0]))


@pytest.mark.parametrize(("precision", "chip"), [("fp32", "edu-4x4"), ("mixed-bf16", "neuroncore-v2")])
def test_one_step_on_a_chip(precision: str, chip: str) -> None:
    result = train(line(), tiny(), steps=10, on=chip, precision=precision)
    assert result.step is not None and result.step_s and result.step_J
    check(result.step)
    assert result.time_s == pytest.approx(10 * result.step_s)
    assert result.energy_J == pytest.approx(10 * result.step_J, rel=1e-9, abs=0)
    assert result.images_per_s == pytest.approx(16 / result.step_s)
    macs = sum(step.macs for step in result.step.program.steps)
    assert macs == 16 * (4 * 8 * 2 + 8 * 2 * 3)  # forward twice, and no gradient of the input


@pytest.mark.parametrize(("rule", "bound"), [(SGD(0.1, momentum=0.9), 1e-6), (Adam(0.01), 1e-5)])
def test_the_machine_computes_the_same_step(rule: SGD | Adam, bound: float) -> None:
    data, step = tiny(), training_graph(line(), optimiser=rule)
    feeds = {**step.start, "x": data.x_train[:16], "labels": one_hot(data.y_train[:16], 2), "lr": np.float32(0.1)}
    run, chip = execute.run(step.graph, feeds), load_chip("edu-4x4")
    computed, blind = simulate_step(step, chip, feeds=feeds), simulate_step(step, chip)
    assert computed.time_fs == blind.time_fs
    for name in step.graph.outputs:
        np.testing.assert_allclose(computed.outputs[name], run[name], rtol=0, atol=bound)


def test_without_a_chip_there_is_no_time() -> None:
    result = train(line(), tiny(), steps=2)
    assert (result.step, result.step_s, result.step_J, result.time_s, result.energy_J) == (None,) * 5
    assert result.images_per_s is None


def test_all_problems_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        train("digits-mlpp", "digit", steps=0, optimiser="adem", precision="mixt", on="edu-4x")
    text = str(caught.value)
    assert len(caught.value.problems) == 6
    for near in ("digits-mlp", "digits", "adam", "mixed", "edu-4x4"):
        assert f"did you mean {near!r}?" in text
    assert "0 steps" in text


def test_data_that_does_not_fit() -> None:
    data = tiny()
    with pytest.raises(UsageError, match=r"samples of shape \[4\]; expected \[1, 8, 8\], as input 'x' of digits-mlp"):
        train("digits-mlp", data, steps=1, batch=4)
    with pytest.raises(UsageError, match="48 samples to train on; expected at least one batch of 64"):
        train(line(64), data, steps=1)
    many = Dataset("many", data.x_train, data.y_train + 3, data.x_test, data.y_test, 5, {})
    with pytest.raises(UsageError, match="5 classes; expected at most 2"):
        train(line(), many, steps=1)
    with pytest.raises(UsageError, match="no labels"):
        train(line(), Dataset("bare", data.x_train, data.y_train[:0], data.x_test, data.y_test, 0, {}), steps=1)
    with pytest.raises(UsageError, match="batch 8"):
        train(line(), data, steps=1, batch=8)
    for scale in ("much", "-1", "0"):
        with pytest.raises(UsageError, match="scal"):
            train(line(), data, steps=1, loss_scale=scale)


def test_models_of_several_inputs_are_refused() -> None:
    with pytest.raises((UsageError, ModelError), match="inputs; expected one"):
        train("lstm?inputs=4,hidden=4,steps=2", tiny(), steps=1)


def test_rows_of_pixels_may_be_images(digits: Dataset) -> None:
    result = train("mlp?inputs=64,hidden=32,classes=10", digits, steps=100, lr=0.05)
    assert result.test_accuracy > 0.9
