"""AmoebaNet-D (Real et al. 2019, arXiv 1802.01548): cells of five sums that evolution found; GPipe's model of images.

Cells are those of the network that GPipe measured: outputs that nobody else reads are not all joined (parameters
agree with GPipe's table 1 that way).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register
from accelsim.workload.zoo.vision import IMAGE, classify, image

Operation = Callable[[Builder, str, int, str], str]
"""Builder, its input, a stride, a name -> its result of as many channels."""


def _unit(
    b: Builder, x: str, filters: int, name: str, kernel: tuple[int, int] = (1, 1), stride: tuple[int, int] = (1, 1)
) -> str:
    """ReLU, convolution without bias, batch normalisation."""
    x = b.op("Relu", [x], f"{name}.relu")
    return b.batch_norm(_conv(b, x, filters, name, kernel, stride), f"{name}.bn")


def _conv(
    b: Builder,
    x: str,
    filters: int,
    name: str,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, ...] = (),
) -> str:
    weight = b.weight(f"{name}.weight", (filters, b.shape(x)[1], *kernel))
    around = list(pads) or [size // 2 for size in kernel] * 2
    return b.op("Conv", [x, weight], name, kernel_shape=list(kernel), strides=list(stride), pads=around,
                dilations=[1, 1], group=1, a_zero_point=0, b_zero_point=0)  # fmt: skip


def _halved(b: Builder, x: str, filters: int, name: str) -> str:
    """Half the size each way: every second place, beside every second of the image shifted by one."""
    x = b.op("Relu", [x], f"{name}.relu")
    even = _conv(b, x, filters // 2, f"{name}.even", (1, 1), (2, 2))
    shifted = b.op("Slice", [x], f"{name}.shifted", starts=[1, 1], ends=list(b.shape(x)[2:]), axes=[2, 3], steps=[1, 1])
    odd = _conv(b, shifted, filters // 2, f"{name}.odd", (1, 1), (2, 2), (0, 0, 1, 1))
    return b.batch_norm(b.op("Concat", [even, odd], f"{name}.both", axis=1), f"{name}.bn")


def _none(b: Builder, x: str, stride: int, name: str) -> str:
    return x if stride == 1 else _halved(b, x, b.shape(x)[1], name)


def _conv_1x1(b: Builder, x: str, stride: int, name: str) -> str:
    return _unit(b, x, b.shape(x)[1], name, stride=(stride, stride))


def _conv_3x3(b: Builder, x: str, stride: int, name: str) -> str:
    channels = b.shape(x)[1]
    x = _unit(b, x, channels // 4, f"{name}.in")
    x = _unit(b, x, channels // 4, f"{name}.3x3", (3, 3), (stride, stride))
    return _unit(b, x, channels, f"{name}.out")


def _conv_7x7(b: Builder, x: str, stride: int, name: str) -> str:
    """1 x 7 and 7 x 1."""
    channels = b.shape(x)[1]
    x = _unit(b, x, channels // 4, f"{name}.in")
    x = _unit(b, x, channels // 4, f"{name}.1x7", (1, 7), (1, stride))
    x = _unit(b, x, channels // 4, f"{name}.7x1", (7, 1), (stride, 1))
    return _unit(b, x, channels, f"{name}.out")


def _max_2x2(b: Builder, x: str, stride: int, name: str) -> str:
    return b.max_pool(x, 2, name, stride=stride)


def _max_3x3(b: Builder, x: str, stride: int, name: str) -> str:
    return b.max_pool(x, 3, name, stride=stride, pad=1)


def _average_3x3(b: Builder, x: str, stride: int, name: str) -> str:
    return b.op("AveragePool", [x], name, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4, dilations=[1, 1],
                ceil_mode=0, count_include_pad=0)  # fmt: skip


class Cell(NamedTuple):
    """Operands of five sums in pairs: which state (0, 1: what came before; from 2: sums), and what is done with it;
    ``joined``: states whose channels are the result."""

    operands: tuple[tuple[int, Operation], ...]
    joined: tuple[int, ...]


CELLS: Mapping[bool, Cell] = {
    False: Cell(
        ((1, _conv_1x1), (1, _max_3x3), (1, _none), (0, _conv_7x7), (0, _conv_1x1), (0, _conv_7x7),
         (2, _max_3x3), (2, _none), (1, _average_3x3), (5, _conv_1x1)),
        (0, 3, 4, 6),
    ),
    True: Cell(
        ((0, _max_2x2), (0, _max_3x3), (2, _none), (1, _conv_3x3), (2, _conv_7x7), (2, _max_3x3),
         (3, _none), (1, _max_2x2), (2, _average_3x3), (3, _conv_1x1)),
        (4, 5, 6),
    ),
}  # fmt: skip
"""True for a cell that halves the size -> cell (figure 2 of the paper; the normal cell joins states as in GPipe)."""


def _cell(b: Builder, before: str, x: str, channels: int, halves: bool, name: str) -> str:
    """A cell on the results of the last cell but one and of the last."""
    states = [_unit(b, x, channels, f"{name}.last"), _fitted(b, before, x, channels, f"{name}.before")]
    cell = CELLS[halves]
    for index in range(0, len(cell.operands), 2):
        pair = [
            operation(b, states[state], 2 if halves and state < 2 else 1, f"{name}.op{index + side}")
            for side, (state, operation) in enumerate(cell.operands[index : index + 2])
        ]
        states.append(b.op("Add", pair, f"{name}.sum{index // 2}"))
    return b.op("Concat", [states[state] for state in cell.joined], name, axis=1)


def _fitted(b: Builder, before: str, x: str, channels: int, name: str) -> str:
    """The result of the last cell but one in the size and the channels of this cell."""
    if b.shape(before)[2:] != b.shape(x)[2:]:
        return _halved(b, before, channels, name)
    return before if b.shape(before)[1] == channels else _unit(b, before, channels, name)


def stages(layers: int) -> list[tuple[str, bool]]:
    """Names of the cells and whether they halve the size: a third of ``layers`` before each of the last two that do."""
    names = [("stem2", True), ("stem3", True)]
    for group in (1, 3, 5):
        names += [(f"cell{group}_{index + 1}", False) for index in range(layers // 3)]
        names += [(f"cell{group + 1}", True)] if group < 5 else []
    return names


STEPS = {"layers": 3, "filters": 16, "resolution": 32}
"""Parameters come in multiples of these: three groups of cells, quarters of quarters, five times half the size."""


def amoebanet(batch: int, params: Params) -> Graph:
    """Stem, cells, classifier; ``filters`` after the stem, twice as many wherever the size halves."""
    ModelError.raise_for(
        Problem(f"{name}={params[name]}", "amoebanet-d", f"a multiple of {step}")
        for name, step in STEPS.items()
        if params[name] % step
    )
    b, x = image("amoebanet-d", batch, params)
    channels = params["filters"] // 4
    x = b.batch_norm(_conv(b, b.op("Relu", [x], "stem1.relu"), channels, "stem1", (3, 3), (2, 2)), "stem1.bn")
    before = x
    for name, halves in stages(params["layers"]):
        channels *= 1 + halves
        before, x = x, _cell(b, before, x, channels, halves, name)
    return classify(b, x, params)


_SIZES = {**IMAGE, "layers": 18, "filters": 256}
register(Entry("amoebanet-d", "builder", "AmoebaNet-D (Real et al. 2019)", amoebanet, _SIZES, least=STEPS))
