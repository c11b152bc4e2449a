"""Weights after five steps under a plan are those of one device."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from tests.helpers.cluster_training import accumulated, alone, difference, trained

PIPELINES = (
    "pp=2,microbatches=4", "pp=4,microbatches=8,schedule=gpipe", "pp=3,microbatches=4",
    "pp=3,microbatches=4,schedule=zb-h1", "pp=2,chunks=2,microbatches=4,schedule=interleaved",
    "pp=2,microbatches=4,recompute=full", "pp=2,microbatches=2,schedule=zb-h1,recompute=full",
)  # fmt: skip
HYBRIDS = (
    "dp=2", "dp=4,microbatches=2", "dp=8", "dp=2,pp=2,microbatches=2", "dp=2,pp=4,microbatches=2,schedule=gpipe",
    "dp=2,pp=2,chunks=2,microbatches=2,schedule=interleaved",
    "dp=2,zero=1", "dp=4,zero=2,microbatches=2", "dp=2,pp=2,zero=3,microbatches=2,recompute=full",
)  # fmt: skip


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("text", PIPELINES)
def test_a_pipeline_gives_the_bits_of_one_device(text: str, rule: str) -> None:
    plan = parse_plan(text)
    want, got = accumulated("mlp", plan.microbatches, rule, "fp64"), trained("mlp", plan, rule).weights()
    assert all(np.array_equal(want[name], got[name]) for name in want)


@pytest.mark.parametrize("text", HYBRIDS)
def test_replicas_give_the_weights_of_one_device(text: str) -> None:
    run = trained("mlp", parse_plan(text))
    assert difference(run.weights(), alone("mlp")) < 1e-12


def test_two_replicas_add_in_the_order_of_one_device() -> None:
    want, got = accumulated("mlp", 2, "adam", "fp64"), trained("mlp", Plan(dp=2), "adam").weights()
    assert all(np.array_equal(want[name], got[name]) for name in want)
