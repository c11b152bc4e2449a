"""PipeDream's weights follow their rules, written down a second time here as plain recursions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from accelsim.cluster.plan.objective import Objective, objective
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.values.lockstep import Lockstep
from accelsim.cluster.values.parallel import Parallel, VersionError
from accelsim.types import Array
from accelsim.workload.training import SGD
from tests.helpers.cluster_training import BATCH, RULES, accumulated, batches, difference, model, trained

RATE = 0.05
STEPS = 7
Weights = dict[str, Array]


def pipelined(stages: int, schedule: str, microbatches: int = 1) -> tuple[Parallel, Objective]:
    plan = Plan(pp=stages, schedule=schedule, microbatches=microbatches)
    made = objective(model("mlp", BATCH // microbatches), microbatches, stages, "fp64")
    run = Parallel(made, plan, SGD(RATE), RATE)
    run.run(batches("mlp", STEPS))
    return run, made


def gradients(made: Objective, weights: Weights, index: int) -> Weights:
    """Of minibatch ``index`` at ``weights``: the whole graph, no pipeline."""
    x, labels = batches("mlp", STEPS)[index]
    out = Lockstep(made.graph).run([{**weights, made.model.inputs[0]: x, "labels": labels}])[0]
    return {name: out[grad] for name, grad in made.grads.items()}


def recursion(made: Objective, version: Callable[[int, int], int]) -> Weights:
    """W(t+1) = W(t) - lr grad(...), where minibatch t sees stage s in ``version(s, t)``."""
    stage = {name: made.stage[node.name] for node in made.graph.nodes if node.name in made.stage
             for name in node.inputs if name in made.weights}  # fmt: skip
    history = [{name: tensor.value().astype(np.float64) for name, tensor in made.start.items()}]
    rate = np.float64(np.float32(RATE))
    for t in range(STEPS):
        seen = {name: history[max(0, version(stage[name], t))][name] for name in stage}
        grad = gradients(made, seen, t)
        history.append({name: history[-1][name] - grad[name] * rate for name in stage})
    return history[-1]


def relative(a: Weights, b: Weights) -> float:
    return max(float(np.max(np.abs(a[name] - b[name]) / np.maximum(np.abs(b[name]), 1e-3))) for name in b)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_weight_stashing_sees_a_newer_version_on_each_stage(stages: int) -> None:
    """W_s(t+1) = W_s(t) - lr dL/dW_s at (W_0(t-p+1), ..., W_{p-1}(t))."""
    run, made = pipelined(stages, "pipedream")
    want = recursion(made, lambda s, t: t - (stages - 1 - s))
    assert relative(run.weights(), want) <= 2.3e-16
    plain = recursion(made, lambda s, t: t)
    assert difference(run.weights(), plain) > 1e-4


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_vertical_sync_sees_one_version_on_all_stages(stages: int) -> None:
    run, made = pipelined(stages, "pipedream-vertical")
    assert relative(run.weights(), recursion(made, lambda s, t: t - (stages - 1))) <= 2.3e-16


@pytest.mark.parametrize("stages", [2, 3])
def test_two_buffers_are_one_update_late(stages: int) -> None:
    """PipeDream-2BW: W(t+1) = W(t) - lr grad(W(t-1)), gradients of m microbatches added up."""
    run, made = pipelined(stages, "pipedream-2bw", 4)
    whole = objective(model("mlp", BATCH), 1, stages, "fp64")
    assert difference(run.weights(), recursion(whole, lambda s, t: t - 1)) < 1e-12
    assert made.samples == BATCH // 4


def test_without_stashing_a_backward_has_other_weights() -> None:
    with pytest.raises(VersionError) as caught:
        pipelined(3, "pipedream-nostash")
    assert "stage 1: the backward of minibatch 1 uses weights of version 1, its forward used version 0" in str(
        caught.value
    )


def test_one_stage_is_plain_descent_under_every_rule() -> None:
    made = objective(model("mlp", BATCH), 1, 1, "fp64")
    want = recursion(made, lambda s, t: t)
    for schedule in ("pipedream", "pipedream-vertical", "pipedream-nostash"):
        assert relative(pipelined(1, schedule)[0].weights(), want) == 0


def test_replicas_of_a_pipeline_that_does_not_flush_agree() -> None:
    run = trained("mlp", Plan(dp=2, pp=2, schedule="pipedream"))
    for held in run.held:
        a, b = (held.versions[held.newest][d][0] for d in range(2))
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_local_descent_is_the_mean_of_trainings_apart() -> None:
    """Stich, ICLR 2019, algorithm 1, with five steps between two averagings."""
    run = trained("mlp", Plan(dp=2, period=5))
    alone = []
    for half in (slice(0, BATCH // 2), slice(BATCH // 2, BATCH)):
        made = objective(model("mlp", BATCH // 2), 1, 1, "fp64")
        one = Parallel(made, Plan(), RULES["sgd"], RULES["sgd"].lr)
        one.run([(x[half], labels[half]) for x, labels in batches("mlp")])
        alone.append(one.weights())
    mean = {name: (alone[0][name] + alone[1][name]) / 2 for name in alone[0]}
    assert difference(run.weights(), mean) == 0
    assert difference(run.weights(), accumulated("mlp", 2, "sgd", "fp64")) > 1e-4


def test_replicas_differ_between_two_averagings() -> None:
    run = trained("mlp", Plan(dp=2, period=3))  # averaged after 3 of 5 steps
    held = run.held[0]
    a, b = (held.versions[held.newest][d][0]["fc1.weight"] for d in range(2))
    assert not np.array_equal(a, b)
