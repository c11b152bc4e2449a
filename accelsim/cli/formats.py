"""``accelsim formats``: the number formats, and one value in one of them."""

from __future__ import annotations

import math

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import option
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer


@answers(
    "accelsim formats",
    "accelsim formats show fp8_e4m3fn 0.3 --plot fp8.png",
    make=click.group,
    invoke_without_command=True,
)
def formats(gather: Gather) -> Answer:
    """List every number format: its size, its range, and the chips that compute in it.

    Other names work too: float16, fp8, and floats of any size, such as fp8_e5m2b20 (bias 20).
    """
    from accelsim.report.formats import formats

    return gather.read(formats)


@answers(
    "accelsim formats show fp8_e4m3fn 0.3",
    "accelsim formats show fp16 70000 --overflow saturate",
    outputs="plot json",
    make=formats.command,
    name="show",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name", metavar="FORMAT")
@click.argument("value", metavar="VALUE")
@option("--rounding", "rne, rna (ties away), rz (toward zero), stochastic.", "rne")
@option("--overflow", "inf, nan or saturate; as the format does by default.")
@option("--seed", "Seed of stochastic rounding.", 0, least=0)
def show_value(gather: Gather, name: str, value: str, rounding: str, overflow: str | None, seed: int) -> Answer:
    """Show what becomes of VALUE in FORMAT: its bits, its neighbours and the rounding error."""
    from accelsim.formats.describe import describe
    from accelsim.report import formats as said

    return said.value(gather.read(lambda: describe(_number(value), name, rounding, overflow, seed)))


def _number(text: str) -> float:
    """A number, also inf, nan, 0x1.8p3 and 2^-9."""
    base, power, exponent = text.partition("^")
    try:
        if power:
            return math.pow(float(base), float(exponent))
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is no number", "", "a number such as 0.3, -1e-3, inf or 2^-9") from None
