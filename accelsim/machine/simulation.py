"""One clock under any number of devices: each runs its own program on its own chip, links join them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import simpy

from accelsim.engines.device import EngineLog
from accelsim.engines.registry import ENGINES
from accelsim.errors import Problem, UsageError
from accelsim.machine.accounting import busy, ledger, step_spans, step_stalls, times_of
from accelsim.machine.check import check
from accelsim.machine.contents import Agenda, Contents
from accelsim.machine.context import Context, Progress
from accelsim.machine.exchange import Exchange
from accelsim.machine.hazards import sound
from accelsim.machine.memory_models import DEFAULT, check_model, memories
from accelsim.machine.milestones import Milestones
from accelsim.machine.run import Run
from accelsim.machine.sram import Buffers
from accelsim.machine.values.batch import batch_shape
from accelsim.machine.values.effects import policy
from accelsim.pause import no_collection
from accelsim.program.commands import Command
from accelsim.program.program import Program
from accelsim.program.verify import check_length
from accelsim.spec.link import Link
from accelsim.threads import one_blas_thread
from accelsim.time import NEVER, Clock
from accelsim.types import Array

SHOWN = 5
"""Commands that wait for ever which an error names."""


class How(NamedTuple):
    """Options of a simulation: ``values`` 'exact', 'fast' or 'off'; ``keep`` every tensor; ``memory_model`` of off-chip
    memories (a key of ``memory_models.MODELS``); ``record`` their bursts."""

    values: str = "off"
    keep: bool = False
    memory_model: str = DEFAULT
    record: bool = False


class Simulation:
    """Devices on one clock. ``links`` by name and ``routes``, (from, to) -> names of links: see ``Exchange``.

    Add devices, then ``run`` once. Raises UsageError for links and routes that do not fit.
    """

    def __init__(
        self, links: Mapping[str, Link] | None = None, routes: Mapping[tuple[str, str], Sequence[str]] | None = None
    ) -> None:
        self.env, self.agenda = simpy.Environment(), Agenda()
        self.exchange = Exchange(self.env, links or {}, routes or {})
        self._devices: dict[str, _Device] = {}

    def add(
        self,
        name: str,
        program: Program,
        feeds: Mapping[str, Array] | None = None,
        how: How | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """A device that runs ``program`` on the chip that it was compiled for.

        ``feeds``: graph inputs by name, but for those that other devices send; needed unless values are 'off'.
        ``progress`` is told the share of the commands that have completed, now and then. Raises UsageError for a name
        that is taken, wrong feeds, and a memory model that does not fit.
        """
        how = how or How()
        if name in self._devices:
            raise UsageError(f"two devices called {name!r}", expected="names that differ")
        if how.values != "off":
            if feeds is None:
                raise UsageError(f"values {how.values!r} need the inputs of the model")
            _check_feeds(program, feeds)
        check_model(how.memory_model, program.chip)
        if not isinstance(program.commands, list):  # copies of blocks
            program = replace(program, commands=list(program.commands), repeat=None)
        self._devices[name] = _Device(self, name, program, dict(feeds or {}), how, progress)

    def logs(self, name: str) -> Mapping[str, EngineLog]:
        """Return how the engines of a device spent their time."""
        return self._devices[name].context.logs

    def run(self) -> dict[str, Run]:
        """Simulate; device -> what happened on it.

        Raises HazardError when a program reads what is not there, UsageError when devices wait for each other for ever
        or a run is longer than ``time.NEVER``, LawError when a run contradicts itself.
        """
        with no_collection():
            return self._run()

    @one_blas_thread
    def _run(self) -> dict[str, Run]:
        for device in self._devices.values():
            device.start()
        self.env.run(until=NEVER)
        for device in self._devices.values():
            device.settle()
        self.agenda.play()
        if len(self._devices) > 1:
            _check_all_done(self._devices)
        return {name: device.gather() for name, device in self._devices.items()}


class _Device:
    """One chip with its program while the simulation runs."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        program: Program,
        feeds: dict[str, Array],
        how: How,
        told: Callable[[float], None] | None,
    ) -> None:
        env, chip = simulation.env, program.chip
        clock = Clock(chip.clock)
        self.program, self._how, self._feeds = program, how, feeds
        self._effects = policy(how.values, program, dict(feeds), how.keep)
        self._effects.mail = simulation.exchange.mail
        self._quiet = how.values == "off"  # contents are then no business of other devices
        done = Progress(len(program.commands), told).one_more if told is not None else None
        contents = Contents(program, self._effects, None if self._quiet else done)
        for region in program.presets:
            contents.preset(region)
        self._attached = memories(env, clock, program, how.memory_model, how.record)
        self.context = Context(
            env, chip, clock, Milestones(env, clock.at(chip.token_delay)), contents, Buffers(env, program),
            self._attached.ports, name, simulation.exchange,
            agenda=Agenda() if self._quiet else simulation.agenda, told=done if self._quiet else None,
        )  # fmt: skip

    def start(self) -> None:
        """Start all engines."""
        for engine, queue in _queues(self.program).items():
            ENGINES[self.program.engines[engine]].start(self.context, engine, queue)

    def waiting(self) -> list[Command]:
        """Commands that have not completed."""
        done = {command.id for command, *_ in self.context.ended}
        return [command for command in self.program.commands if command.id not in done]

    def settle(self) -> None:
        """Check what the commands read, where no values depend on it. Raises HazardError."""
        if self._quiet and not sound(self.program, self.context.agenda.entries):
            self.context.agenda.play()

    def gather(self) -> Run:
        """Return what happened; the laws of a run hold."""
        program, context = self.program, self.context
        time_fs = max((end for *_, end in context.ended), default=0)
        check_length(program.graph, program.chip, time_fs)
        times = {engine: times_of(context.logs[engine], program.commands) for engine in program.engines}
        slices, steps = context.slices, len(program.steps)
        run = Run(
            chip=program.chip, program=program, values=self._how.values, time_fs=time_fs, slices=slices,
            ledger=ledger(program), engines=busy(times, time_fs), step_spans=step_spans(slices, steps),
            step_stalls=step_stalls(times, steps), outputs=self._effects.outputs(),
            tensors=self._effects.kept(), feeds=self._feeds, nonzero_macs=self._effects.nonzero_macs,
            histories=[history for _, history in sorted(context.histories.items())],
        )  # fmt: skip
        self._follow(run)
        check(run)
        return run

    def _follow(self, run: Run) -> None:
        """Add what the memories know of themselves."""
        run.memory_model = self._how.memory_model
        for name, memory in self._attached.drams.items():
            memory.finish(run.time_fs)
            run.ledger += memory.rows()
            run.dram[name] = memory.stats()
            if self._how.record:
                run.accesses[name] = memory.accesses()
        for name, cache in self._attached.caches.items():
            run.ledger += cache.finish()
            run.caches[name] = cache.stats


def _check_feeds(program: Program, feeds: Mapping[str, Array]) -> None:
    """Raise UsageError, all problems at once, for inputs that are missing or do not have the shape of the whole
    batch."""
    problems = []
    for name in program.graph.inputs:
        if name in program.received:
            continue
        wanted = batch_shape(program.graph.tensors[name].shape, program.cores)
        if name not in feeds:
            problems.append(Problem(f"input {name!r} is missing", "feeds", f"an array of shape {list(wanted)}"))
        elif np.shape(feeds[name]) != wanted:
            cores = f", the batches of {program.cores} cores" if program.cores > 1 else ""
            what = f"input {name!r} has shape {list(np.shape(feeds[name]))}"
            problems.append(Problem(what, "feeds", f"{list(wanted)}{cores}"))
    UsageError.raise_for(problems)


def _check_all_done(devices: Mapping[str, _Device]) -> None:
    """Raise UsageError naming what waits for ever: a message or a barrier to which the other side never comes."""
    stuck = {name: left for name, device in devices.items() if (left := device.waiting())}
    problems = [
        Problem(f"{command.kind} {command.label} waits for ever", name, "a program for the other side that comes to it")
        for name, left in stuck.items()
        for command in [each for each in left if each.kind in ("Send", "Recv", "Barrier")][:SHOWN]
    ]
    UsageError.raise_for(problems)


def _queues(program: Program) -> dict[str, list[Command]]:
    queues: dict[str, list[Command]] = {engine: [] for engine in program.engines}
    for command in program.commands:
        queues[command.engine].append(command)
    return queues
