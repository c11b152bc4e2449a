"""Weights after five steps under a plan are those of one device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.schedules.registry import SCHEDULES
from tests.helpers.cluster_training import MODELS, accumulated, alone, difference, trained

PIPELINES = (
    "pp=2,microbatches=4", "pp=4,microbatches=8,schedule=gpipe", "pp=3,microbatches=4,schedule=zb-h1",
    "pp=2,chunks=2,microbatches=4,schedule=interleaved", "pp=2,microbatches=4,recompute=full",
    "pp=2,microbatches=2,schedule=zb-h1,recompute=full",
)  # fmt: skip
"""Pipelines alone: microbatches are added up in their order, so no bit may change."""
HYBRIDS = (
    "dp=2", "dp=4,microbatches=2", "dp=8", "tp=2", "tp=4,microbatches=2", "dp=2,pp=2,microbatches=2",
    "dp=2,pp=4,schedule=gpipe", "dp=2,pp=2,chunks=2,microbatches=2,schedule=interleaved",
    "dp=2,tp=2,pp=2,microbatches=2", "dp=2,tp=2,pp=2,microbatches=2,schedule=zb-h1,recompute=full", "tp=4,pp=2",
    "dp=2,zero=1", "dp=4,zero=2,microbatches=2", "dp=2,pp=2,zero=3,microbatches=2,recompute=full",
    "dp=2,tp=2,zero=3", "dp=3,pp=2",
)  # fmt: skip
"""Sums over replicas and over parts of tensors have an order of their own."""
LANGUAGE = (
    "dp=2,zero=2", "dp=2,tp=2,pp=2,microbatches=2", "tp=4", "tp=2,sp", "pp=4,microbatches=2,schedule=gpipe",
    "tp=4,pp=2,sp,recompute=selective", "dp=2,tp=2,pp=2,sp,zero=3,microbatches=2,schedule=zb-h1,recompute=full",
    "dp=2,pp=2,chunks=2,microbatches=2,schedule=interleaved",
)  # fmt: skip


def fitting(name: str, text: str) -> Plan:
    """The plan, with no more stages than the network has layers: the CNN has three."""
    plan = parse_plan(text)
    if name == "cnn" and plan.stages > 3:
        plan = replace(plan, pp=3, chunks=1, schedule="1f1b" if plan.chunks > 1 else plan.schedule)
    return plan


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("text", PIPELINES)
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_pipeline_gives_the_bits_of_one_device(name: str, text: str, rule: str) -> None:
    plan = fitting(name, text)
    want, got = accumulated(name, plan.microbatches, rule, "fp64"), trained(name, plan, rule).weights()
    assert all(np.array_equal(want[key], got[key]) for key in want)


@pytest.mark.parametrize("text", ["pp=2,microbatches=4", "pp=2,microbatches=2,schedule=zb-h1,recompute=selective"])
def test_a_language_model_without_tied_weights_too(text: str) -> None:
    plan = parse_plan(text)
    want, got = (accumulated("llama", plan.microbatches, "adam", "fp64"), trained("llama", plan, "adam").weights())
    assert all(np.array_equal(want[key], got[key]) for key in want)


@pytest.mark.parametrize("text", HYBRIDS)
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_networks_under_every_plan(name: str, text: str) -> None:
    plan = fitting(name, text)
    assert difference(trained(name, plan).weights(), alone(name)) < 1e-12


@pytest.mark.parametrize("text", LANGUAGE)
def test_a_small_gpt_under_every_plan(text: str) -> None:
    assert difference(trained("gpt", parse_plan(text)).weights(), alone("gpt")) < 1e-12


@pytest.mark.parametrize("text", ["tp=2,sp,pp=2,microbatches=2", "dp=2,tp=2,pp=2,zero=1"])
def test_a_small_llama_with_adam(text: str) -> None:
    assert difference(trained("llama", parse_plan(text), "adam").weights(), alone("llama", "adam")) < 1e-12


@pytest.mark.parametrize(
    ("name", "rule", "text"),
    [
        ("mlp", "adam", "dp=2,tp=2,pp=2,microbatches=2"), ("mlp", "sgd", "dp=4,zero=3"),
        ("cnn", "adam", "dp=2,pp=2,microbatches=4"), ("cnn", "sgd", "tp=4"),
        ("gpt", "sgd", "dp=2,tp=2,pp=2,sp,microbatches=2"), ("llama", "sgd", "tp=2,pp=2,zero=1,dp=2"),
    ],
)  # fmt: skip
def test_single_precision(name: str, rule: str, text: str) -> None:
    run = trained(name, parse_plan(text), rule, "fp32")
    assert difference(run.weights(), alone(name, rule, "fp32")) < 1e-5


def test_what_adam_makes_of_a_gradient_that_is_zero() -> None:
    """A softmax does not see the bias of the keys: its gradient is rounding alone, which Adam divides by its own size.
    So that bias, of which nothing depends, is the one that differs in single precision."""
    got, want = trained("gpt", Plan(dp=4), "adam", "fp32").weights(), alone("gpt", "adam", "fp32")
    off = {name: float(np.abs(got[name] - want[name]).max()) for name in want}
    keys = {name for name in want if name.endswith(".k.bias")}
    assert max(off[name] for name in off.keys() - keys) < 1e-5 and max(off.values()) < 1e-3


def test_the_formats_of_mixed_training() -> None:
    """Microbatches of one device and of a pipeline have the same bits in bf16 too."""
    plan = Plan(pp=2, microbatches=2)
    got, want = (trained("mlp", plan, "sgd", "mixed-bf16").weights(), accumulated("mlp", 2, "sgd", "mixed-bf16"))
    assert all(np.array_equal(want[key], got[key]) for key in want)
    assert 1e-4 < difference(got, accumulated("mlp", 2, "sgd", "fp32")) < 0.1


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_two_replicas_add_in_the_order_of_one_device(rule: str) -> None:
    want, got = accumulated("mlp", 2, rule, "fp64"), trained("mlp", Plan(dp=2), rule).weights()
    assert all(np.array_equal(want[key], got[key]) for key in want)


@pytest.mark.parametrize("text", ["dp=4,tp=2", "dp=4,zero=3", "dp=2,pp=2,tp=2,microbatches=2"])
def test_replicas_have_identical_bits(text: str) -> None:
    run = trained("mlp", parse_plan(text), precision="fp32")
    for replicas in run.newest():
        for own in replicas[1:]:
            for first, other in zip(replicas[0], own, strict=True):
                assert all(np.array_equal(first[key], other[key]) for key in first)


def test_every_synchronous_schedule_is_tried() -> None:
    tried = {parse_plan(text).schedule for text in (*PIPELINES, *HYBRIDS)}
    assert tried == {name for name, row in SCHEDULES.items() if row.synchronous}


def test_losses_are_those_of_the_whole_batch() -> None:
    texts = ("dp=1", "dp=2,pp=2,microbatches=2", "tp=2")
    found = [trained("mlp", parse_plan(text)).history for text in texts]
    assert len(found[0]) == 5
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)


def test_models_are_small() -> None:
    assert set(MODELS) == {"mlp", "cnn", "gpt", "llama", "moe"}
