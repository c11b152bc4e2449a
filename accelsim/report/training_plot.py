"""Curves of training: the loss of one or several trainings, and the loss scale with the steps that were skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from accelsim.report.legends import below
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, figure, styled, subtitle
from accelsim.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--"))
"""Colour and dash of one training after the other, so that a grey print can be read."""

PARTS = 40
"""The bold line is the mean over this part of all steps; single steps are drawn faintly behind it."""


class Curve(Protocol):
    """What is drawn of a training, one entry per step (``explore.training.TrainingResult`` has it)."""

    @property
    def losses(self) -> Array:
        """Loss of each step."""

    @property
    def scales(self) -> Array:
        """Loss scale of each step; 1 without."""

    @property
    def skipped(self) -> Array:
        """Return whether the step changed nothing."""


@styled()
def losses(curves: Mapping[str, Curve], title: str = "Loss of training", note: str = "") -> Figure:
    """The loss of each training over its steps, by label; below it the loss scales, if any of them changes."""
    scaled = {label: curve for label, curve in curves.items() if np.any(curve.scales != curve.scales[0])}
    ratios = {"height_ratios": [2.2, 1]} if scaled else {}
    fig, axes = figure(5.4 if scaled else 3.8, 1 + bool(scaled), sharex=True, gridspec_kw=ratios)
    for (label, curve), (color, dash) in zip(curves.items(), _looks(len(curves)), strict=True):
        _loss(axes[0], label, curve, color, dash)
        if label in scaled:
            _scale(axes[1], curve, color, dash)
    axes[0].set_title(title, pad=20 if note else 6)
    if note:
        subtitle(axes[0], note)
    _positive_log(axes[0], [curve.losses for curve in curves.values()])
    axes[0].set_ylabel("loss (cross-entropy, logarithmic)")
    axes[0].grid(True, axis="y")
    if scaled:
        axes[1].set_yscale("log", base=2)
        axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes[1].set_ylabel("loss scale")
        axes[1].grid(True, axis="y")
    axes[-1].set_xlabel("step")
    if len(curves) > 1 or scaled:
        below(fig, axes[0], 2 if len(curves) > 3 else 3)
    return fig


def _looks(count: int) -> list[tuple[str, str]]:
    return [LOOKS[index % len(LOOKS)] for index in range(count)]


def _loss(axes: Axes, label: str, curve: Curve, color: str, dash: str) -> None:
    steps, means = np.arange(1, len(curve.losses) + 1), _smooth(curve.losses)
    axes.plot(steps, curve.losses, color=color, linewidth=0.6, alpha=0.35)
    axes.plot(steps, means, dash, color=color, linewidth=1.8, label=label)
    bad = np.flatnonzero(curve.skipped)
    if len(bad):
        text = f"{len(bad)} step{'s' if len(bad) > 1 else ''} skipped"
        axes.plot(bad + 1, means[bad], linestyle="none", marker="x", color=color, markersize=6, label=text)


def _scale(axes: Axes, curve: Curve, color: str, dash: str) -> None:
    axes.step(
        np.arange(1, len(curve.scales) + 1), curve.scales, dash, where="mid", color=color, linewidth=1.6
    )


def _smooth(values: Array) -> Array:
    """Running mean over a window that is shorter at both ends."""
    half = len(values) // PARTS // 2
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    index = np.arange(len(values))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))


def _positive_log(axes: Axes, curves: list[Array]) -> None:
    """A logarithmic axis where the losses allow one."""
    from matplotlib.ticker import LogLocator, NullFormatter

    values = np.concatenate(curves)
    values = values[np.isfinite(values)]
    if not len(values) or values.min() <= 0:
        return
    axes.set_yscale("log")
    few = values.max() / values.min() < 300
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=20))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
