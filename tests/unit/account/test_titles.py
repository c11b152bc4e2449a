"""What layers are called in tables: sizes that matter, none that are 1, the stage that they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accelsim.account.titles import is_of_images, is_own, stage, title, titles
from accelsim.program.commands import Step
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import Conv, Gemm

IMAGE = Conv(1, 64, 28, 14, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (28, 14))
LINE = replace(IMAGE, height=1, kernel=(1, 5), stride=(1, 1))


def step(op: str = "Conv", gemm: Gemm | None = None, shape: tuple[int, ...] = (1, 8), **attrs: Any) -> Step:
    return Step("y", "", "matrix", shape, Node("y", op, ["x", "w"], ["y"], attrs), gemm=gemm)


def graph(weights: bool = True) -> Graph:
    constant = np.zeros((2, 2), np.float32) if weights else None
    return Graph("g", [], {"w": Tensor("w", (2, 2), "fp32", constant)}, [], [])


@pytest.mark.parametrize(
    ("conv", "groups", "N", "text"),
    [
        (IMAGE, 1, 128, "conv 3x3 64->128 @28x14"),
        (replace(IMAGE, batch=2), 1, 128, "conv 3x3 64->128 @28x14 x2"),
        (replace(IMAGE, stride=(2, 2)), 1, 128, "conv 3x3/2 64->128 @28x14"),
        (replace(IMAGE, stride=(2, 1)), 1, 128, "conv 3x3/2x1 64->128 @28x14"),
        (IMAGE, 2, 64, "conv 3x3 128->128 g2 @28x14"),
        (replace(IMAGE, channels=1), 2, 1, "dwconv 3x3 2 @28x14"),
        (replace(IMAGE, channels=1), 32, 1, "dwconv 3x3 32 @28x14"),
        (replace(IMAGE, channels=1), 32, 2, "dwconv 3x3 32->64 @28x14"),
        (replace(IMAGE, channels=1), 1, 8, "conv 3x3 1->8 @28x14"),
        (LINE, 1, 128, "conv 5 64->128 @14"),
        (replace(LINE, stride=(1, 4)), 1, 128, "conv 5/4 64->128 @14"),
        (replace(LINE, kernel=(3, 5)), 1, 128, "conv 3x5 64->128 @1x14"),
        (replace(IMAGE, kernel=(1, 5)), 1, 128, "conv 1x5 64->128 @28x14"),
    ],
)
def test_convolutions(conv: Conv, groups: int, N: int, text: str) -> None:
    assert title(step(gemm=Gemm(groups, 392, N, 9, "x", "w", conv)), graph(), True) == text


def test_nameless_convolutions_are_numbered_by_the_size_of_their_image() -> None:
    def made(name: str, size: int) -> Any:
        gemm = Gemm(1, size * size, 128, 9, "x", "w", replace(IMAGE, height=size, width=size, out=(size, size)))
        found = step("Conv", gemm, shape=(1, 128, size, size))
        found.name = name
        return found

    steps = [made("n1", 56), made("", 28), made("Conv_7", 28), made("mine", 28), made("n9", 28), step("Relu")]
    assert titles(steps, graph()) == [
        "conv1_1 3x3 64->128 @56x56",
        "conv2_1 3x3 64->128 @28x28",
        "conv2_2 3x3 64->128 @28x28",
        "conv 3x3 64->128 @28x28",
        "conv2_4 3x3 64->128 @28x28",
        "relu 8",
    ]


@pytest.mark.parametrize(
    ("weights", "groups", "M", "text"),
    [
        (True, 1, 1, "linear 768->3072"),
        (True, 1, 2, "linear 768->3072 x2"),
        (True, 2, 4, "matmul 4x768x3072 x2"),
        (False, 1, 4, "matmul 4x768x3072"),
        (False, 2, 1, "matmul 1x768x3072 x2"),
    ],
)
def test_products(weights: bool, groups: int, M: int, text: str) -> None:
    gemm = Gemm(groups, M, 3072, 768, "x", "w")
    assert title(step("MatMul", gemm), graph(weights), False) == text
    assert title(step("MatMul", replace(gemm, b="of nobody")), graph(weights), False).startswith("matmul")


@pytest.mark.parametrize(
    ("op", "shape", "images", "attrs", "text"),
    [
        ("Relu", (1, 8), False, {}, "relu 8"),
        ("Relu", (8,), False, {}, "relu 8"),
        ("Relu", (2, 8), False, {}, "relu 2x8"),
        ("Relu", (), False, {}, "relu"),
        ("LayerNormalization", (1, 16, 8), True, {}, "layernorm 16x8"),
        ("Add", (1, 64, 28, 14), True, {}, "add 64 @28x14"),
        ("Add", (2, 64, 28, 14), True, {}, "add 64 @28x14 x2"),
        ("Add", (1, 64, 28, 14), False, {}, "add 64x28x14"),
        ("MaxPool", (1, 64, 28, 14), True, {"kernel_shape": [3, 3]}, "maxpool 3x3 64 @28x14"),
        ("MaxPool", (1, 64, 28, 14), True, {"kernel_shape": [3, 2], "strides": [2, 2]}, "maxpool 3x2/2 64 @28x14"),
        ("Quantize", (1, 8), False, {}, "quantize 8"),
    ],
)  # fmt: skip
def test_other_layers(op: str, shape: tuple[int, ...], images: bool, attrs: dict[str, Any], text: str) -> None:
    assert title(step(op, shape=shape, **attrs), graph(), images) == text


def test_a_layer_is_called_after_what_it_does_beside_converting() -> None:
    made = step("Dequantize")
    made.node.epilogue = [Node("z", "Sigmoid", ["y"], ["z"]), Node("q", "Quantize", ["z"], ["q"])]
    assert title(made, graph(), False) == "sigmoid 8"


def test_only_what_has_windows_makes_images() -> None:
    pool = Node("p", "MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2]})
    assert is_of_images(Graph("g", [pool], {}, [], []))
    assert not is_of_images(Graph("g", [Node("a", "Add", ["x", "x"], ["y"])], {}, [], []))


@pytest.mark.parametrize(
    ("name", "own"),
    [("conv1", True), ("Conv_12", False), ("Gemm_3", False), ("node_conv2d_5", False), ("/layer1/Conv_1", True),
     ("Block_3", True), ("conv3_2", True), ("", False), ("node_7", False), ("7", False), ("net/n12", False), ("net/fc", True), ("Op.3", False)],
)  # fmt: skip
def test_names_that_a_person_gave(name: str, own: bool) -> None:
    assert is_own(name) is own


@pytest.mark.parametrize(
    ("name", "shape", "images", "part"),
    [
        ("s2.b1.conv1", (1, 64, 28, 14), True, "s2"),
        ("encoder/layer.3/query", (1, 8), False, "layer.3"),
        ("block4", (1, 8), False, "block4"),
        ("conv1", (1, 64, 28, 14), True, "28x14"),
        ("node_7", (1, 64, 28, 14), True, "28x14"),
        ("conv1", (1, 64, 28, 14), False, ""),
        ("fc", (1, 8), True, ""),
    ],
)
def test_stages(name: str, shape: tuple[int, ...], images: bool, part: str) -> None:
    assert stage(name, shape, images) == part
