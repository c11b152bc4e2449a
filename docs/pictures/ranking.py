"""A picture of docs/gpu-networks.md: how often a ranking of two chips is right, from reports/accuracy.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from accelsim.report.style import BLUE, GREY, ORANGE, figure, save, styled, subtitle

REPORT = Path(__file__).parents[2] / "reports" / "accuracy.md"
SOURCE, EVERY = "MLPerf Offline", "all sources: faster"


def _section() -> str:
    return REPORT.read_text(encoding="utf-8").split("\n## ranking:")[1].split("\n## ")[0]


def _classes(text: str) -> np.ndarray:
    """Pairs, mean said, right and the ends of the interval of each class, from 0 to 1."""
    rows = [line.split("|")[3:-1] for line in text.splitlines() if line.startswith(f"| {EVERY} ")]
    found = [[float(each) for each in re.findall(r"[\d.]+", " ".join(cells))] for cells in rows]
    return np.array([[row[0], *(each / 100 for each in row[1:])] for row in found])


def _priced(text: str) -> np.ndarray:
    """What is said and what is right at that price, MLPerf."""
    line = next(line for line in text.splitlines() if line.startswith(f"- {SOURCE}: "))
    return np.array([(int(said), int(right)) for right, said in re.findall(r"(\d+)% where (\d+)% is said", line)]) / 100


def draw(path: Path) -> None:
    """Write the picture."""
    text = _section()
    pairs, said, right, low, high = _classes(text).T
    priced = _priced(text)
    with styled():
        drawn, (axes,) = figure(4.4)
        axes.plot([0.5, 1], [0.5, 1], color=GREY, linewidth=1, label="as often right as is said")
        axes.fill_between([0.89, 0.91], 0.85, 0.95, color=GREY, alpha=0.35, linewidth=0, label="claimed: 85 to 95 %")
        bars = np.array([right - low, high - right])
        axes.errorbar(said, right, bars, fmt="o", color=BLUE, capsize=3, label="all sources, pairs by what is said")
        for x, y, many in zip(said, right, pairs, strict=True):
            axes.annotate(f"{many:.0f}", (x, y), (6, -11), textcoords="offset points", color=BLUE)
        label = f"{SOURCE}, all pairs at the price at which it is said"
        axes.plot(priced[:, 0], priced[:, 1], "s-", color=ORANGE, label=label)
        axes.set_xlim(0.49, 1.01)
        axes.set_xlabel("said probability that the ranking of two chips is right")
        axes.set_ylabel("share of pairs that is right")
        axes.grid(True)
        axes.legend(loc="lower right")
        axes.set_title("Of rankings said to be 90 % sure, nine of ten are right", pad=18)
        subtitle(axes, "numbers: pairs of chips; bars: 90 % by the number of pairs")
        save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "ranking.png")
