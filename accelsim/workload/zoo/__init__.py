"""Models that come with the program: real networks from the ``onnx`` package and parametrised builders."""

from __future__ import annotations

from accelsim.workload.zoo import (
    amoebanet,
    digits,
    encoder,
    language,
    light,
    networks,
    tpu_paper,
    transformer,
    vision,
)
from accelsim.workload.zoo.entry import ZOO, Entry

__all__ = [
    "ZOO",
    "Entry",
    "amoebanet",
    "digits",
    "encoder",
    "language",
    "light",
    "networks",
    "tpu_paper",
    "transformer",
    "vision",
    "vit",
]
