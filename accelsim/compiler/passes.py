"""The compiler: a visible list of passes, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from accelsim.compiler.lower.capacity import check_capacity
from accelsim.compiler.lower.lower import lower
from accelsim.compiler.state import Options, Pass, State, check_choices, check_kinds
from accelsim.engines.registry import ENGINES
from accelsim.errors import Problem, UsageError, nearest
from accelsim.pause import no_collection
from accelsim.program.mapping import wrong_pins
from accelsim.program.program import Program
from accelsim.program.roles import multiplier, units
from accelsim.program.verify import verify
from accelsim.spec.chip import Chip
from accelsim.spec.levels import without_capacities, without_memories
from accelsim.threads import one_blas_thread
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import node_work
from accelsim.workload.value_memory import check_values


def _is_coded(state: State) -> bool:
    return any(node.op in ("Quantize", "Dequantize") for node in state.graph.nodes)


def _is_pruned(state: State) -> bool:
    return bool(state.options.sparsity or state.graph.sparsity)


def _serves(state: State) -> bool:
    return state.options.serves


def _engine(trait: str) -> Callable[[State], bool]:
    """Return what finds an engine whose spec has a trait, such as 'attends'."""
    return lambda state: any(getattr(unit.spec, trait) for unit in units(state.chip).values())


PASSES = (
    Pass("numbers.integerise", "dequantise, float op, quantise of a quantised model become one integer op", _is_coded),
    Pass("graph.legalise", "canonical ops become the ones that the compiler handles; dead nodes go"),
    Pass("graph.absorb_batch_norm", "batch normalisation disappears into the weights before it"),
    Pass("graph.place", "each node gets an engine: matrix, vector or host"),
    Pass("graph.turn", "transpositions go into products that read either layout", _engine("reads_turned")),
    Pass("graph.merge", "for serving: products of one operand by several weights become one", _serves),
    Pass("graph.fuse", "bias, sums, activations and pooling move behind the product that feeds them"),
    Pass("numbers.sparsify", "structured sparsity: the smallest weights of each group are pruned", _is_pruned),
    Pass("numbers.quantise", "each tensor gets its number format; narrow ones get ranges and become codes"),
    Pass("graph.attend", "scores, softmax and weighted sum become one kernel", _engine("attends")),
    Pass("graph.join", "for serving: moves and elementwise functions around each other become one kernel", _serves),
)
"""Passes over the graph. Behind them: ``lower`` (tile, map and write the commands, step by step) and ``verify``."""


MUCH_WORK = 10**11
"""Multiply-accumulates from which on finding ranges takes so long (a minute or more) that the program is written
without values first: what does not fit, or is beyond a limit, is then told at once."""


def compile(graph: Graph, chip: Chip, options: Options | None = None) -> Program:
    """Compile a graph for a chip.

    Raises UsageError for a format or dataflow that the chip does not have, Infeasible for a layer that does not fit
    (as data), OverCapacity (one of these) for a memory that is too small, TooLarge beyond the limits of
    ``workload.limits``, ModelError for what neither the chip nor its host can do.
    """
    options = options or Options()
    if options.values != "off" and sum(node_work(graph, node).macs for node in graph.nodes) > MUCH_WORK:
        compile(graph, chip, replace(options, values="off"))
    with no_collection():
        state = _transformed(graph, chip, options)
        program = lower(state)
        check_capacity(program)
        verify(program)
        return program


def transform(graph: Graph, chip: Chip, options: Options | None = None) -> Graph:
    """Return what the passes make of a graph for a chip: its nodes and formats, without a program. Raises as
    ``compile``."""
    return _transformed(graph, chip, options or Options()).graph


LAST: deque[tuple[tuple[object, ...], State]] = deque(maxlen=8)
"""The last frozen graphs, with the chips and options that they were transformed for, and what became of them."""


def _transformed(graph: Graph, chip: Chip, options: Options) -> State:
    """Run the passes. They read no attached memories, and where engines ask spaces for room no capacities but those of
    sums: chips that differ in these alone share the transformed graph of a frozen one, which is frozen itself."""
    chip = configured(chip, options)
    if not graph.frozen or options.values != "off" or options.scales or options.ranges_from is not None:
        return _passed(graph, chip, options)
    read = without_memories(chip)
    if len(chip.cores) == 1 and all(ENGINES[unit.type].asks_spaces for unit in units(chip).values()):
        tiles = [name for name, each in chip.buffers.items() if "partial_sums" not in each.holds]
        read = read.model_copy(update={"cores": {chip.core_kind: without_capacities(chip.core, tiles)}})
    made = next((state for of, state in LAST if of[0] is graph and of[1:] == (read, options)), None)
    if made is None:
        made = _passed(graph, read, options)
        made.graph.frozen = True
        LAST.append(((graph, read, options), made))
    return State(made.graph, chip, options, made.dtype, list(made.notes))


@one_blas_thread
def _passed(graph: Graph, chip: Chip, options: Options) -> State:
    state = State(graph, chip, options, options.dtype or preferred_format(chip), list(graph.notes))
    _check_names(state)
    check_choices(options)
    check_kinds(options, chip)
    if options.values != "off":
        check_values(graph, state.copies)
    for entry in PASSES:
        entry.run(state)
    return state


def preferred_format(chip: Chip) -> str:
    """The first format of the engine that multiplies; fp32 on a plain processor."""
    unit = multiplier(chip)
    return next(iter(unit.spec.formats)) if unit is not None else "fp32"


def configured(chip: Chip, options: Options) -> Chip:
    """The chip with the dataflow, the schedule and the number of cores that the user asked for."""
    if options.cores is not None and options.cores != chip.core_count:
        chip = chip.with_cores(options.cores)
    wanted = {name: value for name, value in (("dataflow", options.dataflow), ("schedule", options.schedule)) if value}
    return chip.with_engines(
        lambda unit: unit.model_copy(update=wanted) if wanted and hasattr(unit, "dataflow") else unit
    )


def _check_names(state: State) -> None:
    """Raise UsageError for pinned layers and given scales that the model does not have, for scales that are none, and
    for fields of mappings that the chip does not choose or that cannot be so."""
    layers, tensors = {node.name for node in state.graph.nodes}, state.graph.tensors
    unit, problems = multiplier(state.chip), list[Problem]()
    kind = ENGINES[unit.type].mapping if unit is not None else None
    for name, fields in state.options.pinned.items():
        where = f"mapping of {name}"
        if name not in layers:
            what = f"the mapping names a layer {name!r} that the model does not have"
            problems.append(Problem(what, "", "", nearest(name, layers)))
        elif kind is not None:
            problems += wrong_pins(kind, fields, where)
        elif fields:
            problems.append(Problem(f"{state.chip.name} chooses nothing of a layer", where, "no fields"))
    for name, scale in state.options.scales.items():
        values = np.asarray(scale)
        if name not in tensors:
            problems.append(Problem(f"a scale for {name!r}", "scales", "a tensor of the model", nearest(name, tensors)))
        elif not (np.all(values > 0) and np.all(np.isfinite(values))):
            problems.append(Problem(f"scale of {name!r} is {values.min():g}", "scales", "positive, finite numbers"))
        elif values.size != 1 and not tensors[name].is_constant:
            problems.append(Problem(f"{values.size} scales of {name!r}", "scales", "one, for it is no weight"))
    UsageError.raise_for(problems)
