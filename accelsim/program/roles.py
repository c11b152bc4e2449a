"""Roles of a chip's memories, and the engine names of one core."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.spec.chip import Chip, Core
from accelsim.spec.levels import holder, home
from accelsim.spec.memory import Attachment, Buffer
from accelsim.workload.graph import Node

HOST = "host"
"""Engine and (for a plain CPU) memory name of the host processor."""
HOST_OWN_MEMORY = f"{HOST}.own_memory"
"""Ledger component of that memory."""


_CORE = re.compile(r"^core(\d+)[./:]")
_ARRAY = re.compile(r":\d+$")


@lru_cache(maxsize=4096)  # asked for each command, of few components
def unit_of(component: str) -> str:
    """Name in the spec of a ledger component: 'core1.matrix', 'matrix:3' and 'core1.matrix:3' are a 'matrix'."""
    return _ARRAY.sub("", _CORE.sub("", component))


ON_THE_WAY = frozenset({"Bias", "Quantize", "Dequantize", "Requantize", "RequantizeShift"})
"""Operators that every engine of functions applies to results of an engine of products: a bias, and conversions to and
from codes."""


class Unit(NamedTuple):
    """An engine of a chip: its name, its type (a name of ``accelsim.engines.registry``), its spec."""

    name: str
    type: str
    spec: Any


def core_of(chip: Chip, component: str) -> Core:
    """The kind of core that a component belongs to, by its name in a program ('core1.matrix')."""
    if len(chip.cores) == 1:
        return next(iter(chip.cores.values()))
    found = _CORE.match(component)
    return chip.cores[chip.kind_of(int(found[1]))] if found else chip.core


def part_of(chip: Chip, component: str) -> str:
    """Return what the spec calls a component: its unit, behind its kind of core where there are several
    ('little.matrix')."""
    found = _CORE.match(component) if len(chip.cores) > 1 else None
    return f"{chip.kind_of(int(found[1]))}.{unit_of(component)}" if found else unit_of(component)


def bare(chip: Chip, part: str) -> str:
    """The name of a part without its kind of core."""
    kinds = chip.cores if len(chip.cores) > 1 else ()
    return next((part.removeprefix(f"{kind}.") for kind in kinds if part.startswith(f"{kind}.")), part)


def units(chip: Chip) -> dict[str, Unit]:
    """Name -> engine of a core, in the order in which they are asked whether they do a node."""
    return {name: Unit(name, spec.type, spec) for name, spec in chip.engines.items()}


def spec_of(chip: Chip, engine: str) -> Any:
    """The spec of an engine of the chip, by its name in a program ('core1.matrix')."""
    return core_of(chip, engine).engines[unit_of(engine)]


def buffer_of(chip: Chip, memory: str) -> Buffer | None:
    """The spec of a memory of a core, by its name in a program ('core1.act_sram'); None for other memories."""
    return core_of(chip, memory).memories.get(unit_of(memory))


def multiplier(chip: Chip) -> Unit | None:
    """The engine that does products: the first whose spec lists ``formats``. None for a plain processor."""
    return next((unit for unit in units(chip).values() if hasattr(unit.spec, "formats")), None)


def streams_of(spec: Any) -> int:
    """Streams of kernels that run side by side on an engine."""
    return int(getattr(spec, "streams", 1))


def function_units(chip: Chip) -> list[Unit]:
    """The engines that do everything else: those whose specs list ``functions``."""
    return [unit for unit in units(chip).values() if hasattr(unit.spec, "functions")]


def function_unit(chip: Chip, ops: Iterable[str] = ()) -> Unit | None:
    """Return the first engine of functions that lists all ``ops``, else the first one; None if there is none."""
    found, wanted = function_units(chip), frozenset(ops) - ON_THE_WAY
    return next((unit for unit in found if wanted <= unit.spec.functions.keys()), found[0] if found else None)


@dataclass(frozen=True)
class Roles:
    """A chip by role, as seen from one of its cores; ``core`` prefixes names when cores > 1.

    ``stream``: of the streams in which its engines run kernels side by side, the one whose queues are meant.
    """

    chip: Chip
    core: str = ""
    stream: int = 0

    @cached_property
    def activations(self) -> str:
        """Name of the buffer of the activations, '' without one."""
        return holder(self.chip, "activations")

    @cached_property
    def weights(self) -> str:
        """Name of the buffer of the weights, '' without one."""
        return holder(self.chip, "weights")

    @cached_property
    def sums(self) -> str:
        """Name of the buffer of the partial sums, '' without one."""
        return holder(self.chip, "partial_sums")

    def fixed_slots(self, name: str) -> int | None:
        """Slots into which a buffer is parted for tiles; None where the compiler lays tiles out as it needs them.

        The buffer of the activations also holds results on their way out, residuals and what the vector unit works on.
        Its ``slots`` part it only where nothing of that is on the chip, or where a ``slot_capacity`` leaves room beside
        them; else they say how many tiles are in flight (see ``tiles_in_flight``).
        """
        buffer = self.buffer(name)
        shared = name == self.activations and self._results_pass
        return None if shared and buffer.slot_capacity is None else buffer.slots

    @cached_property
    def tiles_in_flight(self) -> int | None:
        """Return how many streamed tiles of activations the chip asks for, None for what the compiler prefers."""
        return self.buffer(self.activations).slots

    @cached_property
    def _results_pass(self) -> bool:
        unit = self.chip.matrix
        return unit is None or unit.epilogue or self.chip.vector is not None

    @cached_property
    def weights_home(self) -> str:
        """Memory in which weights live."""
        return home(self.chip, "weights") or HOST

    @cached_property
    def activations_home(self) -> str:
        """Memory in which activations live when they are not on the chip."""
        return home(self.chip, "activations") or HOST

    @cached_property
    def host_home(self) -> str:
        """Memory that the host works on: there inputs arrive, results end and fallen-back operators run."""
        return home(self.chip, "host") or self.activations_home

    @cached_property
    def matrix(self) -> MatrixUnit:
        """Spec of the matrix unit; the chip must have one."""
        assert self.chip.matrix is not None
        return self.chip.matrix

    def buffer(self, name: str) -> Buffer:
        """Spec of a buffer, by its name in the spec."""
        return self.chip.buffers[name]

    def memory(self, name: str) -> Attachment:
        """Spec of an attached memory with its link, by its name in the spec."""
        return self.chip.memories[name]

    def engine(self, name: str) -> str:
        """Full name of an engine or buffer of this core."""
        return f"{self.core}{name}"

    @cached_property
    def streams(self) -> int:
        """Streams of kernels that run side by side on an engine of this core, 1 where none has several."""
        return max((streams_of(unit.spec) for unit in units(self.chip).values()), default=1)

    def queue(self, name: str) -> str:
        """Full name of the queue of an engine in this stream: the engine itself in the first."""
        return f"{self.engine(name)}:{self.stream}" if self.stream else self.engine(name)

    @cached_property
    def products(self) -> str:
        """Full name of the engine that multiplies; only asked for where there is one."""
        unit = multiplier(self.chip)
        assert unit is not None
        return self.engine(unit.name)

    @cached_property
    def arrays(self) -> list[str]:
        """Full names of the queues of the engine that multiplies, one per array."""
        unit = multiplier(self.chip)
        assert unit is not None
        return [self.engine(queue) for queue in unit.spec.queues(unit.name)]

    def functions_behind(self, node: Node) -> Unit:
        """Return the engine that computes a product's epilogue; the node must have one."""
        unit = function_unit(self.chip, [part.op for part in node.epilogue])
        assert unit is not None
        return unit

    def load_engine(self, memory: str) -> str:
        """Engine that reads from an attached memory."""
        return self._movers[memory][0]

    def store_engine(self, memory: str) -> str:
        """Engine that writes to an attached memory."""
        return self._movers[memory][1]

    @cached_property
    def _movers(self) -> dict[str, tuple[str, str]]:
        """Attached memory -> the engines that read from it and write to it."""
        attached = self.chip.memories.items()
        return {name: (self.queue(each.load_engine), self.queue(each.store_engine)) for name, each in attached}

    def engines(self) -> dict[str, str]:
        """Engine -> type for this core, of all streams; the host is shared by all cores."""
        kinds: dict[str, str] = {}
        for stream in range(self.streams):
            kinds |= replace(self, stream=stream)._queues()
        if self.chip.host is not None:
            kinds[HOST] = "cpu"
        return kinds

    def _queues(self) -> dict[str, str]:
        """Queue -> type of its engine, of this stream; engines that run no kernels side by side are in the first."""
        kinds: dict[str, str] = {}
        for memory in self.chip.memories.values():
            if memory.cache is not None:  # what passes it moves by the engines of the memory behind
                continue
            kinds[self.queue(memory.load_engine)] = "dma"
            kinds[self.queue(memory.store_engine)] = "dma"
        for name, unit in units(self.chip).items():
            if not self.stream:
                kinds |= {self.engine(queue): unit.type for queue in unit.spec.queues(name)}
            elif self.stream < streams_of(unit.spec):
                kinds[self.queue(name)] = unit.type
        return kinds
