"""Answers about what can be named: chips, models, memories, DRAMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelsim.report.answer import Answer, Definitions, Field, Record, Table, binary, in_unit
from accelsim.report.text import si
from accelsim.units import show as spelled


def chips(rows: Sequence[Record]) -> Answer:
    """List all chips with their stated peaks, a broken spec with its problem."""
    told = []
    for row in rows:
        peak = _peaks(row["peak_OPS"])
        text = f"{row['title']} ({row['kind']})" + (f"; {peak}" if peak else "")
        told.append((row["name"], f"broken: {row['problem']}" if row["problem"] else text))
    return Answer(rows, [Definitions(told)], rows)


def _peaks(peak: dict[str, float]) -> str:
    """Each rate once, the fastest first, with the formats that have it: '92 TOPS bf16, fp16; 23 TOPS fp32'."""
    formats: dict[float, list[str]] = {}
    for name, rate in peak.items():
        formats.setdefault(rate, []).append(name)
    return "; ".join(f"{si(rate, 'OPS')} {', '.join(formats[rate])}" for rate in sorted(formats, reverse=True))


def models(rows: Sequence[Record]) -> Answer:
    """List all models with their parameters."""
    told = []
    for row in rows:
        settings = [f"{name}={value}" for name, value in row["parameters"].items()]
        settings += [f"batch {row['batch']}"] if row["batch"] != 1 else []
        told.append((row["name"], row["description"] + (f"; {', '.join(settings)}" if settings else "")))
    table = [{**row, "parameters": [f"{k}={v}" for k, v in row["parameters"].items()]} for row in rows]
    return Answer(rows, [Definitions(told)], table)


def _per_byte(energy_J: float | None) -> str:
    return "the chip's" if energy_J is None else f"{energy_J * 1e12:.3g} pJ/B"


def _in(unit: str) -> Any:
    return lambda value: spelled(value, unit, 3)


MEMORIES = (
    Field("name", "memory"),
    Field("capacity_B", "capacity", lambda value: spelled(value, "B", binary=True)),
    Field("bandwidth_Bps", "peak", _in("B/s")),
    Field("efficiency", "usable", "{:.0%}".format),
    Field("latency_s", "latency", _in("s")),
    Field("read_J_per_B", "read", _per_byte),
    Field("write_J_per_B", "write", _per_byte),
    Field("static_power_W", "standby", _in("W")),
    Field("energy_status", "energies"),
)
DRAMS = (
    Field("name", "name"),
    Field("standard", "standard"),
    Field("rate_per_s", "rate", in_unit("T/s")),
    Field("peak_Bps", "peak", in_unit("B/s")),
    Field("capacity_B", "capacity", binary),
    Field("energy_status", "energies"),
)


def memories(rows: Sequence[Record]) -> Answer:
    """List all memories that a chip may have."""
    return Answer(rows, [Table(MEMORIES, rows)], rows)


def drams(rows: Sequence[Record]) -> Answer:
    """List all DRAMs that can be named."""
    return Answer(rows, [Table(DRAMS, rows)], rows)
