"""``accelsim sram``: what an on-chip memory costs, and how an array's accesses fare on its banks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    OUT,
    check_folder,
    check_outputs,
    csv_option,
    example,
    flat,
    json_option,
    paragraphs,
    plot_option,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from accelsim.sram.banks import Conflicts
    from accelsim.sram.model import Residual, Sram
    from accelsim.sram.patterns import Pattern
    from accelsim.sram.terms import Point

PICTURES = ("sram.png", "sram.svg")


@click.group(invoke_without_command=True, epilog=example(
    "accelsim sram --capacity 1MiB --banks 4 --node 28",
    "accelsim sram --capacity 64KiB --word 256 --cell itrs-hp --out reports/sram",
    "accelsim sram conflicts --pattern os --rows 32 --stride 64 --banks 32",
))  # fmt: skip
@click.option("--capacity", metavar="BYTES", help="Capacity of all banks together, such as 1MiB.")
@click.option("--word", type=int, default=64, show_default=True, help="Bits of an access.")
@click.option("--ports", type=int, default=1, show_default=True, help="Read-write ports.")
@click.option("--banks", type=int, default=1, show_default=True, help="Banks that the capacity is cut into.")
@click.option("--node", type=float, default=45, show_default=True, help="Process, nm: 22 to 45.")
@click.option(
    "--cell", default="itrs-lop", show_default=True, help="itrs-lop (low operating power) or itrs-hp."
)
@click.option("--out", type=OUT, help="Directory for the plot over the capacity, as PNG and SVG.")
@csv_option
@plot_option
@json_option
@click.pass_context
def sram(
    ctx: click.Context, /, capacity: str | None, as_json: bool, out: Path | None, plot: Path | None,
    table: Path | None, **asked: Any,
) -> None:  # fmt: skip
    """Energy, leakage, time and area of an on-chip memory, by a model fitted to CACTI.

    The result says which figures come from interpolation, extrapolation or a rule of thumb.
    """  # fmt: skip
    if ctx.invoked_subcommand is not None:
        return
    if capacity is None:
        raise UsageError(Problem("no --capacity", expected="--capacity 1MiB, or the command conflicts"))
    setup = {"word_bits": asked["word"], "ports": asked["ports"], "banks": asked["banks"],
             "node_nm": asked["node"], "cell": asked["cell"]}  # fmt: skip
    capacity_B, found = _asked(capacity, setup, out, plot, table)
    points = _points()
    rest = _residuals(points, asked["node"], asked["cell"])
    if out is not None:
        _plot(out, {"capacity_B": capacity_B, **setup}, points)
    save_plot(plot, lambda: _drawn({"capacity_B": capacity_B, **setup}, points))
    fit = {each.quantity: {"median": each.quantile(0.5), "p90": each.quantile(0.9)} for each in rest}
    facts = {"capacity_B": capacity_B, **setup, **asdict(found), "residual": fit}
    save_csv(table, [flat(facts)])
    if as_json:
        show_json(facts)
        return
    _print(found, rest)
    if out is not None:
        click.echo(f"plot: {out / PICTURES[0]}")


def _asked(
    capacity: str, setup: dict[str, Any], out: Path | None, plot: Path | None, table: Path | None
) -> tuple[int, Sram]:
    """The bytes and the memory; every problem of the command line at once."""
    from accelsim.request.job import Gather
    from accelsim.sram.model import LIMITS
    from accelsim.sram.model import sram as model

    gather, capacity_B = Gather(), LIMITS["capacity_B"]  # holds any banks, where what is asked for is wrong
    with gather.also():
        capacity_B = _bytes("--capacity", capacity)
    with gather.also():
        model(capacity_B, **setup)
    with gather.also():
        check_folder(out)
    with gather.also():
        check_outputs(plot, table)
    gather.done()
    return capacity_B, model(capacity_B, **setup)


def _bytes(option: str, text: str) -> int:
    """Bytes of a text such as '1MiB'; UsageError otherwise."""
    from accelsim.units import parse

    try:
        value = parse(text, "B")
    except ValueError as error:
        raise UsageError(Problem(str(error), option)) from error
    if value < 1 or value % 1:
        raise UsageError(Problem(f"{option} {text!r} is no whole number of bytes", expected="1 B or more"))
    return int(value)


def _points() -> list[Point]:
    from accelsim.sram.terms import CACTI, read_points

    return read_points(CACTI)


def _residuals(points: list[Point], node_nm: float, cell: str) -> list[Residual]:
    """Residuals of the cell at the nearest node of CACTI."""
    from accelsim.sram.model import residuals

    nearest = min({point.node_nm for point in points}, key=lambda each: (abs(each - node_nm), each))
    return residuals([point for point in points if (point.node_nm, point.cell) == (nearest, cell)])


FIGURES: tuple[tuple[str, str, str], ...] = (
    ("read of a word", "read_J", "J"), ("write of a word", "write_J", "J"), ("leakage", "leakage_W", "W"),
    ("access time", "access_s", "s"), ("cycle time of a bank", "cycle_s", "s"), ("area", "area_m2", "m²"),
)  # fmt: skip
"""What is printed: words, field, unit."""


def _print(found: Sram, rest: list[Residual]) -> None:
    from accelsim.report.table import text_table
    from accelsim.report.text import percent
    from accelsim.units import show as quantity

    by_name = {each.quantity: each for each in rest}
    rows = [
        (words, quantity(getattr(found, name), unit, 3), percent(by_name[name].quantile(0.5)),
         percent(by_name[name].quantile(0.9)))
        for words, name, unit in FIGURES
    ]  # fmt: skip
    show(text_table(["figure", "value", "fit: median off", "90th percentile off"], rows, width()))
    click.echo(
        paragraphs(["\n" + f"Status: {found.status}.", *([f"Note: {found.note}."] if found.note else [])])
    )
    click.echo(paragraphs([
        "The fit is that of one bank with one port against CACTI's own points at the nearest node; CACTI is a "
        "model too, and its energies differ from published ones by up to a factor of 2."
    ]))  # fmt: skip


def _plot(out: Path, asked: dict[str, Any], points: list[Point]) -> None:
    from accelsim.files import write_folder
    from accelsim.report.style import picture

    drawn = _drawn(asked, points)
    write_folder(out, {name: picture(drawn, Path(name).suffix) for name in PICTURES})


def _drawn(asked: dict[str, Any], points: list[Point]) -> Figure:
    from accelsim.report.sram_plots import Asked, sweep

    return sweep(Asked(**asked), points)


def _feed(dataflow: str, asked: dict[str, Any]) -> Pattern:
    from accelsim.sram.patterns import feed

    element_B = asked["element"]
    stride_B = asked["stride"] or asked["rows"] * element_B
    return feed(
        dataflow, asked["rows"], asked["length"], stride_B, element_B, skewed=not asked["delay_registers"]
    )


def _im2col(asked: dict[str, Any]) -> Pattern:
    from accelsim.sram.patterns import im2col

    return im2col(
        asked["rows"], asked["image"], asked["image"], asked["channels"], asked["kernel"], asked["conv_stride"],
        asked["element"], skewed=not asked["delay_registers"],
    )  # fmt: skip


def _accumulate(asked: dict[str, Any]) -> Pattern:
    from accelsim.sram.patterns import accumulate

    element_B = asked["element"]
    stride_B = asked["stride"] or asked["rows"] * element_B
    return accumulate(
        asked["rows"], asked["length"], stride_B, element_B, skewed=not asked["delay_registers"]
    )


PATTERNS: dict[str, Callable[[dict[str, Any]], Pattern]] = {
    **{name: partial(_feed, name) for name in DATAFLOWS},
    "im2col": _im2col,
    "accumulate": _accumulate,
}
"""Name of --pattern -> the pattern that the options describe."""


@sram.command(epilog=example(
    "accelsim sram conflicts --pattern os --rows 32 --stride 64 --banks 32",
    "accelsim sram conflicts --pattern im2col --rows 27 --image 32 --channels 3 --kernel 3 --banks 8 --word-bytes 4",
))  # fmt: skip
@click.option("--pattern", type=click.Choice(list(PATTERNS)), default="ws", show_default=True,
              help="Row feed of a dataflow, im2col of a convolution, or updates of sums.")  # fmt: skip
@click.option(
    "--rows", type=int, default=32, show_default=True, help="Ports: rows of the array, or its columns."
)
@click.option("--length", type=int, default=256, show_default=True, help="Steps that stream.")
@click.option("--stride", type=int, help="Bytes from row to row of the matrix; default: rows x element.")
@click.option("--element", type=int, default=1, show_default=True, help="Bytes of an element.")
@click.option("--banks", type=int, default=32, show_default=True, help="Banks.")
@click.option(
    "--word-bytes", type=int, default=1, show_default=True, help="Bytes that a bank serves at a time."
)
@click.option("--ports", type=int, default=1, show_default=True, help="Accesses per bank and clock.")
@click.option(
    "--image", type=int, default=32, show_default=True, help="im2col: height and width of the input."
)
@click.option("--channels", type=int, default=4, show_default=True, help="im2col: channels of the input.")
@click.option(
    "--kernel", type=int, default=3, show_default=True, help="im2col: height and width of the kernel."
)
@click.option(
    "--conv-stride", type=int, default=1, show_default=True, help="im2col: stride of the convolution."
)
@click.option(
    "--delay-registers", is_flag=True, help="Rows are read at once, registers at the array make the skew."
)
@csv_option
@json_option
def conflicts(as_json: bool, table: Path | None, **asked: Any) -> None:
    """Count how often accesses of a systolic array meet in one bank, for every interleaving of the banks.

    The array waits until all words that it asked for at a clock were served; lanes that read one word share it.
    """  # fmt: skip
    from accelsim.sram.banks import INTERLEAVES, Banking
    from accelsim.sram.banks import conflicts as count

    check_outputs(None, table)
    pattern = PATTERNS[asked["pattern"]](asked)
    row_words = max(1, _row_B(asked) // max(1, asked["word_bytes"]))
    usable = [name for name in INTERLEAVES if name != "xor" or not asked["banks"] & (asked["banks"] - 1)]
    found = {
        name: count(pattern, Banking(asked["banks"], asked["word_bytes"], asked["ports"], name, row_words))
        for name in usable
    }
    facts = {name: _facts(each) for name, each in found.items()}
    save_csv(table, [{"interleaving": name, **row} for name, row in facts.items()])
    if as_json:
        show_json(facts)
        return
    _conflict_table(pattern, found)


def _row_B(asked: dict[str, Any]) -> int:
    """Bytes of a row of what is read: of the matrix, or of the image."""
    if asked["pattern"] == "im2col":
        return int(asked["image"] * asked["channels"] * asked["element"])
    return int(asked["stride"] or asked["rows"] * asked["element"])


def _facts(found: Conflicts) -> dict[str, Any]:
    return {
        "clocks": found.clocks, "stalls": found.stalls, "slowdown": float(found.slowdown),
        "conflicting_clocks": found.conflicting, "words": found.words, "words_per_clock": found.words_per_clock(),
        "degrees": found.degrees,
    }  # fmt: skip


def _conflict_table(pattern: Pattern, found: dict[str, Conflicts]) -> None:
    from accelsim.report.table import text_table

    headers = ["interleaving", "clocks", "stalls", "slowdown", "worst clock", "words per clock"]
    rows = [
        (name, f"{each.clocks:,}", f"{each.stalls:,}", f"{float(each.slowdown):.2f}", str(max(each.degrees)),
         f"{each.words_per_clock():.2f}")
        for name, each in found.items()
    ]  # fmt: skip
    click.echo(f"{pattern.name}, {len(pattern.writes)} lanes of {pattern.element_B} B")
    show(text_table(headers, rows, width()))
