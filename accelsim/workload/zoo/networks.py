"""Networks without attention: gemm, mlp, cnn, mobilenet, lstm."""

from __future__ import annotations

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register


def gemm(batch: int, params: Params) -> Graph:
    """``count`` products of A [M, K] (an input) with a B [K, N] (a weight) of each; A is [batch, M, K] in a batch above
    1."""
    b = Builder("gemm")
    rows, count = (params["M"], params["K"]), params["count"]
    x = b.input("a", rows if batch == 1 else (batch, *rows))
    b.graph.products = batch
    return b.finish(
        *(
            b.matmul(x, b.weight(f"b{own}", (params["K"], params["N"])), f"y{own}")
            for own in ([""] if count == 1 else map(str, range(1, count + 1)))
        )
    )


def mlp(batch: int, params: Params) -> Graph:
    """``layers`` fully connected layers; ReLU after all but the last, which gives the classes."""
    b = Builder("mlp")
    x = b.input("x", (batch, params["inputs"]))
    x = b.hidden_layers(x, params["hidden"], params["layers"] - 1)
    return b.finish(b.dense(x, params["classes"], f"fc{params['layers']}"))


def cnn(batch: int, params: Params) -> Graph:
    """Two convolutions with max pooling and a classifier (LeNet-like), for teaching."""
    b = Builder("cnn")
    x = b.input("x", (batch, 1, params["resolution"], params["resolution"]))
    for index, filters in enumerate((params["channels"], 2 * params["channels"]), 1):
        x = b.conv(x, filters, 5, f"conv{index}", pad=2)
        x = b.max_pool(b.op("Relu", [x], f"relu{index}"), 2, f"pool{index}")
    x = b.dense(b.op("Flatten", [x], "flat", axis=1), params["classes"], "fc")
    return b.finish(b.op("Softmax", [x], "probabilities", axis=1))


MOBILENET_V1 = [
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1),
    (512, 1), (1024, 2), (1024, 1),
]  # fmt: skip
"""(filters, stride) of the depthwise-separable blocks (Howard et al. 2017, table 1)."""


def mobilenet(batch: int, params: Params) -> Graph:
    """MobileNet v1: depthwise 3x3 and pointwise 1x1 convolutions, each with batch normalisation and ReLU6."""
    b = Builder("mobilenet-v1")
    x = b.input("x", (batch, 3, params["resolution"], params["resolution"]))
    x = _conv_bn_relu6(b, x, _scaled(32, params), "conv0", kernel=3, stride=2, pad=1)
    for index, (filters, stride) in enumerate(MOBILENET_V1, 1):
        channels = b.shape(x)[1]
        x = _conv_bn_relu6(b, x, channels, f"dw{index}", kernel=3, stride=stride, pad=1, group=channels)
        x = _conv_bn_relu6(b, x, _scaled(filters, params), f"pw{index}", kernel=1)
    x = b.op("GlobalAveragePool", [x], "pool")
    x = b.dense(b.op("Flatten", [x], "flat", axis=1), params["classes"], "fc")
    return b.finish(b.op("Softmax", [x], "probabilities", axis=1))


def _scaled(filters: int, params: Params) -> int:
    return max(1, filters * params["width"] // 100)


def _conv_bn_relu6(b: Builder, x: str, filters: int, name: str, kernel: int, **options: int) -> str:
    x = b.conv(x, filters, kernel, name, bias=0, **options)
    return b.op("Clip", [b.batch_norm(x, f"{name}.bn")], f"{name}.relu6", min=0.0, max=6.0)


def lstm(batch: int, params: Params) -> Graph:
    """LSTM unrolled in time: per layer and step one product of [x, h] with all four gates' weights.

    Inputs: x [batch, steps, inputs], and h and c [batch, hidden] of each layer; outputs: the last layer's h
    of the last step. Gate order i, f, g, o (Hochreiter and Schmidhuber 1997, with forget gate).
    """
    b = Builder("lstm")
    x = b.input("x", (batch, params["steps"], params["inputs"]))
    sequence = _steps(b, x, params["steps"])
    for layer in range(params["layers"]):
        sequence = _lstm_layer(b, sequence, params["hidden"], f"l{layer}")
    return b.finish(sequence[-1])


def _steps(b: Builder, x: str, steps: int) -> list[str]:
    b.room(steps)
    parts = b.ops("Split", [x], [f"x{t}.slice" for t in range(steps)], "x.split", axis=1, split=[1] * steps)
    return [b.op("Squeeze", [part], f"x{t}", axes=[1]) for t, part in enumerate(parts)]


def _lstm_layer(b: Builder, sequence: list[str], hidden: int, name: str) -> list[str]:
    batch, inputs = b.shape(sequence[0])
    h, c = b.input(f"{name}.h", (batch, hidden)), b.input(f"{name}.c", (batch, hidden))
    weight = b.weight(f"{name}.weight", (4 * hidden, inputs + hidden))
    bias = b.weight(f"{name}.bias", (4 * hidden,))
    states = []
    for t, x in enumerate(sequence):
        h, c = _lstm_cell(b, (x, h, c), (weight, bias), f"{name}.t{t}")
        states.append(h)
    return states


def _lstm_cell(b: Builder, state: tuple[str, str, str], learnt: tuple[str, str], name: str) -> tuple[str, str]:
    x, h, c = state
    joined = b.op("Concat", [x, h], f"{name}.xh", axis=1)
    gates = b.gemm([joined, *learnt], f"{name}.gates")
    parts = [f"{name}.{gate}" for gate in "ifgo"]
    b.ops("Split", [gates], parts, f"{name}.split", axis=1, split=[b.shape(c)[1]] * 4)
    return b.lstm_state(lambda gate: f"{name}.{gate}", c, name)


_V1 = "MobileNet v1 (Howard et al. 2017), depthwise convolutions; width in percent"
_GEMM_SIZES = {"M": 256, "N": 256, "K": 256, "count": 1}
_V1_SIZES = {"width": 100, "resolution": 224, "classes": 1000}
for _name, _text, _build, _sizes in (
    ("gemm", "one matrix product, M x N x K, or count of them with one A", gemm, _GEMM_SIZES),
    ("mlp", "fully connected layers with ReLU", mlp, {"inputs": 784, "hidden": 512, "layers": 3, "classes": 10}),
    ("cnn", "tiny convolutional network for teaching", cnn, {"resolution": 28, "channels": 8, "classes": 10}),
    ("mobilenet-v1", _V1, mobilenet, _V1_SIZES),
    ("mobilenet", "the same as mobilenet-v1", mobilenet, _V1_SIZES),
    ("lstm", "LSTM layers unrolled in time", lstm, {"inputs": 256, "hidden": 256, "steps": 8, "layers": 1}),
):
    register(Entry(_name, "builder", _text, _build, _sizes))
