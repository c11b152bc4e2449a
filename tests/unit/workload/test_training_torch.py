"""Loss and weights, step by step, against PyTorch in float32 on one thread."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np
import pytest

from accelsim.types import Array
from accelsim.workload.sources.datasets import batches, load_dataset, one_hot
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam, Session, training_graph
from tests.helpers.torch_oracle import torch_says

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")

STEPS, BATCH = 50, 32
BOUND = 1e-5
SHOWN = 24
"""Elements of each weight that are compared after each step; all of them decide about every later loss."""

SGD_OF, ADAM_OF = "SGD", "Adam"
RULES: dict[str, tuple[SGD | Adam, str, dict[str, Any]]] = {
    "sgd": (SGD(0.05), SGD_OF, {"lr": 0.05}),
    "momentum": (SGD(0.02, momentum=0.9), SGD_OF, {"lr": 0.02, "momentum": 0.9}),
    "nesterov": (
        SGD(0.02, momentum=0.9, weight_decay=1e-3, nesterov=True),
        SGD_OF,
        {"lr": 0.02, "momentum": 0.9, "weight_decay": 1e-3, "nesterov": True},
    ),
    "adam": (Adam(1e-3), ADAM_OF, {"lr": 1e-3}),
    "adam, decay": (
        Adam(1e-3, betas=(0.8, 0.99), eps=1e-6, weight_decay=1e-2),
        ADAM_OF,
        {"lr": 1e-3, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 1e-2},
    ),
}


def mlp(torch: Any, w: dict[str, Any], x: Any) -> Any:
    f = torch.nn.functional
    x = torch.relu(f.linear(x.flatten(1), w["fc1.weight"], w["fc1.bias"]))
    x = torch.relu(f.linear(x, w["fc2.weight"], w["fc2.bias"]))
    return f.linear(x, w["fc3.weight"], w["fc3.bias"])


def cnn(torch: Any, w: dict[str, Any], x: Any) -> Any:
    f = torch.nn.functional
    x = torch.relu(f.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=1))
    x = torch.relu(f.conv2d(x, w["conv2.weight"], w["conv2.bias"], padding=1))
    return f.linear(f.max_pool2d(x, 2).flatten(1), w["fc.weight"], w["fc.bias"])


def seen(weights: dict[str, Array]) -> Array:
    """Elements of every weight, evenly spread, as float32."""
    picked = [value.reshape(-1)[:: max(1, value.size // SHOWN)] for _, value in sorted(weights.items())]
    return np.concatenate(picked).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "net", "rule"),
    [*(("digits-mlp", mlp, rule) for rule in RULES), ("digits-cnn", cnn, "momentum"), ("digits-cnn", cnn, "adam")],
)
def test_every_step_is_that_of_pytorch(model: str, net: Any, rule: str) -> None:
    ours, kind, how = RULES[rule]
    step = training_graph(load_model(model, batch=BATCH, weights="random:3"), optimiser=ours)
    data = load_dataset("digits")
    drawn = list(islice(batches(data.x_train, data.y_train, BATCH, 5), STEPS))
    start = {name: step.start[name] for name in sorted(step.start) if name.endswith(("weight", "bias"))}

    def theirs(torch: Any) -> list[Any]:
        twin = {name: torch.tensor(value.copy(), requires_grad=True) for name, value in start.items()}
        optimiser, losses, weights = getattr(torch.optim, kind)(twin.values(), **how), [], []
        for x, y in drawn:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(torch, twin, torch.from_numpy(x)), torch.from_numpy(y))
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            weights.append(seen({name: value.detach().numpy() for name, value in twin.items()}))
        return [np.array(losses), np.stack(weights)]

    inputs = [*start.values(), *(x for x, _ in drawn)]
    losses, weights = torch_says(f"training {model} {rule}", inputs, theirs)
    session, feeds = Session(step.graph), {**step.start, "lr": np.float32(ours.lr)}
    for (x, y), loss, weight in zip(drawn, losses, weights, strict=True):
        out = session.run({**feeds, "x": x, "labels": one_hot(y, 10)})
        feeds = {}
        assert abs(float(out["loss"]) - loss) <= BOUND
        found = seen({name: session.values[name] for name in start})
        np.testing.assert_allclose(found, weight, rtol=0, atol=BOUND)
