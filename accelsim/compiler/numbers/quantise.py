"""Quantise: give every tensor the number format that it has on the chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers.coded_weights import CodedWeights
from accelsim.compiler.numbers.formats import (
    Operands,
    attends,
    in_blocks,
    is_code,
    memory_format,
    operands_of,
    serves_narrow,
    short_float,
)
from accelsim.compiler.numbers.ranges import input_means
from accelsim.compiler.numbers.requantise import Rewriter
from accelsim.compiler.numbers.scales import Plan, plan, stored_format
from accelsim.compiler.state import State
from accelsim.errors import UsageError, count_of
from accelsim.formats.table import FORMATS, FP4, get
from accelsim.program.roles import multiplier
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_product

FP32 = Operands("fp32", "fp32", "fp32", "fp32", "fp32")
"""Operands of a unit that multiplies FP32, which needs no note."""


ROUNDING_SUMS = {"fp16": "fp16-accumulate"}
"""Format of the partial sums -> the dot-product rule that it implies where the spec names none."""


SUM_BITS = 32
"""Bits in which integer sums are computed, whatever the unit keeps them in."""


def quantise(state: State) -> None:
    """Settle the format of every matrix node and of every tensor.

    Floats of 16 bits or more: what a node writes, and its weights, have that format; inside a fused node, and its
    bias, stay fp32, so a result is rounded once, when it is written. TF32 stays fp32 in memory and is rounded when
    it is multiplied. Narrower formats are codes with scales, see ``Rewriter``. Operands that are quantised already,
    and the tensors of a training step, keep the formats that they have.

    Graph structure, shapes and formats do not depend on ``options.values``; the scales do.
    """
    graph = state.graph
    nodes = [node for node in graph.nodes if is_product(node)]
    if not nodes and multiplier(state.chip) is None and state.dtype != "fp32":
        state.notes.append(f"quantise: {state.chip.name} has no matrix unit: nothing becomes {state.dtype}")
    settled = {node.name: operands_of(state, node) for node in nodes}
    operands = {node.name: settled[node.name] for node in nodes if not _is_coded(graph, node)}
    state.notes.extend(_narrow_sums(state, settled))
    if not operands or graph.trains:
        _settle(state, settled)
        _narrow_caches(state)
        return
    formats = plan(state, operands)  # executes the graph of real numbers, so before any format is written
    if state.options.bias_correction and state.options.values != "off":
        state.means = input_means(state)
    _settle(state, settled)
    _narrow(state, formats)
    if formats.codes or any(entry.codes for entry in operands.values()):
        Rewriter(state, formats).run()
    _store(state)
    weights = CodedWeights(state)
    for node in graph.nodes:
        if node.name in operands and operands[node.name].weights_alone and graph.tensors[node.inputs[1]].is_constant:
            weights.round_alone(node, operands[node.name])
    _in_blocks(state)
    _narrow_caches(state)
    if any(entry != FP32 for entry in operands.values()):
        state.notes.append(_note(state, formats))


def _settle(state: State, settled: Mapping[str, Operands]) -> None:
    """Write into the matrix nodes the format and the dot-product rule of the unit."""
    unit = multiplier(state.chip)
    for node in state.graph.nodes:
        if node.name in settled and unit is not None:
            operands = settled[node.name]
            node.format = operands.mac
            if memory_format(operands.activations) != operands.activations:  # TF32, which memory holds as FP32
                node.attrs["emulates"] = operands.activations
            entry = unit.spec.formats[node.format]
            rule = entry.dot or ROUNDING_SUMS.get(entry.accumulate)
            if rule:
                node.attrs["dot"] = rule


def _is_coded(graph: Graph, node: Node) -> bool:
    """Return whether the operands of a node are codes already."""
    return graph.tensors[node.inputs[0]].dtype not in edit.FLOATS


def _note(state: State, formats: Plan) -> str:
    options, kinds = state.options, sorted({entry.mac for entry in formats.operands.values()})
    emulated = any(entry.emulated for entry in formats.operands.values())
    through = f", computed as {' and '.join(kinds)}" if emulated else ""
    per = "per output channel" if options.per_channel else "per tensor"
    if not any(entry.codes for entry in formats.operands.values()):
        alone = sorted({entry.weights for entry in formats.operands.values() if entry.weights_alone})
        if alone:
            others = sorted({entry.activations for entry in formats.operands.values()})
            kept = sorted({entry.stored_activations for entry in formats.operands.values()})
            where = "" if kept == others else f", kept as {' and '.join(kept)}"
            return (
                f"quantise: weights are kept as {' and '.join(alone)}, symmetric, {per}; other tensors are "
                f"{' and '.join(others)}{where}; products are computed as {' and '.join(kinds)}"
            )
        if emulated:
            return f"quantise: values are rounded to {state.dtype}, kept and computed as {' and '.join(kinds)}"
        held = _common(formats)
        rounded = "" if held == state.dtype else f"; operands are rounded to {state.dtype} as they are multiplied"
        return f"quantise: tensors are {held} in every memory, fp32 inside a fused node{rounded}"
    data = "one random batch" if options.ranges_from is None else "the data for ranges"
    method = {"absmax": "max |x|"}.get(options.ranges, options.ranges)
    scales = "unknown, because values are off" if options.values == "off" else f"{method} of {data}"
    return f"quantise: {state.dtype}{through}, {options.scheme}, weights {per}; activation scales: {scales}"


def _narrow_sums(state: State, operands: Mapping[str, Operands]) -> Iterator[str]:
    """Return what to know of each format whose integer sums are narrower than INT32, in which their values are
    computed."""
    unit = multiplier(state.chip)
    if unit is None or state.options.values == "off":
        return
    for mac in sorted({entry.mac for entry in operands.values()}):
        held = FORMATS.get(unit.spec.formats[mac].accumulate)
        if held is not None and held.kind == "int" and held.bits < SUM_BITS:
            yield (
                f"quantise: the sums of {mac} are {held.name} in the buffers and in the ledger, but their values are "
                f"computed in int{SUM_BITS}: neither overflow nor rounding to {held.bits} bits is shown"
            )


def _narrow(state: State, formats: Plan) -> None:
    """Write the float formats into the tensors: activations, weights, and what lies between nodes of the host."""
    graph, chip, fusion, dtype = state.graph, state.chip, state.options.fusion, state.dtype
    chosen = dict(formats.floats)
    for node in graph.nodes:
        if node.name in formats.operands and not formats.operands[node.name].codes:
            weights = node.inputs[1]
            if graph.tensors[weights].is_constant:
                own = formats.operands[node.name]
                chosen.setdefault(weights, own.stored_weights if own.weights_alone else memory_format(own.weights))
    default = short_float(chip) if serves_narrow(chip, fusion, dtype) else _common(formats)
    names = {*graph.inputs, *(name for node in graph.nodes for name in (*node.inputs, *node.writes) if name)}
    coded = {node.inputs[1] for node in graph.nodes if _has_codes(formats, node)}
    for name in sorted(names - set(formats.codes) - coded):
        if graph.tensors[name].dtype == "fp32":
            graph.tensors[name].dtype = chosen.get(name, default)


def _has_codes(formats: Plan, node: Node) -> bool:
    return node.name in formats.operands and formats.operands[node.name].codes


def _common(formats: Plan) -> str:
    """Format of floats that no matrix node touches: that of the activations where all nodes agree, else fp32."""
    found = {memory_format(entry.activations) for entry in formats.operands.values()}
    only = found.pop() if len(found) == 1 else "fp32"
    return "fp32" if is_code(only) else only


def _narrow_caches(state: State) -> None:
    """Keep keys and values that stay on the chip in ``Options.kv_dtype``: bytes alone, for values are off.

    Raises UsageError for a chip without attention in one kernel, which alone reads them so.
    """
    kept = state.options.kv_dtype
    if not kept:
        return
    if not attends(state.chip):
        what = f"{state.chip.name} has no attention that reads keys and values in another format"
        raise UsageError(what, "kv_dtype", "a GPU")
    graph = state.graph
    products = [node for node in graph.nodes if is_product(node)]
    read = {node.inputs[1] for node in products if not graph.tensors[node.inputs[1]].is_constant}
    found = sorted(read & {*graph.kept, *graph.states.values()})
    for name in found:
        graph.tensors[name].stored = get(kept).name
    for past, late in graph.states.items():
        if late in found:
            graph.tensors[past].stored = get(kept).name
    state.notes.append(f"quantise: {count_of(len(found), 'tensor')} of keys and values kept as {get(kept).name}")


def _in_blocks(state: State) -> None:
    """Keep FP4 with the scales of its blocks in memory, where that was asked for."""
    kept = in_blocks(state)
    for tensor in state.graph.tensors.values() if kept else ():
        if tensor.memory_format == FP4:
            tensor.stored = kept


def _store(state: State) -> None:
    """Record in the tensors where the chip keeps a format in a wider one: real numbers, and codes made here."""
    known = cache(lambda dtype, weights: stored_format(state.chip, dtype, weights))
    for tensor in state.graph.tensors.values():
        if tensor.dtype in edit.FLOATS or (tensor.quant is not None and tensor.dtype != "int32"):
            kept = known(tensor.dtype, tensor.is_constant)
            tensor.stored = kept if kept != tensor.dtype else ""
