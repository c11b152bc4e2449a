"""Answers about number formats side by side, and about the layers that must stay wide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import files
from accelsim.report.answer import Answer, Field, Lines, Part, Record, Table
from accelsim.report.picture import Axis, Mark, Panel, Picture, bars, beside, note, points, rule
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Look
from accelsim.request.fields import OPTIONS, asked_of
from accelsim.request.recording import words
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.compiler.state import Options
    from accelsim.explore.accuracy import Accuracy, FormatResult
    from accelsim.explore.mixed import Choice

FILES = ("accuracy.md", "accuracy.csv", "accuracy.png")


def _amount(unit: str, value: float) -> str:
    return "-" if isnan(value) else show(value, unit, 3)


def _share(value: float) -> str:
    return "-" if isnan(value) else f"{100 * value:.2f} %"


def _host(row: Record) -> str:
    return f"{_amount('s', row['host_s'])}, {_amount('J', row['host_J'])}" if row["host_s"] > 0 else "-"


FORMATS = (
    Field("chip", "chip"),
    Field("dtype", "format"),
    Field("method", "method"),
    Field("mac", "computed in", lambda row: "itself" if row["mac"] == row["dtype"] else row["mac"] or "-", True),
    Field("accuracy", "accuracy", _share),
    Field("chip_s", "latency", partial(_amount, "s")),
    Field("chip_J", "energy", partial(_amount, "J")),
    Field("host_s", "on the host", _host, True),
    Field("model_B", "model", partial(_amount, "B")),
)
"""Columns of the table; a format that the chip cannot do has '-' in every column of figures."""


def _record(row: FormatResult) -> Record:
    return {**vars(row), "chip_s": row.chip_s, "chip_J": row.chip_J}


def accuracy(result: Accuracy, out: Path | None = None, command: str = "") -> Answer:
    """Report accuracy, latency and energy by number format; ``out``: directory of the page that ``command`` makes."""
    rows = [vars(row) for row in result.rows]
    answer = Answer(
        {"tool": "accelsim", **vars(result), "rows": rows},
        [Table(FORMATS, [_record(row) for row in result.rows]), "", " ".join(sentences(result))],
        rows,
        {"accuracy": partial(draw, result)},
    )
    if out is None:
        return answer
    made = (files.text(markdown(result, command)), files.records(answer.table()), draw(result).file(".png"))
    return replace(answer, other_files={out: dict(zip(FILES, made, strict=True))})


def command(asked: Mapping[str, Any], options: Options, out: Path) -> str:
    """Return the command line that makes the report again; ``asked``: its other options, by name."""
    named = {"on": True, "dtypes": True, "qat": asked["qat"], "data": asked["data"] != "digits",
             "batch": asked["batch"] != 1, "steps": asked["steps"] != 1000, "seed": asked["seed"]}  # fmt: skip
    lists = {name: ",".join(asked[name]) for name in ("on", "dtypes", "qat")}
    parts = [f"--{name} {lists.get(name, asked[name])}" for name, typed in named.items() if typed]
    given, default = asked_of(options), asked_of(type(options)())
    changed = [name for name in given if OPTIONS[name].shared and given[name] != default[name]]
    parts += [word for name in changed for word in words(name, given[name])]
    return " ".join([f"accelsim accuracy {asked['model']}", *parts, f"--out {out.as_posix()}"])


def sentences(result: Accuracy) -> list[str]:
    """Return what the table says, in words."""
    known = [row for row in result.rows if row.known]
    whole = f"a batch of {result.batch} on the chip, divided by {result.batch}"
    of_one = whole if result.batch > 1 else "one inference on the chip (batch 1)"
    lines = [
        f"{result.model} gets {100 * result.baseline:.2f} % of {result.samples} test samples of {result.data} right in"
        f" FP32 (weights: {result.weights}).",
        f"Latency and energy are those of {of_one}; what the host adds to turn inputs into codes and"
        " results back stands beside them.",
    ]
    within = [row for row in known if result.baseline - row.accuracy <= 0.01 + 1e-9]
    if within:
        best = min(within, key=lambda row: row.chip_J)
        lines.append(
            f"Least energy within one point of FP32: {best.dtype} ({best.method}) on {best.chip},"
            f" {_amount('J', best.chip_J)} for {100 * best.accuracy:.2f} %."
        )
    for chip in dict.fromkeys(row.chip for row in result.rows):
        missing = dict.fromkeys(row.dtype for row in result.rows if row.chip == chip and not row.known)
        if missing:
            lines.append(f"Nothing in {chip} computes {', '.join(missing)}.")
    return lines


def markdown(result: Accuracy, command: str) -> str:
    """Return the page in Markdown: the command that makes it, sentences, picture, table."""
    head = f"# {result.model}: accuracy, latency and energy by number format\n\n"
    made = f"Made by `{command}`.\n\n" if command else ""
    heads = [each.title for each in FORMATS]
    rows = [heads, ["---"] * len(heads), *([each.cell(_record(row)) for each in FORMATS] for row in result.rows)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    text = "\n".join(sentences(result))
    return f"{head}{made}{text}\n\n![accuracy, latency, energy](accuracy.png)\n\n{table}\n"


KEPT = (
    Field("layer", "layer"),
    Field("alone", "only it narrow", _share),
    Field("without", "all but it narrow", _share),
    Field("cost", "MACs", int),
    Field("format", "format"),
)


def kept_wide(found: Choice, dtype: str, keep: str) -> Answer:
    """Return which layers must stay in the format ``keep`` where the others are in ``dtype``."""
    rows = [vars(row) for row in found.rows]
    told = [{**row, "format": keep if row["kept"] else dtype} for row in rows]
    scores = (
        f"All layers in {keep}: {_share(found.full)}; all in {dtype}: {_share(found.quantised)}; as in the last column:"
        f" {_share(found.score)}, a loss of {100 * found.loss:.2f} points. {found.calls} combinations were tried."
    )
    shown: list[Part] = [Table(KEPT, told), "", scores]
    if found.kept:
        options = "".join(f" --layer-dtype {name}={keep}" for name in found.kept)
        shown += ["", Lines(f"To use it: --dtype {dtype}{options}")]
    return Answer({**vars(found), "rows": rows}, shown, rows)


LOOKS = (
    (Look(BLUE), "o"),
    (Look(VERMILLION, "////"), "s"),
    (Look(GREEN, "...."), "^"),
    (Look(ORANGE, "xxxx"), "D"),
    (Look(PURPLE, "||||"), "v"),
    (Look(SKY, "----"), "P"),
)
"""Look and mark of one chip after the other."""
WIDE = 20.0
"""Ratio of the largest to the smallest bar from which on the axis is logarithmic."""


def draw(result: Accuracy) -> Picture:
    """Draw three panels over the formats: accuracy, latency and energy of one inference, chip by chip."""
    known = [row for row in result.rows if row.known]
    labels = list(dict.fromkeys(map(_label, result.rows)))
    chips = list(dict.fromkeys(row.chip for row in result.rows))
    marks: list[Mark] = []
    seconds: list[Mark] = []
    joules: list[Mark] = []
    for index, chip in enumerate(chips):
        look, marker = LOOKS[index % len(LOOKS)]
        mine = [row for row in known if row.chip == chip]
        at = [labels.index(_label(row)) + beside(index, len(chips)) for row in mine]
        marks.append(points(at, [100 * row.accuracy for row in mine], "", look.color, marker))
        for bar, values in ((seconds, [row.chip_s for row in mine]), (joules, [row.chip_J for row in mine])):
            bar.append(bars(at, values, chip, look, wide=0.8 / len(chips)))
    for tick, label in enumerate(labels):
        found = [100 * row.accuracy for row in known if _label(row) == label]
        if found:
            best = f"{max(found):.1f}"
            marks.append(note(tick, max(found), best, (0, 6), "center", va="bottom", fontsize=8))
    marks.append(rule(y=100 * result.baseline, color="#666666", linewidth=0.8, linestyle="--"))
    caption = f"{result.samples} test samples of {result.data}; one inference, batch {result.batch}; dashed: FP32"
    percents = Axis("accuracy (%)", low=0, high=112, names={tick: str(tick) for tick in range(0, 101, 20)})
    what = "number format (QAT: trained with its rounding; the others: rounded after training)"
    x = Axis(what, names=labels)
    panels = [
        Panel(f"{result.model}: what a number format costs and saves", marks, y=percents, note=caption, grid="y"),
        Panel("", seconds, y=_amounts("latency", "s", [row.chip_s for row in known]), grid="y"),
        Panel("", joules, x, _amounts("energy", "J", [row.chip_J for row in known]), grid="y"),
    ]
    return Picture(7.6, panels, legend=4, share="x", ratios=(1.3, 1, 1))


def _label(row: FormatResult) -> str:
    return f"{row.dtype}\nQAT" if row.method == "QAT" else row.dtype


def _amounts(label: str, unit: str, values: list[float]) -> Axis:
    found = [value for value in values if value > 0]
    return Axis(label, unit, "log" if found and max(found) > WIDE * min(found) else "linear")
