"""A training step of a small cluster as one machine: all devices on one clock, tile by tile.

Each device runs the programs of its pieces in the order of the schedule, then adds up gradients with its replicas by
messages around a ring, then updates its weights. Messages are Send and Recv over the wires of the cluster, which those
that meet there share. No values: those are of ``accelsim.cluster.values``.

``train_step`` plays the same programs by their durations. Where no two messages meet on a wire, both give the same time
but for what the machine adds: a token is handed over before a message leaves, and before an engine without a clock
(a host) begins a program; programs begin at edges of the clock; messages are copied out of memories and into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.base import Op
from accelsim.cluster.schedules.registry import SCHEDULES, schedule
from accelsim.cluster.step.costs import FIRST_ATTENTION
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.step import problems, train_step
from accelsim.cluster.step.work import DecoderWork, Graphs, Piece, Work
from accelsim.errors import Problem, UsageError, count_of
from accelsim.machine.run import Run
from accelsim.machine.simulation import Simulation
from accelsim.program.program import Program
from accelsim.program.sequence import Letter, SequencePart, in_sequence
from accelsim.spec.link import Link
from accelsim.time import FS, FS_PER_S
from accelsim.workload.graph import Graph

STEPS = {"F": 1, "B": -1, "W": 0}
"""Kind of op -> from its piece to the one that reads its result."""


def name_of(rank: int) -> str:
    """Return the machine's name of a device."""
    return f"device{rank}"


class Parts:
    """Programs and messages of all devices. ``devices[rank]``: the ops of a device in the order of its schedule; rounds
    of rings that add up the gradients of its replicas, and of an embedding that is the output projection too; the
    update. Adding costs nothing.

    Each graph is compiled once for all devices that run it.
    """

    def __init__(self, work: Work, fleet: Fleet, plan: Plan, samples: int, gradient_B: int) -> None:
        self.work, self.fleet, self.plan = work, fleet, plan
        self.samples, self.gradient_B = samples, gradient_B
        self.orders = schedule(plan.schedule).orders(plan.pp, plan.microbatches, plan.chunks)
        self.splits = schedule(plan.schedule).splits
        self._known: dict[object, list[Program]] = {}
        self.devices = [self._device(rank) for rank in range(plan.devices)]

    @property
    def commands(self) -> int:
        """Commands of all programs, without messages."""
        programs = [part.program for parts in self.devices for part in parts if part.program is not None]
        return sum(len(program.commands) for program in programs)

    def _device(self, rank: int) -> list[SequencePart]:
        plan = self.plan
        p, d = divmod(rank, plan.dp)
        found = [part for op in self.orders[p] for part in self._op(op, p, d)]
        count = sum(sum(self._piece(chunk * plan.pp + p, rank).parameters) for chunk in range(plan.chunks))
        replicas = [plan.rank(p, each, 0) for each in range(plan.dp)]
        found += ring(replicas, rank, self.gradient_B * count, "gradients")
        if plan.pp > 1 and p in (0, plan.pp - 1):
            ends = [plan.rank(each, d, 0) for each in (0, plan.pp - 1)]
            found += ring(ends, rank, self.work.shared_B(plan), "embedding")
        adam = self.fleet.costs(rank).adam(count)
        return found + [SequencePart(each) for each in self._compiled(rank, count, lambda: [adam] if adam else [])]

    def _piece(self, index: int, rank: int) -> Piece:
        return self.work.piece(index, self.plan, self.samples, self.fleet.costs(rank))

    def _op(self, op: Op, p: int, d: int) -> list[SequencePart]:
        """The programs of an op: the first waits for what comes, the last sends what leaves. Sizes are those that
        ``Planned.transfer`` has: of the first chunk of the stage before the boundary."""
        plan, step = self.plan, STEPS[op.kind]
        index, rank = op.chunk * plan.pp + p, plan.rank(p, d, 0)
        parts = [SequencePart(each) for each in self._programs(op, index, rank)] or [SequencePart(None)]
        before, after = index - step, index + step
        if self._crosses(before, p):
            peer = name_of(plan.rank(before % plan.pp, d, 0))
            parts[0] = parts[0]._replace(receives=((peer, _tag(op, index)),))
        if self._crosses(after, p):
            to = after % plan.pp
            size = self._piece(p if op.kind == "F" else to, rank).result_B
            letter = Letter(name_of(plan.rank(to, d, 0)), _tag(op, after), size)
            parts[-1] = parts[-1]._replace(sends=(letter,))
        return parts

    def _crosses(self, index: int, p: int) -> bool:
        return 0 <= index < self.plan.stages and index % self.plan.pp != p

    def _programs(self, op: Op, index: int, rank: int) -> list[Program]:
        graphs = partial(self.work.graphs, index, self.plan, self.samples, self.fleet.costs(rank))
        return self._compiled(rank, (index, op.kind), lambda: _of_op(graphs(), op, self.splits))

    def _compiled(self, rank: int, what: object, made: Callable[[], Iterable[Graph]]) -> list[Program]:
        costs = self.fleet.costs(rank)
        key = (costs, what)
        if key not in self._known:
            graphs = list(made())
            once = {id(graph): graph for graph in graphs}
            programs = {number: costs.compiled(graph) for number, graph in once.items()}
            self._known[key] = [programs[id(graph)] for graph in graphs]
        return self._known[key]


def _of_op(graphs: Graphs, op: Op, splits: bool) -> tuple[Graph, ...]:
    """The graphs of an op; a backward pass has the gradients of weights where the schedule does not split them off."""
    if op.kind == "F":
        return graphs.forward
    if op.kind == "W":
        return graphs.weights
    return (*graphs.again, *graphs.backward, *(() if splits else graphs.weights))


def _tag(op: Op, index: int) -> str:
    return f"{op.kind}{op.microbatch + 1} of piece {index}"


def ring(group: list[int], rank: int, nbytes: int, what: str) -> list[SequencePart]:
    """Return the part of ``rank`` in an all-reduce of ``nbytes``: once around to add up, once around to pass on the
    sums.

    In each of 2 (n - 1) rounds every member sends a part to the next and gets one from the member before.
    """
    n = len(group)
    if n == 1 or not nbytes:
        return []
    me = group.index(rank)
    after, before = name_of(group[(me + 1) % n]), name_of(group[me - 1])
    ends = [nbytes * part // n for part in range(n + 1)]
    rounds = 2 * (n - 1)
    parts = []
    for turn in range(rounds + 1):
        chunk = (me - turn) % n
        sends = (Letter(after, f"{what} round {turn + 1}", ends[chunk + 1] - ends[chunk]),)
        receives = ((before, f"{what} round {turn}"),)
        parts.append(SequencePart(None, receives if turn else (), sends if turn < rounds else ()))
    return parts


MOST_DEVICES = 16
"""Devices that may be simulated as one machine."""
MOST_COMMANDS = 400_000
"""Commands of all devices together: about a gigabyte, and minutes."""


@dataclass(frozen=True)
class OneMachine:
    """A step as one machine, and as ``train_step`` plays it with software that costs nothing.

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
        """Time until the last device is done, fs."""
        return max(self.ends_fs)

    @property
    def difference(self) -> float:
        """Time by which the machine takes longer than the played step, as a share of that."""
        return self.time_fs / self.played_fs - 1

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON, in seconds."""
        return {
            "machine_s": self.time_fs * FS,
            "played_s": self.played_fs * FS,
            "difference": self.difference,
            "copies": self.copies,
            "commands": self.commands,
            "messages": self.messages,
            "ends_s": [end * FS for end in self.ends_fs],
        }


def machines(
    work: Work,
    fleet: Fleet,
    plan: Plan,
    batch: int,
    options: Options | None = None,
    copied: Sequence[bool] = (False, True),
) -> list[OneMachine]:
    """Simulate a step as one machine, once for each way to treat copies; programs are compiled once."""
    found = [*problems(work, fleet.size, plan, batch, fleet.resized(plan.devices)), *_beyond(work, fleet, plan)]
    UsageError.raise_for(found)
    given = options or Options()
    after = Options(overlap=False, gradient_B=given.gradient_B, ignore_capacity=given.ignore_capacity)
    played_fs = train_step(work, fleet.silent(), plan, batch, after).time_fs
    parts = Parts(work, fleet, plan, batch // plan.dp // plan.microbatches, given.gradient_B)
    if parts.commands > MOST_COMMANDS:
        what = f"{work.name} on {count_of(plan.devices, 'device')} takes {parts.commands:,} commands in all"
        advice = f"at most {MOST_COMMANDS:,}: a smaller model, batch or cluster"
        raise UsageError(what, "--whole", advice)
    made = []
    for copies in copied:
        runs = _simulated(parts, fleet, copies)
        commands = [command for run in runs for command in run.program.commands]
        messages = sum(command.kind == "Send" for command in commands)
        ends = tuple(run.time_fs for run in runs)
        made.append(OneMachine(ends, played_fs, copies, len(commands), messages, runs))
    return made


def _simulated(parts: Parts, fleet: Fleet, copies: bool) -> tuple[Run, ...]:
    """Simulate all devices on one clock, joined by the wires of the cluster."""
    names = [name_of(rank) for rank in range(len(parts.devices))]
    incoming: dict[str, list[Letter]] = {name: [] for name in names}
    routes: dict[tuple[str, str], list[str]] = {}
    for rank, name in enumerate(names):
        for letter in (letter for part in parts.devices[rank] for letter in part.sends):
            incoming[letter.peer].append(letter._replace(peer=name))
            wires = fleet.topology.route(rank, names.index(letter.peer))
            routes[name, letter.peer] = [f"wire {wire}" for wire in wires]
    links = {wire: _link(fleet, int(wire.split()[1])) for wires in routes.values() for wire in wires}
    simulation = Simulation(links, routes)
    for rank, name in enumerate(names):
        own = {end: wires for (start, end), wires in routes.items() if start == name}
        peers = {end: tuple(links[wire] for wire in wires) for end, wires in own.items()}
        programs = (part.program for part in parts.devices[rank] if part.program is not None)
        chip = next((program.chip for program in programs), fleet.costs(rank).at_site)
        simulation.add(name, in_sequence(name, chip, parts.devices[rank], incoming[name], peers, copies))
    runs = simulation.run()
    return tuple(runs[name] for name in names)


def _link(fleet: Fleet, number: int) -> Link:
    """A wire of the network as a link of the machine, which is crossed one way only."""
    wire = fleet.topology.wires[number]
    return Link.model_construct(
        kind=wire.link,
        bandwidth=float(wire.rate),
        pcie=None,
        packets=None,
        latency=wire.latency_fs / FS_PER_S,
        duplex="full",
        energy=wire.energy_J_per_B,
        energy_status=None,
    )


def _beyond(work: Work, fleet: Fleet, plan: Plan) -> Iterator[Problem]:
    """Yield what one machine does not do."""
    kind, setting, whole = SCHEDULES.get(plan.schedule), fleet.setting, "as one machine"
    splits = kind is not None and kind.splits and isinstance(work, DecoderWork)
    slow, forwarding = any(pace != 1.0 for pace in fleet.speeds), fleet.topology.forwarding
    devices, apart = count_of(plan.devices, "device"), "gradients of its weights are no program of their own"
    rows: list[tuple[object, str, str]] = [
        (plan.devices > MOST_DEVICES, f"{devices} {whole}", f"at most {MOST_DEVICES}"),
        (plan.tp > 1, f"tp={plan.tp} {whole}", "tp=1: collectives stand between programs, not in them"),
        (plan.zero, f"zero={plan.zero} {whole}", "zero=0: replicas with all of their weights"),
        (plan.period > 1, f"period={plan.period} {whole}", "period=1: gradients are added up in each step"),
        (kind and not kind.synchronous, f"{plan.schedule} has no end of a step", "a schedule that flushes"),
        (splits, f"{plan.schedule} of {work.name} {whole}", f"another schedule: {apart}"),
    ]
    for chip in {id(chip): chip for chip in fleet.chips[: plan.devices]}.values():
        keeps = any(spec.keeps for spec in chip.engines.values())
        what = f"what stays on the tiles of {chip.name} from one program to the next {whole}"
        rows.append((keeps, what, "chips with a memory of their own"))
    rows.append((slow, f"devices slower than their chips {whole}", "speed: 1 of all devices"))
    yield from (Problem(what, "--whole", expected) for wrong, what, expected in rows if wrong)
    if setting.attention == FIRST_ATTENTION:
        yield Problem(f"{FIRST_ATTENTION} attention {whole}", "--attention", "flash or plain")
    if setting.offload:
        yield Problem(f"activations in the memory of hosts {whole}", "--offload-activations", "none")
    if setting.host_s:
        yield Problem(f"time of a host for each kernel {whole}", "--whole", "none")
    if forwarding != "cut-through":
        yield Problem(f"{forwarding} {whole}", "--whole", "cut-through")
