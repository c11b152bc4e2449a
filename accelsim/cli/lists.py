"""``accelsim chips`` and ``accelsim models``: what there is."""

from __future__ import annotations

from collections.abc import Sequence

import click

from accelsim.cli.common import example, width


@click.command(epilog=example("accelsim chips"))
def chips() -> None:
    """List every chip that can be named, with its stated peak; a broken spec file is listed with its problem."""
    from accelsim.spec.load import list_chips

    rows = []
    for chip in list_chips():
        text = f"{chip.title} ({chip.kind}){'; ' if chip.peak else ''}{_peaks(chip.peak)}"
        rows.append((chip.name, f"broken: {chip.problem}" if chip.problem else text))
    _print(rows)


@click.command(epilog=example("accelsim models"))
def models() -> None:
    """List every model that can be named; parameters are set with --param NAME=VALUE."""
    from accelsim.workload.load import list_models

    rows = []
    for row in list_models():
        settings = [f"{name}={value}" for name, value in row.parameters.items()]
        settings += [f"batch {row.batch}"] if row.batch != 1 else []
        rows.append((row.name, row.description + (f"; {', '.join(settings)}" if settings else "")))
    _print(rows)


def _peaks(peak: dict[str, float]) -> str:
    """Each rate once, the fastest first, with the formats that have it: '92 TOPS bf16, fp16; 23 TOPS fp32'."""
    from accelsim.report.text import si

    formats: dict[float, list[str]] = {}
    for name, rate in peak.items():
        formats.setdefault(rate, []).append(name)
    return "; ".join(
        f"{si(rate, 'OPS')} {', '.join(formats[rate])}" for rate in sorted(formats, reverse=True)
    )


def _print(rows: Sequence[tuple[str, str]]) -> None:
    """Names and what they are, wrapped at the width of the terminal; nothing is cut off."""
    formatter = click.HelpFormatter(width=width())
    formatter.write_dl([(name, " ".join(text.split())) for name, text in rows])
    click.echo(formatter.getvalue(), nl=False)
