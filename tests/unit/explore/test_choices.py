"""A check tells a choice that differs by a rounding from a wrong value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accelsim.explore.against_reference import check_run
from accelsim.machine.run import Run
from accelsim.result import run
from accelsim.workload.graph import Array, Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder

CHIP = "neuroncore-v2"
Body = Callable[[Builder, str], str]


def top(b: Builder, scores: str) -> str:
    _, places = b.ops("TopK", [scores], ["best", "places"], "top", k=20, axis=1, largest=1, sorted=1)
    return places


def largest(b: Builder, scores: str) -> str:
    return b.op("ArgMax", [scores], "places", axis=1, keepdims=1, select_last_index=0)


def selection(body: Body) -> tuple[Graph, dict[str, Array]]:
    """Rows of a table by scores of a product that lie close together, and a product of them."""
    rng, b = np.random.default_rng(5), Builder("selection")
    x = b.input("x", (4, 64))
    scores = b.matmul(x, b.constant("w", rng.standard_normal((64, 200))), "scores")
    values = b.op("GatherElements", [b.matmul(x, b.constant("v", rng.standard_normal((64, 200))), "values"),
                                     body(b, scores)], "picked", axis=1)  # fmt: skip
    graph = b.finish(b.op("Tanh", [values], "y"))
    return graph, {"x": rng.standard_normal((4, 64)).astype(np.float32)}


@pytest.mark.parametrize("values", ["exact", "fast"])
@pytest.mark.parametrize("body", [top, largest])
def test_other_choices_by_rounding_are_told_and_not_called_wrong(body: Body, values: str) -> None:
    graph, feeds = selection(body)
    verdict = check_run(run(graph, CHIP, dtype="bf16", values=values, inputs=feeds, keep=True), graph)
    assert verdict.holds
    if body is top:
        (choice,) = verdict.choices
        assert choice.tensor == "places" and 0 < choice.differing < choice.total == 80
        assert "not those of the reference" in choice.text()
        assert verdict.as_dict()["choices"] == [choice._asdict()]


def spoilt(result: Run, name: str, values: Array) -> Run:
    return replace(
        result,
        tensors={**result.tensors, name: values},
        outputs={key: values if key == name else value for key, value in result.outputs.items()},
    )


def test_a_choice_that_its_operands_do_not_lead_to_is_wrong() -> None:
    graph, feeds = selection(top)
    result = run(graph, CHIP, dtype="bf16", inputs=feeds, keep=True)
    places = result.tensors["places"].copy()
    places[:, 0] = (places[:, 0] + 100) % 200
    assert "places" in [row.tensor for row in check_run(spoilt(result, "places", places), graph).wrong]


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_a_token_that_goes_to_another_expert_by_a_rounding_is_not_called_wrong(seed: int) -> None:
    graph = load_model("moe?seq=32", weights=f"random:{seed}")
    result = run(graph, CHIP, dtype="bf16", seed=seed, keep=True)
    verdict = check_run(result, graph)
    assert verdict.holds
    told = {choice.tensor: choice for choice in verdict.choices}
    assert set(told) <= {"l0.experts", "l1.experts"} and (told or seed == 2)
    assert all(choice.op == "TopKGating" and choice.differing < choice.total == 64 for choice in told.values())
    experts = result.tensors["l0.experts"].copy()
    experts[..., 0] = (experts[..., 0] + 1) % 4
    assert "l0.experts" in [row.tensor for row in check_run(spoilt(result, "l0.experts", experts), graph).wrong]
    gates = result.tensors["l0.gates"] * np.float32(1.5)
    assert "l0.gates" in [row.tensor for row in check_run(spoilt(result, "l0.gates", gates), graph).wrong]


def test_wrong_values_behind_a_choice_are_wrong() -> None:
    graph, feeds = selection(top)
    result = run(graph, CHIP, dtype="bf16", inputs=feeds, keep=True)
    verdict = check_run(spoilt(result, "y", -result.outputs["y"]), graph)
    assert [row.tensor for row in verdict.wrong] == ["y"]


@pytest.mark.parametrize("kept", [True, False], ids=["in memory", "within a fused node"])
def test_flags_are_choices_too(kept: bool) -> None:
    """Two products that differ little, compared with each other."""
    rng, b = np.random.default_rng(0), Builder("flags")
    x = b.input("x", (16, 64))
    w = rng.standard_normal((64, 32))
    one = b.matmul(x, b.constant("w", w), "one")
    noisy = b.matmul(x, b.constant("v", w + 1e-3 * rng.standard_normal(w.shape)), "noisy")
    flag = b.op("Greater", [one, noisy], "flag")
    y = b.op("Where", [flag, b.input("side", (16, 32)), one], "y")
    graph = b.finish(*([flag, y] if kept else [y]))
    feeds = {"x": rng.standard_normal((16, 64)).astype(np.float32), "side": np.full((16, 32), 9, np.float32)}
    verdict = check_run(run(graph, CHIP, dtype="bf16", values="fast", inputs=feeds, keep=True), graph)
    assert verdict.holds and [choice.op for choice in verdict.choices] == ["Greater"] * kept


def test_a_choice_may_read_an_input_under_another_shape() -> None:
    """Every input equals itself rounded to bfloat16 where it is stored so, and half of them in a reference."""
    b = Builder("reshaped")
    x = b.op("Reshape", [b.input("x", (8, 8))], "row", shape=[64])
    rounded = b.op("Cast", [b.op("Cast", [x], "bf16", to="bf16")], "rounded", to="fp32")
    flag = b.op("GreaterOrEqual", [rounded, x], "flag")
    b.op("Where", [flag, b.input("side", (64,)), rounded], "y")
    weights = b.constant("w", np.eye(64))
    graph = b.finish("y", b.matmul(b.op("Reshape", ["y"], "matrix", shape=[1, 64]), weights, "product"))
    feeds = {"x": np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32),
             "side": np.full(64, 9, np.float32)}  # fmt: skip
    result = run(graph, CHIP, dtype="bf16", inputs=feeds, keep=True)
    assert check_run(result, graph).holds
    wrong = check_run(spoilt(result, "y", -result.outputs["y"]), graph).wrong
    assert {row.tensor for row in wrong} == {"y", "product"}


@pytest.mark.parametrize("wrong", [False, True])
def test_samples_at_computed_places_are_judged_by_their_own_operands(wrong: bool) -> None:
    """A rounding of a place moves it by parts of a pixel, and neighbours may be very different."""
    rng, b = np.random.default_rng(2), Builder("samples")
    image, places = b.input("image", (1, 2, 96, 96)), b.input("places", (1, 20, 4, 8))
    grid = b.op("Tanh", [b.matmul(places, b.constant("w", rng.standard_normal((8, 2))), "raw")], "grid")
    graph = b.finish(b.op("GridSample", [image, grid], "y", mode="linear", padding_mode="zeros", align_corners=0))
    feeds = {"image": 10 * rng.choice([-1, 1], (1, 2, 96, 96)).astype(np.float32),
             "places": rng.standard_normal((1, 20, 4, 8)).astype(np.float32)}  # fmt: skip
    result = run(graph, CHIP, dtype="bf16", inputs=feeds, keep=True)
    verdict = check_run(spoilt(result, "y", result.outputs["y"][:, ::-1]) if wrong else result, graph)
    assert verdict.holds != wrong
    assert [row.tensor for row in verdict.wrong] == ["y"] * wrong


def test_a_mean_behind_a_transposition_is_that_of_the_reference_to_the_last_bit() -> None:
    """Codes of a normalisation over channels: the order in which NumPy adds a transposed view is another one."""
    rng, b = np.random.default_rng(1), Builder("channels_last")
    x = b.input("x", (1, 3, 16, 16))
    y = b.op("Conv", [x, b.constant("w", rng.standard_normal((96, 3, 4, 4)))], "conv", kernel_shape=[4, 4],
             strides=[4, 4], pads=[0] * 4, dilations=[1, 1], group=1, a_zero_point=0, b_zero_point=0)  # fmt: skip
    for layer in range(4):
        y = b.op("Transpose", [y], f"last{layer}", perm=[0, 2, 3, 1])
        y = b.layer_norm(y, f"norm{layer}")
        y = b.op("Transpose", [b.matmul(y, b.constant(f"v{layer}", rng.standard_normal((96, 96))), f"mixed{layer}")],
                 f"first{layer}", perm=[0, 3, 1, 2])  # fmt: skip
    for tensor in b.graph.constants():
        if tensor.name.endswith(".scale"):
            tensor.data, tensor.source = np.ones(96, np.float32), None
    graph = b.finish(y)
    for values in ("exact", "fast"):
        verdict = check_run(run(graph, "tpu-v1", values=values, keep=True), graph)
        assert verdict.holds and all(row.relative == 0 for row in verdict.rows)


@pytest.mark.parametrize("dtype", ["int8", "fp32"])
def test_a_result_that_nothing_computes_is_compared_too(dtype: str) -> None:
    b = Builder("constant_result")
    y = b.matmul(b.input("x", (2, 3)), b.constant("w", np.ones((3, 4))), "y")
    graph = b.finish(y, b.constant("c", np.arange(3.0)))
    for values in ("exact", "fast"):
        assert check_run(run(graph, "edu-4x4", dtype=dtype, values=values, keep=True), graph).holds


@pytest.mark.parametrize("values", ["exact", "fast"])
def test_constants_are_those_that_memory_holds(values: str) -> None:
    """In a mixed model a constant may be rounded to bfloat16, and a sum of codes and it to another code."""
    rng, b = np.random.default_rng(3), Builder("mixed")
    total = b.op("Add", [b.input("x", (64, 64)), b.constant("c", rng.standard_normal((64, 64)))], "sum")
    product = b.matmul(b.input("z", (4, 8)), b.constant("v", rng.standard_normal((8, 8))), "product")
    graph = b.finish(total, product)
    result = run(graph, CHIP, dtype="int8", layer_dtype={"product": "bf16"}, values=values, keep=True)
    assert result.program.graph.tensors["c"].dtype == "bf16"
    assert check_run(result, graph).holds
