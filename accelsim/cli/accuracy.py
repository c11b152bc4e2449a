"""``accelsim accuracy``: what each number format costs in accuracy, and saves in time and energy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_folder, option, progress, whole_list
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options, number_options, numbers
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim accuracy digits-mlp --on edu-mixed,tpu-v1",
    "accelsim accuracy digits-cnn --on edu-mixed,tpu-v1,neuroncore-v2 --qat int8,int4 --out reports/digits-cnn",
    "accelsim accuracy digits-mlp --on edu-mixed --dtypes int4 --keep fp16 --budget 0.5",
    outputs="csv plot json",
    cls=Grouped,
)
@click.argument("model")
@option("--on", "Chips: names (see 'accelsim chips') or YAML files.", required=True, metavar="CHIP,...")
@option(
    "--dtypes",
    "Number formats to compare; weights x activations as in int4xint8.",
    "fp32,tf32,bf16,fp16,fp8,int8,int4,int1",
    metavar="FORMAT,...",
)
@option("--data", "Samples, labels: x_train, y_train, x_test, y_test or x, y.", "digits", metavar="digits|FILE.npz")
@option("--qat", "Formats that the model is also trained for.", "", metavar="FORMAT,...")
@option("--batch", "Samples of one run.", 1, least=1)
@option("--steps", "Steps of each training: of a listed model, and of --qat.", 1000, least=1)
@option("--seed", "Seed of the trainings.", 0, least=0)
@number_options
@limit_options
@option("--keep", "Find the layers that must stay in this wider format to meet --budget.", "", metavar="FORMAT")
@option("--budget", "Points of accuracy that --keep may lose.", 0.5, type=click.FloatRange(0))
@option("--out", "Directory for the page, the CSV file and the plot.", type=OUT)
def accuracy(gather: Gather, keep: str, budget: float, out: Path | None, **asked: Any) -> Answer:
    """Accuracy, latency and energy of MODEL in many number formats on several chips.

    MODEL is an ONNX file, or a listed model, which is trained first. A format that a chip lacks is emulated in a
    wider one that it has.
    """
    from accelsim.compiler.state import Options
    from accelsim.explore.accuracy import accuracy as compare
    from accelsim.explore.mixed import keep_layers
    from accelsim.report import accuracy as said

    given = numbers(asked, gather)
    del given["emulate"]  # always: the table says where
    options = Options(**given | {"edges": given["edges"] or "host"})
    asked |= {name: whole_list(asked[name]) for name in ("on", "dtypes", "qat")}
    several = len(asked["on"]) != 1 or len(asked["dtypes"]) != 1
    more = out or asked["qat"] or click.get_current_context().params["plot"]
    gather.refuse(not asked["dtypes"] and not asked["qat"], "no format", "--dtypes", "at least one, such as int8")
    gather.refuse(not asked["on"], "no chip", "--on", "at least one (see 'accelsim chips')")
    if keep:
        gather.refuse(several, "--keep with several chips or formats", "", "one of --on, one of --dtypes")
        expected = "the table on the terminal, --csv or --json"
        gather.refuse(more, "--keep with --out, --plot or --qat", "", expected)
    else:
        with gather.also(last=True):
            check_folder(out)
    gather.done()
    with progress(1 if keep else 1 + len(asked["dtypes"]) + len(asked["qat"])) as stage:
        if not keep:
            found = compare(**asked, options=options, progress=stage)
            return said.accuracy(found, out, said.command(asked, options, out) if out else "")
        stage("search", 0.0)
        (chip,), (dtype,), _ = (asked.pop(name) for name in ("on", "dtypes", "qat"))
        how = {"dtype": dtype, "keep": keep, "budget": budget / 100, "options": options}
        return said.kept_wide(keep_layers(on=chip, **how, **asked), dtype, keep)
