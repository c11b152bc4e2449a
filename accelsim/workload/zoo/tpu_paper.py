"""Networks of the TPU v1 paper (Jouppi et al., ISCA 2017, table 1), as far as it lets one rebuild them.

The paper gives layers, weights, operations per weight byte and batch; what is assumed beyond that is said here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register


def mlp(name: str, batch: int, params: Params) -> Graph:
    """Fully connected layers of equal size with ReLU: MLP0 has 20 million weights, MLP1 5 million."""
    b = Builder(name)
    x = b.input("x", (batch, params["hidden"]))
    return b.finish(b.hidden_layers(x, params["hidden"], params["layers"]))


def cnn0(batch: int, params: Params) -> Graph:
    """CNN0: 16 convolutions with ReLU and 8 million weights on images of 19 x 19.

    The 2,888 operations per weight byte are the batch of 8 times 19 x 19. Assumed: one 5 x 5 on 48 channels, then
    3 x 3, the last two 1 x 1.
    """
    b, size, filters = Builder("cnn0"), params["resolution"], params["filters"]
    x = b.input("x", (batch, params["channels"], size, size))
    b.room(params["layers"])
    kernels = [5, *[3] * (params["layers"] - 3), 1, 1]
    for index, kernel in enumerate(kernels, 1):
        x = b.op("Relu", [b.conv(x, filters, kernel, f"conv{index}", pad=kernel // 2)], f"relu{index}")
    return b.finish(x)


def lstm0(batch: int, params: Params) -> Graph:
    """LSTM0: 24 fully connected layers, 52 million weights; assumed to be six cells of four gates each."""
    b = Builder("lstm0")
    return b.finish(_cells(b, batch, params))


def lstm1(batch: int, params: Params) -> Graph:
    """LSTM1: 37 fully connected layers, 34 million weights; assumed to be nine cells and a projection."""
    b = Builder("lstm1")
    return b.finish(b.dense(_cells(b, batch, params), params["hidden"], "projection"))


def _cells(b: Builder, batch: int, params: Params) -> str:
    """One time step of stacked LSTM cells (Hochreiter and Schmidhuber 1997), each gate a layer of its own."""
    x = b.input("x", (batch, params["hidden"]))
    for cell in range(params["cells"]):
        x = _cell(b, x, f"cell{cell + 1}")
    return x


def _cell(b: Builder, x: str, name: str) -> str:
    rows, hidden = b.shape(x)
    h, c = b.input(f"{name}.h", (rows, hidden)), b.input(f"{name}.c", (rows, hidden))
    joined = b.op("Concat", [x, h], f"{name}.xh", axis=1)
    return b.lstm_state(lambda gate: b.dense(joined, hidden, f"{name}.{gate}"), c, name, ".next")[0]


_TITLES: dict[str, tuple[str, Callable[[int, Params], Graph], dict[str, int], int]] = {
    "mlp0": ("MLP0 of the TPU v1 paper: five 2000 x 2000 layers with ReLU", partial(mlp, "mlp0"),
             {"hidden": 2000, "layers": 5}, 200),
    "mlp1": ("MLP1 of the TPU v1 paper: four layers, assumed equal", partial(mlp, "mlp1"),
             {"hidden": 1118, "layers": 4}, 168),
    "lstm0": ("LSTM0 of the TPU v1 paper, one step: six cells, assumed equal", lstm0,
              {"hidden": 1041, "cells": 6}, 64),
    "lstm1": ("LSTM1 of the TPU v1 paper, one step: nine cells and a projection, assumed equal", lstm1,
              {"hidden": 682, "cells": 9}, 96),
    "cnn0": ("CNN0 of the TPU v1 paper: 16 convolutions of 256 channels at 19 x 19", cnn0,
             {"channels": 48, "filters": 256, "layers": 16, "resolution": 19}, 8),
}  # fmt: skip
LEAST = {"cnn0": {"layers": 3}}
"""Model -> parameters that cannot be 1: its first layer and its last two are given."""

for _name, (_text, _build, _params, _batch) in _TITLES.items():
    register(Entry(_name, "builder", _text, _build, _params, _batch, LEAST.get(_name, {})))
