"""Engines of a chip: what the spec of every type has, and the types that there are.

A type is a folder of ``accelsim/engines`` with a module ``spec``. Its ``SPEC`` is the model of a block under
``engines:`` of a core, with ``type: Literal["<type>"]``; its ``LAWS``, if it has any, are what the fields of such a
block must agree on, among themselves and with the chip around. As far as imports go these modules belong to
``accelsim.spec``: they are found by name, and import only what it may import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

from accelsim.spec.base import Model, declared
from accelsim.spec.constants import Constant, marked
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Hertz

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.laws.finding import Finding
    from accelsim.spec.memory import Buffer
    from accelsim.spec.yaml.tree import PathTo

FOLDER = "accelsim.engines"
"""Package whose folders are the types."""


class Built(NamedTuple):
    """Parts of an engine that its area follows from.

    PEs, each with ``formats`` (operand format, format of sums, products per clock) and an SRAM of ``store_B``; lanes.
    """

    pes: int = 0
    formats: tuple[tuple[str, str, float], ...] = ()
    store_B: int = 0
    lanes: int = 0


class EngineSpec(Model):
    """An engine of a chip; each type of engine adds fields of its own."""

    rate: ClassVar[str] = ""
    """Formula of ``peaks``, in the names of the fields."""

    mechanism: ClassVar[int] = 1
    """Version of the closed forms that its constants belong to: a calibration made with another one does not hold."""

    reads_turned: ClassVar[bool] = False
    """Products take operands of either layout, so that no matrix is turned before them."""

    attends: ClassVar[bool] = False
    """Attention is one kernel: two products with a softmax between them."""

    keeps: ClassVar[bool] = False
    """Operands and results lie in memories of its own, with no other in reach."""

    type: str = Field(description="type of the engine")
    clock: Hertz | None = Field(None, description="absent: the chip's clock")

    def rates(self) -> dict[str, Fraction]:
        """Operand format -> multiply-accumulates per clock at its peak, all its queues together; {}: it multiplies
        nothing."""
        return {}

    def built(self) -> Built | None:
        """Return the parts that the engine's area follows from; None for types whose area is not modelled."""
        return None

    @property
    def has_epilogue(self) -> bool:
        """Return whether functions may follow a product on the way of its results out of the engine."""
        return False

    @property
    def gates_zeros(self) -> bool:
        """Return whether a multiplication by zero costs no energy."""
        return False

    def sparse_pattern(self, mac_format: str) -> tuple[int, int] | None:
        """Return (N, M) where it skips the zeros of weights of which at most N of each M are nonzero, else None."""
        return None

    def pools(self, chip: Chip, pixels: int) -> bool:
        """Return whether a pooling may follow a convolution: it needs all ``pixels`` of an image at once."""
        return False

    def kept_B(self, buffer: Buffer) -> int:
        """Return the bytes that stay in one of its buffers, of all that there are of it; 0 for types that keep
        nothing."""
        return 0

    def peaks(self, chip: Chip, cores: int = 1) -> dict[str, float]:
        """Operand format -> op/s of so many of it together, a multiply-add counts as two."""
        each = 2 * Fraction(self.clock or chip.clock) * cores
        return {name: float(each * rate) for name, rate in self.rates().items()}

    def queues(self, name: str) -> list[str]:
        """Return the names of the engine's queues in a program; ``name`` is its name in the chip."""
        return [name]

    def constants(self, chip: Chip, name: str) -> Iterator[Constant]:
        """Return what measurements have to give: its fields with the mark ``Fitted``; ``name``: what the chip, seen
        from its kind of core, calls it."""
        found = marked(self, chip.path_to("engines", name), name)
        counted = [each for each in found if not each.mark.stated or each.path[-1] in self.model_fields_set]
        yield from counted
        if any(each.mark.stated for each in counted):  # then the memory beside was measured too
            for memory, attached in chip.memories.items():
                if "activations" in attached.holds:
                    yield from marked(attached.memory, ("memories", memory, "memory"), name)

    def idle_fields(self) -> Iterable[str]:
        """Fields that mean nothing beside what the others are: a spec that is written out leaves them away."""
        return ()


Law = Callable[[object, "Chip", "PathTo"], "Iterator[Finding]"]
"""A law of one type: from a unit, its chip and its path there to what breaks it."""


@cache
def modules() -> dict[str, ModuleType]:
    """Return engine type -> its module ``spec``, sorted by type."""
    folders = [entry.name for entry in iter_modules(import_module(FOLDER).__path__) if entry.ispkg]
    names = [name for folder in sorted(folders) if find_spec(name := f"{FOLDER}.{folder}.spec")]
    return {type_of(module.SPEC): module for module in map(import_module, names)}


def specs() -> tuple[type[EngineSpec], ...]:
    """Return the spec class of every engine type, sorted by type."""
    return tuple(module.SPEC for module in modules().values())


def laws() -> Iterator[tuple[type[EngineSpec], Law]]:
    """Yield (spec class, law) for each law of every engine type."""
    for module in modules().values():
        for law in getattr(module, "LAWS", ()):
            yield module.SPEC, law


def type_of(spec: type[Any]) -> str:
    """Return the engine type of a spec class: the only value of its field ``type``."""
    return str(get_args(declared(spec, "type").annotation)[0])
