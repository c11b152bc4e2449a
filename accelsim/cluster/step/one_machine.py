"""A training step of a small cluster as one machine: all devices on one clock, tile by tile.

Each device runs the programs of its pieces in the order of the schedule, then adds up gradients with its replicas by
messages around a ring, then updates its weights. Messages are Send and Recv over the wires of the cluster, which those
that meet there share. No values: those are of ``accelsim.cluster.values``.

``train_step`` plays the same programs by their durations. Where no two messages meet on a wire, both give the same time
but for what the machine adds: a token is handed over before a message leaves, and before an engine without a clock
(a host) begins a program; programs begin at edges of the clock; messages are copied out of memories and into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.costs import FIRST_ATTENTION
from accelsim.cluster.step.device_parts import Parts, name_of
from accelsim.cluster.step.fleet import SILENT, Fleet
from accelsim.cluster.step.legal import problems
from accelsim.cluster.step.options import Options
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.work import DecoderWork, Work
from accelsim.engines.registry import ENGINES
from accelsim.errors import Problem, UsageError, count_of
from accelsim.machine.run import Run
from accelsim.machine.simulation import Simulation
from accelsim.program.sequence import Letter, in_sequence
from accelsim.spec.link import Link
from accelsim.time import FS, FS_PER_S

MOST_DEVICES = 16
"""Devices that may be simulated as one machine."""
MOST_COMMANDS = 400_000
"""Commands of all devices together: about a gigabyte, and minutes."""


@dataclass(frozen=True)
class OneMachine:
    """A step as one machine and as ``train_step`` plays it with software that costs nothing.

    ``ends_fs``: when each device was done, by rank; ``played_fs``: the time of the step by durations of whole passes;
    ``copies``: whether messages are read from and written to the memories of devices; ``commands``, ``messages``: of
    all devices; ``runs``: what each did, by rank.
    """

    ends_fs: tuple[int, ...]
    played_fs: int
    copies: bool
    commands: int
    messages: int
    runs: tuple[Run, ...] = field(repr=False, compare=False)

    @property
    def time_fs(self) -> int:
        """Until the last device is done."""
        return max(self.ends_fs)

    @property
    def difference(self) -> float:
        """Return how much longer the machine takes than the step that is played, as a share of that."""
        return self.time_fs / self.played_fs - 1

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON, in seconds."""
        return {
            "machine_s": self.time_fs * FS, "played_s": self.played_fs * FS, "difference": self.difference,
            "copies": self.copies, "commands": self.commands, "messages": self.messages,
            "ends_s": [end * FS for end in self.ends_fs],
        }  # fmt: skip


def machines(
    work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options | None = None,
    ways: Sequence[bool] = (False, True),
) -> list[OneMachine]:  # fmt: skip
    """Return the same for several ways to treat copies, compiled once."""
    found = [
        *problems(work, fleet.size, plan, batch, fleet.resized(plan.devices)),
        *_beyond(work, fleet, plan),
    ]
    if found:
        raise UsageError(found)
    given = options or Options()
    behind = Options(overlap=False, gradient_B=given.gradient_B, ignore_capacity=given.ignore_capacity)
    silent = replace(fleet, software=SILENT)
    vars(silent).update(_costs=fleet._costs)
    played_fs = train_step(work, silent, plan, batch, behind).time_fs
    parts = Parts(work, fleet, plan, batch // plan.dp // plan.microbatches, given.gradient_B)
    _check_size(parts)
    return [_of(_simulated(parts, fleet, copies), played_fs, copies) for copies in ways]


def _of(runs: tuple[Run, ...], played_fs: int, copies: bool) -> OneMachine:
    commands = [command for run in runs for command in run.program.commands]
    messages = sum(command.kind == "Send" for command in commands)
    return OneMachine(tuple(run.time_fs for run in runs), played_fs, copies, len(commands), messages, runs)


def _simulated(parts: Parts, fleet: Fleet, copies: bool) -> tuple[Run, ...]:
    """All devices on one clock, joined by the wires of the cluster."""
    names = [name_of(rank) for rank in range(len(parts.of))]
    incoming: dict[str, list[Letter]] = {name: [] for name in names}
    routes: dict[tuple[str, str], list[str]] = {}
    for rank, name in enumerate(names):
        for letter in (letter for part in parts.of[rank] for letter in part.sends):
            incoming[letter.peer].append(letter._replace(peer=name))
            way = fleet.topology.route(rank, names.index(letter.peer))
            routes[name, letter.peer] = [f"wire {wire}" for wire in way]
    links = {wire: _link(fleet, int(wire.split()[1])) for way in routes.values() for wire in way}
    simulation = Simulation(links, routes)
    for rank, name in enumerate(names):
        peers = {end: tuple(links[wire] for wire in way)
                 for (start, end), way in routes.items() if start == name}  # fmt: skip
        chip = next(
            (part.program.chip for part in parts.of[rank] if part.program is not None),
            fleet.costs(rank).at_site,
        )
        simulation.add(name, in_sequence(name, chip, parts.of[rank], incoming[name], peers, copies))
    runs = simulation.run()
    return tuple(runs[name] for name in names)


def _link(fleet: Fleet, number: int) -> Link:
    """A wire of the network as a link of the machine, which is crossed one way only."""
    wire = fleet.topology.wires[number]
    return Link.model_construct(
        kind=wire.link, bandwidth=float(wire.rate), pcie=None, packets=None, latency=wire.latency_fs / FS_PER_S,
        duplex="full", energy=wire.energy_J_per_B, energy_status=None,
    )  # fmt: skip


def _check_size(parts: Parts) -> None:
    if parts.commands > MOST_COMMANDS:
        what = f"{parts.work.name} on {count_of(parts.plan.devices, 'device')} takes {parts.commands:,} commands in all"
        advice = f"at most {MOST_COMMANDS:,}: a smaller model, batch or cluster"
        raise UsageError(Problem(what, "--whole", advice))


def _beyond(work: Work, fleet: Fleet, plan: Plan) -> Iterator[Problem]:
    """Return what one machine does not do."""
    whole = "as one machine"
    if plan.devices > MOST_DEVICES:
        yield Problem(f"{count_of(plan.devices, 'device')} {whole}", "--whole", f"at most {MOST_DEVICES}")
    if plan.tp > 1:
        yield Problem(
            f"tp={plan.tp} {whole}", "--whole", "tp=1: collectives stand between programs, not in them"
        )
    if plan.zero:
        yield Problem(f"zero={plan.zero} {whole}", "--whole", "zero=0: replicas with all of their weights")
    if plan.period > 1:
        yield Problem(
            f"period={plan.period} {whole}", "--whole", "period=1: gradients are added up in each step"
        )
    kind = SCHEDULES.get(plan.schedule)
    if kind is not None and not kind.synchronous:
        yield Problem(f"{plan.schedule} has no end of a step", "--whole", "a schedule that flushes")
    if kind is not None and kind.splits and isinstance(work, DecoderWork):
        what = f"{plan.schedule} of {work.name} {whole}"
        yield Problem(
            what, "--whole", "another schedule: gradients of its weights are no program of their own"
        )
    for chip in {id(chip): chip for chip in fleet.chips[: plan.devices]}.values():
        if any(ENGINES[spec.type].keeps for spec in chip.engines.values()):
            what = f"what stays on the tiles of {chip.name} from one program to the next {whole}"
            yield Problem(what, "--whole", "chips with a memory of their own")
    if any(pace != 1.0 for pace in fleet.speeds):
        yield Problem(f"devices slower than their chips {whole}", "--whole", "speed: 1 of all devices")
    if fleet.setting.attention == FIRST_ATTENTION:
        yield Problem(f"{FIRST_ATTENTION} attention {whole}", "--attention", "flash or plain")
    if fleet.setting.offload:
        yield Problem(f"activations in the memory of hosts {whole}", "--offload-activations", "none")
    if fleet.setting.host_s:
        yield Problem(f"time of a host for each kernel {whole}", "--whole", "none")
    if fleet.topology.forwarding != "cut-through":
        yield Problem(f"{fleet.topology.forwarding} {whole}", "--whole", "cut-through")
