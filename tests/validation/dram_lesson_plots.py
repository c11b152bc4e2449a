"""Plots and the page of the lessons on DRAM (``dram_lessons``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.files import text, write_folder
from accelsim.report.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    VERMILLION,
    Look,
    figure,
    log_axis,
    picture,
    styled,
    subtitle,
)
from tests.validation.dram_lessons import LESSONS, Lesson, Point, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = (Look(BLUE), Look(ORANGE, "||||"), Look(GREEN, "////"), Look(VERMILLION, "xxxx"))
MARKERS = "osD^"
MANY = 7
"""Categories from which on their names are turned."""


def _series(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.series for point in points))


def _categories(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.category for point in points))


def draw(lesson: Lesson, points: Sequence[Point]) -> Figure:
    """The picture of a lesson."""
    with styled():
        fig, (axes,) = figure(4.4 if len(_categories(points)) > MANY else 3.8)
        CHARTS[lesson.chart](axes, lesson, points)
        if lesson.mark is not None:
            axes.axhline(lesson.mark[0], color=INK, linestyle="--", linewidth=1, label=lesson.mark[1])
        axes.set_ylabel(lesson.unit)
        axes.grid(True, axis="y")
        axes.set_title(lesson.claim, pad=18)
        subtitle(axes, _shortened(lesson.told(list(points))))
        fig.legend(loc="outside lower center", ncols=4)
    return fig


def _shortened(text: str) -> str:
    """The first sentence, which is what a subtitle has room for."""
    return text.split(". ")[0].rstrip(".") + "."


def _bars(axes: Axes, lesson: Lesson, points: Sequence[Point]) -> None:
    categories, series = _categories(points), _series(points)
    wide = 0.8 / len(series)
    for index, (name, look) in enumerate(zip(series, LOOKS, strict=False)):
        places = np.arange(len(categories)) + (index - (len(series) - 1) / 2) * wide
        values = [value(points, category, name) for category in categories]
        axes.bar(places, values, wide * 0.92, color=look.color, hatch=look.hatch, edgecolor="white", label=name)
        for x, height in zip(places, values, strict=True):
            axes.annotate(_number(height), (x, height), xytext=(0, 2), textcoords="offset points", ha="center",
                          fontsize=7)  # fmt: skip
    if lesson.log:
        axes.set_yscale("log")
        axes.set_ylim(min(p.value for p in points) / 2, max(p.value for p in points) * 2)
        log_axis(axes.yaxis)
    else:
        axes.set_ylim(0, max(point.value for point in points) * 1.12)
    _names(axes, categories)


def _number(height: float) -> str:
    return f"{height:,.0f}" if height >= 100 else f"{height:.3g}"


def _names(axes: Axes, categories: list[str]) -> None:
    many = len(categories) > MANY
    axes.set_xticks(range(len(categories)), categories, rotation=30 * many, ha="right" if many else "center")
    axes.tick_params(axis="x", length=0)


def _stack(axes: Axes, lesson: Lesson, points: Sequence[Point]) -> None:
    categories = _categories(points)
    bottom = np.zeros(len(categories))
    for name, look in zip(_series(points), LOOKS, strict=False):
        values = np.array([value(points, category, name) for category in categories])
        axes.bar(range(len(categories)), values, 0.5, bottom, color=look.color, hatch=look.hatch, edgecolor="white",
                 label=name)  # fmt: skip
        bottom += values
    for x, height in enumerate(bottom):
        axes.text(x, height, f"{height:.3g}", ha="center", va="bottom")
    axes.set_ylim(0, bottom.max() * 1.1)
    _names(axes, categories)


def _lines(axes: Axes, lesson: Lesson, points: Sequence[Point]) -> None:
    """Series over numbers; the last one is a bound."""
    series = _series(points)
    for index, name in enumerate(series):
        mine = [point for point in points if point.series == name]
        xs, ys = [float(point.category) for point in mine], [point.value for point in mine]
        if index == len(series) - 1:
            axes.plot(xs, ys, "--", color=INK, linewidth=1.2, label=name)
        else:
            axes.plot(xs, ys, MARKERS[index] + "-", color=LOOKS[index].color, label=name)
    axes.set_ylim(0, max(point.value for point in points) * 1.08)
    axes.set_xlabel(lesson.axis)


CHARTS: dict[str, Callable[[Axes, Lesson, Sequence[Point]], None]] = {"bars": _bars, "stack": _stack, "lines": _lines}
"""Kind of chart -> how it is drawn."""


def page(found: dict[str, list[Point]], command: str) -> str:
    """summary.md: the command, then each lesson with its sentence, its numbers and its picture."""
    parts = [f"`{command}`", "# Lessons on DRAM", "Made by the command above. Every number is from a replay."]
    for key, points in found.items():
        lesson = LESSONS[key]
        parts += [f"## {lesson.claim}", lesson.told(points), lesson.why, _table(lesson, points),
                  f"![{lesson.claim}]({key}.png)"]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _table(lesson: Lesson, points: Sequence[Point]) -> str:
    """Categories by series as a Markdown table."""
    series = _series(points)
    head = [f"{lesson.unit} at {lesson.axis}" if lesson.axis else lesson.unit, *series]
    rows = [
        [category, *(f"{value(points, category, name):.4g}" for name in series)] for category in _categories(points)
    ]
    lines = [head, ["---", *["---:"] * len(series)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_lessons(found: dict[str, list[Point]], folder: Path, command: str) -> list[Path]:
    """summary.md and a PNG of each lesson (points by lesson); UsageError when that is not possible."""
    pictures = {f"{key}.png": picture(draw(LESSONS[key], points), ".png") for key, points in found.items()}
    return write_folder(folder, {"summary.md": text(page(found, command)), **pictures})


def measure_and_write(folder: Path, command: str, limit: int | None, progress: Callable[[float], None]) -> list[Path]:
    """Measure every lesson on at most ``limit`` accesses of each trace, and write page and pictures.

    ``progress`` is called with the share of the lessons that are done. UsageError when nothing can be written.
    """
    found = {}
    for index, (key, lesson) in enumerate(LESSONS.items()):
        progress(index / len(LESSONS))
        found[key] = lesson.measure(limit)
    return write_lessons(found, folder, command)
