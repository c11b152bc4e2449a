"""The spec of a GPU's multiprocessors, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from accelsim.engines.simd.spec import functions_are_known
from accelsim.spec.base import Model
from accelsim.spec.constants import Constant, Fitted, marked
from accelsim.spec.counts import Clocks, Cores, Lanes, Pace, Parts, Share, Side, once
from accelsim.spec.declaring import Field, field_validator
from accelsim.spec.engine import EngineSpec
from accelsim.spec.laws.finding import Finding, only_one
from accelsim.spec.multiplying import (
    DRAWS,
    Droop,
    SimtFormat,
    dot_rules_fit,
    formats_are_known,
    of_its_unit,
    operands_B,
    shared_format,
    storage_B,
)
from accelsim.spec.names import FUNCTIONS, operand_formats
from accelsim.spec.quantity import Bytes, Seconds, Watts
from accelsim.spec.residency import Limits, Needs, residents
from accelsim.spec.serving import Serving
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip

BEFORE = 0.5
"""Share of the host's work for a call that is done before the device begins."""
CACHED = ("activations", "weights")
"""What passes the L2 cache."""
Softness = Annotated[float, Field(ge=0, le=1)]
"""A share, 0 to 1."""
Streams = Annotated[int, Field(ge=1, le=128)]
"""Queues of kernels, 1 to 128."""
Worked = Annotated[float, Field(ge=0, le=1024)]
"""Clocks of a lane, 0 to 1,024."""
Held = Annotated[float, Field(gt=0, le=64)]
"""Multiprocessors, up to 64."""


class TileShape(Model):
    """A tile of the result that one thread block computes."""

    m: Side = Field(description="rows: of the product's result, activations")
    n: Side = Field(description="columns: output channels")
    threads: Parts = Field(description="threads of the block")
    step: Side | None = Field(None, description="its own step of the loop over K; absent: that of the format")
    unit: Literal["tensor", "lanes"] | None = Field(
        None, description="unit that the library has it for; absent: every one"
    )
    also: Annotated[list[str], once] = Field(
        [], description="formats of the other unit that the library has it for too"
    )
    batched: bool | None = Field(
        None,
        description="true: only products of several groups have it, false: only those of one; absent: all have it",
    )

    @property
    def reuse(self) -> Fraction:
        """Elements of operands per product: the smaller, the more often each is used."""
        return Fraction(1, self.m) + Fraction(1, self.n)


class Convolution(Model):
    """Constants of a library's convolutions: what its algorithms take beside their products.

    The defaults are those of convolutions of NeuSight and DeepBench on six dies together (P4, P100, V100, T4, A100,
    MI25), each set weighing alike: of the logarithms of the errors, then moved until the middle of each set is within
    11 %. ``accelsim validate gpu-conv`` compares them with those that come of the other dies.
    """

    call: Annotated[Seconds, Fitted(0.0, 400e-6, "s", simulated=False)] = Field(
        10e-6, description="of every convolution beside launch and dispatch: the library's choice, workspaces"
    )
    fused: Annotated[Share, Fitted(0.2, 1.0, simulated=False)] = Field(
        0.4, description="share of the rate of products at which the fused Winograd F(2x2) multiplies"
    )
    transforms: Annotated[Worked, Fitted(0.0, 250.0, simulated=False)] = Field(
        75.0,
        description="clocks of a lane per element that the transforms of inputs and outputs of Winograd F(4x4) move",
    )
    filters: Annotated[Droop, Fitted(0.0, 8.0, simulated=False)] = Field(
        5.8, description="bytes from DRAM per byte of its transformed filters"
    )
    direct: Annotated[Share, Fitted(0.1, 1.0, simulated=False)] = Field(
        0.5,
        description="share of the rate of the lanes at which convolutions of groups of few channels multiply",
    )
    backward: Annotated[Droop, Fitted(1.0, 2.0, simulated=False)] = Field(
        1.3, description="how much longer gradients of inputs take by implicit GEMM than its products"
    )


OTHERS = 5 / 64
"""Instructions beside each multiply-accumulate of a product on lanes: a thread that computes 8 x 8 results reads 16
operands per step of K, four at a time, and needs about one more for addresses, copies and the loop."""
LIBRARY = (
    {"m": 256, "n": 128, "threads": 256, "unit": "tensor"},
    {"m": 128, "n": 256, "threads": 256, "unit": "tensor"},
    {"m": 128, "n": 128, "threads": 256},
    {"m": 128, "n": 64, "threads": 128},
    {"m": 64, "n": 128, "threads": 128},
    {"m": 64, "n": 64, "threads": 64},
    {"m": 128, "n": 32, "threads": 128, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 32, "n": 128, "threads": 128, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 64, "n": 32, "threads": 64, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 32, "n": 64, "threads": 64, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 32, "n": 32, "threads": 64, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 64, "n": 16, "threads": 64, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 32, "n": 16, "threads": 64, "unit": "lanes", "also": ["fp64"], "batched": False},
    {"m": 256, "n": 1, "threads": 128, "step": 1, "batched": True},
)
"""Tiles of kernels where a spec names none: those that explain the measured products of GPUs from Pascal to Hopper.
Tensor Cores multiply FP64 by pieces of 8 x 8 x 4, and its products on an H200 are as quick as with the small tiles."""
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Cuts of the loop over K where a spec names none."""


def _library() -> list[TileShape]:
    return [TileShape.model_validate(tile) for tile in LIBRARY]


class Simt(EngineSpec):
    """Streaming multiprocessors that run kernels of thread blocks: a GPU."""

    rate: ClassVar[str] = "2 x multiprocessors x macs / clocks x clock x cores"
    mechanism: ClassVar[int] = 3
    """Raise it when a form changes what its constants mean, and fit the chips that are shipped again
    (``python -m tests.validation.shipped``)."""

    type: Literal["simt"] = Field(description="type of the engine")
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
    issue: Lanes | None = Field(
        None,
        description="instructions of threads that its schedulers issue per clock, where lanes that multiply leave them "
        "no room for others; absent: enough",
    )
    active: Watts | None = Field(
        None,
        description="what they draw as long as all of them are busy, besides the idle power and their operations; "
        "absent: a fifth of what the design power has beyond idle power, as of the GPUs that were measured",
    )
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) of ops -> clocks per element and lane, or `none`: not this one of its "
        "family; an op that is named wins over its family; other ops go to the host"
    )
    formats: dict[str, SimtFormat] = Field(
        min_length=1, description="operand formats, the preferred one first"
    )
    tiles: list[TileShape] = Field(
        default_factory=_library,
        min_length=1,
        description="tiles of the library's kernels; the one with the least estimated time is taken; absent: fourteen "
        "of 32 x 16 to 256 x 128",
    )
    splits: Annotated[list[Parts], once] = Field(
        list(SPLITS),
        min_length=1,
        description="into how many parts the loop over K may be cut, each for a block of its own; 1 among them",
    )
    stages: Parts = Field(3, description="steps of K whose operands are in shared memory at a time")
    thread_registers: Bytes = Field(
        256, description="registers of a thread beside the sums: operands, addresses, counters"
    )
    prologue: Annotated[Clocks, Fitted(0, 20_000)] = Field(
        1000, description="clocks of a block before its first product"
    )
    epilogue: Annotated[Clocks, Fitted(0, 20_000)] = Field(
        1000, description="clocks of a block from its last sum until its results have left"
    )
    launch: Annotated[Seconds, Fitted(0.0, 100e-6, "s")] = Field(
        4e-6,
        description="from the request of a kernel that is timed by itself to the start of its first block",
    )
    follow: Annotated[Seconds, Fitted(0.0, 100e-6, "s", simulated=False)] = Field(
        1.6e-6,
        description="from the end of a kernel to the start of the next in a graph of kernels, as a compiled network "
        "is; no more than `launch`",
    )
    streams: Streams = Field(
        1,
        description="kernels that may run side by side, each in a stream of its own with an equal part of the L2 "
        "cache; 1: one after the other",
    )
    hold: Held = Field(
        2.0, description="multiprocessors that a block of a product keeps from kernels of other streams"
    )
    spacing: Seconds = Field(
        0.7e-6,
        description="from the launch of a kernel of a graph to that of the next in another stream, at the least",
    )
    dispatch: Annotated[Seconds, Fitted(0.0, 100e-6, "s", simulated=False)] = Field(
        0.0,
        description="time of the host for one kernel where a framework asks for them one by one: no kernel ends "
        "before; of the site and not of the chip",
    )
    sustained_clock: Annotated[Share, Fitted(0.3, 1.0, simulated=False)] = Field(
        1.0,
        description="share of its clock that the chip keeps under load; of the site (cooling, power limit) and not of "
        "the chip",
    )
    softness: Annotated[Softness, Fitted(0.0, 1.0)] = Field(
        0.5,
        description="how much of a whole wave of blocks the last one takes where it does not fill the chip: 1 all of "
        "it, 0 its share",
    )
    droop: Annotated[Droop | None, Fitted(0.0, 2.0)] = Field(
        None,
        description="by how much longer kernels of many milliseconds take because the clock falls under load; of those "
        "of half a millisecond half of it; absent: as the thermal design power of the chip says, if it is stated",
    )
    stride: Annotated[Droop, Fitted(0.0, 2.0)] = Field(
        0.05,
        description="by how much longer products take whose rows of operands lie far apart (K beyond 24 kB), because "
        "each row is on a page of its own",
    )
    ragged: Annotated[Droop, Fitted(0.0, 8.0, simulated=False)] = Field(
        0.0,
        description="by how much longer the loop of Tensor Cores takes in the fastest format of 2 B where rows of "
        "operands or results begin at any multiple of 2 B, and not of 16 B; of 4 and 8 B two and one thirds of it; "
        "in a format of half the rate half of it",
    )
    convolution: Convolution = Field(
        default_factory=Convolution,
        description="what the algorithms of convolutions take beside their products",
    )
    transposed: Annotated[Droop, Fitted(0.0, 4.0, simulated=False)] = Field(
        0.3,
        description="how much more of a first operand is moved whose rows lie along K in memory (BLAS: A transposed)",
    )
    attention: Annotated[Share, Fitted(0.05, 1.0, kernels="attention")] = Field(
        1.0,
        description="share of the rate of products at which attention in one kernel multiplies, the time of its "
        "softmax apart; less where its instructions are not those of the fastest products (FlashAttention 2 on Hopper)",
    )
    loaded: Droop | None = Field(
        None,
        description="`droop` on a cluster, whose steps keep the chip under load for hours, where kernels that were "
        "measured one by one tell less of it; absent: `droop`",
    )
    attention_backward: Share = Field(
        0.7,
        description="share of the rate of products at which the backward pass of attention multiplies, the time of its "
        "exponentials apart",
    )
    serving: Serving | None = Field(
        None, description="constants of the kernels of a serving stack; absent: defaults of every GPU"
    )
    reduction: Seconds = Field(
        2e-6, description="a kernel that adds up the sums of blocks that share a tile, without what it moves"
    )

    def clocks_of_product(self, name: str) -> float:
        """Clocks of a multiply-accumulate of a format: of its unit, or of the schedulers where these take longer."""
        form = self.formats[name]
        clocks = 1 / float(form.rate)
        if form.unit == "lanes" and self.issue is not None:
            return max(clocks, (1 + OTHERS) * min(1.0, self.lanes * clocks) / self.issue)
        return clocks

    @field_validator("formats", mode="before")
    @classmethod
    def _of_their_units(cls, formats: Any) -> Any:
        """Return what measurements say of their units, where nothing else is given."""
        if not isinstance(formats, dict):
            return formats
        return {name: of_its_unit(name, block) for name, block in formats.items()}

    def draws(self, name: str) -> float:
        """Return what multiplying in a format draws beside the other formats of its unit."""
        return DRAWS.get((self.formats[name].unit, name), 1.0)

    def droops(self, name: str) -> float | None:
        """The stated droop, of a format: it is that of one which draws 1."""
        return None if self.droop is None else (1 + self.droop) * self.draws(name) - 1

    def pace(self, name: str) -> float:
        """Multiplications of a format in the time of one of the fastest of Tensor Cores in 2 B: who waits for operands
        waits for as many more of them."""
        rates = [
            form.rate
            for each, form in self.formats.items()
            if form.unit == "tensor" and max(operands_B(each)) == 2
        ]
        return float(self.formats[name].rate / max(rates)) if rates else 1.0

    @property
    def limits(self) -> Limits:
        """Return what a multiprocessor has for all its blocks together."""
        return Limits(self.threads, self.blocks, self.registers, self.shared)

    def needs(self, tile: TileShape, name: str) -> Needs:
        """Return what a block with this tile of a format takes: sums in registers, ``stages`` of operands in shared
        memory."""
        form = self.formats[name]
        sums_B = ceil(tile.m * tile.n * storage_B(form.accumulate))
        a_B, b_B = operands_B(name)
        staged_B = ceil(self.stages * (tile.step or form.step) * (tile.m * a_B + tile.n * b_B))
        return Needs(tile.threads, sums_B + tile.threads * self.thread_registers, staged_B)

    def residents(self, tile: TileShape, name: str) -> int:
        """Blocks with this tile of a format that a multiprocessor has room for, 0 for none."""
        return residents(self.limits, self.needs(tile, name))

    def tiles_of(self, name: str, batched: bool | None = None) -> list[TileShape]:
        """Tiles that there are for products of a format, of several groups or of one (or of any), and that fit."""
        unit = self.formats[name].unit
        return [
            tile
            for tile in self.tiles
            if (tile.unit in (None, unit) or name in tile.also)
            and (batched is None or tile.batched in (None, batched))
            and self.residents(tile, name)
        ]

    def constants(self, chip: Chip, name: str) -> Iterator[Constant]:
        """Its own, and the usable share of the memory that its kernels stream from."""
        for each in super().constants(chip, name):
            yield each._replace(shares=self._shared(each.path)) if each.number_format else each
        for memory, attached in chip.memories.items():
            if "activations" in attached.holds:
                yield from marked(attached.memory, ("memories", memory, "memory"), name)

    def _shared(self, path: PathTo) -> PathTo:
        """Where the same constant of the format stands that stands for this one; () for that itself."""
        place = path.index("formats") + 1
        first = shared_format(self.formats, str(path[place]))
        return () if first == path[place] else (*path[:place], first, *path[place + 1 :])

    def rates(self) -> dict[str, Fraction]:
        """Return those of all multiprocessors."""
        return {name: self.multiprocessors * form.rate for name, form in self.formats.items()}


def a_tile_fits_each_format(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Check that in each format a multiprocessor has room for a block with one of the tiles, of one group and of
    several."""
    for name in _known(unit):
        if not all(unit.tiles_of(name, batched) for batched in (False, True)):
            yield Finding(
                (*path, "formats", name), "no tile fits a multiprocessor in this format", "one that does"
            )


def each_tile_fits(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """A tile is there for some format: its block fits a multiprocessor."""
    known, have = _known(unit), unit.limits
    for index, tile in enumerate(unit.tiles if known else ()):
        if not any(unit.residents(tile, name) for name in known):
            needs = unit.needs(tile, known[0])
            what = (
                f"{tile.m} x {tile.n} takes {needs.threads:,} threads, {needs.registers_B:,} B of registers and "
                f"{needs.shared_B:,} B of shared memory in {known[0]}"
            )
            room = f"{have.threads:,} threads, {have.registers_B:,} B and {have.shared_B:,} B at the most"
            yield Finding((*path, "tiles", index), what, room)


def a_loop_may_stay_whole(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Products whose K is no more than a step have one block for each tile."""
    if 1 not in unit.splits:
        yield Finding((*path, "splits"), "a loop over one step cannot be cut", "1 among the splits")


def sparse_patterns_keep_less(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """N:M keeps fewer than all."""
    for name, form in unit.formats.items():
        if form.sparse is not None and form.sparse.n >= form.sparse.m:
            what = f"{form.sparse.n}:{form.sparse.m} keeps every weight"
            yield Finding((*path, "formats", name, "sparse"), what, "n below m")


def one_cache_holds_all(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Activations and weights pass one buffer, the L2 cache."""
    holders = {
        role: [name for name, buffer in chip.buffers.items() if role in buffer.holds] for role in CACHED
    }
    if (
        any(len(names) != 1 for names in holders.values())
        or len({names[0] for names in holders.values()}) > 1
    ):
        told = "; ".join(f"{role}: {' and '.join(names) or 'none'}" for role, names in holders.items())
        yield Finding(chip.path_to("memories"), f"buffers of {told}", "one buffer for both, the L2 cache")


def streams_have_ports(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Kernels side by side never wait for a port of the cache that all of them use."""
    for name, buffer in chip.buffers.items():
        if unit.streams > 1 and "activations" in buffer.holds and buffer.ports == 1:
            what = f"{unit.streams} streams of kernels use {name}, which has 1 port"
            yield Finding((*path, "streams"), what, "1, or 2 ports and more")


def _known(unit: Simt) -> list[str]:
    """Formats that there are, with sums in formats that there are."""
    return [
        name
        for name, form in unit.formats.items()
        if operand_formats(name) is not None and len(operand_formats(form.accumulate) or ()) == 1
    ]


SPEC = Simt
LAWS = (
    only_one,
    formats_are_known,
    dot_rules_fit,
    functions_are_known,
    a_tile_fits_each_format,
    each_tile_fits,
    a_loop_may_stay_whole,
    sparse_patterns_keep_less,
    one_cache_holds_all,
    streams_have_ports,
)
"""Every law of multiprocessors; a new one is a function and a line here."""
