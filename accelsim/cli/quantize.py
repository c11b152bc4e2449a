"""``accelsim quantize``: a float model becomes an ONNX model of integers (or 8-bit floats)."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    OUT,
    check_file_target,
    check_outputs,
    csv_option,
    example,
    extents,
    json_option,
    pairs,
    paragraphs,
    progress,
    save_csv,
    show,
    show_json,
    width,
)
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options

if TYPE_CHECKING:
    from accelsim.quantise_api import LayerError, Quantised

LAYERS = 64
"""Layers that the table shows."""

NARROW = (
    "ONNX Runtime 1.31 optimises some models with codes of 4 bits or float8 into wrong ops: there, set the session "
    "option session.disable_quant_qdq to 1."
)


@click.command(cls=Grouped, epilog=example(
    "accelsim quantize my-model.onnx --data samples.npz --out my-model-int8.onnx",
    "accelsim quantize digits-cnn --data digits --dtype int4xint8 --ranges mse --out q.onnx",
    "accelsim quantize my-model.onnx --data samples.npz --scheme affine --format qoperator --out q.onnx",
))  # fmt: skip
@click.argument("model")
@click.option("--out", type=OUT, required=True, help="The ONNX file to write.")
@click.option("--dtype", default="int8", show_default=True,
              help="Format of the codes: int8, int4, int16, fp8; or weights x activations: int4xint8.")  # fmt: skip
@click.option("--ranges", default="absmax", show_default=True, metavar="absmax|percentile|mse|entropy",
              help="How the range of an activation is chosen.")  # fmt: skip
@click.option("--percentile", type=float, help="Share of the values in that range, percent.")
@click.option("--data", help="Data to choose ranges from: an npz file with one array per input, or 'digits'.")
@click.option("--format", default="qdq", show_default=True, metavar="qdq|qoperator",
              help="QuantizeLinear around float ops, or ops of integers.")  # fmt: skip
@click.option("--scheme", default="symmetric", show_default=True, metavar="symmetric|affine",
              help="Without or with zero points of the activations.")  # fmt: skip
@click.option("--per-tensor", is_flag=True, help="One scale for all weights of a layer, not one per channel.")
@click.option("--bias-correction", is_flag=True, help="Correct biases for the mean error of the weights.")
@click.option("--weights", default="model", show_default=True, metavar="random:SEED|model",
              help="Values of the weights.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1), help="First dimension of every input.")
@click.option("--shape", multiple=True, metavar="NAME=1,3,224,224", help="Shape of an input. Repeatable.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of drawn data.")
@limit_options
@csv_option
@json_option
def quantize(
    model: str,
    out: Path,
    table: Path | None,
    as_json: bool,
    dtype: str,
    ranges: str,
    percentile: float | None,
    data: str | None,
    format: str,
    scheme: str,
    per_tensor: bool,
    bias_correction: bool,
    weights: str,
    batch: int | None,
    shape: tuple[str, ...],
    seed: int,
) -> None:
    """Quantise MODEL (an ONNX file or a name from 'accelsim models') after training, and write it as ONNX.

    Prints each layer's formats, scales and error against the float model on these data.
    """
    from accelsim import quantise_api
    from accelsim.errors import Gather

    gather = Gather()
    with gather.also():
        check_file_target(out)
    with gather.also():
        check_outputs(None, table)
    sizes: dict[str, tuple[int, ...]] = {}
    with gather.also():
        sizes = pairs("--shape", shape, extents, "1,3,224,224")
    with gather.also():
        quantise_api.check_choices(dtype, ranges, format, scheme, percentile)
    gather.done()
    with progress(1) as stage:
        stage(f"quantise {model}", 0.0)
        result = quantise_api.quantize(
            model, dtype=dtype, ranges=ranges, data=data, format=format, scheme=scheme, per_tensor=per_tensor,
            bias_correction=bias_correction, percentile=percentile, weights=weights, batch=batch, shape=sizes,
            seed=seed,
        )  # fmt: skip
    facts = _facts(result, out)
    save_csv(table, facts["layers"])
    result.save(out)
    if as_json:
        show_json(facts)
        return
    _print(result, ranges, data, out)


def _facts(result: Quantised, out: Path) -> dict[str, Any]:
    """The outcome as JSON holds it: None where a result is no code, or has no noise."""
    layers = [{key: _number(value) for key, value in vars(row).items()} for row in result.layers]
    accuracy = dict(zip(("floats", "quantised"), result.accuracy, strict=True)) if result.accuracy else None
    return {
        "tool": "accelsim", "model": str(out), "format": result.format, "bytes_before": result.bytes_before,
        "bytes_after": result.bytes_after, "accuracy": accuracy,
        "outputs_dB": {name: _number(value) for name, value in result.outputs_dB.items()},
        "layers": layers, "notes": result.notes,
    }  # fmt: skip


def _number(value: Any) -> Any:
    return value if not isinstance(value, float) or isfinite(value) else None


def _print(result: Quantised, method: str, data: str | None, out: Path) -> None:
    from accelsim.report.table import text_table

    headers = ("layer", "weights x activations", "weight scales", "result scale", "SQNR, dB")
    rows = list(_told(result.layers))
    show(text_table(headers, rows[:LAYERS], width()))
    if len(rows) > LAYERS:
        click.echo(f"The first {LAYERS} of {len(rows)} layers.")
    click.echo()
    before, after = result.bytes_before, result.bytes_after
    facts = [
        ("ranges_from", f"{method}, on {data or 'one random batch'}"),
        *((f"SQNR of {name}", f"{value:.1f} dB") for name, value in result.outputs_dB.items()),
        ("file", f"{before:,} B -> {after:,} B ({before / after:.2f} times smaller)" if after <= before
         else f"{before:,} B -> {after:,} B"),
    ]  # fmt: skip
    if result.accuracy is not None:
        real, ours = (f"{100 * share:.1f} %" for share in result.accuracy)
        facts.append(("accuracy", f"{real} in floats -> {ours}"))
    show(text_table(["result", ""], facts, width()))
    if data is None:
        click.echo(
            "\n"
            + paragraphs(["Scales from random data say little: give --data with inputs as they will be."])
        )
    if any(
        not dtype.endswith(("int8", "int16"))
        for row in result.layers
        for dtype in (row.weights, row.activations)
    ):
        click.echo("\n" + paragraphs([NARROW]))
    click.echo(f"\nModel: {out}\nNext:  accelsim run {out} --on CHIP --check (the chips: accelsim chips)")


def _told(rows: list[LayerError]) -> Iterator[tuple[str, ...]]:
    """The cells of a table: layer, operands, scales of the weights, scale and zero point of the result, SQNR."""
    for row in rows:
        codes = row.scale == row.scale
        result = (
            f"{row.scale:.4g}" + (f", zero {row.zero_point}" if row.zero_point else "") if codes else "real"
        )
        scales = "one" if row.weight_scales == 1 else str(row.weight_scales)
        yield row.name, f"{row.weights} x {row.activations}", scales, result, f"{row.sqnr_dB:.1f}"
