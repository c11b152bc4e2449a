"""``accelsim quantize``: a float model becomes an ONNX model of integers (or 8-bit floats)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_file_target, extents, flag, option, pairs, progress
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim quantize my-model.onnx --data samples.npz --out my-model-int8.onnx",
    "accelsim quantize digits-cnn --data digits --dtype int4xint8 --ranges mse --out q.onnx",
    "accelsim quantize my-model.onnx --data samples.npz --scheme affine --format qoperator --out q.onnx",
    cls=Grouped,
)
@click.argument("model")
@option("--out", "The ONNX file to write.", type=OUT, required=True)
@option("--dtype", "Format of the codes: int8, int4, int16, fp8; or weights x activations: int4xint8.", "int8")
@option("--ranges", "How the range of an activation is chosen.", "absmax", metavar="absmax|percentile|mse|entropy")
@option("--percentile", "Share of the values in that range, percent.", type=float)
@option("--data", "Data to choose ranges from: an npz file with one array per input, or 'digits'.")
@option("--format", "QuantizeLinear around float ops, or ops of integers.", "qdq", metavar="qdq|qoperator")
@option("--scheme", "Without or with zero points of the activations.", "symmetric", metavar="symmetric|affine")
@flag("--per-tensor", "One scale for all weights of a layer, not one per channel.")
@flag("--bias-correction", "Correct biases for the mean error of the weights.")
@option("--weights", "Values of the weights.", "model", metavar="random:SEED|model")
@option("--batch", "First dimension of every input.", least=1)
@option("--shape", "Shape of an input. Repeatable.", multiple=True, metavar="NAME=1,3,224,224")
@option("--seed", "Seed of drawn data.", 0, least=0)
@limit_options
def quantize(gather: Gather, model: str, out: Path, shape: tuple[str, ...], **asked: Any) -> Answer:
    """Quantise MODEL (an ONNX file or a name from 'accelsim models') after training, and write it as ONNX.

    Prints each layer's formats, scales and error against the float model on these data.
    """
    from accelsim import quantise_api
    from accelsim.report.quantised import quantised

    gather.check(out, check_file_target, last=True)
    with gather.also():
        asked["shape"] = pairs("--shape", shape, extents, "1,3,224,224")
    with gather.also():
        choices = (asked[name] for name in ("dtype", "ranges", "format", "scheme", "percentile"))
        quantise_api.check_choices(*choices)
    gather.done()
    with progress(1) as stage:
        stage(f"quantise {model}", 0.0)
        result = quantise_api.quantize(model, **asked)
    return quantised(result, asked["ranges"], asked["data"], out)
