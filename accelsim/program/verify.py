"""Verify: a program is consistent before it runs. The machine still checks every access while time passes."""

from __future__ import annotations

from accelsim.errors import HazardError, InternalError, UsageError
from accelsim.program.program import Program
from accelsim.program.roles import buffer_of
from accelsim.spec.chip import Chip
from accelsim.time import FS_PER_S, NEVER
from accelsim.workload.graph import Graph


def check_length(graph: Graph, chip: Chip, time_fs: int) -> None:
    """Raise UsageError for a run that takes longer than simulated time can express."""
    if time_fs < NEVER:
        return
    what = f"{graph.name} takes more than {NEVER // FS_PER_S:,} s, the longest time that can be simulated"
    raise UsageError(what, chip.name, "a smaller model, or a faster clock, memory or link")


def verify(program: Program) -> None:
    """Check regions against capacities, uses against writes, waits against program order.

    Raises HazardError naming the command and the region when a command reads a version that no earlier command wrote,
    or waits for one that comes later on its own queue; InternalError when a region lies outside its buffer.
    """
    if program.repeat is not None:  # what copies read is what their templates read
        from accelsim.program.shortened import without_copies

        program = without_copies(program)
    _check_regions(program)
    written = {(region, 0) for region in program.presets}
    for command in program.commands:
        for use in command.reads:
            if (use.region, use.version) not in written:
                region = program.regions[use.region]
                raise HazardError(f"{command.label} (command {command.id})", f"{region.memory}:{region.name}", "nobody")
        written.update((use.region, use.version) for use in command.writes if use.role in ("whole", "end"))
        late = [wait.command for wait in command.waits if wait.command >= command.id]
        if late:
            raise HazardError(f"{command.label} (command {command.id})", "its own future", f"command {late[0]}")


def _check_regions(program: Program) -> None:
    names, chip = {region.memory for region in program.regions}, program.chip
    capacities = {name: each.memory.capacity for name, each in chip.memories.items()}
    capacities |= {name: buffer.capacity for name in names if (buffer := buffer_of(chip, name)) is not None}
    for region in program.regions:
        capacity = capacities.get(region.memory)
        if region.offset >= 0 and capacity is not None and region.offset + region.size_B > capacity:
            raise InternalError(f"region {region.name} ends beyond {region.memory} ({capacity} B)")
