"""Answers about number formats: all of them, and one value in one of them."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelsim.formats.codec import ROUNDINGS
from accelsim.formats.describe import Description
from accelsim.formats.table import Format, bytes_of, get
from accelsim.report.answer import Answer, Definitions, Field, Lines, Record, Table
from accelsim.report.table import Column

if TYPE_CHECKING:
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


def _field(
    key: str, title: str, rank: int, form: Any = str, whole: bool = False, right: bool = True
) -> Field:
    return Field(key, title, form, whole, look=Column(title, rank, right))


FORMATS = (
    _field("format", "format", 0, right=False), _field("bits", "bits", 3), _field("", "exp+man", 4, _split, True),
    _field("max", "max", 0, _largest), _field("min_normal", "min normal", 5, "{:.3g}".format),
    _field("min_subnormal", "smallest", 6, "{:.3g}".format), _field("epsilon", "epsilon", 2, "{:.3g}".format),
    _field("overflow", "overflow", 7, right=False), _field("bytes", "bytes", 1, "{:.4g}".format),
)  # fmt: skip


def record(row: Format, chips: list[str]) -> dict[str, Any]:
    """Return the record of one format, in SI or plain numbers."""
    inner = get(row.element or row.name)
    return {
        "format": row.name, "title": row.title, "bits": inner.bits, "exponent": inner.exponent,
        "mantissa": inner.mantissa, "bias": inner.bias, "max": row.max, "min_normal": row.min_normal,
        "min_subnormal": row.min_subnormal, "epsilon": row.epsilon, "overflow": row.overflow,
        "bytes": bytes_of(row.name), "chips": chips, "used": row.used, "source": row.source,
    }  # fmt: skip


def formats(rows: list[dict[str, Any]]) -> Answer:
    """List all formats, and the formats of the matrix unit of each chip."""
    names = sorted({chip for row in rows for chip in row["chips"]})
    chips = [(chip, ", ".join(row["format"] for row in rows if chip in row["chips"])) for chip in names]
    heading = Lines("\nOperands of the matrix unit of each chip:")
    return Answer(rows, [Table(FORMATS, rows), LEGEND, heading, Definitions(chips)], rows)


def value(what: Description) -> Answer:
    """Report a value in a format: bits, neighbours, rounding error."""

    def picture() -> Figure:
        from accelsim.report.format_plot import draw

        return draw(what)

    facts = asdict(what)
    rows = _rows(what)
    left, middle = (max(len(line[column]) for line in rows) for column in (0, 1))
    lines = [f"{name:{left}}  {text:{middle}}  {why}".rstrip() for name, text, why in rows]
    heading = f"{what.format}: {get(what.format).title}\n"
    return Answer(_plain(facts), [Lines("\n".join([heading, *lines]))], pictures={"value": picture})


def _plain(facts: Any) -> Any:
    """JSON has neither infinities nor NaN: they become text."""
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
    ]  # fmt: skip
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
