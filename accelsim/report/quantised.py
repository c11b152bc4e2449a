"""The answer about a quantised model: formats, scales and error of each layer, and of the whole."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from pathlib import Path

from accelsim import files
from accelsim.quantise_api import Quantised
from accelsim.report.answer import Answer, Field, Lines, Part, Record, Table, block

LAYERS = 64
"""Layers that the table shows."""
NARROW = (
    "ONNX Runtime 1.31 optimises some models with codes of 4 bits or float8 into wrong ops: there, set the session "
    "option session.disable_quant_qdq to 1."
)
RANDOM = "Scales from random data say little: give --data with inputs as they will be."


def _scale(row: Record) -> str:
    zero = f", zero {row['zero_point']}" if row["zero_point"] else ""
    return "real" if isnan(row["scale"]) else f"{row['scale']:.4g}{zero}"


FIELDS = (
    Field("name", "layer"),
    Field("weights", "weights x activations", lambda row: f"{row['weights']} x {row['activations']}", True),
    Field("weight_scales", "weight scales", lambda count: "one" if count == 1 else str(count)),
    Field("scale", "result scale", _scale, True),
    Field("sqnr_dB", "SQNR, dB", "{:.1f}".format),
)


def quantised(found: Quantised, ranges: str, data: str | None, out: Path) -> Answer:
    """Report a model quantised with the method ``ranges`` on ``data``, and write it to ``out``."""
    rows, before, after = [asdict(row) for row in found.layers], found.bytes_before, found.bytes_after
    facts = {
        "tool": "accelsim",
        "model": str(out),
        "format": found.format,
        "bytes_before": before,
        "bytes_after": after,
        "accuracy": dict(zip(("floats", "quantised"), found.accuracy, strict=True)) if found.accuracy else None,
        "outputs_dB": found.outputs_dB,
        "layers": rows,
        "notes": found.notes,
    }
    whole = [
        ("ranges_from", f"{ranges}, on {data or 'one random batch'}"),
        *((f"SQNR of {name}", f"{value:.1f} dB") for name, value in found.outputs_dB.items()),
        ("file", f"{before:,} B -> {after:,} B" + f" ({before / after:.2f} times smaller)" * (after <= before)),
    ]
    if found.accuracy is not None:
        real, ours = (f"{100 * share:.1f} %" for share in found.accuracy)
        whole.append(("accuracy", f"{real} in floats -> {ours}"))
    narrow = any(
        not dtype.endswith(("int8", "int16")) for row in found.layers for dtype in (row.weights, row.activations)
    )
    shown: list[Part] = [Table(FIELDS, rows[:LAYERS])]
    if len(rows) > LAYERS:
        shown.append(f"The first {LAYERS} of {len(rows)} layers.")
    shown += ["", block("result", whole)]
    for note in [RANDOM] * (data is None) + [NARROW] * narrow:
        shown += ["", note]
    shown += ["", Lines(f"Next: accelsim run {out} --on CHIP --check (the chips: accelsim chips)")]
    return Answer(facts, shown, rows, other_files={out: files.as_bytes(found.model.SerializeToString())})
