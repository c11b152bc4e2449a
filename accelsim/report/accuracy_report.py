"""Number formats side by side: a table, a Markdown page, a CSV file and a plot of ``explore.accuracy``."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.files import text, write_folder
from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    figure,
    log_axis,
    picture,
    prefixed,
    styled,
    subtitle,
)
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

    from accelsim.explore.accuracy import Accuracy, Row

HEADERS = ("chip", "format", "method", "computed in", "accuracy", "latency", "energy", "on the host", "model")
LOOKS = ((BLUE, "o", ""), (VERMILLION, "s", "////"), (GREEN, "^", "...."), (ORANGE, "D", "xxxx"), (PURPLE, "v", "||||"),
         (SKY, "P", "----"))  # fmt: skip
"""Colour, mark and hatch of one chip after the other."""

WIDE = 20.0
"""Ratio of the largest to the smallest bar from which on the axis is logarithmic."""

FILES = ("accuracy.md", "accuracy.csv", "accuracy.png")


def cells(row: Row) -> list[str]:
    """One row of the table, as text; a format that the chip cannot do has '-' in every column of figures."""
    if not row.known:
        return [row.chip, row.dtype, row.method, "-", "-", "-", "-", "-", "-"]
    host = f"{_amount(row.host_s, 's')}, {_amount(row.host_J, 'J')}" if row.host_s else "-"
    mac = row.mac if row.mac != row.dtype else "itself"
    return [
        row.chip, row.dtype, row.method, mac, f"{100 * row.accuracy:.2f} %", _amount(row.chip_s, "s"),
        _amount(row.chip_J, "J"), host, _amount(row.model_B, "B"),
    ]  # fmt: skip


def _amount(value: float, unit: str) -> str:
    return "-" if isnan(value) else show(value, unit, 3)


def accuracy_table(result: Accuracy, width: int) -> Table:
    """The table for a terminal."""
    from accelsim.report.table import text_table

    return text_table(list(HEADERS), [cells(row) for row in result.rows], width)


def _of_one(batch: int) -> str:
    whole = f"a batch of {batch} on the chip, divided by {batch}"
    return whole if batch > 1 else "one inference on the chip (batch 1)"


def sentences(result: Accuracy) -> list[str]:
    """Return what the table says, in words."""
    known = [row for row in result.rows if row.known]
    lines = [
        f"{result.model} gets {100 * result.baseline:.2f} % of {result.samples} test samples of {result.data} right in"
        f" FP32 (weights: {result.weights}).",
        f"Latency and energy are those of {_of_one(result.batch)}; what the host adds to turn inputs into codes and"
        " results back stands beside them.",
    ]
    within = [row for row in known if result.baseline - row.accuracy <= 0.01 + 1e-9]
    if within:
        best = min(within, key=lambda row: row.chip_J)
        lines.append(
            f"Least energy within one point of FP32: {best.dtype} ({best.method}) on {best.chip},"
            f" {_amount(best.chip_J, 'J')} for {100 * best.accuracy:.2f} %."
        )
    for chip in dict.fromkeys(row.chip for row in result.rows):
        missing = dict.fromkeys(row.dtype for row in result.rows if row.chip == chip and not row.known)
        if missing:
            lines.append(f"Nothing in {chip} computes {', '.join(missing)}.")
    return lines


def markdown(result: Accuracy, command: str) -> str:
    """The page: the command that makes it, the sentences, the picture, the table."""
    head = f"# {result.model}: accuracy, latency and energy by number format\n\n"
    made = f"Made by `{command}`.\n\n" if command else ""
    rows = [HEADERS, ["---"] * len(HEADERS), *(cells(row) for row in result.rows)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    text = "\n".join(sentences(result))
    return f"{head}{made}{text}\n\n![accuracy, latency, energy](accuracy.png)\n\n{table}\n"


def comma_separated(result: Accuracy) -> str:
    """Every figure in SI units, one row per format and chip."""
    stream = io.StringIO()
    names = [
        "chip",
        "dtype",
        "method",
        "mac",
        "accuracy",
        "latency_s",
        "host_s",
        "energy_J",
        "host_J",
        "model_B",
        "note",
    ]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in result.rows:
        values = [getattr(row, name) for name in names]
        writer.writerow(["" if isinstance(value, float) and isnan(value) else value for value in values])
    return stream.getvalue()


def write_accuracy(result: Accuracy, folder: Path, command: str = "") -> list[Path]:
    """Write page, figures and picture into ``folder``, each file whole; UsageError where that is not possible."""
    makers = (text(markdown(result, command)), text(comma_separated(result)), picture(draw(result), ".png"))
    return write_folder(folder, dict(zip(FILES, makers, strict=True)))


def draw(result: Accuracy) -> Figure:
    """The figure in our own style."""
    with styled():
        return accuracy_figure(result)


def accuracy_figure(result: Accuracy) -> Figure:
    """Three panels over the formats: accuracy, latency and energy of one inference, chip by chip."""
    known = [row for row in result.rows if row.known]
    labels = list(dict.fromkeys(_label(row) for row in result.rows))
    chips = list(dict.fromkeys(row.chip for row in result.rows))
    fig, (top, middle, bottom) = figure(7.6, 3, sharex=True, gridspec_kw={"height_ratios": [1.3, 1, 1]})
    _points(top, known, labels, chips, result)
    for axes, value, unit, what in (
        (middle, lambda row: row.chip_s, "s", "latency on the chip"),
        (bottom, lambda row: row.chip_J, "J", "energy on the chip"),
    ):
        _bars(axes, known, labels, chips, value, unit, what)
    bottom.set_xticks(range(len(labels)), labels)
    bottom.set_xlabel("number format (QAT: trained with its rounding; the others: rounded after training)")
    below(fig, middle)
    return fig


def _label(row: Row) -> str:
    return f"{row.dtype}\nQAT" if row.method == "QAT" else row.dtype


def _points(
    axes: Axes, rows: Sequence[Row], labels: Sequence[str], chips: Sequence[str], result: Accuracy
) -> None:
    for index, chip in enumerate(chips):
        color, mark, _ = LOOKS[index % len(LOOKS)]
        mine = [row for row in rows if row.chip == chip]
        at = [labels.index(_label(row)) + _offset(index, len(chips)) for row in mine]
        axes.plot(at, [100 * row.accuracy for row in mine], mark, color=color, markersize=6)
    for tick, label in enumerate(labels):
        found = [100 * row.accuracy for row in rows if _label(row) == label]
        if found:
            best = max(found)
            axes.annotate(f"{best:.1f}", (tick, best), xytext=(0, 6), textcoords="offset points", fontsize=8,
                          ha="center")  # fmt: skip
    axes.axhline(100 * result.baseline, color="#666666", linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("accuracy (%)")
    axes.grid(True, axis="y")
    axes.set_title(f"{result.model}: what a number format costs and saves", pad=20)
    subtitle(
        axes,
        f"{result.samples} test samples of {result.data}; one inference, batch {result.batch}; dashed: FP32",
    )


def _bars(
    axes: Axes, rows: Sequence[Row], labels: Sequence[str], chips: Sequence[str], value: Callable[[Row], float],
    unit: str, what: str,
) -> None:  # fmt: skip
    factor, name = prefixed([value(row) for row in rows], unit)
    share = 0.8 / max(len(chips), 1)
    for index, chip in enumerate(chips):
        color, _, hatch = LOOKS[index % len(LOOKS)]
        mine = [row for row in rows if row.chip == chip]
        at = [labels.index(_label(row)) + _offset(index, len(chips)) for row in mine]
        axes.bar(at, [value(row) * factor for row in mine], share, color=color, hatch=hatch, edgecolor="white",
                 linewidth=0.4, label=chip)  # fmt: skip
    values = [value(row) for row in rows if value(row) > 0]
    if values and max(values) > WIDE * min(values):
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    axes.set_ylabel(f"{what} ({name})".replace(" on the chip", ""))
    axes.grid(True, axis="y")


def _offset(index: int, count: int) -> float:
    """Where the bar of a chip stands beside the tick of its format."""
    return 0.8 * ((index + 0.5) / count - 0.5)
