"""``accelsim formats``: the number formats, and one value in one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_outputs,
    csv_option,
    example,
    json_option,
    plot_option,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from accelsim.formats.describe import Description
    from accelsim.formats.table import Format


@click.group(
    invoke_without_command=True,
    epilog=example("accelsim formats", "accelsim formats show fp8_e4m3fn 0.3 --plot fp8.png"),
)
@csv_option
@json_option
@click.pass_context
def formats(ctx: click.Context, table: Path | None, as_json: bool) -> None:
    """List every number format: its size, its range, and the chips that compute in it.

    Other names work too: float16, fp8, and floats of any size, such as fp8_e5m2b20 (bias 20).
    """
    if ctx.invoked_subcommand is not None:
        return
    from accelsim.formats.table import FORMATS

    check_outputs(None, table)
    chips, broken = _chips()
    rows = [_record(row, chips.get(row.name, [])) for row in FORMATS.values()]
    save_csv(table, rows)
    if as_json:
        show_json(rows)
        return
    _print(rows)
    for name in broken:
        click.echo(f"left out: {name}, whose spec file is broken (accelsim spec check {name})", err=True)


def _chips() -> tuple[dict[str, list[str]], list[str]]:
    """Format -> chips whose matrix unit takes it as an operand, and the chips that cannot be loaded."""
    from accelsim.errors import SpecError
    from accelsim.program.roles import multiplier
    from accelsim.spec.names import operand_formats
    from accelsim.spec.yaml import where
    from accelsim.spec.yaml.load import load_chip

    found: dict[str, list[str]] = {}
    broken = []
    for name, path in where.names("chips").items():
        try:
            chip = load_chip(path)
        except SpecError:
            broken.append(name)
            continue
        unit = multiplier(chip)
        operands = [operand_formats(each) or () for each in (unit.spec.formats if unit else {})]
        for each in sorted({row.name for rows in operands for row in rows}):
            found.setdefault(each, []).append(name)
    return found, broken


def _record(row: Format, chips: list[str]) -> dict[str, Any]:
    """Return what is said about one format, in SI or plain numbers."""
    from accelsim.formats.table import bytes_of, get

    inner = get(row.element or row.name)
    return {
        "format": row.name, "title": row.title, "bits": inner.bits, "exponent": inner.exponent,
        "mantissa": inner.mantissa, "bias": inner.bias, "max": row.max, "min_normal": row.min_normal,
        "min_subnormal": row.min_subnormal, "epsilon": row.epsilon, "overflow": row.overflow,
        "bytes": bytes_of(row.name), "chips": chips, "used": row.used, "source": row.source,
    }  # fmt: skip


def _print(rows: Sequence[dict[str, Any]]) -> None:
    from accelsim.report.table import Column, table

    columns = [
        Column("format", right=False), Column("bits", 3), Column("exp+man", 4), Column("max"), Column("min normal", 5),
        Column("smallest", 6), Column("epsilon", 2), Column("overflow", 7, right=False), Column("bytes", 1),
    ]  # fmt: skip
    show(table(columns, [_cells(row) for row in rows], width()))
    click.echo(click.wrap_text(
        "\nmin normal: smallest value of full precision; smallest: smallest value above 0; epsilon: gap between 1 and "
        "the next value; overflow: what becomes of larger values unless you say otherwise. Blocks (mx...): 32 elements "
        "share a scale; their range is that of an element, their bytes include the scale.",
        min(width(), 110),
    ))  # fmt: skip
    _print_chips(rows)


def _print_chips(rows: Sequence[dict[str, Any]]) -> None:
    """Each chip and the formats of its matrix unit, in the order of the table."""
    names = sorted({chip for row in rows for chip in row["chips"]})
    formatter = click.HelpFormatter(width=width())
    formatter.write("\n")
    formatter.write_text("Operands of the matrix unit of each chip:")
    formatter.write_dl(
        [(chip, ", ".join(row["format"] for row in rows if chip in row["chips"])) for chip in names]
    )
    click.echo(formatter.getvalue(), nl=False)


def _cells(row: dict[str, Any]) -> list[str]:
    split = f"{row['exponent']}+{row['mantissa']}" if row["exponent"] else "–"
    small = [f"{row[key]:.3g}" for key in ("min_normal", "min_subnormal", "epsilon")]
    largest = f"{row['max']:.10g}" if row["max"] < 1e10 else f"{row['max']:.4g}"
    return [row["format"], str(row["bits"]), split, largest, *small, row["overflow"], f"{row['bytes']:.4g}"]


@formats.command(
    "show",
    context_settings={"ignore_unknown_options": True},
    epilog=example(
        "accelsim formats show fp8_e4m3fn 0.3", "accelsim formats show fp16 70000 --overflow saturate"
    ),
)
@click.argument("name", metavar="FORMAT")
@click.argument("value", metavar="VALUE")
@click.option(
    "--rounding", default="rne", show_default=True, help="rne, rna (ties away), rz (toward zero), stochastic."
)
@click.option("--overflow", help="inf, nan or saturate; as the format does by default.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of stochastic rounding."
)
@plot_option
@json_option
def show_value(
    name: str, value: str, rounding: str, overflow: str | None, seed: int, plot: Path | None, as_json: bool
) -> None:
    """Show what becomes of VALUE in FORMAT: its bits, its neighbours and the rounding error."""
    from dataclasses import asdict

    from accelsim.formats.describe import describe

    check_outputs(plot)
    what = describe(_number(value), name, rounding, overflow, seed)
    if plot is not None:
        from accelsim.report.format_plot import draw

        save_plot(plot, lambda: draw(what))
    if as_json:
        show_json({key: _plain(each) for key, each in asdict(what).items()})
    else:
        _tell(what)
    if plot is not None:
        click.echo(f"picture: {plot}", err=as_json)


def _number(text: str) -> float:
    """A number, also inf, nan, 0x1.8p3 and 2^-9."""
    base, power, exponent = text.partition("^")
    try:
        if power:
            return math.pow(float(base), float(exponent))
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise UsageError(
            Problem(f"{text!r} is no number", "", "a number such as 0.3, -1e-3, inf or 2^-9")
        ) from None


def _plain(value: Any) -> Any:
    """JSON has neither infinities nor NaN: they become text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _tell(what: Description) -> None:
    """The description in lines: a name, what it is, and why."""
    from accelsim.formats.table import get

    lines = _lines(what)
    left, middle = (max(len(line[column]) for line in lines) for column in (0, 1))
    click.echo(f"{what.format}: {get(what.format).title}\n")
    for name, text, why in lines:
        click.echo(f"{name:{left}}  {text:{middle}}  {why}".rstrip())


def _lines(what: Description) -> list[tuple[str, str, str]]:
    from accelsim.formats.codec import ROUNDINGS

    became = f"{what.kind}, the largest value: overflow {what.overflow}" if what.saturated else what.kind
    digits = 2 * -(-len(what.bits.replace(" ", "")) // 8)
    lines = [
        ("value", _text(what.value), ""),
        (
            "rounded",
            _text(what.rounded),
            became if what.kind == "sign" else f"{became}; {ROUNDINGS[what.rounding]}",
        ),
        ("code", f"0x{what.code:0{digits}X}", what.bits),
        *((f"  {each.name}", each.bits, each.meaning) for each in what.fields),
        ("next below", _text(what.below), ""),
        ("next above", _text(what.above), ""),
    ]
    if what.absolute_error is not None:
        lines.append(("absolute error", f"{what.absolute_error:.4g}", "|rounded - value|"))
    if what.relative_error is not None:
        share = f"{100 * what.relative_error:.3g} %"
        lines.append(("relative error", share, _bound(what)))
    return lines


def _bound(what: Description) -> str:
    """Return how large the relative error of normal values can be."""
    from accelsim.formats.table import get

    row = get(what.format)
    if row.kind != "float" or what.saturated or what.kind != "normal":
        return "of the value"
    most = row.epsilon * (0.5 if what.rounding in ("rne", "rna") else 1)
    return f"of the value; at most {100 * most:.3g} % for normal values"


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"
