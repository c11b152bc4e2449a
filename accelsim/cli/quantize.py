"""``accelsim quantize``: a float model becomes an ONNX model of integers (or 8-bit floats)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_file_target, extents, pairs, progress
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options
from accelsim.errors import Gather

if TYPE_CHECKING:
    from accelsim.report.answer import Answer


@answers(
    "accelsim quantize my-model.onnx --data samples.npz --out my-model-int8.onnx",
    "accelsim quantize digits-cnn --data digits --dtype int4xint8 --ranges mse --out q.onnx",
    "accelsim quantize my-model.onnx --data samples.npz --scheme affine --format qoperator --out q.onnx",
    cls=Grouped,
)  # fmt: skip
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
def quantize(gather: Gather, model: str, out: Path, shape: tuple[str, ...], **asked: Any) -> Answer:
    """Quantise MODEL (an ONNX file or a name from 'accelsim models') after training, and write it as ONNX.

    Prints each layer's formats, scales and error against the float model on these data.
    """
    from accelsim import quantise_api
    from accelsim.report.quantised import quantised

    with gather.also(last=True):
        check_file_target(out)
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
