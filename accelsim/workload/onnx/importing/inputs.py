"""Inputs of an imported model: static shapes from the file and from the user; caches, which exporters name alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from accelsim.errors import ModelError, Problem, nearest
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.onnx.importing.read import RawInput, RawModel

_PAST = re.compile(r"past(_key_values?)?")
APPENDING = ("Concat", "Append")
Shapes = Mapping[str, tuple[int, ...]]
Size = int | str | None
"""A dimension: a number, a symbol, or unknown."""
Arrays = Callable[[], Shapes]
"""Shapes of arrays that the user gives as inputs, looked at where the file leaves a dimension open."""


def bind_inputs(
    inputs: list[RawInput], batch: int | None, shapes: Shapes, raw: RawModel, arrays: Arrays = dict
) -> dict[str, Tensor]:
    """Real inputs with static shapes; a symbol bound by one input is bound in all. What is open still has the size that
    ``arrays`` have there. ModelError names what is missing.
    """
    known = [item.name for item in raw.inputs]
    unknown = [name for name in shapes if name not in known]
    ModelError.raise_for(
        Problem(f"no input {name!r}", raw.name, " or ".join(known), nearest(name, known)) for name in unknown
    )
    symbols: dict[str, int] = {}
    dims = {item.name: _stated(item, batch, shapes, symbols) for item in inputs}
    bound: dict[str, list[Size]] = {
        name: [symbols.get(size, size) if isinstance(size, str) else size for size in sizes or ()]
        for name, sizes in dims.items()
    }
    if any(dims[name] is None or not all(isinstance(size, int) for size in sizes) for name, sizes in bound.items()):
        _fill(inputs, dims, bound, arrays())
    ModelError.raise_for(_input_problems(inputs, dims, bound, shapes))
    return {
        item.name: Tensor(item.name, tuple(size for size in bound[item.name] if isinstance(size, int)), item.dtype)
        for item in inputs
    }


def _fill(
    inputs: list[RawInput], dims: dict[str, list[Size] | None], bound: dict[str, list[Size]], given: Shapes
) -> None:
    """Take the sizes that are open from the shapes of arrays; those of other ranks are reported later."""
    for item in inputs:
        shape = given.get(item.name)
        if shape is None or (dims[item.name] is not None and len(shape) != len(bound[item.name])):
            continue
        if dims[item.name] is None:
            dims[item.name] = bound[item.name] = list(shape)
        sizes = bound[item.name]
        bound[item.name] = [size if isinstance(size, int) else held for size, held in zip(sizes, shape, strict=True)]


def _stated(item: RawInput, batch: int | None, shapes: Shapes, symbols: dict[str, int]) -> list[Size] | None:
    """Dimensions of one input as the user or the file states them; symbols that the user fixes are noted."""
    if item.dims is None:
        return list(shapes[item.name]) if item.name in shapes else None
    stated: list[Size] = list(item.dims)
    if item.name in shapes:
        stated = list(shapes[item.name])
    elif batch is not None and stated:
        stated[0] = batch
    for dim, size in zip(item.dims, stated, strict=False):
        if isinstance(dim, str) and isinstance(size, int):
            symbols.setdefault(dim, size)
    return stated


def _input_problems(
    inputs: list[RawInput], dims: dict[str, list[Size] | None], bound: dict[str, list[Size]], shapes: Shapes
) -> Iterable[Problem]:
    for item in inputs:
        sizes = bound[item.name]
        if dims[item.name] is None:
            expected = f"--shape {item.name}=..., or --inputs with every array"
            yield Problem(f"input {item.name!r} has no shape", expected=expected)
        elif item.dims is not None and len(sizes) != len(item.dims):
            yield Problem(f"input {item.name!r}: shape {sizes}", expected=f"{len(item.dims)} dimensions")
        elif not all(
            isinstance(size, int) and (size > 0 or size == stated == 0)
            for size, stated in zip(sizes, item.dims or sizes, strict=True)
        ):
            shown = ", ".join("?" if size is None else str(size) for size in sizes)
            expected = f"positive sizes; give --shape {item.name}=..., a batch, or --inputs with every array"
            yield Problem(f"input {item.name!r} has shape [{shown}]", expected=expected)


def rebatch_of(inputs: list[RawInput], bound: dict[str, Tensor], batch: int | None) -> tuple[int, int] | None:
    """(old, new) batch when a static first dimension was replaced."""
    for item in inputs:
        if item.name in bound and item.dims and isinstance(item.dims[0], int):
            old, new = item.dims[0], bound[item.name].shape[0]
            if old != new and old > 0:
                return old, new
    return None


def cached_states(graph: Graph) -> dict[str, str]:
    """Input -> output that is its next value, as in ``Graph.states``.

    An input 'past_key_values.0.key' or 'past_0' belongs to an output 'present.0.key' or 'present_0' that is this input
    with new rows after it or written into it (the names of Hugging Face's and ONNX Runtime's exporters).
    """
    made = {node.outputs[0]: node for node in graph.nodes if node.op in APPENDING}
    found, outputs = {}, frozenset(graph.outputs)
    for past in graph.inputs:
        for late in dict.fromkeys((_PAST.sub("present", past, count=1), past.replace("past", "present", 1))):
            node = made.get(late)
            if late != past and node is not None and late in outputs and node.inputs[0] == past:
                found[past] = late
                break
    return found
