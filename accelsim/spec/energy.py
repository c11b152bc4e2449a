"""Energies of actions of one process node."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, ClassVar

from accelsim.spec.base import Model
from accelsim.spec.counts import Words
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.quantity import Bytes, Joules, JoulesPerByte
from accelsim.spec.status import UNSTATED, Status
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.derived_energy import Arithmetic


def _arithmetic() -> object:
    from accelsim.spec.derived_energy import Arithmetic

    return Arithmetic


class SramPoint(Model):
    """Energy of an access to an SRAM of one size."""

    capacity: Bytes = Field(description="size of the SRAM")
    read: JoulesPerByte = Field(description="per byte read")
    write: JoulesPerByte = Field(description="per byte written")


def _rows_may_follow(schema: dict[str, Any]) -> None:
    """Let the schema for editors accept ``arithmetic`` instead of the columns."""
    stated = schema.pop("required")
    derived = [name for name in stated if name not in ("mac", "vector")]
    schema["anyOf"] = [{"required": stated}, {"required": [*derived, "arithmetic"]}]


class EnergyStatus(Model):
    """Status of each value in an energy table."""

    default: Status = Field("guess", description="of other values")
    mac: dict[str, Status] = Field({}, description="operand format -> status of its multiply and add")
    vector: dict[str, Status] = Field({}, description="operand format -> status of its operation")
    register: Status | None = Field(None, description="status of the register")
    network: Status | None = Field(None, description="status of the network between PEs")
    sram: Status | None = Field(None, description="status of all sizes of SRAM")


class EnergyTable(Model):
    """Energy of each action at one process node."""

    model_config: ClassVar = {"json_schema_extra": _rows_may_follow}
    later: ClassVar = {"Arithmetic": _arithmetic}
    node: Words = Field(description="process, e.g. '45 nm'")
    arithmetic: Arithmetic | None = Field(
        None, description="a source's figures, from which rows missing in `mac` and `vector` follow"
    )
    mac: dict[str, Joules] = Field(description="operand format -> multiply and add")
    vector: dict[str, Joules] = Field(description="operand format -> one arithmetic operation")
    register: JoulesPerByte = Field(description="PE register, read or written")
    network: JoulesPerByte | None = Field(None, description="PE to PE, beyond both registers; absent: nothing")
    sram: list[SramPoint] = Field(min_length=1, description="interpolated in log(capacity)")
    status: EnergyStatus | None = Field(None, description="how far to trust each value; absent: guesses")

    def status_of(self, column: str, name: str = "") -> Status:
        """Return the status of a field of ``EnergyStatus``; of ``mac`` and ``vector`` that of the format ``name``."""
        status = self.status or EnergyStatus(default=UNSTATED)
        stated = getattr(status, column)
        found: Status | None = stated.get(name) if isinstance(stated, dict) else stated
        return found or status.default

    @classmethod
    def followed(cls, block: dict[str, object], stated: Callable[[PathTo], bool]) -> dict[str, object]:
        """Return the block with the rows that follow from ``arithmetic`` in its place."""
        if not isinstance(block.get("arithmetic"), dict):
            return block
        from accelsim.spec.derived_energy import followed

        return followed(block, stated)

    @model_validator(mode="after")
    def _rows_are_there(self) -> EnergyTable:
        """Nobody looks at ``arithmetic`` again."""
        if self.arithmetic is not None:
            raise ValueError("arithmetic beside rows that are there; expected single rows, or another energy table")
        return self


def sram_J_per_B(points: list[SramPoint], capacity_B: float, write: bool = False) -> float:
    """Energy of one byte into or out of an SRAM: linear in log(capacity) between the points of the table.

    Below the first point: the first point. Beyond the last: the power law through the last two. (CACTI, 45 nm
    hp, 64-bit reads: 32 KB 14.9 pJ, 1 MB 67.7 pJ, 64 MB 457 pJ; the power law says 417 pJ, a straight line
    131 pJ.)
    """
    table = sorted((float(p.capacity), float(p.write if write else p.read)) for p in points)
    if capacity_B <= table[0][0] or len(table) == 1:
        return table[0][1]
    for (small, low), (large, high) in pairwise(table):
        if capacity_B <= large:
            between = low + (high - low) * log(capacity_B / small) / log(large / small)
            return min(max(between, min(low, high)), max(low, high))  # rounding never leaves the two
    (small, low), (large, high) = table[-2:]
    if low <= 0 or high <= low:
        return high
    return float(high * (capacity_B / large) ** (log(high / low) / log(large / small)))
