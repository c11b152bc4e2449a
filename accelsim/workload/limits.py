"""Limits of a model and a run: what the compiler counts in arrays fits into 64 bits, and what a run builds
fits into limits that are stated, may be moved, and are checked before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from accelsim.errors import ModelError, Problem, TooLarge, UsageError, memory_text
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import find

TOLD = 6
"""Tensors and layers beyond the limits that an error names at the most."""
LARGEST = 2**31 - 1
"""The largest batch, parameter of a model, dimension of a tensor and size of a window."""
MOST_ELEMENTS, MOST_MACS = 2**48, 2**56
"""Elements of the largest tensor, and multiply-accumulates of the largest layer."""
MOST_COMMANDS, MOST_B = 4_000_000, 16 * 2**30
"""Commands of one program, and bytes of memory for them and for values, unless the user says otherwise."""
COMMAND_B = 2_500
"""Memory of one command of a program and of what a run records about it, bytes: 2,160 to 2,520 are measured for
programs of 20,000 to 170,000 commands."""
MOST_NODES = 1 << 16
"""Nodes of a model once its functions, loops and recurrent layers are unrolled."""
WINDOW = ("kernel_shape", "strides", "pads", "dilations")


def check_sizes(graph: Graph) -> None:
    """Raise ModelError that names the tensors and layers beyond the limits; of many the first of each, and how many."""
    tensors = [problem for tensor in graph.tensors.values() for problem in _of_tensor(tensor)]
    layers = [problem for node in graph.nodes for problem in _of_node(graph, node)]
    if len(tensors) + len(layers) <= TOLD:
        problems = [*tensors, *layers]
    else:
        shown = [*tensors[: TOLD // 2], *layers[: TOLD // 2]]
        what = f"{len(tensors):,} tensors and {len(layers):,} layers are beyond the limits; here are the first"
        problems = [Problem(what, graph.name, "a smaller model: fewer tokens, pixels or channels"), *shown]
    ModelError.raise_for(problems)


def _of_tensor(tensor: Tensor) -> Iterator[Problem]:
    what = f"tensor {tensor.name!r} has shape {' x '.join(map(str, tensor.shape))}"
    if max(tensor.shape, default=0) > LARGEST:
        yield Problem(what, expected=f"dimensions of {LARGEST:,} at the most")
    elif tensor.elements > MOST_ELEMENTS:
        yield Problem(what, expected=f"{MOST_ELEMENTS:,} elements at the most")


def _of_node(graph: Graph, node: Node) -> Iterator[Problem]:
    for key in WINDOW:
        if max(node.attrs.get(key) or (0,)) > LARGEST:
            yield Problem(f"{key} {list(node.attrs[key])}", node.name, f"{LARGEST:,} at the most")
    op = find(node.op)
    if op is None or op.gemm is None:
        return
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    gemm = op.gemm(node, ins, [graph.tensors[name] for name in node.outputs])
    if gemm is not None and not 1 <= gemm.macs <= MOST_MACS:
        sizes = f"{gemm.groups} x {gemm.M} x {gemm.N} x {gemm.K}"
        what = f"{sizes} multiply-accumulates (groups x M x N x K)"
        yield Problem(what, node.name, f"1 to {MOST_MACS:,}")


@dataclass(frozen=True)
class Limits:
    """Limits of one run: ``commands`` of its program, and bytes of this machine's memory.

    ``ignore_capacity``: whether the memories of the chip may hold more than they can, for a study.
    """

    commands: int = MOST_COMMANDS
    memory_B: int = MOST_B
    ignore_capacity: bool = False


DEFAULT = Limits()
_LIMITS: ContextVar[Limits] = ContextVar("limits", default=DEFAULT)


def limits() -> Limits:
    """Return the limits in force."""
    return _LIMITS.get()


@contextmanager
def limited(
    commands: int | None = None, memory_B: int | None = None, ignore_capacity: bool | None = None
) -> Iterator[Limits]:
    """Within the block these limits hold instead (None: as before). Raises UsageError for limits below 1."""
    wanted = {"commands": commands, "memory_B": memory_B}
    given = {name: value for name, value in wanted.items() if value is not None}
    UsageError.raise_for(Problem(f"limit of {v}", name, "1 or more") for name, v in given.items() if v < 1)
    before = _LIMITS.get()
    ignored = before.ignore_capacity if ignore_capacity is None else ignore_capacity
    token = _LIMITS.set(replace(before, **given, ignore_capacity=ignored))
    try:
        yield _LIMITS.get()
    finally:
        _LIMITS.reset(token)


def check_commands(what: str, needed: int, before: int = 0, advice: str = "") -> None:
    """TooLarge unless a program of ``before`` commands may grow by ``needed`` more, which ``what`` takes.

    ``advice``: what would take fewer.
    """
    allowed, total = limits(), before + needed
    behind = f", behind {before:,} before it" if before else ""
    text = f"{what} takes {needed:,} commands{behind}"
    wanted = advice or "a smaller model, or a chip with a larger array and larger buffers"
    if total > allowed.commands:
        raise TooLarge(what, "commands", total, allowed.commands, text, wanted)
    check_memory(what, total * COMMAND_B, f"{text}, about {memory_text(total * COMMAND_B)} of memory", wanted)


def check_memory(what: str, needed_B: int, text: str = "", advice: str = "") -> None:
    """TooLarge when ``needed_B`` bytes of this machine's memory are more than the limit; for before they are taken.

    ``what``: the model, layer or file that asks for them; ``text``: a sentence about it; ``advice``: what takes less.
    """
    allowed_B = limits().memory_B
    if needed_B > allowed_B:
        told = text or f"{what} takes about {memory_text(needed_B)} of memory"
        raise TooLarge(what, "bytes", needed_B, allowed_B, told, advice or "a smaller model")
