"""Small trainings under a plan, and the same on one device by the project's own training graph."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accelsim.cluster.plan.objective import double, objective
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.values.parallel import Batch, Parallel
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam, Session, training_graph

BATCH, STEPS = 24, 5
RULES: dict[str, SGD | Adam] = {"sgd": SGD(0.05, momentum=0.9), "adam": Adam(1e-3)}
MODELS = {
    "mlp": "digits-mlp?hidden=16,layers=4",
    "cnn": "digits-cnn?channels=4,classes=12",
    "gpt": "gpt?layers=4,hidden=16,heads=4,kv_heads=4,ffn=32,vocab=24,seq=4,train=1",
    "moe": "moe?layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,experts=4,top_k=2,vocab=24,seq=4,train=1",
    "llama": "llama?layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=24,seq=4,train=1",
}


def model(name: str, batch: int) -> Graph:
    """A model of ``MODELS`` or any other."""
    return load_model(MODELS.get(name, name), batch=batch, weights="random:3")


@lru_cache(maxsize=8)
def batches(name: str, steps: int = STEPS) -> tuple[Batch, ...]:
    """Random samples, and labels of which nothing can be learnt: every step changes all weights."""
    graph, rng = model(name, BATCH), np.random.default_rng(5)
    tensor = graph.tensors[graph.inputs[0]]
    rows, classes = graph.tensors[graph.outputs[0]].shape
    made = []
    for _ in range(steps):
        x = rng.integers(0, 8, tensor.shape) if tensor.dtype == "int64" else rng.standard_normal(tensor.shape)
        made.append((x, np.eye(classes)[rng.integers(0, classes, rows)]))
    return tuple(made)


def trained(name: str, plan: Plan, rule: str = "sgd", precision: str = "fp64") -> Parallel:
    """``STEPS`` steps under ``plan``."""
    local = plan.microbatches * (plan.data if plan.period == 1 else plan.ep)
    made = objective(model(name, BATCH // (plan.data * plan.microbatches)), local, plan.stages, precision)
    run = Parallel(made, plan, RULES[rule], RULES[rule].lr)
    run.run(batches(name))
    return run


@lru_cache(maxsize=16)
def accumulated(name: str, microbatches: int, rule: str, precision: str) -> dict[str, Array]:
    """Weights of one device that adds up so many microbatches."""
    return trained(name, Plan(microbatches=microbatches), rule, precision).weights()


@lru_cache(maxsize=8)
def alone(name: str, rule: str = "sgd", precision: str = "fp64") -> dict[str, Array]:
    """Weights of the training graph on whole batches: nothing of plans is in it."""
    step = training_graph(model(name, BATCH), optimiser=RULES[rule])
    session = Session(double(step.graph) if precision == "fp64" else step.graph)
    feeds = {**step.start, "lr": np.asarray(RULES[rule].lr, np.float32)}
    for x, labels in batches(name):
        given = {**feeds, step.model.inputs[0]: x, "labels": labels}
        session.run(given)
        feeds = {}
    return {weight: session.values[weight] for weight in step.weights}


def difference(a: dict[str, Array], b: dict[str, Array]) -> float:
    """The largest difference of any weight."""
    assert a.keys() == b.keys()
    return max(float(np.abs(a[name] - b[name]).max()) for name in a)
