"""The answer about a matrix product on a systolic array, by one dataflow or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.report.answer import Answer, Field, Lines, Table
from accelsim.report.text import si


def _words(name: str, record: Mapping[str, Any]) -> str:
    """A column name as one reads it: 'utilisation_pct' becomes 'utilisation, %'. A sum says what it lacks."""
    if name.endswith("_pct"):
        return f"{name.removesuffix('_pct').replace('_', ' ')}, %"
    lacking = [key.removesuffix("_energy_J") for key, value in record.items() if value is None]
    without = f" without {', '.join(lacking)}" if name == "array_energy_J" and lacking else ""
    return name.removesuffix("_J").replace("_", " ") + without


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "not stated"
    if name.endswith("_J"):
        return si(value, "J")
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def side_by_side(heading: str, records: Sequence[dict[str, Any]]) -> Answer:
    """Report a row for each figure, a column for each dataflow."""
    names = [each["dataflow"] for each in records]
    rows = [
        {"figure": _words(key, records[0]), **{each["dataflow"]: _text(key, each[key]) for each in records}}
        for key in records[0]
        if key != "dataflow"
    ]
    fields = [Field("figure", "figure"), *(Field(name, name if len(names) > 1 else "value") for name in names)]
    facts = records[0] if len(records) == 1 else list(records)
    return Answer(facts, [Lines(heading), Table(fields, rows)], records)
