"""``accelsim batching``: time per sample against the batch size, split into transfers and computing."""

from __future__ import annotations

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import option, progress, whole, whole_list
from accelsim.cli.options import limit_options
from accelsim.errors import Gather, Problem, UsageError
from accelsim.report.answer import Answer


def parsed_batches(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    """Read batch sizes with commas between them. Raises UsageError."""
    sizes = {part: whole(part) for part in whole_list(text)}
    wrong = [part for part, size in sizes.items() if size is None]
    if wrong or not sizes:
        raise UsageError(
            [Problem(f"{part!r} is no batch size", "--batches", "whole numbers from 1, with commas") for part in wrong]
            or Problem("no batch size", "--batches", "whole numbers from 1, with commas")
        )
    return tuple(size for size in sizes.values() if size is not None)


@answers(
    "accelsim batching cnn --on tpu-v1 --batches 1,2,4,8,16,32,64",
    "accelsim batching resnet50 --on tpu-v1 --set memories.pcie_memory.link=links/pcie-gen5-x16 --plot batching.png",
    outputs="csv plot json",
)
@click.argument("model")
@option("--on chip", "A chip's name or its YAML file.", required=True, metavar="CHIP")
@option("--batches", "Batch sizes.", "1,2,4,8,16,32,64,128,256", callback=parsed_batches, metavar="N,N,...")
@option("--dtype", "Operand format; without: the chip's preferred one.", "")
@option("--set overrides", "Change a field of the spec. Repeatable.", multiple=True, metavar="PATH=VALUE")
@limit_options
def batching(
    gather: Gather, model: str, chip: str, batches: tuple[int, ...], dtype: str, overrides: tuple[str, ...]
) -> Answer:
    """Latency, time and energy per sample of MODEL on CHIP against the batch size, and what the host's link costs.

    Transfers hidden behind computing cost nothing; small ones pay the latency of the link and its packet headers.
    """
    from accelsim.explore import batching as explore
    from accelsim.report import studies

    gather.done()
    with progress(1) as stage:
        found = explore.batching(
            model, chip, batches, lambda share: stage("simulate", share), dtype=dtype, set=overrides
        )
    return studies.batching(found)
