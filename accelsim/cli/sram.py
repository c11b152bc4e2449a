"""``accelsim sram``: what an on-chip memory costs, and how an array's accesses fare on its banks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import flag, option
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.sram.patterns import Pattern


@answers(
    "accelsim sram --capacity 1MiB --banks 4 --node 28",
    "accelsim sram --capacity 64KiB --word 256 --cell itrs-hp --out reports/sram",
    "accelsim sram conflicts --pattern os --rows 32 --stride 64 --banks 32",
    outputs="out csv plot json",
    helps={"out": "Directory for the plot over the capacity, as PNG and SVG."},
    make=click.group,
    invoke_without_command=True,
)
@option("--capacity", "Capacity of all banks together, such as 1MiB.", metavar="BYTES")
@option("--word word_bits", "Bits of an access.", 64, type=int)
@option("--ports", "Read-write ports.", 1, type=int)
@option("--banks", "Banks that the capacity is cut into.", 1, type=int)
@option("--node node_nm", "Process, nm: 22 to 45.", 45, type=float)
@option("--cell", "itrs-lop (low operating power) or itrs-hp.", "itrs-lop")
def sram(
    gather: Gather, capacity: str | None, word_bits: int, ports: int, banks: int, node_nm: float, cell: str
) -> Answer:
    """Energy, leakage, time and area of an on-chip memory, by a model fitted to CACTI.

    The result says which figures come from interpolation, extrapolation or a rule of thumb.
    """
    from accelsim.report import sram as said
    from accelsim.sram.model import LIMITS, residuals
    from accelsim.sram.model import sram as model
    from accelsim.sram.terms import CACTI, read_points

    if capacity is None:
        raise UsageError("no --capacity", expected="--capacity 1MiB, or the command conflicts")
    capacity_B = LIMITS["capacity_B"]  # holds any banks, where what is asked for is wrong
    with gather.also():
        capacity_B = _bytes("--capacity", capacity)
    setup: dict[str, Any] = {"word_bits": word_bits, "ports": ports, "banks": banks, "node_nm": node_nm, "cell": cell}
    found, points = gather.read(lambda: model(capacity_B, **setup)), read_points(CACTI)
    nearest = min({point.node_nm for point in points}, key=lambda each: (abs(each - node_nm), each))
    rest = residuals([point for point in points if (point.node_nm, point.cell) == (nearest, cell)])
    return said.sram({"capacity_B": capacity_B, **setup}, found, rest, points)


def _bytes(option: str, text: str) -> int:
    """Bytes of a text such as '1MiB'; UsageError otherwise."""
    from accelsim.units import parse

    try:
        value = parse(text, "B")
    except ValueError as error:
        raise UsageError(str(error), option) from error
    if value < 1 or value % 1:
        raise UsageError(f"{option} {text!r} is no whole number of bytes", expected="1 B or more")
    return int(value)


PATTERNS = (*DATAFLOWS, "im2col", "accumulate")


def _pattern(asked: dict[str, Any]) -> Pattern:
    from accelsim.sram import patterns

    kind, rows, element_B = asked["pattern"], asked["rows"], asked["element"]
    skewed, stride_B = not asked["delay_registers"], asked["stride"] or rows * element_B
    if kind == "im2col":
        sizes = (asked[name] for name in ("image", "image", "channels", "kernel", "conv_stride", "element"))
        return patterns.im2col(rows, *sizes, skewed=skewed)
    if kind == "accumulate":
        return patterns.accumulate(rows, asked["length"], stride_B, element_B, skewed=skewed)
    return patterns.feed(kind, rows, asked["length"], stride_B, element_B, skewed=skewed)


@answers(
    "accelsim sram conflicts --pattern os --rows 32 --stride 64 --banks 32",
    "accelsim sram conflicts --pattern im2col --rows 27 --image 32 --channels 3 --kernel 3 --banks 8 --word-bytes 4",
    make=sram.command,
)
@option(
    "--pattern",
    "Row feed of a dataflow, im2col of a convolution, or updates of sums.",
    "ws",
    type=click.Choice(PATTERNS),
)
@option("--rows", "Ports: rows of the array, or its columns.", 32, type=int)
@option("--length", "Steps that stream.", 256, type=int)
@option("--stride", "Bytes from row to row of the matrix; default: rows x element.", type=int)
@option("--element", "Bytes of an element.", 1, type=int)
@option("--banks", "Banks.", 32, type=int)
@option("--word-bytes", "Bytes that a bank serves at a time.", 1, type=int)
@option("--ports", "Accesses per bank and clock.", 1, type=int)
@option("--image", "im2col: height and width of the input.", 32, type=int)
@option("--channels", "im2col: channels of the input.", 4, type=int)
@option("--kernel", "im2col: height and width of the kernel.", 3, type=int)
@option("--conv-stride", "im2col: stride of the convolution.", 1, type=int)
@flag("--delay-registers", "Rows are read at once, registers at the array make the skew.")
def conflicts(gather: Gather, **asked: Any) -> Answer:
    """Count how often accesses of a systolic array meet in one bank, for every interleaving of the banks.

    The array waits until all words that it asked for at a clock were served; lanes that read one word share it.
    """
    from accelsim.report import sram as said
    from accelsim.sram.banks import INTERLEAVES, Banking
    from accelsim.sram.banks import conflicts as count

    gather.done()
    pattern = _pattern(asked)
    row_B = asked["stride"] or asked["rows"] * asked["element"]
    if asked["pattern"] == "im2col":
        row_B = asked["image"] * asked["channels"] * asked["element"]
    row_words = max(1, row_B // max(1, asked["word_bytes"]))
    usable = [name for name in INTERLEAVES if name != "xor" or not asked["banks"] & (asked["banks"] - 1)]
    found = {
        name: count(pattern, Banking(asked["banks"], asked["word_bytes"], asked["ports"], name, row_words))
        for name in usable
    }
    return said.conflicts(pattern, found)
