"""Convolutional networks for images: ResNet, MobileNet v2 and v3, EfficientNet-B0, U-Net.

Each is a table, taken from its paper, and the block that the table's rows are built of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from accelsim.errors import ModelError
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register

IMAGE = {"resolution": 224, "classes": 1000}


def unit(b: Builder, x: str, filters: int, name: str, kernel: int = 1, act: str = "", **options: int) -> str:
    """Convolution without bias, batch normalisation, activation: 'relu', 'relu6', 'hswish', 'silu', '' (none).

    Padded by half the kernel, so that only a stride shrinks the image.
    """
    x = b.conv(x, filters, kernel, name, pad=kernel // 2, bias=0, **options)
    return activate(b, b.batch_norm(x, f"{name}.bn"), act, name)


def activate(b: Builder, x: str, act: str, name: str) -> str:
    """An activation by its short name; '' leaves x as it is."""
    if not act:
        return x
    if act == "relu6":
        return b.op("Clip", [x], f"{name}.relu6", min=0.0, max=6.0)
    return b.op({"relu": "Relu", "hswish": "HardSwish", "silu": "Silu"}[act], [x], f"{name}.{act}")


def classify(b: Builder, x: str, params: Params, hidden: int = 0) -> Graph:
    """Global average pooling and a classifier, with a hidden layer and hard swish where ``hidden``."""
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x], "pool")], "flat", axis=1)
    if hidden:
        x = b.op("HardSwish", [b.dense(x, hidden, "hidden")], "hidden.hswish")
    return b.finish(b.op("Softmax", [b.dense(x, params["classes"], "fc")], "probabilities", axis=1))


def image(name: str, batch: int, params: Params) -> tuple[Builder, str]:
    """A builder and its input x [batch, 3, resolution, resolution]."""
    b = Builder(name)
    return b, b.input("x", (batch, 3, params["resolution"], params["resolution"]))


# --- ResNet ---------------------------------------------------------------------------------------------------------

RESNET_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Layers -> blocks per stage (He et al. 2016, table 1); from 50 layers on the blocks are bottlenecks."""
BOTTLENECK_FROM, EXPANSION = 50, 4


def resnet(depth: int, batch: int, params: Params) -> Graph:
    """ResNet with projection shortcuts where the shape changes; a bottleneck's stride is on its 3 x 3."""
    b, x = image(f"resnet{depth}", batch, params)
    x = b.max_pool(unit(b, x, 64, "stem", 7, "relu", stride=2), 3, "stem.pool", stride=2, pad=1)
    block = _bottleneck if depth >= BOTTLENECK_FROM else _basic
    for stage, blocks in enumerate(RESNET_STAGES[depth]):
        for index in range(blocks):
            stride = 2 if stage and not index else 1
            x = block(b, x, 64 << stage, stride, f"s{stage + 1}.b{index + 1}")
    return classify(b, x, params)


def _basic(b: Builder, x: str, filters: int, stride: int, name: str) -> str:
    y = unit(b, x, filters, f"{name}.conv1", 3, "relu", stride=stride)
    return _joined(b, x, unit(b, y, filters, f"{name}.conv2", 3), stride, name)


def _bottleneck(b: Builder, x: str, filters: int, stride: int, name: str) -> str:
    y = unit(b, x, filters, f"{name}.conv1", 1, "relu")
    y = unit(b, y, filters, f"{name}.conv2", 3, "relu", stride=stride)
    return _joined(b, x, unit(b, y, EXPANSION * filters, f"{name}.conv3"), stride, name)


def _joined(b: Builder, x: str, y: str, stride: int, name: str) -> str:
    if b.shape(x) != b.shape(y):
        x = unit(b, x, b.shape(y)[1], f"{name}.shortcut", 1, stride=stride)
    return b.op("Relu", [b.op("Add", [y, x], f"{name}.sum")], f"{name}.relu")


# --- inverted residuals: MobileNet v2 and v3, EfficientNet ----------------------------------------------------------


class Inverted(NamedTuple):
    """One inverted residual: 1 x 1 to ``expanded`` channels, depthwise, squeeze-and-excitation, 1 x 1 to ``out``.

    ``squeeze``: channels of the squeeze, 0 for none; ``gate``: the op that opens it.
    """

    kernel: int
    expanded: int
    out: int
    stride: int
    act: str
    squeeze: int = 0
    gate: str = "HardSigmoid"


def inverted(b: Builder, x: str, row: Inverted, name: str) -> str:
    """Inverted residual with a linear bottleneck (Sandler et al. 2018); summed where the shape stays."""
    channels, y = b.shape(x)[1], x
    if row.expanded != channels:
        y = unit(b, y, row.expanded, f"{name}.expand", 1, row.act)
    y = unit(b, y, row.expanded, f"{name}.depthwise", row.kernel, row.act, stride=row.stride, group=row.expanded)
    if row.squeeze:
        y = _excited(b, y, row, f"{name}.se")
    y = unit(b, y, row.out, f"{name}.project")
    return b.op("Add", [y, x], f"{name}.sum") if b.shape(x) == b.shape(y) else y


_GATES: dict[str, dict[str, float]] = {"HardSigmoid": {"alpha": 1 / 6, "beta": 0.5}, "Sigmoid": {}}
_SQUEEZED = {"HardSigmoid": "relu", "Sigmoid": "silu"}


def _excited(b: Builder, x: str, row: Inverted, name: str) -> str:
    """Squeeze-and-excitation (Hu et al. 2018): each channel times a gate that sees the mean of all."""
    y = b.conv(b.op("GlobalAveragePool", [x], f"{name}.pool"), row.squeeze, 1, f"{name}.reduce")
    y = b.conv(activate(b, y, _SQUEEZED[row.gate], f"{name}.reduce"), row.expanded, 1, f"{name}.excite")
    return b.op("Mul", [x, b.op(row.gate, [y], f"{name}.gate", **_GATES[row.gate])], f"{name}.scaled")


def rounded(channels: float) -> int:
    """Channels to the nearest multiple of 8, never less than nine tenths of what was asked for."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def _chain(
    batch: int,
    params: Params,
    name: str,
    rows: Callable[[], Sequence[Inverted]],
    stem: tuple[int, str],
    head: tuple[int, str],
    hidden: int = 0,
) -> Graph:
    """3 x 3 stem of stride 2, the rows, a 1 x 1 to the head's channels, the classifier."""
    b, x = image(name, batch, params)
    x = unit(b, x, stem[0], "stem", 3, stem[1], stride=2)
    for index, row in enumerate(rows(), 1):
        x = inverted(b, x, row, f"block{index}")
    return classify(b, unit(b, x, head[0], "head", 1, head[1]), params, hidden)


MOBILENET_V2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""(expansion, channels, repeats, first stride); Sandler et al. 2018, table 2."""

EFFICIENTNET_B0 = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""(expansion, channels, repeats, first stride, kernel); Tan and Le 2019, table 1."""

_V3_LARGE = (
    (3, 16, 16, 0, "relu", 1), (3, 64, 24, 0, "relu", 2), (3, 72, 24, 0, "relu", 1), (5, 72, 40, 1, "relu", 2),
    (5, 120, 40, 1, "relu", 1), (5, 120, 40, 1, "relu", 1), (3, 240, 80, 0, "hswish", 2),
    (3, 200, 80, 0, "hswish", 1), (3, 184, 80, 0, "hswish", 1), (3, 184, 80, 0, "hswish", 1),
    (3, 480, 112, 1, "hswish", 1), (3, 672, 112, 1, "hswish", 1), (5, 672, 160, 1, "hswish", 2),
    (5, 960, 160, 1, "hswish", 1), (5, 960, 160, 1, "hswish", 1),
)  # fmt: skip
_V3_SMALL = (
    (3, 16, 16, 1, "relu", 2), (3, 72, 24, 0, "relu", 2), (3, 88, 24, 0, "relu", 1), (5, 96, 40, 1, "hswish", 2),
    (5, 240, 40, 1, "hswish", 1), (5, 240, 40, 1, "hswish", 1), (5, 120, 48, 1, "hswish", 1),
    (5, 144, 48, 1, "hswish", 1), (5, 288, 96, 1, "hswish", 2), (5, 576, 96, 1, "hswish", 1),
    (5, 576, 96, 1, "hswish", 1),
)  # fmt: skip
"""(kernel, expanded, out, squeeze-and-excitation, activation, stride); Howard et al. 2019, tables 1 and 2."""

_GatedRow = tuple[int, int, int, int, str, int]


def _v3(table: Sequence[_GatedRow]) -> list[Inverted]:
    return [
        Inverted(kernel, expanded, out, stride, act, rounded(expanded / 4) if gated else 0)
        for kernel, expanded, out, gated, act, stride in table
    ]


def _v2() -> list[Inverted]:
    rows, channels = [], 32
    for expansion, out, repeats, first in MOBILENET_V2:
        for index in range(repeats):
            rows.append(Inverted(3, expansion * channels, out, 1 if index else first, "relu6"))
            channels = out
    return rows


def _b0() -> list[Inverted]:
    rows, channels = [], 32
    for expansion, out, repeats, first, kernel in EFFICIENTNET_B0:
        for index in range(repeats):
            stride, squeeze = 1 if index else first, channels // 4
            rows.append(Inverted(kernel, expansion * channels, out, stride, "silu", squeeze, "Sigmoid"))
            channels = out
    return rows


# --- U-Net ----------------------------------------------------------------------------------------------------------

UNET_DEPTH = 4


def unet(batch: int, params: Params) -> Graph:
    """U-Net (Ronneberger et al. 2015, figure 1): unpadded 3 x 3 convolutions, so the result is smaller than x.

    x [batch, 1, resolution, resolution]; an up-convolution 2 x 2 of stride 2 is a 1 x 1 convolution to four times
    the channels, whose groups of four become 2 x 2 pixels.
    """
    size = params["resolution"]
    if size % 16 != 12 or size < 188:
        text = "188, 204, 220 and so on (every image must halve evenly), such as 572"
        raise ModelError(f"resolution={size}", "unet", text)
    b, skips = Builder("unet"), []
    x = b.input("x", (batch, 1, size, size))
    for level in range(UNET_DEPTH):
        x = _double(b, x, params["channels"] << level, f"down{level + 1}")
        skips.append(x)
        x = b.max_pool(x, 2, f"down{level + 1}.pool")
    x = _double(b, x, params["channels"] << UNET_DEPTH, "bottom")
    for level in reversed(range(UNET_DEPTH)):
        x = _up(b, x, skips[level], params["channels"] << level, f"up{level + 1}")
    return b.finish(b.conv(x, params["classes"], 1, "classes"))


def _double(b: Builder, x: str, filters: int, name: str) -> str:
    for index in (1, 2):
        x = b.op("Relu", [b.conv(x, filters, 3, f"{name}.conv{index}")], f"{name}.relu{index}")
    return x


def _up(b: Builder, x: str, skip: str, filters: int, name: str) -> str:
    spread = b.conv(x, 4 * filters, 1, f"{name}.spread", bias=0)
    x = b.op("DepthToSpace", [spread], f"{name}.pixels", blocksize=2, mode="CRD")
    x = b.op("Add", [x, b.weight(f"{name}.spread.bias", (1, filters, 1, 1))], f"{name}.upconv")
    border = (b.shape(skip)[2] - b.shape(x)[2]) // 2
    end = border + b.shape(x)[2]
    cropped = b.op("Slice", [skip], f"{name}.crop", axes=[2, 3], starts=[border] * 2, ends=[end] * 2, steps=[1, 1])
    return _double(b, b.op("Concat", [cropped, x], f"{name}.joined", axis=1), filters, name)


for _depth in RESNET_STAGES:
    register(Entry(f"resnet{_depth}", "builder", f"ResNet-{_depth} (He et al. 2016)", partial(resnet, _depth), IMAGE))
for _name, _text, _rows, _stem, _head, _hidden in (
    ("mobilenet-v2", "MobileNet v2 (Sandler et al. 2018)", _v2, (32, "relu6"), (1280, "relu6"), 0),
    ("mobilenet-v3", "MobileNet v3 large (Howard et al. 2019)", partial(_v3, _V3_LARGE), (16, "hswish"),
     (960, "hswish"), 1280),
    ("mobilenet-v3-small", "MobileNet v3 small (Howard et al. 2019)", partial(_v3, _V3_SMALL), (16, "hswish"),
     (576, "hswish"), 1024),
    ("efficientnet-b0", "EfficientNet-B0 (Tan and Le 2019)", _b0, (32, "silu"), (1280, "silu"), 0),
):  # fmt: skip
    _build = partial(_chain, name=_name, rows=_rows, stem=_stem, head=_head, hidden=_hidden)
    register(Entry(_name, "builder", _text, _build, IMAGE))
_UNET = {"resolution": 572, "channels": 64, "classes": 2}
register(Entry("unet", "builder", "U-Net for segmentation, unpadded (Ronneberger et al. 2015)", unet, _UNET))
