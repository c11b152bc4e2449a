"""The systolic array as an engine type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from accelsim.engines.base import (
    REMAPPED,
    EngineType,
    Improvement,
    Lowering,
    Mapped,
    MappingKind,
    Offer,
    Price,
)
from accelsim.engines.device import Device, EngineLog, Point, Times, Walk
from accelsim.engines.systolic import words
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.records import FoldRecord, streamed, time_spent, weights_free
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.commands import Command, Phase, Program
from accelsim.program.mapping import Mapping as Tiling
from accelsim.program.roles import Unit, spec_of
from accelsim.spec.chip import Chip
from accelsim.time import FS_PER_S, Clock, clock_of
from accelsim.units import spell
from accelsim.workload.nodes import gemm_view
from accelsim.workload.ops.base import Conv

PARTIAL_SUM_B = 4
"""Bytes of one partial sum."""


class Systolic(EngineType):
    """An array of PEs through which operands move; a loader and a streamer run its queue side by side."""

    type = "systolic"
    title = "the array"
    multiplies_as = "the matrix unit"
    rank = 0
    reasons, categories, pieces = words.REASONS, words.CATEGORIES, words.PIECES
    searches = True
    drains = True
    hue = "blue"

    @property
    def mapping(self) -> MappingKind:
        """Return how a product is cut into tiles."""
        return Tiling

    def accepts(self, offer: Offer) -> str | None:
        """Products of activations that stream past what stays in the array."""
        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped:
        """Lower in the tiles of the mapping that the search finds, on as many cores as that is faster with."""
        from accelsim.engines.systolic.mapping.search import lower_product
        from accelsim.engines.systolic.sharing import lower_shared

        gemm = gemm_view(lowering.layout.graph, lowering.node)
        assert gemm is not None
        return lower_shared(lowering, gemm) if lowering.cores else lower_product(lowering, gemm)

    def sparse_pattern(self, spec: MatrixUnit, mac_format: str) -> tuple[int, int] | None:
        """Return the pattern of the format, if its groups are whole in each column."""
        own = spec.formats[mac_format].sparse if mac_format in spec.formats else None
        return None if own is None or spec.rows % own.m else (own.n, own.m)

    def gates_zeros(self, spec: MatrixUnit) -> bool:
        """Return what the engine's spec states."""
        return spec.zero_gating

    def has_epilogue(self, spec: MatrixUnit) -> bool:
        """Return what the engine's spec states: whether results pass the vector unit."""
        return spec.epilogue

    def pools(self, chip: Chip, unit: Unit, conv: Conv) -> bool:
        """Return whether the open sums of one image fit into half of the accumulators."""
        needed_B = prod(conv.out) * unit.spec.cols * PARTIAL_SUM_B
        return bool(needed_B <= accumulator_B(chip) // 2)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return prices from the chip's energy table."""
        return words.prices(chip)

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """See ``improve``."""

        return improvements(chip, unit)

    def shares(self, piece: Any, command: Command) -> dict[str, int]:
        """Return how much of what a MatMul streams is work, unused PEs, weight shift, or neither."""
        if piece.kind != "stream":
            return super().shares(piece, command)
        return words.stream_shares(piece.end - piece.start, piece.edges, command)

    def worked_until(self, chip: Chip, engine: str, record: FoldRecord, data_fs: int) -> int:
        """Return when it had streamed its last row; from then on the array only drains."""
        edges = (record.folds - 1) * record.step + record.rows
        period_fs = Fraction(FS_PER_S) / Fraction(spec_of(chip, engine).clock or chip.clock)
        return data_fs + int(edges * period_fs)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the array, else of the chip."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Both processes."""
        from accelsim.engines.systolic.process import MatrixEngine

        MatrixEngine(
            device, engine, spec_of(device.chip, engine), self.clock(device.chip, engine), queue
        ).start()

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """Go back to the command before, or to the operand or slot that came last."""
        from accelsim.engines.systolic.path import ArrayPath

        unit, clock = spec_of(walk.chip, command.engine), self.clock(walk.chip, command.engine)
        return ArrayPath(walk, unit, clock).back(command, event)

    def passed(self, chip: Chip, engine: str, record: FoldRecord, phase: Phase) -> int:
        """Return when an operand has been read for the last time, fs."""
        return self.clock(chip, engine).at(streamed(record) if phase == "a" else weights_free(record))

    def later(
        self,
        chip: Chip,
        engine: str,
        record: FoldRecord,
        commands: int,
        fs: int,
        tokens: Mapping[str, int] | None = None,
    ) -> FoldRecord:
        """All edges later; a token that was not waited for (0) is none later either."""
        clock, own = self.clock(chip, engine), tokens or {}
        edges = clock.edge(fs)
        ready = {
            why: edge and edge + (clock.edge(own[why]) if why in own else edges)
            for why, edge in record.ready.items()
        }
        return FoldRecord(
            record.command + commands, record.free + edges, record.load_first + edges, record.stream_first + edges,
            record.step, record.reload, record.load, record.rows, record.folds, record.done + edges, ready,
            record.held, record.leaving,
        )  # fmt: skip

    def times(
        self, program: Program, engine: str, log: EngineLog, records: Sequence[FoldRecord],
        summed: Callable[[EngineLog], Times],
    ) -> Times:  # fmt: skip
        """Return the times from the edges of its commands: streaming, or why not."""
        commands = program.commands
        mine = [record for record in records if commands[record.command].engine == engine]
        steps = np.array([commands[record.command].op for record in mine], np.int64)
        return time_spent(mine, steps, self.clock(program.chip, engine))

    def read_until(self, chip: Chip, engine: str, record: Any, role: str, end_fs: int) -> int:
        """The last edge at which the operand is read."""
        return self.passed(chip, engine, record, role) if role in ("a", "w") else end_fs  # type: ignore[arg-type]


def accumulator_B(chip: Chip) -> int:
    """Capacity of the buffers that hold partial sums, B."""
    return int(sum(buffer.capacity for buffer in chip.buffers.values() if "partial_sums" in buffer.holds))


ENGINE = Systolic()


def refusal(offer: Offer) -> str | None:
    """Return why an array cannot do a node, '' where it can, None for what is no product."""
    if offer.op.kind != "matrix":
        return None
    view, tensors, sources = (
        gemm_view(offer.graph, offer.node),
        offer.graph.tensors,
        offer.unit.spec.stationary_from,
    )
    if view is None:
        return "has no form as a matrix product"
    a, b = tensors[view.a], tensors[view.b]
    if a.is_constant:
        return "its left operand is a constant, which the matrix unit does not stream"
    if not offer.multiplies:
        return f"the matrix unit does not multiply {a.dtype} by {b.dtype}"
    if not b.is_constant and "activations" not in sources:
        return "a product of two activations, and the matrix unit holds only weights"
    if b.is_constant and "weights" not in sources:
        return "a product with weights, and the matrix unit holds only activations"
    return ""


HALF = 0.5
"""Weight of the time that something twice as fast takes less of."""


def improvements(chip: Chip, unit: Unit) -> Iterator[Improvement]:
    """Its sides, the rate of its weight shift, how folds follow each other, its dataflow."""
    spec, path = unit.spec, unit.name
    for side in ("rows", "cols"):
        size = getattr(spec, side)
        larger = (f"{path}.{side}={2 * size}", *_slots(chip))
        yield Improvement(f"twice the {side} of the array", larger, ("compute", "weight_shift"), HALF)
        if size > 1:
            idle = ("padding", "fill_drain", "weight_shift")
            yield Improvement(
                f"half the {side} of the array", (f"{path}.{side}={size // 2}",), idle, REMAPPED
            )
    rate = f"{path}.load_rows_per_clock={2 * spec.load_rows_per_clock}"
    yield Improvement("twice as many weight rows shifted per clock", (rate,), ("weight_shift",), HALF)
    if spec.schedule == "sequential":
        late, overlapped = ("weight_shift", "fill_drain"), (f"{path}.schedule=overlapped",)
        yield Improvement("folds that overlap", overlapped, late, 1.0, "array_timing")
    for name in DATAFLOWS:
        if name != spec.dataflow:
            idle = ("padding", "weight_shift", "fill_drain")
            yield Improvement(f"dataflow {name}", (f"{path}.dataflow={name}",), idle, REMAPPED, "dataflow")


def _slots(chip: Chip) -> Iterator[str]:
    """Slots for the larger stationary tile, where their size is stated."""
    for name, buffer in chip.buffers.items():
        if buffer.slot_capacity is not None and "weights" in buffer.holds:
            yield f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}"
            yield f"{chip.called(name)}.slot_capacity={spell(2 * buffer.slot_capacity, 'B')}"
