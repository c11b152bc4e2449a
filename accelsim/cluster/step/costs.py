"""Costs of work on a device, by compiler and machine of its chip: each piece is simulated once and remembered."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from operator import add
from typing import Final, NamedTuple

from accelsim.account.energy import work_rows
from accelsim.account.interval import parts
from accelsim.account.latency import traffic_by_memory
from accelsim.cluster.step.passes import Passes, in_format, passes, update
from accelsim.cluster.step.segments import FLASH, SHORT, Segment, Split, block, edge
from accelsim.compiler.numbers.formats import SHORT_FLOATS, resolve
from accelsim.compiler.passes import compile, preferred_format
from accelsim.compiler.state import Options
from accelsim.engines.registry import ENGINES
from accelsim.errors import AccelsimError
from accelsim.formats.table import ALIASES
from accelsim.kernels.whole import KernelSeconds
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.program.roles import units
from accelsim.spec.chip import Chip
from accelsim.spec.constants import with_values
from accelsim.spec.site import with_site
from accelsim.spec.yaml.chips import load_site
from accelsim.workload.graph import Graph
from accelsim.workload.limits import limited

FIGURES: Final = 5
"""Numbers of a ``Cost``, before its parts."""


class Cost(NamedTuple):
    """Cost of one pass of a piece on a device: time, joules without static power, kernels that a host starts,
    multiply-accumulates, bytes moved by off-chip memories, and its kernels with the width of their intervals (empty on
    chips without kernels)."""

    time_fs: int = 0
    energy_J: float = 0.0
    kernels: int = 0
    macs: int = 0
    moved_B: int = 0
    parts: tuple[KernelSeconds, ...] = ()

    def __add__(self, other: object) -> Cost:
        """One after the other."""
        assert isinstance(other, Cost)
        return Cost._make(map(add, self, other))

    def __mul__(self, times: object) -> Cost:
        """Return so many of it."""
        assert isinstance(times, int)
        return Cost._make((*(each * times for each in self[:FIGURES]), scaled(self.parts, times)))

    def slower(self, times: float) -> Cost:
        """Return the cost of the same work by kernels that take ``times`` as long."""
        return self._replace(time_fs=round(self.time_fs * times), parts=scaled(self.parts, times))

    def without(self, other: Cost) -> Cost:
        """Return the cost beyond that of another, at least 0 in each figure."""
        pairs = zip(Cost()[:FIGURES], self[:FIGURES], other[:FIGURES], strict=True)
        rest = Cost._make((*(max(nothing, mine - its) for nothing, mine, its in pairs), ()))
        return rest._replace(parts=scaled(self.parts, rest.time_fs / self.time_fs if self.time_fs else 0))


def scaled(parts: tuple[KernelSeconds, ...], times: float) -> tuple[KernelSeconds, ...]:
    """Return kernels that take ``times`` as long."""
    return tuple(part._replace(seconds=part.seconds * times) for part in parts)


class PassCosts(NamedTuple):
    """Costs of a piece: forward pass, its attention (which selective recomputation repeats), gradients of activations,
    gradients of weights, and recomputation."""

    forward: Cost = Cost()
    core: Cost = Cost()
    inputs: Cost = Cost()
    weights: Cost = Cost()
    again: Cost = Cost()

    def __add__(self, other: object) -> PassCosts:
        """One piece after the other."""
        assert isinstance(other, PassCosts)
        return PassCosts(*(a + b for a, b in zip(self, other, strict=True)))

    def __mul__(self, times: object) -> PassCosts:
        """Return so many of it."""
        assert isinstance(times, int)
        return PassCosts(*(part * times for part in self))


@dataclass(frozen=True)
class Setting:
    """Setting of devices: number format ('' is the preferred one of each chip), fusion ('': as ``Request`` has it),
    site of the chips; ``host_s``: time of the host for each kernel that it asks for, of which no pass takes less;
    ``attention``: of ``ATTENTIONS`` ('': FlashAttention where a chip has it); ``overlap_tensor``: collectives of
    sequence parallelism overlap with products (see ``accelsim.cluster.step.tensor``); ``offload``: activations wait in
    the memory of the host (see ``accelsim.cluster.step.memory``); ``quantiser``, ``kv_dtype``, ``stack``: of serving,
    as ``Request`` has them; ``routing``: how popular experts are, see ``accelsim.workload.routing``."""

    dtype: str = ""
    fusion: str = ""
    site: str | None = None
    host_s: float = 0.0
    attention: str = ""
    overlap_tensor: bool = False
    offload: bool = False
    quantiser: str = ""
    kv_dtype: str = ""
    stack: str = ""
    routing: str = ""

    def __post_init__(self) -> None:
        """Call formats by their own names: fp8 is fp8_e4m3fn."""
        for name in ("dtype", "kv_dtype"):
            object.__setattr__(self, name, ALIASES.get(getattr(self, name), getattr(self, name)))


PLAIN_ATTENTION, FLASH_ATTENTION, FIRST_ATTENTION = "plain", "flash", "memory-efficient"
ATTENTIONS = (FLASH_ATTENTION, FIRST_ATTENTION, PLAIN_ATTENTION)
"""Kinds of attention in training: one kernel that keeps no scores (FlashAttention 2, or one of the generation before),
or products and a softmax."""
FIRST_SLOWER = (1.4, 2.0)
"""Multiples of the time of FlashAttention 2 that the kernels of the generation before take, forward and backward:
FlashAttention 1, its version in Triton, xFormers' in CUTLASS. Their blocks share out keys and not queries among warps,
and their backward pass has too few blocks. Middle of what the paper of FlashAttention 2 tells of the version in Triton
(Dao, 2023: 1.3 to 1.5 times forward, about 2 times backward; recalled). No measured row covers them."""
PLAIN = Setting()
"""Settings of a step without options."""


@dataclass(eq=False)
class Costs:
    """Costs of pieces on a chip by a setting, each simulated when it is first asked for. Two objects are never
    equal."""

    chip: Chip
    setting: Setting = PLAIN
    pieces: dict[Hashable, PassCosts] = field(default_factory=dict)
    graphs: dict[Hashable, Cost] = field(default_factory=dict)
    updates: dict[int, Cost] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Format of activations, gradients and weights as products read them."""
        return self.setting.dtype or format_of(self.chip)

    @cached_property
    def by_kernels(self) -> bool:
        """Return whether the chip has the kernels of GPUs for gradients."""
        found = units(self.chip).values()
        return any(ENGINES[unit.type].kernels(self.chip, unit) is not None for unit in found)

    @cached_property
    def multiprocessors(self) -> int:
        """The multiprocessors of a GPU, 0 for other chips."""
        return max((getattr(unit.spec, "multiprocessors", 0) for unit in units(self.chip).values()), default=0)

    @property
    def flash(self) -> bool:
        """Return whether attention is one kernel in training: where requested, else in 16 bits on multiprocessors that
        multiply BF16, for which FlashAttention 2 exists (Ampere and later)."""
        if self.setting.attention == PLAIN_ATTENTION or self.dtype not in SHORT_FLOATS:
            return False
        found = [unit.spec for unit in units(self.chip).values() if unit.spec.attends]
        return any("bf16" in spec.formats or self.setting.attention for spec in found)

    @cached_property
    def working(self) -> Chip:
        """Chip with the cores that work on a piece: all of them; of several kinds, those of the first."""
        return self.chip if len(self.chip.cores) == 1 else self.chip.with_cores(self.chip.core.count)

    @property
    def tiles(self) -> bool:
        """Return whether everything that a piece reads and leaves lies in the memories of tiles, which reach no other
        memory."""
        return any(unit.spec.keeps for unit in units(self.working).values())

    @cached_property
    def at_site(self) -> Chip:
        """Chip with the clock and the host of its site, under the load of hours."""
        chip = self.chip if self.setting.site is None else with_site(self.chip, load_site(self.setting.site))
        loaded = {
            f"{name}.droop": value
            for name, spec in chip.engines.items()
            if (value := getattr(spec, "loaded", None)) is not None
        }
        return with_values(chip, loaded) if loaded else chip

    def block(self, split: Split, apart: bool = False) -> PassCosts:
        """Return the costs of a transformer block. ``apart``: gradients of weights apart from those of activations."""
        return self._together(block(split), apart)

    def edge(self, split: Split, name: str, apart: bool = False) -> PassCosts:
        """Return the costs of the 'embedding' or the 'head'."""
        return self._together(edge(split, name), apart)

    def piece(self, segment: Segment, apart: bool = False) -> PassCosts:
        """Return the costs of a piece, simulated once for each name and set of shapes.

        ``apart``: split the backward pass; otherwise all of it counts as gradients of activations."""
        tensors = segment.graph.tensors.items()
        key = (segment.name, segment.residual, apart, tuple((name, tensor.shape) for name, tensor in tensors))
        if key not in self.pieces:
            self.pieces[key] = self._piece(segment, apart)
        return self.pieces[key]

    def update(self, parameters: int) -> Cost:
        """Return the cost of Adam on so many parameters."""
        if parameters not in self.updates:
            made = self.adam(parameters)
            self.updates[parameters] = Cost() if made is None else self.cost(made)
        return self.updates[parameters]

    def _together(self, segments: tuple[Segment, ...], apart: bool) -> PassCosts:
        total = PassCosts()
        for segment in segments:
            total += self.piece(segment, apart) * segment.times
        return total

    def _piece(self, segment: Segment, apart: bool) -> PassCosts:
        made = self.passes(segment)
        forward, whole = self.cost(made.forward), self.cost(made.backward)
        if segment.name == FLASH and self.setting.attention == FIRST_ATTENTION:
            forward, whole = forward.slower(FIRST_SLOWER[0]), whole.slower(FIRST_SLOWER[1])
            return PassCosts(forward, Cost(), whole, Cost())
        core = forward if segment.core else Cost()
        if not apart:
            return PassCosts(forward, core, whole, Cost())
        inputs = self.cost(made.inputs_only) if made.inputs_only is not None else Cost()
        return PassCosts(forward, core, inputs, whole.without(inputs))

    def passes(self, segment: Segment) -> Passes:
        """Return the graphs of a piece as this chip runs them."""
        if segment.back is not None:
            forward, back = (in_format(each, self.dtype) for each in (segment.graph, segment.back))
            return Passes(forward, back, back)
        dtype = self.dtype
        if segment.wide:
            short, dtype = dtype, WIDE
            for tensor in segment.graph.tensors.values():
                tensor.dtype = short if tensor.dtype == SHORT else tensor.dtype
        return passes(segment.graph, segment.activations, dtype, segment.residual, self.by_kernels)

    def adam(self, parameters: int) -> Graph | None:
        """Return the update of so many parameters as a graph, None for none."""
        return update(parameters, self.by_kernels, self.tiles) if parameters else None

    def cost(self, graph: Graph) -> Cost:
        """Return the cost of a graph whose inputs and outputs stay in the memory of the device; equal graphs are
        simulated once."""
        key = _kind(graph)
        if key not in self.graphs:
            self.graphs[key] = cost_of(simulate(self.compiled(graph), None, "off"), not self.tiles)
        return self.graphs[key]

    def compiled(self, graph: Graph) -> Program:
        """Compile without checking the capacity of memories; all cores work on each layer."""
        cores = self.working.core_count
        fusion = "compiled" if graph.name.startswith(FLASH) else self.setting.fusion
        options = Options(
            dtype=self.dtype,
            values="off",
            fusion=fusion,
            edges="outside",
            cores=cores,
            share="layer" if cores > 1 else "batch",
        )
        with limited(ignore_capacity=True):
            return compile(graph, self.at_site, options)


def _kind(graph: Graph) -> Hashable:
    """Equal for graphs that cost the same: nodes, and shapes and formats of tensors."""
    nodes = tuple(
        (node.op, tuple(node.inputs), tuple(node.outputs), repr(node.attrs), node.part_of) for node in graph.nodes
    )
    tensors = tuple((name, each.shape, each.dtype, each.is_constant) for name, each in graph.tensors.items())
    return nodes, tensors, tuple(graph.outputs)


WIDE = "fp32"
"""Format of a loss."""
FORMATS = ("bf16", "fp16", "fp32")
"""Formats of training. A chip that prefers none of these takes the first that it multiplies."""


def format_of(chip: Chip) -> str:
    """Return the format in which a chip trains: its preferred one if that is a float of 16 or 32 bits."""
    for name in (preferred_format(chip), *FORMATS):
        if name in FORMATS:
            with suppress(AccelsimError):
                resolve(chip, name)
                return name
    return FORMATS[-1]


def cost_of(run: Run, loads: bool = True, limited: bool = True) -> Cost:
    """Return the cost of a run, without static power.

    ``loads``: with what it loads from memories off the chip and stores into them; else its engines work one after the
    other on what is there. ``limited``: energy is limited by the design power of the board.
    """
    off_chip = () if loads else {name for memory in run.chip.memories for name in (memory, f"{memory}.link")}
    joules = fsum(row.energy_J for row in work_rows(run, limited) if row.component not in off_chip)
    moved = sum(sum(ways.values()) for ways in traffic_by_memory(run).values()) if loads else 0
    return Cost(
        run.time_fs if loads else _worked_fs(run),
        joules,
        sum(step.node.engine != "alias" for step in run.program.steps),
        sum(step.macs for step in run.program.steps),
        moved,
        tuple(parts(run) or ()) if loads else (),
    )


def _worked_fs(run: Run) -> int:
    slices = ((command, run.slices[command.id]) for command in run.program.commands)
    return sum(each.end - each.start for command, each in slices if command.kind not in ("Load", "Store"))
