"""The systolic array as an engine type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelsim.engines.base import (
    REMAPPED,
    Category,
    EngineType,
    Improvement,
    Least,
    Lowering,
    Mapped,
    MappingKind,
    Multiplied,
    Offer,
    Price,
    PriceList,
    Reason,
)
from accelsim.engines.device import Device
from accelsim.engines.prices import mac_prices, undone_prices
from accelsim.engines.systolic.actions import HOP, REGISTER
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.program.actions import WAYS, ActionName
from accelsim.program.commands import Command
from accelsim.program.mapping import Mapping as Tiling
from accelsim.program.roles import Unit, spec_of
from accelsim.spec.chip import Chip
from accelsim.time import Clock, clock_of
from accelsim.units import spell
from accelsim.workload.nodes import gemm_view

HALF = 0.5
"""Weight of the time that something twice as fast takes less of."""

REASONS = (
    Reason("compute", "compute", "computing in the matrix unit", "compute", "#0072b2", computing=True),
    Reason("padding", "unused PEs", "unused PEs", "unused PEs", "#9ecae1", computing=True, unused_of="compute"),
    Reason("weight_shift", "weight shift", "shifting weights into the array", "weight shift", "#56b4e9", "////", True),
    Reason("fill_drain", "array fill and drain", "filling and draining the array", "array fill and drain", "#003f63",
           "////", True),
    Reason("port_width", "port width of {resource}", "waiting for the narrow port of {resource}", "narrow ports",
           "#7a5195", "xxxx"),
)  # fmt: skip
CATEGORIES = (
    Category("MAC", "#0072b2"),
    Category("PE registers", "#56b4e9", "////"),
    Category("PE network", "#003f63", "----"),
)
PIECES = (
    ("stream", "a MatMul streams its rows"),
    ("weight_shift", "the stationary operand is shifted in, and no row streams"),
    ("fill_drain", "the array fills or drains"),
    ("port_width", "the narrow port of a buffer holds up the rows or the sums of a MatMul"),
)


class Systolic(EngineType):
    """An array of PEs through which operands move; a loader and a streamer run its queue side by side."""

    type = "systolic"
    title = "the matrix unit"
    rank = 0
    reasons, categories, pieces = REASONS, CATEGORIES, PIECES
    searches = True
    asks_spaces = True
    drains = True
    hue = "blue"

    @property
    def mapping(self) -> MappingKind:
        """Return how a product is cut into tiles."""
        return Tiling

    def accepts(self, offer: Offer) -> str | None:
        """Accept products of activations by weights, or by activations where the spec allows that."""
        if offer.op.kind != "matrix":
            return None
        view, sources = gemm_view(offer.graph, offer.node), offer.unit.spec.stationary_from
        if view is None:
            return "has no form as a matrix product"
        a, b = (offer.graph.tensors[name] for name in (view.a, view.b))
        if a.is_constant:
            return "its left operand is a constant, which the matrix unit does not stream"
        if not offer.multiplies:
            return f"the matrix unit does not multiply {a.dtype} by {b.dtype}"
        if not b.is_constant and "activations" not in sources:
            return "a product of two activations, and the matrix unit holds only weights"
        if b.is_constant and "weights" not in sources:
            return "a product with weights, and the matrix unit holds only activations"
        return ""

    def lower(self, lowering: Lowering) -> Mapped:
        """Write the commands of a product by the best mapping found, on one core or shared by several if faster."""
        from accelsim.engines.systolic.mapping.search import lower_product

        gemm = gemm_view(lowering.layout.graph, lowering.node)
        assert gemm is not None
        if not lowering.cores:
            return lower_product(lowering, gemm)
        from accelsim.engines.systolic.sharing import lower_shared

        return lower_shared(lowering, gemm)

    def least(self, chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList) -> Sequence[Least]:
        """Return the closed forms of whole products, which tiles only add to."""
        from accelsim.engines.systolic.least import least

        return least(chip, unit, name, products, prices)

    def called(self, unit: Unit) -> str:
        """Return what it is called where its clock is meant."""
        return "the array"

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Prices of multiplications by format, those that no PE carries out, bytes of PE registers and between PEs."""
        table = chip.energy
        found = mac_prices(table) | undone_prices(table)
        register = Price(float(table.register), "PE registers", "PE registers", table.status_of("register"))
        found |= {ActionName(REGISTER, way): register for way in WAYS}
        hop = Price(float(table.network or 0.0), "PE network", "PE network", table.status_of("network"))
        return found | {HOP: hop}

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Yield changes of an array: its sides, its weight shift, its schedule, its dataflow."""
        spec, path = unit.spec, unit.name
        for side in ("rows", "cols"):
            size = getattr(spec, side)
            larger = (f"{path}.{side}={2 * size}", *_slots(chip))
            yield Improvement(f"twice the {side} of the array", larger, ("compute", "weight_shift"), HALF)
            if size > 1:
                idle = ("padding", "fill_drain", "weight_shift")
                yield Improvement(f"half the {side} of the array", (f"{path}.{side}={size // 2}",), idle, REMAPPED)
        rate = f"{path}.load_rows_per_clock={2 * spec.load_rows_per_clock}"
        yield Improvement("twice as many weight rows shifted per clock", (rate,), ("weight_shift",), HALF)
        if spec.schedule == "sequential":
            late, overlapped = ("weight_shift", "fill_drain"), (f"{path}.schedule=overlapped",)
            yield Improvement("folds that overlap", overlapped, late, 1.0, "array_timing")
        for name in DATAFLOWS:
            if name != spec.dataflow:
                idle = ("padding", "weight_shift", "fill_drain")
                yield Improvement(f"dataflow {name}", (f"{path}.dataflow={name}",), idle, REMAPPED, "dataflow")

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the array; that of the chip if the array has none of its own."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start the weight loader and the streamer of an array."""
        from accelsim.engines.systolic.process import MatrixEngine

        MatrixEngine(device, engine, spec_of(device.chip, engine), self.clock(device.chip, engine), queue).start()


ENGINE = Systolic()


def _slots(chip: Chip) -> Iterator[str]:
    """Slots for the larger stationary tile, where their size is stated."""
    for name, buffer in chip.buffers.items():
        if buffer.slot_capacity is not None and "weights" in buffer.holds:
            yield f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}"
            yield f"{chip.called(name)}.slot_capacity={spell(2 * buffer.slot_capacity, 'B')}"
