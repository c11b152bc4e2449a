"""Small networks for the digits of scikit-learn (8 x 8 pixels, 10 classes) that train in seconds.

They end in logits: the loss of a training step takes the softmax itself.
"""

from __future__ import annotations

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register

SIDE = 8
"""Pixels per side of a digit."""


def digits_mlp(batch: int, params: Params) -> Graph:
    """Fully connected on x [batch, 1, 8, 8]: ``layers`` - 1 hidden layers with ReLU, then the classes."""
    return _mlp("digits-mlp", "Relu", batch, params)


def digits_tanh(batch: int, params: Params) -> Graph:
    """Build digits-mlp with tanh, whose results have both signs: for binary networks."""
    return _mlp("digits-tanh", "Tanh", batch, params)


def digits_sigmoid(batch: int, params: Params) -> Graph:
    """Build digits-mlp, deep and with sigmoids, whose slope is at most 1/4: gradients shrink from layer to layer."""
    return _mlp("digits-sigmoid", "Sigmoid", batch, params)


def _mlp(name: str, activation: str, batch: int, params: Params) -> Graph:
    b = Builder(name)
    x = b.op("Flatten", [b.input("x", (batch, 1, SIDE, SIDE))], "flat", axis=1)
    for index in range(1, params["layers"]):
        x = b.dense(x, params["hidden"], f"fc{index}")
        x = b.op(activation, [x], f"fc{index}.{activation.lower()}")
    return b.finish(b.dense(x, params["classes"], f"fc{params['layers']}"))


def digits_cnn(batch: int, params: Params) -> Graph:
    """Two 3 x 3 convolutions with ReLU, max pooling and a classifier on x [batch, 1, 8, 8]."""
    b = Builder("digits-cnn")
    x = b.input("x", (batch, 1, SIDE, SIDE))
    for index, filters in enumerate((params["channels"], 2 * params["channels"]), 1):
        x = b.op("Relu", [b.conv(x, filters, 3, f"conv{index}", pad=1)], f"relu{index}")
    x = b.op("Flatten", [b.max_pool(x, 2, "pool")], "flat", axis=1)
    return b.finish(b.dense(x, params["classes"], "fc"))


_MLP = {"hidden": 128, "layers": 3, "classes": 10}

_DEEP, _CNN = {**_MLP, "hidden": 64, "layers": 9}, {"channels": 8, "classes": 10}
for _name, _text, _build, _sizes in (
    ("digits-mlp", "fully connected layers for 8 x 8 digits, to train", digits_mlp, _MLP),
    ("digits-tanh", "digits-mlp with tanh instead of ReLU", digits_tanh, _MLP),
    ("digits-sigmoid", "deep, with sigmoids: its gradients are too small for fp16", digits_sigmoid, _DEEP),
    ("digits-cnn", "small convolutional network for 8 x 8 digits, to train", digits_cnn, _CNN),
):
    register(Entry(_name, "builder", _text, _build, _sizes))
