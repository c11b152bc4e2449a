"""``accelsim sram``: what an on-chip memory costs, and how an array's accesses fare on its banks."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import flag, option
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer

PATTERNS = click.Choice((*DATAFLOWS, "im2col", "accumulate"))


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
def sram(gather: Gather, capacity: str | None, **setup: Any) -> Answer:
    """Energy, leakage, time and area of an on-chip memory, by a model fitted to CACTI.

    The result says which figures come from interpolation, extrapolation or a rule of thumb.
    """
    from accelsim.report.sram import sram as answer
    from accelsim.sram.model import LIMITS
    from accelsim.units import byte_sizes

    if capacity is None:
        raise UsageError("no --capacity", expected="--capacity 1MiB, or the command conflicts")
    capacity_B = LIMITS["capacity_B"]  # holds any banks, where what is asked for is wrong
    with gather.also():
        (capacity_B,) = byte_sizes([capacity], "--capacity")
    return gather.read(lambda: answer(capacity_B, **setup))


@answers(
    "accelsim sram conflicts --pattern os --rows 32 --stride 64 --banks 32",
    "accelsim sram conflicts --pattern im2col --rows 27 --image 32 --channels 3 --kernel 3 --banks 8 --word-bytes 4",
    make=sram.command,
)
@option("--pattern", "Row feed of a dataflow, im2col of a convolution, or updates of sums.", "ws", type=PATTERNS)
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
def conflicts(gather: Gather, banks: int, word_bytes: int, ports: int, **asked: Any) -> Answer:
    """Count how often accesses of a systolic array meet in one bank, for every interleaving of the banks.

    The array waits until all words that it asked for at a clock were served; lanes that read one word share it.
    """
    from accelsim.report import sram as said
    from accelsim.sram.banks import by_interleaving
    from accelsim.sram.patterns import pattern_named

    gather.done()
    made, row_B = pattern_named(**asked)
    return said.conflicts(made, by_interleaving(made, banks, word_bytes, ports, row_B))
