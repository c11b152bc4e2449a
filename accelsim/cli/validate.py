"""``accelsim validate``: run the checks against hardware models, other simulators and published figures."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import FILE, OUT, flag, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim validate",
    "accelsim validate scalesim tpu-v1 --details",
    "accelsim validate rtl-machine --rows runs.csv --csv results.csv",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@option("--rows", "Rows for rtl-machine, as in its golden file; --csv receives the results.", type=FILE)
@option(
    "--data",
    "Folder with rows that others measured, for the checks gpu-*, collectives, serving and training.",
    type=FILE,
    metavar="DIR",
)
@option(
    "--pictures",
    "A folder for pictures, CHECK.png: measured against predicted times of the checks gpu-gemm, gpu-conv, "
    "gpu-vector and gpu-models.",
    type=OUT,
    metavar="DIR",
)
@flag("--details", "Show what was compared, and the first rows that differ.")
@flag("--list only_list", "List the checks: what each compares, how long it takes.")
def validate(gather: Gather, **asked: Any) -> Answer:
    """Run the checks NAME (all of them when none is named); exit code 1 when one fails.

    A check passes when every row that it compares agrees, exactly or within the bound that it states. Checks and the
    figures that they compare with belong to a checkout of the project; they are not part of the installed package.
    """
    command = from_checkout("tests.validation.command", "accelsim validate")
    answer: Answer = command.validate(gather, **asked)
    return answer
