"""The spec of a row-stationary array, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Parts, Side
from accelsim.spec.declaring import Field
from accelsim.spec.engine import Built, EngineSpec
from accelsim.spec.laws.finding import Finding, only_one
from accelsim.spec.multiplying import formats_are_known
from accelsim.spec.names import operand_formats
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip

ROLES = ("activations", "weights", "partial_sums")


class RowFormat(Model):
    """One operand format of the PEs: one multiply-accumulate per clock each."""

    accumulate: str = Field("int32", description="partial sum format")
    dot: str | None = Field(None, description="[rule of sums](mixed-precision.md); absent: exact, or FP32")


class RowStationary(EngineSpec):
    """An array of PEs that multiply filter rows with ifmap rows. Words are as wide as the widest format."""

    rate: ClassVar[str] = "2 x rows x cols x clock x cores"

    type: Literal["row_stationary"] = Field(description="type of the engine")
    rows: Side = Field(description="PEs in a column: filter rows, chains of sets")
    cols: Side = Field(description="PEs in a row: ofmap rows")
    filter_register: Parts = Field(description="filter words in a PE")
    ifmap_register: Parts = Field(description="ifmap words in a PE, a row window per channel")
    psum_register: Parts = Field(description="partial sums in a PE")
    filter_bus: Side = Field(1, description="words per clock, weight buffer to PEs")
    ifmap_bus: Side = Field(1, description="words per clock, activation buffer to PEs")
    psum_bus: Side = Field(1, description="partial sums per clock to the PEs, and from them")
    zero_gating: bool = Field(False, description="multiplications by zero take a clock, but no MAC energy")
    formats: dict[str, RowFormat] = Field(min_length=1, description="operand formats, preferred first")

    @property
    def gates_zeros(self) -> bool:
        """Return whether a multiplication by zero costs no energy."""
        return self.zero_gating

    @property
    def has_epilogue(self) -> bool:
        """Return True: functions of single elements run between the global buffer and the memory outside. It pools
        nothing, because the buffer holds the sums of a strip of rows only."""
        return True

    def rates(self) -> dict[str, Fraction]:
        """Return one multiply-accumulate of each PE, in every format."""
        return dict.fromkeys(self.formats, Fraction(self.rows * self.cols))

    def built(self) -> Built:
        """Return the PEs, each with its words of filters, ifmap and sums, as wide as the widest format."""
        formats = tuple((name, own.accumulate, 1.0) for name, own in self.formats.items())
        bits = max(fmt.bits for name in self.formats for fmt in operand_formats(name) or ())
        words = self.filter_register + self.ifmap_register + self.psum_register
        return Built(self.rows * self.cols, formats, words * bits // 8)


def buffers_are_the_global_one(unit: RowStationary, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """One buffer holds activations and partial sums, which share its banks; another one the weights of a pass."""
    holders = {role: [n for n, buffer in chip.buffers.items() if role in buffer.holds] for role in ROLES}
    for role, names in holders.items():
        if len(names) != 1:
            what = f"{role} live in {' and '.join(names)}" if names else f"no buffer holds {role}"
            place = (names[1], "holds") if names else ()
            yield Finding(chip.path_to("memories", *place), what, "exactly one buffer")
    if any(len(names) != 1 for names in holders.values()):
        return
    ((shared,), (filters,), (sums,)) = holders.values()
    if shared != sums:
        what = f"activations live in {shared}, partial sums in {sums}"
        yield Finding(chip.path_to("memories", sums, "holds"), what, "one buffer for both")
    if filters in (shared, sums):
        yield Finding(
            chip.path_to("memories", filters, "holds"), "weights live beside activations", "a buffer of their own"
        )
    for name in {shared: None, filters: None}:
        if chip.buffers[name].slots is not None:
            yield Finding(chip.path_to("memories", name, "slots"), "fixed slots, and tiles of any size", "no slots")


SPEC = RowStationary
LAWS = (only_one, formats_are_known, buffers_are_the_global_one)
"""Every law of a row-stationary array; a new one is a function and a line here."""
