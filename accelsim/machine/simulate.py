"""Run a program on the chip that it was compiled for: a system of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accelsim.machine.memory_models import DEFAULT
from accelsim.machine.run import Run
from accelsim.machine.simulation import How, Simulation
from accelsim.program.commands import Program
from accelsim.types import Array


def simulate(
    program: Program, feeds: Mapping[str, Array] | None = None, values: str = "off", keep: bool = False,
    progress: Callable[[float], None] | None = None, memory_model: str = DEFAULT, record: bool = False,
) -> Run:  # fmt: skip
    """Run ``program`` on the chip that it was compiled for.

    ``feeds``: graph inputs by name (needed unless ``values`` is 'off'). ``values``: 'exact', 'fast' or 'off'.
    ``keep``: return every tensor that existed in a memory, not only the outputs. ``progress`` is told the share of the
    commands that have completed, now and then. ``memory_model``: how off-chip memories are followed, a key of
    ``memory_models.MODELS``; ``record``: keep every burst of those that are followed one by one.
    Raises HazardError when the program reads what is not there, UsageError for wrong feeds, a memory model that does
    not fit or a run longer than ``clock.NEVER``, LawError when the run contradicts itself.
    """
    simulation = Simulation()
    simulation.add("", program, feeds, How(values, keep, memory_model, record), progress)
    return simulation.run()[""]
