"""``accelsim study service``: what limits a service."""

from __future__ import annotations

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import option, progress
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim study service resnet50 --on t4 --before decode-jpeg,resize --cores 8 --plot limits.png",
    outputs="csv plot json",
)
@click.argument("model")
@option("--on", "Chip of the service.", required=True, metavar="CHIP")
@option(
    "--before", "Work of the host before the chip, as for 'accelsim serve'.", "decode-jpeg,resize", metavar="WORK,..."
)
@option("--after", "Work of the host after the chip.", "top5", metavar="WORK,...")
@option("--cores", "Cores of the host.", 8, least=1)
@option("--most", "Largest batch.", 32, least=2)
@option("--keep", "Share of the requests that a filter on the host lets pass to the chip.", 0.3, type=float)
@option("--cpu", "Processor that could do it all alone: a chip of kind cpu.", "xeon-8375c", metavar="CHIP")
@option("--dtype", "Number format of the chip; default: its own.", "")
def service(
    gather: Gather, model: str, on: str, before: str, after: str, cores: int, most: int, keep: float, cpu: str,
    dtype: str,
) -> Answer:  # fmt: skip
    """Find what limits a service of MODEL: CPU, PCIe or chip; what batches and a filter bring."""
    from accelsim.cluster.step.transformer import transformer_of
    from accelsim.report import service_study
    from accelsim.serving.items.asked import Question
    from accelsim.serving.items.limits import limits

    generates = transformer_of(model) is not None
    what = "an image or text model; 'accelsim serve' and 'accelsim choose --load' answer for language models"
    gather.refuse(generates, f"{model} is a language model, whose requests share steps", "MODEL", what)
    gather.done()
    question = Question(model, on, before=before, after=after, cores=cores, dtype=dtype)
    with progress(1) as stage:
        stage("simulate", 0.0)
        return service_study.answer(limits(question, keep, most, cpu))
