"""Elements that move through a small systolic array, clock edge by clock edge, as data for an animation.

For the first tile of each shape of product that a run multiplies: which element every register holds behind every
edge, by the register-level model (``accelsim.engines.systolic.following``), and the operands themselves where they are
known. ``assets/array.js`` draws it; its first lines say how to read what is packed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.titles import is_of_images, title
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.following import PADS, WORKS, Edge, follow, names
from accelsim.engines.systolic.pace import packs
from accelsim.engines.systolic.registers import HARDWARE_SCHEDULES
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import cycles, folds
from accelsim.errors import AccelsimError, count_of
from accelsim.machine.run import Run
from accelsim.program.commands import Command, Step, Tile
from accelsim.program.roles import spec_of
from accelsim.program.tiles import DENSE, sparsity
from accelsim.program.work import Folds
from accelsim.types import Array
from accelsim.workload import execute
from accelsim.workload.matrix import a_matrix, b_matrix
from accelsim.workload.multiply import entering, rounded_to
from accelsim.workload.ops.base import Gemm
from accelsim.workload.ops.values import contain

MOST_SIDE = 16
"""Rows and columns of PEs that are drawn at most."""
MOST_CLIPS, MOST_FOLDS, MOST_EDGES = 6, 2, 200
"""Shapes of products that are shown at most, and of each so many folds and clock edges."""
MOST_BYTES = 300_000
"""Bytes that all of it takes at most, as JSON."""
MOST_MACS = 20_000_000
"""Multiplications that are repeated at most, for operands that the run did not keep."""
STATIONARY = {"a": "Input stationary", "b": "Weight stationary", "y": "Output stationary"}
"""Matrix that stays in the PEs -> what such a dataflow is called."""
DIGITS = 4
"""Significant digits of operands that are no whole numbers."""


class Shown(NamedTuple):
    """The part of a tile that is shown, as a product of its own: sizes, folds, streamed rows."""

    M: int
    N: int
    K: int
    folds: int
    streamed: int


@dataclass
class Book:
    """Rows and planes of indices, each written once: a plane [rows, columns] is the numbers of its rows."""

    rows: dict[tuple[int, ...], int] = field(default_factory=dict)
    planes: dict[tuple[int, ...], int] = field(default_factory=dict)

    def note(self, plane: Array) -> int:
        """Return the number of a plane, which is added if it is new."""
        lines = tuple(self.rows.setdefault(tuple(row), len(self.rows)) for row in plane.tolist())
        return self.planes.setdefault(lines, len(self.planes))


def array_frames(run: Run) -> dict[str, Any] | None:
    """Return clips of the systolic arrays of a run for JSON; None where no array of at most 16 x 16 PEs multiplied.

    At most ``MOST_CLIPS`` clips, each of at most ``MOST_FOLDS`` folds and ``MOST_EDGES`` edges, and ``MOST_BYTES``
    bytes in all. ``clips``: see :func:`_clip`. ``left_out``: shapes of products of the run that have no clip.
    """
    found = list(_firsts(run))
    clips: list[dict[str, Any]] = []
    room = MOST_BYTES
    values = _values(run) if found else {}
    for command in found[:MOST_CLIPS]:
        clip = _clip(run, command, values)
        room -= len(json.dumps(clip))
        if room < 0:
            break
        clips.append(clip)
    bounds = {"clips": MOST_CLIPS, "folds": MOST_FOLDS, "edges": MOST_EDGES}
    return {"clips": clips, "left_out": len(found) - len(clips), "most": bounds} if clips else None


def _firsts(run: Run) -> Iterator[Command]:
    """The first command of each shape of product, in the order of the program."""
    program = run.program
    arrays = {engine: spec_of(run.chip, engine) for engine, kind in program.engines.items() if kind == "systolic"}
    small = {engine for engine, unit in arrays.items() if max(unit.rows, unit.cols) <= MOST_SIDE}
    if not small:
        return
    dense = [step.gemm if sparsity(step.node) == DENSE else None for step in program.steps]
    shapes = [gemm and (gemm.M, gemm.N, gemm.K) for gemm in dense]
    left = {shape for shape in shapes if shape}
    for command in program.commands:
        shape = shapes[command.op] if command.kind == "MatMul" and command.engine in small else None
        if shape in left and command.effect.tile is not None and isinstance(command.work, Folds):
            left.remove(shape)
            yield command
        if not left:
            return


def _clip(run: Run, command: Command, values: dict[str, Array]) -> dict[str, Any]:
    """One clip.

    ``registers``: name -> matrix of its elements, in the order of a frame. ``frames``: for each edge the numbers of
    ``planes``, two for each register of an operand, four for one of a sum, and last the work of the PEs; a plane is
    the numbers of its ``rows``. ``stream``: for each edge fold and streamed row (``following.Edge``). ``busy``,
    ``pads``: PEs that multiply at an edge, for the product and for padding. ``phases``: see :func:`_phases`. ``a``
    [M, K], ``b`` [K, N]: operands, None where they are not known. ``size``: M, N, K of what is shown, ``from``: where
    in the layer it begins (m, n, k), ``tile``: sizes of the tile that it is the beginning of, ``cycles`` of that alone
    on the array.
    """
    program, unit = run.program, spec_of(run.chip, command.engine)
    step, tile = program.steps[command.op], command.effect.tile
    assert step.gemm is not None and tile is not None
    setup = _setup(unit)
    shown = _shown(setup, tile)
    edges = list(follow(shown.M, shown.N, shown.K, setup))
    operands = _operands(program.graph.tensors, step, shown, tile, values)
    packed = _packed(setup, edges)
    size = tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0
    number = sum(not each.edge for each in program.steps[: command.op + 1])
    called = title(step, program.graph, is_of_images(program.graph))
    return {
        "number": number,
        "name": step.name,
        "title": called,
        "head": f"Layer {number}, {called}: {_head(step.gemm, setup, size)}",
        "engine": command.engine,
        "array": [setup.rows, setup.cols],
        "dataflow": setup.dataflow,
        "schedule": setup.schedule,
        "gemm": [step.gemm.groups, step.gemm.M, step.gemm.N, step.gemm.K],
        "tile": list(size),
        "size": [shown.M, shown.N, shown.K],
        "from": [tile.m0, tile.n0, tile.k0],
        "folds": shown.folds,
        "cycles": _cycles(setup, *size),
        "notes": list(_notes(unit, command, setup, shown)),
        **operands,
        **packed,
        **_words(setup, packed["busy"], packed["pads"]),
    }


def _head(gemm: Gemm, setup: Setup, tile: tuple[int, int, int]) -> str:
    """The product and the tile in a sentence."""
    (M, N, K), (m, n, k) = (gemm.M, gemm.N, gemm.K), tile
    times = f", {gemm.groups} times" if gemm.groups > 1 else ""
    count = f"{_cycles(setup, *tile):,} clock edges"
    return (
        f"Y[{M},{N}] = A[{M},{K}] x B[{K},{N}]{times}: the first tile, {m} x {k} times {k} x {n}, which takes {count} "
        f"on {setup.rows} x {setup.cols} PEs."
    )


def _setup(unit: MatrixUnit) -> Setup:
    """The array as the register-level model has it; what only reports differently moves as 'sequential'."""
    schedule = unit.schedule if unit.schedule in HARDWARE_SCHEDULES else "sequential"
    return Setup(
        unit.rows, unit.cols, unit.dataflow, schedule, unit.shadow_load, unit.load_rows_per_clock, unit.min_interval
    )


def _cycles(setup: Setup, M: int, N: int, K: int) -> int:
    """Edges of a product alone on the array."""
    return cycles(
        setup.rows, setup.cols, setup.dataflow, setup.schedule, setup.shadow_load, M, N, K,
        load_rows_per_clock=setup.load_rows_per_clock, min_interval=setup.min_interval,
    )  # fmt: skip


def _shown(setup: Setup, tile: Tile) -> Shown:
    """The first folds of a tile that fit; where not even one does, as many rows of its stream as do."""
    flow = DATAFLOWS[setup.dataflow]
    sizes = {"m": tile.m1 - tile.m0, "n": tile.n1 - tile.n0, "k": tile.k1 - tile.k0}
    down, across = folds(setup.rows, setup.cols, setup.dataflow, sizes["m"], sizes["n"], sizes["k"])
    most = min(MOST_FOLDS, max(down, across))
    for count in range(most, 0, -1):
        part = {
            flow.rows: min(sizes[flow.rows], setup.rows * (count if down > 1 else 1)),
            flow.cols: min(sizes[flow.cols], setup.cols * (1 if down > 1 else count)),
            flow.time: sizes[flow.time],
        }
        over = _cycles(setup, part["m"], part["n"], part["k"]) - MOST_EDGES
        if over <= 0:
            break
    else:
        part[flow.time] -= over
    return Shown(part["m"], part["n"], part["k"], count, part[flow.time])


def _notes(unit: MatrixUnit, command: Command, setup: Setup, shown: Shown) -> Iterator[str]:
    """Return what is not shown, or not as it was, as sentences."""
    tile, work = command.effect.tile, command.work
    assert tile is not None and isinstance(work, Folds)
    groups, size = tile.g1 - tile.g0, (tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0)
    streamed = unit.flow.spatial(*size)[2]
    if shown.streamed < streamed:
        whole = f"{streamed:,} rows of the stream"
        yield f"Cut: only the first {shown.streamed} of {whole} are shown, then the array drains."
    elif shown.folds < work.n:
        yield f"Shown: {shown.folds} of the {work.n:,} folds of this tile."
    if groups > int(packs(unit, groups, size[1], size[2])):
        yield "Several groups lie on the diagonal of the array side by side; the first of them is shown alone."
    if work.rows * work.cycles_per_row != streamed:
        pace = f"{count_of(streamed, 'row')} in {work.rows * work.cycles_per_row:,} clocks"
        yield f"The unit streams {pace} in this number format; here each row takes one edge."
    if setup.schedule != unit.schedule:
        yield f"The chip counts cycles as the schedule {unit.schedule}; shown is {setup.schedule}."


def _packed(setup: Setup, edges: list[Edge]) -> dict[str, Any]:
    """All edges, see :func:`_clip`."""
    book, registers = Book(), names(setup)
    frames = [
        [*(book.note(plane) for name in registers for plane in edge.registers[name]), book.note(edge.work)]
        for edge in edges
    ]
    busy, pads = ([int((edge.work == kind).sum()) for edge in edges] for kind in (WORKS, PADS))
    return {
        "registers": registers,
        "rows": [list(row) for row in book.rows],
        "planes": [list(plane) for plane in book.planes],
        "frames": frames,
        "stream": [[edge.fold, edge.row] for edge in edges],
        "busy": busy,
        "pads": pads,
        "phases": _phases([sum(both) for both in zip(busy, pads, strict=True)], "held" in registers),
    }


def _phases(working: list[int], loads: bool) -> list[tuple[str, int]]:
    """Phases with their first edges, from 1, by how many PEs work: 'steady' when most of them do, 'fill' when more
    will, 'drain' when fewer will, 'load' when none does and what will stay in them comes first (``loads``)."""
    found: list[tuple[str, int]] = []
    for edge, count in enumerate(working, 1):
        later = next((each for each in working[edge:] if each != count), 0)
        if count == max(working):
            name = "steady"
        elif later > count:
            name = "load" if loads and not count else "fill"
        else:
            name = "drain"
        if not found or found[-1][0] != name:
            found.append((name, edge))
    return found


def _words(setup: Setup, busy: list[int], pads: list[int]) -> dict[str, Any]:
    """``flow``: what stays and what moves. ``story``: phase -> what happens in it."""
    flow, pes = DATAFLOWS[setup.dataflow], setup.rows * setup.cols
    right, top, still = flow.at_rows.upper(), flow.at_cols.upper(), flow.still.upper()
    most = max(each + pad for each, pad in zip(busy, pads, strict=True))
    if flow.stationary:
        moves, leaves = (
            f"{still} stays in the PEs, {right} moves right, the sums Y move down",
            "and with it the last sums",
        )
    else:
        moves, leaves = (f"{right} moves right, {top} moves down, the sums Y stay", "then the complete sums move down")
    return {
        "flow": f"{STATIONARY[flow.still]} ({setup.dataflow}): {moves}.",
        "story": {
            "load": f"{still} moves down from the top into the PEs. Nothing multiplies.",
            "fill": "The wavefront moves in from the top left: more PEs multiply at each edge.",
            "steady": "The wavefront covers the array: every PE multiplies."
            if most == pes
            else f"As many PEs work as ever will, {most} of {pes}: the stream is too short to fill the array.",
            "drain": f"The wavefront leaves at the bottom right, {leaves}.",
        },
    }


def _values(run: Run) -> dict[str, Array]:
    """Tensors that the run had, by name; {} where it computed none, or it would take long to compute them again."""
    graph, known = run.program.graph, {**run.feeds, **run.tensors, **run.outputs}
    if run.values == "off" or run.program.cores > 1 or run.program.received:
        return {}
    if sum(step.macs for step in run.program.steps) > MOST_MACS:
        return known
    try:
        return execute.run(graph, {name: run.feeds[name] for name in graph.inputs}, keep=True) | run.tensors
    except (AccelsimError, KeyError):
        return known


def _operands(tensors: Any, step: Step, shown: Shown, tile: Tile, values: dict[str, Array]) -> dict[str, Any]:
    """A [M, K] and B [K, N] of what is shown, as the unit multiplies them; None for both where one is not known."""
    gemm = step.gemm
    assert gemm is not None
    unknown: dict[str, Any] = {"a": None, "b": None}
    if not values or step.node.op == "ExpertMatMul":
        return unknown
    found = {}
    for role, name, view in (("a", gemm.a, a_matrix), ("b", gemm.b, b_matrix)):
        tensor = tensors[name]
        if name not in values and not tensor.is_constant:
            return unknown
        value = values[name] if name in values else contain(tensor.value(), tensor.dtype)
        matrix = view(gemm, value.reshape(tensor.shape), tile.g0, step.node)
        found[role] = entering(matrix, tensor.dtype, rounded_to(step.node))
    m, n, k = (slice(first, first + size) for first, size in zip((tile.m0, tile.n0, tile.k0), shown[:3], strict=True))
    parts = {"a": found["a"][m, k], "b": found["b"][k, n]}
    if not all(np.isfinite(part.astype(np.float64)).all() for part in parts.values()):
        return unknown
    return {role: _plain(part) for role, part in parts.items()}


def _plain(matrix: Array) -> list[list[float]]:
    """Numbers for JSON: whole ones as they are, others with a few digits."""
    if matrix.dtype.kind in "iub":
        whole: list[list[float]] = matrix.astype(np.int64).tolist()
        return whole
    return [[_short(float(value)) for value in row] for row in matrix]


def _short(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.{DIGITS}g}")
