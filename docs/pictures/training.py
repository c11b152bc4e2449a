"""The picture of docs/training.md: a deep network that fp16 trains only with a loss scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accelsim.explore.training import train
from accelsim.report.training import losses
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import Adam

FILE = "training-fp16.png"
STEPS = 500
SETTINGS = {
    "fp32": ("fp32", ""),
    "fp16, no loss scale": ("mixed", "none"),
    "fp16, dynamic loss scale": ("mixed", "dynamic"),
    "bf16, no loss scale": ("mixed-bf16", "none"),
}
"""Label -> precision, loss scale."""


def model() -> Graph:
    """digits-sigmoid with 8 layers in batches of 512, its starting weights times 0.6 (about 1 / sqrt(inputs))."""
    graph = load_model("digits-sigmoid?layers=8", batch=512)
    for tensor in graph.constants():
        if tensor.name.endswith(".weight"):
            tensor.data = np.float32(0.6) * tensor.value()
    return graph


def draw(path: Path) -> None:
    """Train four times (about 15 s) and write the picture."""
    rule = Adam(lr=5e-3, eps=1e-12)
    curves = {
        label: train(model(), steps=STEPS, optimiser=rule, precision=precision, loss_scale=scale)
        for label, (precision, scale) in SETTINGS.items()
    }
    figure = losses(
        curves, "An 8-layer sigmoid network, same start, same batches",
        "Without a loss scale the gradients of the first layers are below 3e-8, which fp16 rounds to zero",
    )  # fmt: skip
    figure.save(path)
