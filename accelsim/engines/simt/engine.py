"""The multiprocessors of a GPU as an engine type: kernels one after the other, each in pieces of its clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, cast

from accelsim.engines.base import EngineType, Improvement, Lowering, Mapped, Offer, Price
from accelsim.engines.device import Device, Point, Process, Walk
from accelsim.engines.simt import words
from accelsim.engines.simt.lower import lower_product
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.streams import lower_stream
from accelsim.engines.simt.writing import LAUNCH
from accelsim.program.commands import Command, Cycles
from accelsim.program.roles import Unit, spec_of
from accelsim.spec.models import Chip
from accelsim.time import Clock, clock_of
from accelsim.units import spell
from accelsim.workload.nodes import gemm_view, is_product

STRANGE = ("int64", "uint32", "uint64", "string")
"""Formats that its kernels do not write: they have real numbers, codes, 32-bit sums and flags."""


class Multiprocessors(EngineType):
    """All multiprocessors together, for products and for everything else."""

    type = "simt"
    title = "the multiprocessors"
    rank = 0
    reasons, categories, pieces = words.REASONS, words.CATEGORIES, words.PIECES
    hue = "green"

    def accepts(self, offer: Offer) -> str:
        """Products in its formats, functions that its spec lists, on numbers that it knows."""
        graph, node = offer.graph, offer.node
        if offer.op.kind == "matrix":
            view = gemm_view(graph, node)
            if view is None:
                return "has no form as a matrix product"
            a, b = graph.tensors[view.a].dtype, graph.tensors[view.b].dtype
            return "" if offer.multiplies else f"the multiprocessors do not multiply {a} by {b}"
        functions = offer.unit.spec.functions
        if node.op not in functions and not (node.op == "Bias" and "Add" in functions):
            return "not a function of the multiprocessors"
        strange = [
            name for output in node.outputs if output and (name := graph.tensors[output].dtype) in STRANGE
        ]
        return f"the multiprocessors have no {strange[0]} numbers" if strange else ""

    def lower(self, lowering: Lowering) -> Mapped | None:
        """A kernel with the best tile for a product, one that streams for everything else."""
        if is_product(lowering.node):
            return lower_product(lowering)
        lower_stream(lowering)
        return None

    def macs_per_clock(self, spec: Simt, mac_format: str) -> Fraction:
        """Of all multiprocessors."""
        return spec.multiprocessors * spec.formats[mac_format].rate

    def has_epilogue(self, spec: Simt) -> bool:
        """In registers, before results leave a block."""
        return True

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Of the energy table of the chip; shared memory as an SRAM of its size."""
        return words.prices(chip, unit)

    def shares(self, piece: Any, command: Command) -> dict[str, int]:
        """Of products, parts of tiles that hold nothing apart."""
        fs = piece.end - piece.start
        return (
            words.product_shares(fs, command) if piece.kind == "products" else super().shares(piece, command)
        )

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """More multiprocessors, launches that take half as long."""
        more = f"{unit.name}.multiprocessors={2 * unit.spec.multiprocessors}"
        yield Improvement("twice the multiprocessors", (more,), ("products", "tile_padding", "lanes"), 0.5)
        if unit.spec.launch:
            half = f"{unit.name}.launch={spell(unit.spec.launch / 2, 's')}"
            yield Improvement("half the time of a kernel's launch", (half,), ("launch",), 0.5)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the multiprocessors, else of the chip."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        clock, log, last = self.clock(device.chip, engine), device.logs[engine], 0
        for command in queue:
            available, why = yield from device.available(command.waits)
            first = max(last + 1, clock.edge(available))
            log.wait(clock.at(last), clock.at(first - 1), why)
            yield device.sleep_until(clock.at(first))
            clocks = cast(Cycles, command.work).clocks
            held = yield from device.hold_ports(command, engine, clock.at(clocks))
            log.wait(clock.at(first - 1), clock.at(max(first, clock.edge(held)) - 1), "buffer port")
            first = max(first, clock.edge(held))
            last = first + clocks - 1
            log.busy.append((clock.at(first - 1), clock.at(last)))
            device.begin_now(command, clock.at(first))
            device.complete(
                command, clock.at(first - 1), clock.at(first - 1), clock.at(last), clock.at(first)
            )

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """To the piece before, or to what came last of what was waited for."""
        clock, (start, _, _) = self.clock(walk.chip, command.engine), walk.span(command.id)
        before = walk.queue_before(command.id)
        free = clock.edge(walk.span(before)[2]) + 1 if before >= 0 else 1
        wait, available = walk.latest(command)
        first = max(free, clock.edge(available))
        begin, buffer = clock.at(first - 1), walk.buffer(command)
        on_time = start == begin or (buffer and start > begin)
        walk.check(command, bool(on_time), f"starts at {start} fs instead of {begin}")
        walk.emit(start, command.id, _piece(command), command.engine)
        walk.emit(begin, command.id, "buffer_port", buffer)
        if wait is not None and first > free:
            return walk.follow(command, wait, first, clock)
        walk.linked("queue" if before >= 0 else "start")
        return Point(before, "done") if before >= 0 else None


def _piece(command: Command) -> str:
    """What happens in a command, a key of ``words.PIECES``."""
    if command.label == LAUNCH:
        return "launch"
    return {"product": "products", "epilogue": "block_ends"}.get(command.effect.what, "lanes")


ENGINE = Multiprocessors()
