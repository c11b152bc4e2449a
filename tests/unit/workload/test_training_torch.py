"""Loss and every weight, step by step, against PyTorch in float32 on one thread."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from accelsim.workload.sources.datasets import batches, load_dataset, one_hot
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam, Session, training_graph

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

STEPS, BATCH = 50, 32
BOUND = 1e-5

RULES: dict[str, tuple[SGD | Adam, Any]] = {
    "sgd": (SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05)),
    "momentum": (SGD(0.02, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9)),
    "nesterov": (
        SGD(0.02, momentum=0.9, weight_decay=1e-3, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-3, nesterov=True),
    ),
    "adam": (Adam(1e-3), lambda p: torch.optim.Adam(p, lr=1e-3)),
    "adam, decay": (
        Adam(1e-3, betas=(0.8, 0.99), eps=1e-6, weight_decay=1e-2),
        lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.8, 0.99), eps=1e-6, weight_decay=1e-2),
    ),
}


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(64, 128), torch.nn.Linear(128, 128)
        self.fc3 = torch.nn.Linear(128, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Cnn(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 3, padding=1)
        self.fc = torch.nn.Linear(256, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.fc(torch.nn.functional.max_pool2d(x, 2).flatten(1))


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("model", "net", "rule"),
    [
        *(("digits-mlp", Mlp, rule) for rule in RULES),
        ("digits-cnn", Cnn, "momentum"),
        ("digits-cnn", Cnn, "adam"),
    ],
)
def test_every_step_is_that_of_pytorch(model: str, net: Any, rule: str) -> None:
    ours, theirs = RULES[rule]
    step = training_graph(load_model(model, batch=BATCH, weights="random:3"), optimiser=ours)
    twin = net()
    with torch.no_grad():
        for name, value in twin.named_parameters():
            value.copy_(torch.from_numpy(step.start[name].copy()))
    optimiser, session = theirs(twin.parameters()), Session(step.graph)
    data = load_dataset("digits")
    feeds = {**step.start, "lr": np.float32(ours.lr)}
    for x, y in islice(batches(data.x_train, data.y_train, BATCH, 5), STEPS):
        out = session.run({**feeds, "x": x, "labels": one_hot(y, 10)})
        feeds = {}
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(twin(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimiser.step()
        assert abs(float(out["loss"]) - loss.item()) <= BOUND
        for name, value in twin.named_parameters():
            np.testing.assert_allclose(session.values[name], value.detach().numpy(), rtol=0, atol=BOUND)
