"""A kind of core: its engines, the memories beside them, and how many copies of it there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from accelsim.spec.base import Model
from accelsim.spec.buffer import Buffer
from accelsim.spec.counts import Cores, Name
from accelsim.spec.declaring import BeforeValidator, Field
from accelsim.spec.engine import EngineSpec, specs

if TYPE_CHECKING:
    Engine = EngineSpec


def _engine() -> Any:
    """Return the union of the specs of all engine types, told apart by their field ``type``."""
    return Annotated[reduce(or_, specs()), Field(discriminator="type")]


def _given(engines: Any) -> Any:
    """Those that are not ``null``."""
    if not isinstance(engines, dict):
        return engines
    return {name: engine for name, engine in engines.items() if engine is not None}


class Core(Model):
    """A kind of core. Each copy has these engines and memories, and shares the chip's."""

    later: ClassVar = {"Engine": _engine}

    count: Cores = Field(1, description="copies of it")
    engines: Annotated[dict[Name, Engine], BeforeValidator(_given)] = Field(
        {}, description="engines by name; `null`: not this one of the base file"
    )
    memories: dict[Name, Buffer] = Field({}, description="SRAMs by name")

    def with_engines(self, change: Callable[[Any], EngineSpec]) -> Core:
        """The core with ``change`` of each of its engines."""
        return self.model_copy(
            update={"engines": {name: change(unit) for name, unit in self.engines.items()}}
        )
