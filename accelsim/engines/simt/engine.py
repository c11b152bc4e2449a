"""The multiprocessors of a GPU as an engine type: kernels one after the other, each in pieces of its clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, cast

from accelsim.engines.base import (
    Beside,
    Category,
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
from accelsim.engines.clocked import Clocked, Hold, clocks_of, not_a_function, not_a_product
from accelsim.engines.device import Device, Yields
from accelsim.engines.prices import mac_prices, op_prices, undone_prices
from accelsim.program.actions import ACTIVE, WAYS, WRITE, ActionName, multiplications
from accelsim.program.commands import Command, Step
from accelsim.program.roles import Unit, spec_of, streams_of
from accelsim.program.work import Cycles
from accelsim.spec.energy import sram_J_per_B
from accelsim.time import FS, FS_PER_S, Clock, clock_of
from accelsim.units import spell
from accelsim.workload.nodes import is_attention, is_product

if TYPE_CHECKING:
    from accelsim.engines.simt.model import Kernels
    from accelsim.engines.simt.spec import Simt
    from accelsim.spec.chip import Chip

REASONS = (
    Reason("products", "products", "multiplying in the multiprocessors", "products", "#117733", computing=True),
    Reason("tile_padding", "unused parts of tiles", "computing parts of tiles that hold nothing",
           "unused parts of tiles", "#a1d99b", computing=True, unused_of="products"),
    Reason("block_ends", "ends of blocks", "finishing blocks, with what is fused", "ends of blocks", "#44aa99",
           "----", True),
    Reason("lanes", "other functions", "computing other functions in the multiprocessors", "other functions",
           "#aa4499", "....", True),
    Reason("attention", "attention", "attention in one kernel", "attention", "#999933", "xx", True),
    Reason("beside", "kernels of other streams", "waiting for multiprocessors that other streams have",
           "kernels of other streams", "#ddcc77", "\\\\\\\\"),
    Reason("launch", "kernel launch", "launching kernels", "kernel launches", "#332288", "////", True),
)  # fmt: skip
PRODUCTS, REGISTERS, SHARED, LANES = "MAC", "registers", "shared memory", "lanes"
INSTRUCTIONS = "instructions"
CATEGORIES = (
    Category(PRODUCTS, "#0072b2"),
    Category(REGISTERS, "#88ccee", "////"),
    Category(SHARED, "#44aa99", "----"),
    Category(LANES, "#aa4499", "...."),
    Category(INSTRUCTIONS, "#999933", "xxxx"),
)
PIECES = (
    ("products", "a wave of blocks multiplies"),
    ("block_ends", "blocks compute what is fused behind their sums, and results leave"),
    ("lanes", "lanes and units for special functions work"),
    ("attention", "queries meet keys and values in one kernel"),
    ("launch", "a kernel is launched"),
    ("beside", "a kernel takes longer because those of other streams have the multiprocessors, or are launched"),
)


class Multiprocessors(Clocked):
    """All multiprocessors together, for products and for everything else."""

    type = "simt"
    title = "the multiprocessors"
    rank = 0
    reasons, categories, pieces = REASONS, CATEGORIES, PIECES
    hue = "green"
    disturbed = "beside"

    @property
    def mapping(self) -> MappingKind:
        """Return how a product is cut into thread blocks."""
        from accelsim.engines.simt.kernels import Blocks

        return Blocks

    def accepts(self, offer: Offer) -> str:
        """Accept products in its formats, and functions that its spec lists, on numbers that it knows."""
        if offer.op.kind == "matrix":
            return not_a_product(offer, "the multiprocessors do", "and kernels stream activations from there")
        return not_a_function(offer, self.title, "have")

    def lower(self, lowering: Lowering) -> Mapped | None:
        """Write a kernel with the best tile for a product, one that streams for everything else."""
        from accelsim.engines.simt.attending import Attending
        from accelsim.engines.simt.lower import lower_product
        from accelsim.engines.simt.streaming import Streaming

        if is_product(lowering.node):
            return lower_product(lowering)
        (Attending if is_attention(lowering.node) else Streaming)(lowering).lower()
        return None

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Return what it keeps of its clock under load."""
        spec = spec_of(chip, engine)
        return clock_of((spec.clock or chip.clock) * spec.sustained_clock)

    def holding(self, device: Device, engine: str, queue: Sequence[Command], clock: Clock) -> Hold:
        """Return what holds the multiprocessors; of several streams, pieces take longer where others have them."""
        from accelsim.engines.simt.sharing import Sharing
        from accelsim.engines.simt.writing import LAUNCH

        spec: Simt = spec_of(device.chip, engine)
        if streams_of(spec) == 1:
            return super().holding(device, engine, queue, clock)
        spacing = ceil(Fraction(spec.spacing) * FS_PER_S / clock.period)
        make = partial(Sharing, device.env, clock, spec.multiprocessors, spacing)
        shared = device.shared(engine.partition(":")[0], make)
        final = {command.op: command.id for command in queue}

        def hold(command: Command, first: int) -> Yields[tuple[int, int, str]]:
            yield device.sleep_until(clock.at(first))
            device.begin(command, clock.at(first))
            part, width = shared.launch if command.label == LAUNCH else shared.work, cast(Cycles, command.work).width
            last = yield from part(command.op, width, clocks_of(command), first)
            if command.id == final[command.op]:
                shared.end(command.op, last)
            return first, last, ""

        return hold

    def least(
        self, chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList
    ) -> Sequence[Least] | None:
        """Return the time of the fastest kernels; of several streams, which run side by side, nothing."""
        from accelsim.engines.simt.least import least

        return least(chip, unit, name, products) if streams_of(unit.spec) == 1 else None

    def served(
        self, chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList
    ) -> Sequence[Least] | None:
        """Return what the kernels of linear layers take, 0 of other products; no time where the chip has no constants
        of them, and None where it has none of this format."""
        from accelsim.engines.simt.constants import Device
        from accelsim.engines.simt.least import layers_J
        from accelsim.engines.simt.served import layers_s

        gemms = [gemm for gemm, _ in products]
        timed = cast("Simt", unit.spec).serving is not None
        found = layers_s(chip, unit.name, name, gemms) if timed else [0.0] * len(gemms)
        if not found or name not in unit.spec.formats:
            return None if found is None else [Least(seconds, 0.0, seconds) for seconds in found]
        joules = layers_J(Device(chip, unit.name), name, gemms, found, prices)
        return [Least(seconds, each_J, seconds) for seconds, each_J in zip(found, joules, strict=True)]

    def beside(self, chip: Chip, unit: Unit, name: str, groups: Sequence[Sequence[Beside]]) -> list[float]:
        """Return the time of kernels of functions and of attention; 0 where the chip has no constants of the latter, or
        several streams, which run side by side."""
        from accelsim.engines.simt.constants import Device
        from accelsim.engines.simt.least import functions_s
        from accelsim.engines.simt.served import attention_s

        if cast("Simt", unit.spec).serving is None or streams_of(unit.spec) > 1:
            return super().beside(chip, unit, name, groups)
        device = Device(chip, unit.name)
        return [functions_s(device, name, each) if each[0].ops else attention_s(device, name, *each) for each in groups]

    def kernels(self, chip: Chip, unit: Unit) -> Kernels:
        """Return the closed forms of products, convolutions, functions and attention."""
        from accelsim.engines.simt.model import Kernels

        return Kernels(chip, unit)

    def busy(self, unit: Unit, step: Step) -> float:
        """Return the share of the multiprocessors that have blocks of its kernel."""
        from accelsim.engines.simt.drawn import busy

        return busy(unit.spec, step)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return the prices of multiplications by format, of operations of lanes, of the instructions around both, of
        bytes of registers and of shared memory (an SRAM of its size), at the clock that the chip keeps."""
        from accelsim.engines.simt.actions import AROUND, FUSED, OPERATION
        from accelsim.engines.simt.drawn import active_W, around_J, around_operations_J, at_clock

        table = chip.energy
        found = mac_prices(table, PRODUCTS) | undone_prices(table, PRODUCTS) | op_prices(table, LANES, "the lanes")
        for way in WAYS:
            register = Price(float(table.register), REGISTERS, REGISTERS, table.status_of("register"))
            energy = sram_J_per_B(table.sram, float(unit.spec.shared), way == WRITE)
            found |= {
                ActionName("register", way): register,
                ActionName("shared", way): Price(energy, SHARED, SHARED, table.status_of("sram")),
            }
        operation, fused = around_operations_J(chip)
        draws = around_J(chip, unit.spec) | {OPERATION: operation, FUSED: fused}
        for name in (*table.mac, OPERATION, FUSED):
            found[ActionName(AROUND, name)] = Price(draws.get(name, 0.0), INSTRUCTIONS, INSTRUCTIONS, "guess")
        active_J = active_W(chip, unit.spec) * float(unit.spec.sustained_clock) * FS
        found[ACTIVE] = Price(active_J, INSTRUCTIONS, "busy multiprocessors", "guess")
        lower = at_clock(unit.spec)
        return {action: price._replace(energy_J=price.energy_J * lower) for action, price in found.items()}

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Propose more multiprocessors, and launches that take half as long."""
        more = f"{unit.name}.multiprocessors={2 * unit.spec.multiprocessors}"
        yield Improvement("twice the multiprocessors", (more,), ("products", "tile_padding", "lanes", "attention"), 0.5)
        if unit.spec.launch:
            half = f"{unit.name}.launch={spell(unit.spec.launch / 2, 's')}"
            yield Improvement("half the time of a kernel's launch", (half,), ("launch",), 0.5)

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """Return one stage: a command is a launch, or a piece of a kernel that does one thing."""
        return ((_piece(command), clocks_of(command)),)


def _piece(command: Command) -> str:
    """Return what happens in a command, a key of ``words.PIECES``."""
    from accelsim.engines.simt.writing import LAUNCH

    if command.label == LAUNCH:
        return "launch"
    done = {"product": "products", "epilogue": "block_ends"}.get(command.effect.what)
    return done or ("attention" if any(multiplications(command.actions)) else "lanes")


ENGINE = Multiprocessors()
