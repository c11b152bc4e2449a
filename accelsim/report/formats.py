"""Answers about number formats: all of them, and one value in one of them."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.errors import SpecError
from accelsim.formats.codec import ROUNDINGS, decode
from accelsim.formats.describe import Description, neighbour
from accelsim.formats.table import FORMATS as KNOWN
from accelsim.formats.table import Format, bytes_of, get
from accelsim.program.roles import multiplier
from accelsim.report.answer import Answer, Definitions, Field, Lines, Record, Table
from accelsim.report.picture import Axis, Mark, Panel, Picture, note, rule
from accelsim.report.style import BLUE, ORANGE, VERMILLION
from accelsim.report.table import Column
from accelsim.spec.names import operand_formats
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import load_chip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND = (
    "\nmin normal: smallest value of full precision; smallest: smallest value above 0; epsilon: gap between 1 and "
    "the next value; overflow: what becomes of larger values unless you say otherwise. Blocks (mx...): 32 elements "
    "share a scale; their range is that of an element, their bytes include the scale."
)


def _split(row: Record) -> str:
    return f"{row['exponent']}+{row['mantissa']}" if row["exponent"] else "–"


def _largest(value: float) -> str:
    return f"{value:.10g}" if value < 1e10 else f"{value:.4g}"


def _field(key: str, title: str, rank: int, form: Any = str, whole: bool = False, right: bool = True) -> Field:
    return Field(key, title, form, whole, look=Column(title, rank, right))


FORMATS = (
    _field("format", "format", 0, right=False),
    _field("bits", "bits", 3),
    _field("", "exp+man", 4, _split, True),
    _field("max", "max", 0, _largest),
    _field("min_normal", "min normal", 5, "{:.3g}".format),
    _field("min_subnormal", "smallest", 6, "{:.3g}".format),
    _field("epsilon", "epsilon", 2, "{:.3g}".format),
    _field("overflow", "overflow", 7, right=False),
    _field("bytes", "bytes", 1, "{:.4g}".format),
)


def record(row: Format, chips: list[str]) -> dict[str, object]:
    """Return the record of one format, in SI or plain numbers."""
    inner = get(row.element or row.name)
    found = {"format": row.name, "title": row.title}
    found |= {key: getattr(inner, key) for key in ("bits", "exponent", "mantissa", "bias")}
    found |= {key: getattr(row, key) for key in ("max", "min_normal", "min_subnormal", "epsilon", "overflow")}
    return found | {"bytes": bytes_of(row.name), "chips": chips, "used": row.used, "source": row.source}


def _of_chips() -> tuple[dict[str, list[str]], list[str]]:
    """Return by format the chips whose matrix unit takes it as an operand, and the chips that cannot be loaded."""
    found: dict[str, list[str]] = {}
    broken = []
    for name, path in where.names("chips").items():
        try:
            unit = multiplier(load_chip(path))
        except SpecError:
            broken.append(name)
            continue
        operands = [operand_formats(each) or () for each in (unit.spec.formats if unit else {})]
        for each in sorted({row.name for rows in operands for row in rows}):
            found.setdefault(each, []).append(name)
    return found, broken


def formats() -> Answer:
    """List all formats, and the formats of the matrix unit of each chip."""
    chips, broken = _of_chips()
    rows = [record(row, chips.get(row.name, [])) for row in KNOWN.values()]
    names = sorted({chip for each in chips.values() for chip in each})
    told = [(chip, ", ".join(name for name in KNOWN if chip in chips.get(name, ()))) for chip in names]
    out = [Lines(f"left out: {name}, whose spec file is broken (accelsim spec check {name})") for name in broken]
    heading = Lines("\nOperands of the matrix unit of each chip:")
    return Answer(rows, [Table(FORMATS, rows), LEGEND, heading, Definitions(told)], rows, aside=out)


def value(what: Description) -> Answer:
    """Report a value in a format: bits, neighbours, rounding error."""
    facts = asdict(what)
    rows = _rows(what)
    left, middle = (max(len(line[column]) for line in rows) for column in (0, 1))
    lines = [f"{name:{left}}  {text:{middle}}  {why}".rstrip() for name, text, why in rows]
    heading = f"{what.format}: {get(what.format).title}\n"
    return Answer(_plain(facts), [Lines("\n".join([heading, *lines]))], pictures={"value": partial(draw, what)})


def _plain(facts: object) -> object:
    if isinstance(facts, dict):
        return {key: _plain(each) for key, each in facts.items()}
    return str(facts) if isinstance(facts, float) and not math.isfinite(facts) else facts


def _rows(what: Description) -> list[tuple[str, str, str]]:
    """Return name, figure and explanation of each line."""
    became = f"{what.kind}, the largest value: overflow {what.overflow}" if what.saturated else what.kind
    digits = 2 * -(-len(what.bits.replace(" ", "")) // 8)
    rows = [
        ("value", _text(what.value), ""),
        ("rounded", _text(what.rounded), became if what.kind == "sign" else f"{became}; {ROUNDINGS[what.rounding]}"),
        ("code", f"0x{what.code:0{digits}X}", what.bits),
        *((f"  {each.name}", each.bits, each.meaning) for each in what.fields),
        ("next below", _text(what.below), ""),
        ("next above", _text(what.above), ""),
    ]
    if what.absolute_error is not None:
        rows.append(("absolute error", f"{what.absolute_error:.4g}", "|rounded - value|"))
    if what.relative_error is not None:
        rows.append(("relative error", f"{100 * what.relative_error:.3g} %", _bound(what)))
    return rows


def _bound(what: Description) -> str:
    """Return the largest relative error of normal values, in words."""
    row = get(what.format)
    if row.kind != "float" or what.saturated or what.kind != "normal":
        return "of the value"
    most = row.epsilon * (0.5 if what.rounding in ("rne", "rna") else 1)
    return f"of the value; at most {100 * most:.3g} % for normal values"


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


SINGLE_BITS = 8
"""Formats of at most so many bits are drawn value by value, longer ones binade by binade."""
EACH_SIDE = 4
"""Values that the zoom shows on either side."""


def draw(what: Description) -> Picture:
    """Draw all positive values on a logarithmic axis; below it, to scale, the values around the one described."""
    row = get(what.format)
    return Picture(4.6, [_overview(row, what), _zoom(row, what)])


def ladder(row: Format, low: float, high: float) -> tuple[list[Mark], Axis]:
    """Return the positive values of a format as strokes of a ruler over log2, and its axis from ``low`` to ``high``.

    Subnormals are shorter and have another colour.
    """
    if single := row.bits <= SINGLE_BITS:
        codes = decode(np.arange(row.codes), row.name).astype(np.float64)
        values = codes[np.isfinite(codes) & (codes > 0)]
    else:  # the powers of two, and the largest
        powers = np.arange(round(math.log2(row.min_subnormal)), row.emax + 1)
        values = np.append(np.ldexp(1.0, powers), row.max)
    small = values < row.min_normal if row.kind == "float" else np.zeros(values.shape, bool)
    marks = []
    for chosen, color, height, name in ((~small, BLUE, 1.0, "normal"), (small, ORANGE, 0.6, "subnormal")):
        label = name if single else f"{name}, powers of two only"
        marks += [_strokes(np.log2(values[chosen]), height, label, color)] if chosen.any() else []
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(1, math.ceil((last - first) / 14))
    names = {power: _power(power) for power in range(first, last + 1) if power % step == 0}
    return marks, Axis(low=math.log2(low) - 1, high=math.log2(high) + 1, names=names)


def _power(power: int) -> str:
    """Return 2**power as a plain number where that is short."""
    return f"{2**power}" if 0 <= power <= 12 else f"1/{2**-power}" if -6 <= power < 0 else f"2^{power}"


def _strokes(at: Any, height: float, label: str = "", color: str = BLUE, **look: Any) -> Mark:
    return Mark("strokes", at, [height], label, [0.0], {"color": color, "linewidth": 1.1, **look})


def _overview(row: Format, what: Description) -> Panel:
    size = abs(what.value)
    ends = [row.min_subnormal, row.max, *([size] if 0 < size < math.inf else [])]
    marks, axis = ladder(row, min(ends), max(ends))
    if 0 < size < math.inf:
        marks += [
            rule(x=math.log2(size), color=VERMILLION, linewidth=2),
            _beside(math.log2(size), 1.2, f"|x| = {size:.6g}", "left"),
        ]
    facts = [f"largest {row.max:.5g}", f"smallest normal {row.min_normal:.3g}"]
    facts += [f"smallest {row.min_subnormal:.3g}"] if row.min_subnormal < row.min_normal else []
    facts += [f"{row.codes:,} codes"] if row.bits <= 32 else []
    title, height = f"{row.name}: its positive values, logarithmic", Axis(low=0, high=1.35, names={})
    return Panel(title, marks, axis, height, " · ".join(facts), legend=2, finish=_no_spine)


def _no_spine(_: Figure, axes: Axes) -> None:
    axes.spines["left"].set_visible(False)


def _zoom(row: Format, what: Description) -> Panel:
    values, height = values_around(what.rounded, row), Axis(low=0, high=1.2, names={})
    if len({float(value) for value in values}) < 2:
        title = f"{what.value:g} becomes {what.rounded:g}: no neighbours to draw"
        return Panel(title, [], Axis(names={}), height, finish=_no_spine)
    low, high = values[0], values[-1]
    spread = high - low
    texts = [f"{value:.6g}" for value in values]
    crowded = min(b - a for a, b in pairwise(values)) / spread < 0.012 * max(map(len, texts))

    def finish(fig: Figure, axes: Axes) -> None:
        _no_spine(fig, axes)
        axes.tick_params("x", rotation=25 if crowded else 0)

    shown = min(max(what.value, low - 0.05 * spread), high + 0.05 * spread)  # at the edge where x lies outside
    outside = shown != what.value
    label = f"x = {what.value:.6g}{', outside' if outside else ''}"
    marks = [
        _strokes(values, 0.5, linewidth=1.6),
        _strokes([shown], 0.9, "", VERMILLION, linewidth=2, linestyle="--" if outside else "-"),
        _beside(shown, 0.95, label, "right" if shown > (low + high) / 2 else "left"),
    ]
    if math.isfinite(what.rounded) and what.rounded != shown:
        arrow = {"arrowstyle": "-|>", "color": VERMILLION, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        marks.append(note(what.rounded, 0.62, "", xytext=(shown, 0.62), textcoords="data", arrowprops=arrow))
    error = what.relative_error
    lost = "" if error is None else f"error {what.absolute_error:.3g}, {100 * error:.3g} % of x · "
    x = Axis(low=low - 0.06 * spread, high=high + 0.06 * spread, names=dict(zip(values, texts, strict=True)))
    title = f"The values around it, to scale: {what.value:g} becomes {what.rounded:.9g}"
    return Panel(title, marks, x, height, f"{lost}{ROUNDINGS[what.rounding]}; code {what.bits}", finish=finish)


def _beside(x: float, y: float, text: str, side: str) -> Mark:
    return note(x, y, text, (-4 if side == "right" else 4, 0), side, va="baseline", fontsize=9, color=VERMILLION)


def values_around(value: float, row: Format) -> list[float]:
    """Return finite values of the format around one of them, ascending; from the largest where it is an infinity."""
    if math.isnan(value):
        return []
    low, high = (row.low, row.high) if row.kind == "int" else (row.min, row.max)
    centre = max(min(value, high), low)
    found = [neighbour(centre, row, step) for step in range(-EACH_SIDE, EACH_SIDE + 1)]
    return sorted({each for each in found if each is not None and math.isfinite(each)})
