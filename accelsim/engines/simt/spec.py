"""What a spec says of a GPU's multiprocessors, and what of it must agree."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Annotated, Literal

from pydantic import Field, model_validator

from accelsim.engines.simt.waves import Limits, Needs, residents
from accelsim.formats.table import get
from accelsim.spec.base import Model
from accelsim.spec.counts import Clocks, Cores, Lanes, Pace, Parts, Share, Side
from accelsim.spec.names import FUNCTIONS, operand_formats
from accelsim.spec.quantity import Bytes, Hertz, Seconds

Feed = Annotated[float, Field(ge=0, le=4096)]
"""Multiply-accumulates, 0 to 4,096."""


class SimtFormat(Model):
    """How a multiprocessor multiplies operands of one format."""

    macs: Lanes = Field(
        description="multiply-accumulates of a multiprocessor in so many `clocks`, at its peak"
    )
    clocks: Pace = Field(
        1, description="clocks in which it does `macs`: above 1 where it does less than one a clock"
    )
    accumulate: str = Field("fp32", description="format of the sums")
    dot: str | None = Field(
        None,
        description="how products are added up, a row of the table of dot-product rules; absent: exactly, or as FP32",
    )
    sustained: Share = Field(
        1.0,
        description="share of the peak at which the loop over K runs with the tile that reuses operands most",
    )
    feed: Feed = Field(
        0.0,
        description="multiply-accumulates in whose time an element of an operand gets from shared memory to the unit, "
        "which smaller tiles need more often",
    )
    step: Side = Field(32, description="the loop over K goes by so many; K is rounded up to it")

    @property
    def rate(self) -> Fraction:
        """Multiply-accumulates per clock and multiprocessor."""
        return Fraction(self.macs, self.clocks)


class TileShape(Model):
    """A tile of the result that one thread block computes."""

    m: Side = Field(description="rows: of the product's result, activations")
    n: Side = Field(description="columns: output channels")
    threads: Parts = Field(description="threads of the block")
    step: Side | None = Field(None, description="its own step of the loop over K; absent: that of the format")

    @property
    def reuse(self) -> Fraction:
        """Elements of operands per product: the smaller, the more often each is used."""
        return Fraction(1, self.m) + Fraction(1, self.n)


class Simt(Model):
    """Streaming multiprocessors that run kernels of thread blocks: a GPU."""

    type: Literal["simt"] = Field(description="the engine type")
    clock: Hertz | None = Field(
        None, description="clock of the multiprocessors; the chip's clock when absent"
    )
    multiprocessors: Cores = Field(description="streaming multiprocessors (SM, compute units)")
    threads: Parts = Field(description="threads that a multiprocessor has room for")
    blocks: Parts = Field(description="thread blocks that it has room for, at the most")
    registers: Bytes = Field(description="register file of a multiprocessor")
    shared: Bytes = Field(description="shared memory of a multiprocessor, all that blocks may have of it")
    lanes: Lanes = Field(
        description="FP32 lanes of a multiprocessor: elements per clock of what is no product"
    )
    special: Lanes = Field(
        description="results per clock and multiprocessor of its units for special functions: powers, exponentials, "
        "trigonometry, divisions"
    )
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) of ops -> clocks per element and lane, or `none`: not this one of its "
        "family; an op that is named wins over its family; other ops go to the host"
    )
    formats: dict[str, SimtFormat] = Field(
        min_length=1, description="operand formats, the preferred one first"
    )
    tiles: list[TileShape] = Field(
        min_length=1,
        description="tiles of the library's kernels; the one with the least estimated time is taken",
    )
    stages: Parts = Field(3, description="steps of K whose operands are in shared memory at a time")
    thread_registers: Bytes = Field(
        description="registers of a thread beside the sums: operands, addresses, counters"
    )
    prologue: Clocks = Field(0, description="clocks of a block before its first product")
    epilogue: Clocks = Field(0, description="clocks of a block from its last sum until its results have left")
    launch: Seconds = Field(0.0, description="from the request of a kernel to the start of its first block")

    @property
    def limits(self) -> Limits:
        """What a multiprocessor has for all its blocks together."""
        return Limits(self.threads, self.blocks, self.registers, self.shared)

    def needs(self, tile: TileShape, name: str) -> Needs:
        """What a block with this tile of a format takes: sums in registers, ``stages`` of operands in shared memory."""
        form = self.formats[name]
        sums_B = ceil(tile.m * tile.n * storage_B(form.accumulate))
        a_B, b_B = operands_B(name)
        staged_B = ceil(self.stages * (tile.step or form.step) * (tile.m * a_B + tile.n * b_B))
        return Needs(tile.threads, sums_B + tile.threads * self.thread_registers, staged_B)

    def residents(self, tile: TileShape, name: str) -> int:
        """Blocks with this tile of a format that a multiprocessor has room for, 0 for none."""
        return residents(self.limits, self.needs(tile, name))

    def peak(self, clock_Hz: float, name: str) -> float:
        """2 x multiprocessors x multiply-accumulates per clock x clock, op/s."""
        return float(2 * self.multiprocessors * self.formats[name].rate * Fraction(self.clock or clock_Hz))

    @model_validator(mode="after")
    def _agrees(self) -> Simt:
        found = list(_problems(self))
        if found:
            raise ValueError("; ".join(found))
        return self


SPEC = Simt


def operands_B(name: str) -> tuple[Fraction, Fraction]:
    """Bytes of an element of both operands, activations first, of a format or a pair ``weights x activations``."""
    found = operand_formats(name) or ()
    weights, activations = (found[0], found[-1])
    return Fraction(activations.storage_bits) / 8, Fraction(weights.storage_bits) / 8


def storage_B(name: str) -> Fraction:
    """Bytes of an element of a format in a memory."""
    return Fraction(get(name).storage_bits) / 8


def _problems(spec: Simt) -> Iterator[str]:
    """What contradicts itself; formats that there are not are left to the laws of a chip."""
    known = [name for name, form in spec.formats.items() if _known(name, form)]
    for name in known:
        if not any(spec.residents(tile, name) for tile in spec.tiles):
            yield f"no tile fits a multiprocessor in {name}; expected one that does"
    for index, tile in enumerate(spec.tiles):
        if known and not any(spec.residents(tile, name) for name in known):
            needs, have = spec.needs(tile, known[0]), spec.limits
            yield (
                f"tiles.{index} ({tile.m} x {tile.n}) takes {needs.threads:,} threads, {needs.registers_B:,} B of "
                f"registers and {needs.shared_B:,} B of shared memory in {known[0]}; expected at most "
                f"{have.threads:,} threads, {have.registers_B:,} B and {have.shared_B:,} B"
            )


def _known(name: str, form: SimtFormat) -> bool:
    return operand_formats(name) is not None and operand_formats(form.accumulate) is not None
