"""``accelsim chips`` and ``accelsim models``: what there is."""

from __future__ import annotations

import click

from accelsim.cli.common import example, show, width


@click.command(**example("accelsim chips"))
def chips() -> None:
    """List every chip that can be named, with its stated peak; a broken spec file is listed with its problem."""
    from accelsim.report.table import text_table
    from accelsim.report.text import si
    from accelsim.spec.load import list_chips

    found = list_chips()
    rows = [
        (chip.name, chip.problem and "broken" or ", ".join(f"{si(rate, 'OPS')} {name}" for name, rate in chip.peak.items()),
         chip.title, chip.kind)
        for chip in found
    ]  # fmt: skip
    show(text_table(["chip", "peak", "title", "kind"], rows, width()))
    for chip in found:
        if chip.problem:
            click.echo(f"error: {chip.problem}", err=True)


@click.command(**example("accelsim models"))
def models() -> None:
    """List every model that can be named; parameters are set with --param NAME=VALUE."""
    from accelsim.report.table import text_table
    from accelsim.workload.load import list_models

    rows = [
        (
            row.name,
            row.description,
            ", ".join(f"{name}={value}" for name, value in row.parameters.items()),
            row.batch,
        )
        for row in list_models()
    ]
    show(text_table(["model", "description", "parameters", "batch"], rows, width()))
