"""A run with other energies: the ledger holds counts, so nothing is simulated again and no time changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.program.actions import MAC, NOT_DONE, OP, WAYS
from accelsim.spec.energy import EnergyTable
from accelsim.spec.memory import Attachment, Memory
from accelsim.spec.yaml.parts import load_energy, load_memory

ENERGIES = ("read_energy", "write_energy", "static_power", "energy_status", "source", "as_of", "note")
"""Fields that one memory takes over from another: what its joules are made of, and where they come from."""


def with_energy(
    run: Run, table: str | Path | EnergyTable | None = None, memories: Mapping[str, str | Path | Memory] | None = None
) -> Run:
    """``run`` with another energy table, and with the energies of other devices for the memories of the chip.

    ``table``: a name ('horowitz-45nm'), a YAML file or a table; None keeps the chip's. ``memories``: memory of
    the chip -> the device whose energies and static power it takes; its bandwidth and latency stay, so the time
    does. What was asked (``Run.asked``) is no longer known. Raises SpecError for a file, UsageError when the table
    lacks a format that the run computed in, or the chip has no memory of that name.
    """
    chip = run.chip
    if table is not None:
        found = table if isinstance(table, EnergyTable) else load_energy(table)
        UsageError.raise_for(_missing(run, found))
        chip = chip.model_copy(update={"energy": found})
    if memories:
        UsageError.raise_for(_memory_problems(run, memories))
        changed = {name: _attached(chip.memories[name], device) for name, device in memories.items()}
        chip = chip.model_copy(update={"memories": {**chip.memories, **changed}})
    return replace(run, chip=chip, program=replace(run.program, chip=chip), asked={})


def _missing(run: Run, table: EnergyTable) -> Iterator[Problem]:
    """Formats in the ledger that the table has no energy for."""
    columns = {MAC: ("multiply-accumulates", table.mac), OP: ("vector operations", table.vector)}
    for action in sorted({row.action for row in run.ledger} - NOT_DONE):
        what, rows = columns.get(action.kind, ("", {}))
        if what and action.of and action.of not in rows:
            text = f"the table has no energy of {what} in {action.of}, which are in the ledger"
            yield Problem(text, table.node, ", ".join(rows), nearest(action.of, rows))


def _memory_problems(run: Run, memories: Mapping[str, object]) -> Iterator[Problem]:
    have = run.chip.memories
    for name in memories:
        if name not in have:
            yield Problem(f"the chip has no memory {name!r}", run.chip.name, ", ".join(have), nearest(name, have))
        others = sorted({row.action for row in run.ledger if row.component == name} - set(WAYS))
        if others:
            what = f"the energy of {name} is counted by command ({', '.join(others)}), not by byte"
            yield Problem(what, run.chip.name, "a run of its own with the other memory")


def _attached(attached: Attachment, device: str | Path | Memory) -> Attachment:
    other = device if isinstance(device, Memory) else load_memory(device)
    energies = {name: getattr(other, name) for name in ENERGIES}
    return attached.model_copy(update={"memory": attached.memory.model_copy(update=energies)})
