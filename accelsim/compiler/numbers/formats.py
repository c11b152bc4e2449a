"""Number format in which each matrix node computes, and of its operands in memory.

A request such as 'int8', 'fp8_e4m3fn' or 'int4xint8' (weights x activations) names the formats of the values. The
unit of the chip computes them in a format of its own list: the same one or, where emulation is allowed, the
narrowest one that holds every value of both operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from accelsim.compiler.state import SERVING, Options, State
from accelsim.errors import Problem, UsageError, begun, nearest
from accelsim.formats import table
from accelsim.formats.table import FP4, FP4_BLOCKS
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.where import chips_with
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import base

SHORT_FLOATS = ("fp16", "bf16")
"""Floats in which libraries have attention in one kernel."""
WIDE = 16
"""Floats of at least so many bits hold a network's numbers as they are; narrower formats are codes with a scale."""


class Operands(NamedTuple):
    """Computation of a matrix node.

    ``mac``: format of the unit. ``weights``, ``activations``: formats of the values. ``stored_weights``,
    ``stored_activations``: formats in memory, those of ``mac``.
    """

    mac: str
    weights: str
    activations: str
    stored_weights: str
    stored_activations: str

    @property
    def codes(self) -> bool:
        """Return whether operands are codes: value = scale x (code - zero point)."""
        return is_code(self.activations)

    @property
    def weights_alone(self) -> bool:
        """Return whether only the weights are codes: kept as such, and multiplied as numbers."""
        return not self.codes and is_code(self.weights)

    @property
    def integer_sums(self) -> bool:
        """Return whether the unit adds up integers."""
        return is_integer(self.stored_weights) and is_integer(self.stored_activations)

    @property
    def emulated(self) -> bool:
        """Return whether the unit computes in a wider format than the values have."""
        return pair(self.mac) != (self.weights, self.activations)


def is_code(name: str) -> bool:
    """Return whether tensors of this format hold codes that need a scale."""
    fmt = table.FORMATS.get(name)
    return fmt is None or fmt.kind != "float" or fmt.bits < WIDE


def is_integer(name: str) -> bool:
    """Return whether this is an integer or binary format."""
    return table.get(name).kind in ("int", "binary")


@cache
def pair(name: str) -> tuple[str, str]:
    """Formats of weights and activations that a request names, aliases resolved.

    Raises UsageError with the nearest name for a format that does not exist.
    """
    for at in (i for i, letter in enumerate(name) if letter == "x"):
        halves = name[:at], name[at + 1 :]
        if all(_exists(half) for half in halves):
            return table.get(halves[0]).name, table.get(halves[1]).name
    fmt = table.get(name).name
    return fmt, fmt


def _exists(name: str) -> bool:
    try:
        table.get(name)
    except UsageError:
        return False
    return True


def _is_format(name: str) -> bool:
    try:
        pair(name)
    except UsageError:
        return False
    return True


def check_formats(state: State) -> None:
    """Raise UsageError, all problems at once, for formats that the chip cannot compute in and layers that do not
    exist."""
    names = [node.name for node in state.graph.nodes if (op := base.find(node.op)) and op.kind == "matrix"]
    problems = [
        Problem(f"no matrix product {name!r} in the model", "layers", "a Conv, MatMul or Gemm", nearest(name, names))
        for name in state.options.layers
        if name not in names
    ]
    if state.options.values != "off" and (blocks := in_blocks(state)):
        what = f"{blocks} with values {state.options.values}"
        problems.append(Problem(what, "dtype", "values off: scales of blocks are counted, and not computed"))
    for request in dict.fromkeys([state.dtype, *state.options.layers.values()]):
        try:
            resolve(state.chip, request, state.options.emulate)
        except UsageError as error:
            problems += error.problems
    UsageError.raise_for(problems)


def in_blocks(state: State) -> str:
    """Return the format of blocks of FP4 that was asked for, of which a run has one; '' for none."""
    asked = [state.dtype, *state.options.layers.values()]
    return next((block for name in asked if (block := block_of(name))), "")


def block_of(request: str) -> str:
    """Return the format of blocks of FP4 of the weights of a request ('mxfp4', 'mxfp4xbf16'); '' for none."""
    return next((name for name in FP4_BLOCKS if request == name or request.startswith(f"{name}x")), "")


def canonical(name: str) -> str:
    """A request with its aliases resolved: 'fp8' -> 'fp8_e4m3fn'. Raises as ``pair``."""
    weights, activations = pair(name)
    return weights if weights == activations else f"{weights}x{activations}"


def memory_format(name: str) -> str:
    """Format in memory of values that a unit multiplies in format ``name``: TF32 is FP32 until it is multiplied."""
    return "fp32" if name == "tf32" else name


def multiplied(request: str) -> str:
    """Return the request as it is multiplied: blocks of FP4 with scales are FP4 to everything but memories."""
    block = block_of(request)
    return FP4 + request[len(block) :] if block else request


def resolve(chip: Chip, asked: str, emulate: bool = False) -> Operands:
    """Return how this chip computes in the format that is asked for.

    Raises UsageError, with the formats that the chip has, for a format that does not exist, or that the chip does not
    have and may or can not emulate.
    """
    known, request = supported(chip), multiplied(asked)
    expected = "one of " + ", ".join(known)
    if not _is_format(request):
        what = f"{chip.name} does not compute in {request!r}, which is no number format"
        raise UsageError(what, "dtype", expected, nearest(request, [*known, *table.FORMATS]))
    weights, activations = pair(request)
    mac, wider = canonical(request), widest_match(known, weights, activations)
    if mac not in known and _of_weights_alone(chip, weights, activations):
        mac = activations
    if mac not in known:
        mac = wider if emulate else ""
    if not mac:
        hint = f"; or --emulate (emulate=True), which computes it as {wider}" if wider and not emulate else ""
        what, others = f"{chip.name} does not compute in {asked!r}", chips_with(canonical(request))
        hint = (f"; chips that have it: {others}" if others else "") + hint
        raise UsageError(what, "dtype", expected + hint, begun(request, known))
    stored_weights, stored_activations = pair(mac)
    return Operands(mac, weights, activations, memory_format(stored_weights), memory_format(stored_activations))


def _of_weights_alone(chip: Chip, weights: str, activations: str) -> bool:
    """Return whether a chip has kernels that read narrow weights and multiply them as numbers of 16 bits: GPUs do."""
    narrow = is_code(weights) and activations in SHORT_FLOATS and activations in supported(chip)
    return narrow and attends(chip) and holds(activations, weights)


def supported(chip: Chip) -> list[str]:
    """Formats of the engine that multiplies; of the processor on a chip without one."""
    unit = multiplier(chip)
    if unit is not None:
        return list(unit.spec.formats)
    return list(chip.host.peak) if chip.host else ["fp32"]


def widest_match(known: Iterable[str], weights: str, activations: str) -> str:
    """The narrowest of the ``known`` formats that holds every value of both operands, '' where there is none."""
    fitting = []
    for name in known:
        w, a = pair(name)
        if holds(w, weights) and holds(a, activations):
            other = is_integer(w) != is_integer(weights)  # of equal width, integers for integers
            fitting.append((table.get(w).bits + table.get(a).bits, other, name))
    return min(fitting, key=lambda entry: entry[:2])[2] if fitting else ""


@cache
def holds(wide: str, narrow: str) -> bool:
    """Return whether every finite value of format ``narrow`` is one of format ``wide``."""
    outer, inner = table.get(wide), table.get(narrow)
    if inner.name == outer.name:
        return True
    if is_integer(narrow):
        low, high = inner.low, inner.high
        if is_integer(wide):
            return outer.kind == "int" and outer.low <= low and high <= outer.high
        return outer.kind == "float" and max(-low, high) <= min(2.0 ** (outer.mantissa + 1), outer.max)
    return (
        outer.kind == inner.kind == "float"
        and outer.mantissa >= inner.mantissa
        and outer.max >= inner.max
        and outer.min_subnormal <= inner.min_subnormal
    )


def operands_of(state: State, node: Node) -> Operands:
    """Return how a matrix node is computed: as its layer was asked to, or as the format that its operands already
    have."""
    stated = stated_format(state.graph, node)
    if stated:
        return resolve(state.chip, _taken(state.chip, stated), emulate=True)
    request = request_of(state.options, state.dtype, node)
    between = not any(state.graph.tensors[name].is_constant for name in node.inputs[:2])
    if between and node.name not in state.options.layers and serves_narrow(state.chip, state.options.fusion, request):
        request = short_float(state.chip)
    return resolve(state.chip, request, state.options.emulate)


def serves_narrow(chip: Chip, fusion: str, request: str) -> bool:
    """Return whether layers in a narrow format stand beside others in 16 bits, as in serving stacks: products of two
    activations, as in attention, and what no layer reads, on an engine that has attention in one kernel."""
    return fusion == SERVING and attends(chip) and is_code(pair(multiplied(request))[1]) and bool(short_float(chip))


def attends(chip: Chip) -> bool:
    """Return whether the engine that multiplies has attention in one kernel, as GPUs have."""
    unit = multiplier(chip)
    return unit is not None and unit.spec.attends


def short_float(chip: Chip) -> str:
    """Return the first float of 16 bits that a chip multiplies, '' for none."""
    return next((name for name in supported(chip) if name in SHORT_FLOATS), "")


def multiplies(state: State, node: Node) -> bool:
    """Return whether the matrix unit has a format for operands as they are: codes of a quantised model, or real
    numbers."""
    stated = stated_format(state.graph, node)
    return not stated or bool(_taken(state.chip, stated))


def _taken(chip: Chip, stated: str) -> str:
    """The request that gives a unit these operands: themselves, or signed ones with a zero point; '' for none."""
    if not _is_format(stated):
        return ""
    pairs = [pair(stated), tuple(SIGNED.get(name, name) for name in pair(stated))]
    return next((f"{w}x{a}" if w != a else w for w, a in pairs if widest_match(supported(chip), w, a)), "")


def request_of(options: Options, dtype: str, node: Node) -> str:
    """The format that was asked for this layer."""
    return options.layers.get(node.name, dtype)


def stated_format(graph: Graph, node: Node) -> str:
    """MAC format that follows from operands which are quantised or narrow already; '' where it is to be chosen."""
    a, b = (graph.tensors[name].dtype for name in node.inputs[:2])
    narrow = graph.trains and "fp32" not in (a, b)
    if not narrow and not (is_code(a) and is_code(b)):
        return ""
    return a if a == b else f"{b}x{a}"


SIGNED = {"uint8": "int8", "uint4": "int4", "uint16": "int16", "uint2": "int2"}
"""A multiplier of signed integers takes unsigned ones too, with a zero point that its sums are corrected for."""
