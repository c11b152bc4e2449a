"""The picture of docs/qat.md: accuracy by format, quantised after training and trained with quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.explore.training import TrainingResult, evaluate, train
from accelsim.report.style import BLUE, INK, VERMILLION, figure, save, styled, subtitle
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import Dataset, load_dataset
from accelsim.workload.training import QuantConfig, Session, fake_quantised
from accelsim.workload.training.fake import RANGES, wrapped_tensors

FILE = "qat.png"
MODELS = ("digits-mlp", "digits-cnn")
FORMATS = ("int8", "int4", "int2", "int1xint8")
SEEDS = (0, 1, 2)
STEPS, TUNING = 300, 150


def largest_scales(model: Graph, config: QuantConfig, x: Array) -> dict[str, Array]:
    """Name of the scale -> largest magnitude / highest code, as the range up to the maximum sets it."""
    session = Session(model)
    session.run({model.inputs[0]: x})
    scales = {}
    for name, item in wrapped_tensors(model, model.nodes, config).items():
        values = np.abs(session.values[name])
        others = None if item.axis is None else tuple(i for i in range(values.ndim) if i != item.axis)
        scales[item.scale] = values.max(axis=others) / np.float32(RANGES[item.dtype][1])
    return scales


def after_training(base: TrainingResult, text: str, data: Dataset) -> float:
    """Test accuracy of the fp32 model, quantised as it is."""
    config = QuantConfig.parse(text, "int8")
    scales = largest_scales(base.graph, config, data.x_train[: base.batch])
    return evaluate(fake_quantised(base.graph, config, {**base.weights, **scales}), data)


def with_training(base: TrainingResult, text: str, data: Dataset, seed: int) -> float:
    """Test accuracy after a fine-tuning with fake quantisation."""
    config = QuantConfig.parse(text, "int8")
    return train(base.graph, data, steps=TUNING, lr=0.01, seed=seed, fake_quant=config).test_accuracy


def measure(model: str) -> dict[str, tuple[list[float], list[float]]]:
    """Format -> test accuracies (after, with training) per seed; 'fp32' has the same twice."""
    data, table = load_dataset("digits"), {name: ([], []) for name in ("fp32", *FORMATS)}
    for seed in SEEDS:
        base = train(model, data, steps=STEPS, seed=seed)
        for column in table["fp32"]:
            column.append(base.test_accuracy)
        for text in FORMATS:
            table[text][0].append(after_training(base, text, data))
            table[text][1].append(with_training(base, text, data, seed))
    return table


def draw(path: Path) -> None:
    """Measure both models (about a minute) and write the picture."""
    tables = {model: measure(model) for model in MODELS}
    with styled():
        fig, axes = figure(3.6, 1, len(MODELS), sharey=True)
        for axis, (model, table) in zip(axes, tables.items(), strict=True):
            _panel(axis, model, table)
        axes[0].set_ylabel("test accuracy (%)")
        subtitle(axes[0], "mean of three seeds; first and last layer int8; fp32: dashed")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)
    save(fig, path)


def _panel(axis: Any, model: str, table: Mapping[str, tuple[list[float], list[float]]]) -> None:
    looks = (("quantised after training", VERMILLION, "////"), ("trained with quantisation", BLUE, ""))
    text = {"ha": "center", "fontsize": 7.5, "color": INK, "textcoords": "offset points", "xytext": (0, 2)}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for column, (label, color, hatch) in enumerate(looks):
        where = np.arange(len(FORMATS)) + 0.4 * column - 0.2
        heights = [100 * float(np.mean(table[name][column])) for name in FORMATS]
        axis.bar(where, heights, 0.38, color=color, hatch=hatch, edgecolor="white", label=label)
        for x, height in zip(where, heights, strict=True):
            axis.annotate(f"{height:.1f}", (x, height), bbox=box, **text)
    axis.axhline(100 * float(np.mean(table["fp32"][0])), color=INK, linestyle="--", linewidth=1)
    axis.set_xticks(range(len(FORMATS)), FORMATS)
    axis.set_ylim(0, 108)
    axis.set_title(model, pad=18)
