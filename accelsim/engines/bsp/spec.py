"""The spec of a machine of tiles, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Clocks, Pace, Parts, Side
from accelsim.spec.declaring import Field
from accelsim.spec.engine import EngineSpec
from accelsim.spec.laws.finding import Finding, functions_are_known, only_one
from accelsim.spec.multiplying import dot_rules_fit, formats_are_known
from accelsim.spec.names import FUNCTIONS
from accelsim.spec.quantity import Bytes, JoulesPerByte, Width
from accelsim.spec.status import Status
from accelsim.spec.yaml.tree import PathTo
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.memory import Buffer


class TileFormat(Model):
    """One operand format of a tile's product unit. A pass holds ``k`` x ``n`` weights, padded with zeros,
    and streams rows of ``k`` operands through them."""

    k: Side = Field(description="weights along the reduction")
    n: Side = Field(description="weights along the outputs")
    cycles_per_row: Pace = Field(description="issue slots per streamed row")
    accumulate: str = Field("fp32", description="partial sum format")
    dot: str | None = Field(None, description="[rule of sums](mixed-precision.md); absent: exact, or FP32")

    @property
    def macs_per_clock(self) -> Fraction:
        """Return the multiply-accumulates per clock of one tile that streams without end."""
        return Fraction(self.k * self.n, self.cycles_per_row)


class BspUnit(EngineSpec):
    """Tiles, each a processor with its own memory, joined by a clocked network."""

    keeps: ClassVar[bool] = True
    rate: ClassVar[str] = "2 x tiles x k x n / cycles_per_row x clock x cores"

    type: Literal["bsp"] = Field(description="type of the engine")
    tiles: Parts = Field(description="processors with a memory each")
    threads: Parts = Field(description="threads of a tile, which issue in turn")
    reserve: Bytes | None = Field(None, description="tile memory for code, stacks, exchange programs; absent: nothing")
    load_width: Width = Field(description="weight bytes per clock into the product unit")
    vector_width: Width = Field(description="bytes of a vector, computed side by side")
    send_width: Width = Field(description="bytes per clock that a tile sends")
    receive_width: Width = Field(description="bytes per clock that a tile receives")
    exchange_energy: JoulesPerByte = Field(description="per byte sent, once for all receivers")
    energy_status: Status | None = Field(None, description="how far to trust it; absent: a guess")
    sync: Clocks = Field(description="clocks from the last finished tile until all continue")
    pass_overhead: Clocks = Field(0, description="clocks per pass beside weights and threads")
    thread_overhead: Clocks = Field(0, description="issue slots per thread and pass beside its rows")
    weights: Literal["loaded", "resident"] = Field(
        "loaded", description="constants: loaded once during the run, or on the tiles before"
    )
    formats: dict[str, TileFormat] = Field(min_length=1, description="operand formats, preferred first")
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) -> issue slots per vector; `none`: not this op. An op wins "
        "over its family; other ops go to the host"
    )

    def room_B(self, buffer: Buffer) -> int:
        """Return the bytes of a tile for data; ``buffer`` is the memories of all tiles."""
        return buffer.part_B - (self.reserve or 0)

    @property
    def has_epilogue(self) -> bool:
        """Return True: the tile that has an element of a product computes functions of it."""
        return True

    def kept_B(self, buffer: Buffer) -> int:
        """Return what code leaves of the memories of all tiles."""
        return self.tiles * self.room_B(buffer)

    def rates(self) -> dict[str, Fraction]:
        """Return the rates of all tiles, each of which streams without end."""
        return {name: self.tiles * row.macs_per_clock for name, row in self.formats.items()}


def the_buffer_is_that_of_the_tiles(unit: BspUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """One buffer holds all data; its parts are the memories of the tiles, and have room beside the reserve."""
    holders = [name for name, buffer in chip.buffers.items() if "activations" in buffer.holds]
    if len(holders) != 1:
        what = "several buffers hold activations" if holders else "no buffer holds activations"
        yield Finding(chip.path_to("memories"), what, f"one, of {unit.tiles} parts")
        return
    buffer = chip.buffers[holders[0]]
    if buffer.parts != unit.tiles:
        what = f"{buffer.parts or 1} parts for {unit.tiles} tiles"
        yield Finding(chip.path_to("memories", holders[0], "parts"), what, f"{unit.tiles}, the memory of each")
    elif unit.room_B(buffer) <= 0:
        most = show(buffer.part_B, "B", binary=True)
        yield Finding((*path, "reserve"), "leaves nothing of a tile for data", f"less than {most}")


def energies_of_functions_are_there(unit: BspUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Operations on elements have an energy, in the operand formats and in FP32, which stands for all others."""
    for name in dict.fromkeys((*unit.formats, "fp32")):
        if unit.functions and name not in chip.energy.vector:
            yield Finding(("energy", "vector"), f"no energy of format {name}")


SPEC = BspUnit
LAWS = (
    only_one,
    the_buffer_is_that_of_the_tiles,
    formats_are_known,
    dot_rules_fit,
    functions_are_known,
    energies_of_functions_are_there,
)
"""Every law of a machine of tiles; a new one is a function and a line here."""
