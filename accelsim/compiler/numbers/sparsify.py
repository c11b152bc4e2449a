"""Sparsify: keep the largest N of each M weights along the reduction, and skip the others where the unit can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from functools import partial

from accelsim.compiler.graph import edit
from accelsim.compiler.numbers.formats import operands_of
from accelsim.compiler.state import State
from accelsim.errors import count_of
from accelsim.formats.sparsity import pattern
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import gemm_view, is_product


def sparsify(state: State) -> None:
    """Prune the constant weights of every matrix node to ``Options.sparsity``, else ``Graph.sparsity``, by magnitude.

    Groups run along the reduction as the array sees it (of a convolution: channel, row, column). A layer whose
    reduction is no multiple of M stays dense, and a note says so. Weights are stored compressed, with their indices,
    and the rest skipped, where the unit has that pattern in the format of the layer, or one that allows all that it
    allows (1:4 runs as 2:4); elsewhere they are zeros like any other. Raises UsageError for a pattern that is none.
    """
    if not (state.options.sparsity or state.graph.sparsity) or multiplier(state.chip) is None:
        return
    asked = _patterns(state.graph, state.options.sparsity)
    whole, skipping, dense = 0, Counter[tuple[int, int]](), list[str]()
    made: dict[Hashable, str] = {}
    counts = edit.use_counts(state.graph)
    for node in state.graph.nodes:
        if node.name not in asked or not is_product(node) or not state.graph.tensors[node.inputs[1]].is_constant:
            continue
        n, m = asked[node.name]
        gemm = gemm_view(state.graph, node)
        assert gemm is not None
        if gemm.K % m:
            dense.append(node.name)
            continue
        whole += 1
        own = skipped_as(state.chip, operands_of(state, node).mac, n, m, gemm.K)
        key = (node.inputs[1], node.op == "Conv", own, (n, m))
        if key not in made:
            made[key] = _prune(state, node, n, m, counts)
        name = node.inputs[1] = edit.moved(counts, key[0], made[key])
        if own is not None:
            skipping[own] += 1
            node.attrs["sparse"] = own
            state.graph.tensors[name].sparse = own
    edit.prune(state.graph)  # the weights as they were
    _tell(state, whole, skipping, dense)


def _patterns(graph: Graph, text: str) -> dict[str, tuple[int, int]]:
    """Node -> (N, M): of all nodes where ``text`` says one, else as ``Graph.sparsity``. UsageError for no pattern."""
    if text:
        return dict.fromkeys((node.name for node in graph.nodes), pattern(text))
    return {name: pattern(each) for name, each in graph.sparsity.items()}


def skipped_as(chip: Chip, mac: str, n: int, m: int, depth: int) -> tuple[int, int] | None:
    """Return the unit's own pattern if weights of at most ``n`` of each ``m`` fit it, so that it skips their zeros.

    ``depth``: length of the reduction, a multiple of ``m``.
    """
    unit = multiplier(chip)
    own = None if unit is None else unit.spec.sparse_pattern(mac)
    if own is None or depth % own[1] or (own[1] % m and m % own[1]):
        return None
    most = n * (own[1] // m) if own[1] >= m else n  # of a group of the unit
    return own if most <= own[0] else None


def _prune(state: State, node: Node, n: int, m: int, counts: Counter[str]) -> str:
    """A constant of the pruned weights of a node; returns its name."""
    tensor = state.graph.tensors[node.inputs[1]]
    make = partial(pruned, tensor, node.op, n, m)
    if state.options.values != "off":
        make = partial(_same, make())
    return edit.derive_constant(state.graph, tensor.name, tensor.shape, make, tensor.dtype, counts)


def _same(values: Array) -> Array:
    return values


def pruned(tensor: Tensor, op: str, n: int, m: int) -> Array:
    """The weights with all but the ``n`` largest of each ``m`` along the reduction set to zero.

    The reduction is all of a row for ``op`` 'Conv' [Co, ...], else the axis before the last.
    """
    from accelsim.formats import sparsity

    values = edit.peek(tensor)
    if op == "Conv":
        rows = values.reshape(values.shape[0], -1)
        kept: Array = sparsity.mask(rows, n, m, axis=-1).reshape(values.shape)
    else:
        kept = sparsity.mask(values, n, m, axis=max(values.ndim - 2, 0))
    return (values * kept).astype(values.dtype)


def prune(graph: Graph, text: str) -> Graph:
    """A copy of a model whose weights have the pattern 'N:M' (or those of ``Graph.sparsity``) wherever ``sparsify``
    would give it to them.

    Scaling an output channel, as absorbing batch normalisation does, does not change which weights are the largest.
    Raises UsageError for a pattern that is none.
    """
    result, asked = graph.copy(), _patterns(graph, text)
    for node in result.nodes:
        n, m = asked.get(node.name, (1, 1))
        gemm = gemm_view(result, node)
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if n == m or gemm is None or gemm.K % m or not name or not result.tensors[name].is_constant:
            continue
        tensor = result.tensors[name]
        if tensor.dtype in edit.FLOATS:
            rows = "Conv" if node.op == "Conv" or node.attrs.get("transB", 0) else node.op
            result.tensors[name] = replace(tensor, data=None, source=partial(pruned, tensor, rows, n, m))
    return result


def _tell(state: State, whole: int, skipping: Counter[tuple[int, int]], dense: list[str]) -> None:
    texts = dict.fromkeys([state.options.sparsity] if state.options.sparsity else state.graph.sparsity.values())
    pattern_text, chip = " or ".join(texts), state.chip.name
    note = f"sparsify: {count_of(whole, 'layer', 'is')} {pattern_text} sparse"
    for (n, m), count in skipping.items():
        own = "" if texts == {f"{n}:{m}": None} else f" as {n}:{m}, the pattern of {chip}"
        note += f"; {count} stored compressed{own}, zeros skipped"
    if skipping.total() < whole:
        note += f"; {chip} multiplies the zeros of {whole - skipping.total()} like any other weight"
    if dense:
        note += f"; dense, because their reduction is no multiple of the group: {', '.join(dense)}"
    state.notes.append(note)
