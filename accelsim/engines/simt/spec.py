"""The spec of a GPU's multiprocessors, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from accelsim.spec.base import Model
from accelsim.spec.constants import Constant, Fitted, marked
from accelsim.spec.counts import Clocks, Cores, Lanes, Pace, Parts, Share, Side, once
from accelsim.spec.declaring import Field, field_validator
from accelsim.spec.engine import EngineSpec
from accelsim.spec.laws.finding import Finding, functions_are_known, only_one
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
"""Operands that pass the L2 cache."""
Softness = Annotated[float, Field(ge=0, le=1)]
"""A share, 0 to 1."""
Streams = Annotated[int, Field(ge=1, le=128)]
"""Queues of kernels, 1 to 128."""
Worked = Annotated[float, Field(ge=0, le=1024)]
"""Clocks of a lane, 0 to 1,024."""
Held = Annotated[float, Field(gt=0, le=64)]
"""Multiprocessors, up to 64."""


class TileShape(Model):
    """A result tile of one thread block."""

    m: Side = Field(description="result rows (activations)")
    n: Side = Field(description="columns: output channels")
    threads: Parts = Field(description="threads per block")
    step: Side | None = Field(None, description="K step; absent: the format's")
    unit: Literal["tensor", "lanes"] | None = Field(None, description="its unit; absent: both")
    also: Annotated[list[str], once] = Field([], description="formats of the other unit that have it too")
    batched: bool | None = Field(None, description="true: only for several groups, false: only for one; absent: both")

    @property
    def reuse(self) -> Fraction:
        """Elements of operands per product: the smaller, the more often each is used."""
        return Fraction(1, self.m) + Fraction(1, self.n)


class Convolution(Model):
    """Constants of a library's convolutions beside products. Defaults are fitted to NeuSight's and
    DeepBench's convolutions on six dies (``accelsim validate gpu-conv``)."""

    call: Annotated[Seconds, Fitted(0.0, 400e-6, "s", simulated=False)] = Field(
        10e-6, description="per convolution beside launch and dispatch: the library's choice, workspaces"
    )
    fused: Annotated[Share, Fitted(0.2, 1.0, simulated=False)] = Field(
        0.4, description="share of the products' rate of fused Winograd F(2x2)"
    )
    transforms: Annotated[Worked, Fitted(0.0, 250.0, simulated=False)] = Field(
        75.0, description="lane clocks per element moved by input and output transforms of Winograd F(4x4)"
    )
    filters: Annotated[Droop, Fitted(0.0, 8.0, simulated=False)] = Field(
        5.8, description="DRAM bytes per byte of transformed filters"
    )
    direct: Annotated[Share, Fitted(0.1, 1.0, simulated=False)] = Field(
        0.5, description="share of the lanes' rate for groups of few channels"
    )
    backward: Annotated[Droop, Fitted(1.0, 2.0, simulated=False)] = Field(
        1.3, description="how much longer input gradients take by implicit GEMM"
    )


@lru_cache(maxsize=1024)
def _needed_B(m: int, n: int, depth: int, accumulate: str, name: str) -> tuple[int, int]:
    """Return the bytes of the sums of a tile in a format, and of ``depth`` rows and columns of its operands."""
    a_B, b_B = operands_B(name)
    return ceil(m * n * storage_B(accumulate)), ceil(depth * (m * a_B + n * b_B))


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

    reads_turned: ClassVar[bool] = True
    attends: ClassVar[bool] = True
    rate: ClassVar[str] = "2 x multiprocessors x macs / clocks x clock x cores"
    mechanism: ClassVar[int] = 3
    """Raise it when a form changes what its constants mean, and fit the chips that are shipped again
    (``python -m tests.validation.shipped``)."""

    type: Literal["simt"] = Field(description="type of the engine")
    multiprocessors: Cores = Field(description="streaming multiprocessors (SM, compute units)")
    threads: Parts = Field(description="resident threads per multiprocessor")
    blocks: Parts = Field(description="resident thread blocks")
    registers: Bytes = Field(description="register file")
    shared: Bytes = Field(description="shared memory for blocks")
    lanes: Lanes = Field(description="FP32 lanes: elements per clock, except products")
    special: Lanes = Field(
        description="special-function results per clock: powers, exponentials, trigonometry, divisions"
    )
    issue: Lanes | None = Field(
        None,
        description="thread instructions issued per clock, where multiplying lanes leave no room for others; "
        "absent: enough",
    )
    active: Watts | None = Field(
        None,
        description="drawn while all are busy, besides idle power and operations; absent: a fifth of design "
        "power beyond idle, as measured GPUs",
    )
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) -> clocks per element and lane; `none`: not this op. An op "
        "wins over its family; other ops go to the host"
    )
    formats: dict[str, SimtFormat] = Field(min_length=1, description="operand formats, preferred first")
    tiles: list[TileShape] = Field(
        default_factory=_library,
        min_length=1,
        description="the library's tiles, of which the fastest estimate is taken; absent: fourteen, 32 x 16 "
        "to 256 x 128",
    )
    splits: Annotated[list[Parts], once] = Field(
        list(SPLITS), min_length=1, description="parts into which K may be cut, a block each; includes 1"
    )
    stages: Parts = Field(3, description="K steps in shared memory at a time")
    thread_registers: Bytes = Field(256, description="registers per thread beside sums")
    prologue: Annotated[Clocks, Fitted(0, 20_000)] = Field(1000, description="clocks before a block's first product")
    epilogue: Annotated[Clocks, Fitted(0, 20_000)] = Field(
        1000, description="clocks from a block's last sum until its results have left"
    )
    launch: Annotated[Seconds, Fitted(0.0, 100e-6, "s")] = Field(
        4e-6, description="request of a kernel timed alone to its first block"
    )
    follow: Annotated[Seconds, Fitted(0.0, 100e-6, "s", simulated=False)] = Field(
        1.6e-6, description="end of a kernel to the next in a graph (compiled network); at most `launch`"
    )
    streams: Streams = Field(1, description="kernels side by side, each stream with an equal part of the L2 cache")
    hold: Held = Field(2.0, description="multiprocessors that a product's block keeps from other streams")
    spacing: Seconds = Field(0.7e-6, description="least time between launches in different streams")
    dispatch: Annotated[Seconds, Fitted(0.0, 100e-6, "s", simulated=False)] = Field(
        0.0, description="host time per kernel in an eager framework: no kernel ends before; belongs to the site"
    )
    sustained_clock: Annotated[Share, Fitted(0.3, 1.0, simulated=False)] = Field(
        1.0, description="share of the clock kept under load; belongs to the site (cooling, power limit)"
    )
    softness: Annotated[Softness, Fitted(0.0, 1.0)] = Field(
        0.5, description="time of a partial last wave: 1 a whole wave, 0 its share"
    )
    droop: Annotated[Droop | None, Fitted(0.0, 2.0)] = Field(
        None,
        description="how much longer kernels of many milliseconds take as the clock falls (half a "
        "millisecond: half); absent: by design power, if stated",
    )
    stride: Annotated[Droop, Fitted(0.0, 2.0)] = Field(
        0.05, description="how much longer products with distant operand rows take (K beyond 24 kB)"
    )
    ragged: Annotated[Droop, Fitted(0.0, 8.0, simulated=False)] = Field(
        0.0,
        description="how much longer the Tensor Core loop takes in the fastest 2 B format if rows begin at "
        "multiples of 2 B; 4 and 8 B: two and one thirds; at half the rate: half",
    )
    convolution: Convolution = Field(
        default_factory=Convolution, description="what convolution algorithms take beside products"
    )
    transposed: Annotated[Droop, Fitted(0.0, 4.0, simulated=False)] = Field(
        0.3, description="how much more of a transposed first operand is moved"
    )
    attention: Annotated[Share, Fitted(0.05, 1.0, kernels="attention")] = Field(
        1.0,
        description="share of the products' rate in fused attention, softmax apart; less with slower "
        "instructions (FlashAttention 2 on Hopper)",
    )
    loaded: Droop | None = Field(
        None, description="`droop` in training steps, where kernels measured alone show less; absent: `droop`"
    )
    attention_backward: Share = Field(0.7, description="the same for attention's backward pass, exponentials apart")
    serving: Serving | None = Field(None, description="constants of a serving stack; absent: defaults")
    reduction: Seconds = Field(2e-6, description="kernel that sums blocks sharing a tile, without moving")

    def clocks_of_product(self, name: str) -> float:
        """Clocks of a multiply-accumulate of a format: of its unit, or of the schedulers where these take longer."""
        form = self.formats[name]
        clocks = 1 / float(form.rate)
        if form.unit == "lanes" and self.issue is not None:
            return max(clocks, (1 + OTHERS) * min(1.0, self.lanes * clocks) / self.issue)
        return clocks

    @field_validator("formats", mode="before")
    @classmethod
    def _of_their_units(cls, formats: object) -> object:
        """Fill in what measurements say of their units, where nothing else is given."""
        if not isinstance(formats, dict):
            return formats
        return {name: of_its_unit(name, block) for name, block in formats.items()}

    def draws(self, name: str) -> float:
        """Return what multiplying in a format draws beside the other formats of its unit."""
        return DRAWS.get((self.formats[name].unit, name), 1.0)

    def droops(self, name: str) -> float | None:
        """Return the droop of a format; the stated one is that of a format which draws 1."""
        return None if self.droop is None else (1 + self.droop) * self.draws(name) - 1

    def pace(self, name: str) -> float:
        """Return the multiplications of a format in the time of one of the fastest 2 B format of Tensor Cores; waiting
        for operands costs as many more of them."""
        rates = [
            form.rate for each, form in self.formats.items() if form.unit == "tensor" and max(operands_B(each)) == 2
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
        sums_B, staged_B = _needed_B(tile.m, tile.n, self.stages * (tile.step or form.step), form.accumulate, name)
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
        """Yield its own constants, and the usable share of the memory that its kernels stream from."""
        for each in super().constants(chip, name):
            yield each._replace(shares=self._shared(each.path)) if each.number_format else each
        for memory, attached in chip.memories.items():
            if "activations" in attached.holds:
                yield from marked(attached.memory, ("memories", memory, "memory"), name)

    def _shared(self, path: PathTo) -> PathTo:
        """Return the place of the constant that stands for this one, in the first format of its kind; () for that
        itself."""
        place = path.index("formats") + 1
        first = shared_format(self.formats, str(path[place]))
        return () if first == path[place] else (*path[:place], first, *path[place + 1 :])

    @property
    def has_epilogue(self) -> bool:
        """Return True: functions run in registers, before results leave a block."""
        return True

    def sparse_pattern(self, mac_format: str) -> tuple[int, int] | None:
        """Return the pattern of the format."""
        own = self.formats[mac_format].sparse if mac_format in self.formats else None
        return None if own is None else (own.n, own.m)

    def rates(self) -> dict[str, Fraction]:
        """Return the rates of all multiprocessors."""
        return {name: self.multiprocessors * form.rate for name, form in self.formats.items()}


def a_tile_fits_each_format(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Check that in each format a multiprocessor has room for a block with one of the tiles, of one group and of
    several."""
    for name in _known(unit):
        if not all(unit.tiles_of(name, batched) for batched in (False, True)):
            yield Finding((*path, "formats", name), "no tile fits a multiprocessor in this format", "one that does")


def each_tile_fits(unit: Simt, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Check that the block of each tile fits a multiprocessor in at least one format."""
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
    """Check that activations and weights pass one buffer, the L2 cache."""
    holders = {role: [name for name, buffer in chip.buffers.items() if role in buffer.holds] for role in CACHED}
    if any(len(names) != 1 for names in holders.values()) or len({names[0] for names in holders.values()}) > 1:
        holders_text = "; ".join(f"{role}: {' and '.join(names) or 'none'}" for role, names in holders.items())
        yield Finding(chip.path_to("memories"), f"buffers of {holders_text}", "one buffer for both, the L2 cache")


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
