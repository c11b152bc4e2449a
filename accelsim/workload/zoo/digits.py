"""Small networks for the digits of scikit-learn (8 x 8 pixels, 10 classes) that train in seconds.

They end in logits: the loss of a training step takes the softmax itself.
"""

from __future__ import annotations

from functools import partial

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register

SIDE = 8
"""Pixels per side of a digit."""


def digits_mlp(name: str, activation: str, batch: int, params: Params) -> Graph:
    """Fully connected on x [batch, 1, 8, 8]: ``layers`` - 1 hidden layers with an activation, then the classes."""
    b = Builder(name)
    x = b.op("Flatten", [b.input("x", (batch, 1, SIDE, SIDE))], "flat", axis=1)
    x = b.hidden_layers(x, params["hidden"], params["layers"] - 1, activation)
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
for _name, _text, _activation, _sizes in (
    ("digits-mlp", "fully connected layers for 8 x 8 digits, to train", "Relu", _MLP),
    # results of both signs, for binary networks
    ("digits-tanh", "digits-mlp with tanh instead of ReLU", "Tanh", _MLP),
    # their slope is at most 1/4: gradients shrink from layer to layer
    ("digits-sigmoid", "deep, with sigmoids: its gradients are too small for fp16", "Sigmoid", _DEEP),
):
    register(Entry(_name, "builder", _text, partial(digits_mlp, _name, _activation), _sizes))
register(Entry("digits-cnn", "builder", "small convolutional network for 8 x 8 digits, to train", digits_cnn, _CNN))
