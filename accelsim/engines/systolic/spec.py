"""The spec of a systolic array, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from accelsim.engines.systolic.dataflow import DATAFLOWS, ROLES
from accelsim.engines.systolic.dataflow import Dataflow as Flow
from accelsim.spec.base import Model
from accelsim.spec.constants import Sustained
from accelsim.spec.counts import Arrays, Clocks, FractionalPace, Side, once
from accelsim.spec.declaring import Field
from accelsim.spec.engine import Built, EngineSpec
from accelsim.spec.laws.finding import Finding, only_one
from accelsim.spec.multiplying import Sparse, dot_rules_fit, formats_are_known
from accelsim.spec.names import operand_formats
from accelsim.spec.yaml.tree import PathTo
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.memory import Buffer

PARTIAL_SUM_B = 4
"""Bytes of one partial sum."""
Schedule = Literal["scalesim", "sequential", "overlapped"]
SHADOW_LOADS: dict[str, Callable[[Any], Any]] = {"column": lambda R: R, "diagonal": lambda R: 0 * R}
"""Shadow load -> how many of the R PEs of a column have taken over their words when the next ones may enter it.

Where these are not all, words pass the PEs in registers of their own as soon as more than one row enters per clock.
"""
if TYPE_CHECKING:
    Dataflow = str
    ShadowLoad = str
else:
    Dataflow = Literal[tuple(DATAFLOWS)]
    ShadowLoad = Literal[tuple(SHADOW_LOADS)]


class MacFormat(Model):
    """One operand format of a matrix unit."""

    cycles_per_row: FractionalPace = Field(1, description="clocks per streamed row: 2 is half rate, 1/2 double rate")
    accumulate: str = Field("int32", description="partial sum format")
    dot: str | None = Field(None, description="[rule of sums](mixed-precision.md); absent: exact, or FP32")
    sparse: Sparse | None = Field(None, description="structured sparsity of stationary weights that it skips")


class MatrixUnit(EngineSpec):
    """A systolic array."""

    rate: ClassVar[str] = "2 x count x rows x cols x clock x cores / cycles_per_row"

    type: Literal["systolic"] = Field(description="type of the engine")
    rows: Side = Field(description="PEs in a column (reduction in ws and is)")
    cols: Side = Field(description="PEs in a row")
    count: Arrays = Field(1, description="arrays that share the core's buffers")
    dataflow: Dataflow = Field("ws", description="what stays in the PEs: weights, outputs or inputs")
    schedule: Schedule = Field("overlapped", description="order of folds in time ([timing](timing.md#fold-timing))")
    shadow_load: ShadowLoad = Field("column", description="when shadow weights of ws and is load")
    load_rows_per_clock: Side = Field(1, description="stationary rows shifted in per clock")
    min_interval: Clocks = Field(0, description="least rows per fold")
    accumulator_latency: Clocks = Field(1, description="clocks from the bottom PE to the accumulator memory")
    stationary_from: Annotated[list[Literal["weights", "activations"]], once] = Field(
        ["weights", "activations"],
        min_length=1,
        description="sources of the stationary operand: weight memory, activation buffer",
    )
    padded_tiles: bool = Field(False, description="weights are stored as whole, zero-padded tiles (ws only)")
    sustained: Sustained = Field(1.0, description="share of the clocks of a stream in which rows enter, as measured")
    zero_gating: bool = Field(False, description="multiplications by zero take a clock, but no MAC energy")
    epilogue: bool = Field(True, description="results pass the vector unit when they leave the accumulators")
    formats: dict[str, MacFormat] = Field(min_length=1, description="operand formats, preferred first")

    @property
    def flow(self) -> Flow:
        """Return what its dataflow is."""
        return DATAFLOWS[self.dataflow]

    @property
    def tiled_weights(self) -> bool:
        """Return whether weights lie in their memory as the padded tiles that stay in the PEs."""
        return self.padded_tiles and self.flow.still == "b"

    @property
    def has_epilogue(self) -> bool:
        """Return whether results pass the vector unit."""
        return self.epilogue

    def pools(self, chip: Chip, pixels: int) -> bool:
        """Return whether the open sums of one image fit into half of the accumulators."""
        sums_B = sum(buffer.capacity for buffer in chip.buffers.values() if "partial_sums" in buffer.holds)
        return pixels * self.cols * PARTIAL_SUM_B <= sums_B // 2

    @property
    def gates_zeros(self) -> bool:
        """Return whether a multiplication by zero costs no energy."""
        return self.zero_gating

    def sparse_pattern(self, mac_format: str) -> tuple[int, int] | None:
        """Return the pattern of the format, if its groups are whole in each column."""
        own = self.formats[mac_format].sparse if mac_format in self.formats else None
        return None if own is None or self.rows % own.m else (own.n, own.m)

    def rates(self) -> dict[str, Fraction]:
        """One of each PE of all arrays, at the pace of the format."""
        pes = self.count * self.rows * self.cols
        return {name: pes / Fraction(mac.cycles_per_row) for name, mac in self.formats.items()}

    def built(self) -> Built:
        """Return all PEs with the pace of each format."""
        paces = tuple((name, mac.accumulate, float(1 / mac.cycles_per_row)) for name, mac in self.formats.items())
        return Built(self.count * self.rows * self.cols, paces)

    def queues(self, name: str) -> list[str]:
        """One per array: 'matrix:0', 'matrix:1', ...; of a single one the name itself."""
        return [name] if self.count == 1 else [f"{name}:{index}" for index in range(self.count)]

    def idle_fields(self) -> Iterable[str]:
        """``shadow_load``, unless stationary operands are loaded behind a running fold."""
        return () if self.flow.stationary and self.schedule == "overlapped" else ("shadow_load",)


def shadow_load_means_something(unit: MatrixUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """``shadow_load`` is given only where stationary operands are loaded behind a running fold."""
    if "shadow_load" in unit.model_fields_set and "shadow_load" in unit.idle_fields():
        what = f"has no meaning with dataflow {unit.dataflow}, schedule {unit.schedule}"
        loading = " or ".join(name for name, flow in DATAFLOWS.items() if flow.stationary)
        yield Finding((*path, "shadow_load"), what, f"dataflow {loading}, schedule overlapped", claim=True)


def sparse_patterns_fit(unit: MatrixUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """N:M keeps fewer than all, and groups of M do not straddle the rows of the array."""
    for name, mac in unit.formats.items():
        if mac.sparse is None:
            continue
        place = (*path, "formats", name, "sparse")
        if mac.sparse.n >= mac.sparse.m:
            yield Finding(place, f"{mac.sparse.n}:{mac.sparse.m} keeps every weight", "n below m")
        if unit.rows % mac.sparse.m:
            what = f"{unit.rows} rows are no whole groups of {mac.sparse.m}"
            yield Finding(place, what, "a divisor of the rows")


def epilogues_have_a_vector_unit(unit: MatrixUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Results pass the vector unit on their way out of the accumulators only where there is one."""
    if unit.epilogue and chip.vector is None:
        what = "results are to pass a vector unit, and there is none"
        expected = "an engine of type simd, or epilogue: false"
        yield Finding((*path, "epilogue"), what, expected)


def slot_holds_a_fold(unit: MatrixUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Check that, in the preferred format, a slot holds the stationary tile of a fold, a streamed row, a row of
    sums."""
    operand, mac = next(iter(unit.formats.items()), ("", None))
    if mac is None:
        return
    tile, row = ceil(unit.rows * unit.cols * _bytes(operand)), ceil(unit.rows * _bytes(operand))
    sums = ceil(unit.cols * _bytes(mac.accumulate))
    stationary = ROLES[unit.flow.still]
    for name, buffer in chip.buffers.items():
        for role in buffer.holds:
            needed = sums if role == "partial_sums" else tile if role == stationary else row
            if _slot_B(buffer) < needed:
                key = "slot_capacity" if buffer.slot_capacity else "capacity"
                slot = show(_slot_B(buffer), "B", binary=True)
                what = f"a slot of {slot} is too small for {role} of one fold"
                yield Finding(chip.path_to("memories", name, key), what, f"at least {show(needed, 'B', binary=True)}")


def _slot_B(buffer: Buffer) -> int:
    return buffer.slot_capacity or buffer.capacity // (buffer.slots or 1)


def _bytes(number_format: str) -> float:
    return max((each.storage_bits / 8 for each in operand_formats(number_format) or ()), default=1.0)


SPEC = MatrixUnit
LAWS = (
    only_one,
    shadow_load_means_something,
    formats_are_known,
    dot_rules_fit,
    sparse_patterns_fit,
    epilogues_have_a_vector_unit,
    slot_holds_a_fold,
)
"""Every law of a systolic array; a new one is a function and a line here."""
