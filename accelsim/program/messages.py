"""Programs that talk to each other: a result of one becomes an input of another, and all meet at barriers.

A message goes through the network interfaces in pieces: out of the memory where the result lies, over the links, into
the memory where the input is read. While one piece is on its way the next is read. The interfaces have DMA engines of
their own, so the ports of the memories are shared with everybody else's transfers, but nobody's queue is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.errors import Problem, UsageError, nearest
from accelsim.program.actions import TRANSFER
from accelsim.program.commands import Action, Command, Effect, Region, Use, Wait
from accelsim.program.program import Program
from accelsim.program.roles import Roles
from accelsim.program.verify import verify
from accelsim.program.work import Meet, Message, Transfer
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.entries import transfer_actions
from accelsim.spec.link import Link

PIECE_B = 1 << 20
"""Bytes of a piece of a message; a shorter message is one piece."""
OUT, IN, READ, WRITE, SYNC = "nic_out", "nic_in", "nic_read", "nic_write", "nic_sync"
"""Engines of a network interface: its two directions, its DMA engines, its barriers."""
TYPES = {OUT: "nic", IN: "nic", READ: "dma", WRITE: "dma", SYNC: "nic"}


@dataclass(frozen=True)
class Wire:
    """Result ``result`` of device ``source`` becomes input ``target_input`` of device ``target``.

    ``links``: what the message crosses, whose energy is charged to the sender.
    """

    source: str
    result: str
    target: str
    target_input: str
    links: tuple[Link, ...] = ()


def connected(programs: Mapping[str, Program], wires: Iterable[Wire], piece_B: int = PIECE_B) -> dict[str, Program]:
    """The programs with the messages of all ``wires``; those given stay as they are.

    Raises UsageError, all at once, for devices, results and inputs that are not there, shapes, formats or numbers of
    cores that differ, and inputs that come twice.
    """
    wires = list(wires)
    UsageError.raise_for([problem for wire in wires for problem in _problems(programs, wire)] + _twice(wires))
    found = dict(programs)
    for wire in wires:
        found[wire.target] = _Receiving(found[wire.target], wire, piece_B).program()
        found[wire.source] = _Sending(found[wire.source], wire, piece_B).program()
    for program in found.values():
        verify(program)
    return found


def barrier(programs: Mapping[str, Program], name: str) -> dict[str, Program]:
    """The programs, each ending with a barrier: it completes on all devices when the last of them is done."""
    return {device: _with_barrier(program, Meet(name, tuple(programs))) for device, program in programs.items()}


def _with_barrier(program: Program, meet: Meet) -> Program:
    last = {command.engine: command for command in program.commands}
    waits = tuple(Wait(command.id, "done", "full") for command in last.values())
    op = max(0, len(program.steps) - 1)
    command = Command(len(program.commands), "Barrier", SYNC, op, meet.name, meet, Effect("none"), waits)
    return replace(
        program, commands=[*program.commands, command], engines={**program.engines, SYNC: TYPES[SYNC]}, repeat=None
    )


def _problems(programs: Mapping[str, Program], wire: Wire) -> Iterable[Problem]:
    where = f"{wire.source}.{wire.result} to {wire.target}.{wire.target_input}"
    for device in (wire.source, wire.target):
        if device not in programs:
            yield Problem(f"no device {device!r}", where, ", ".join(programs), nearest(device, programs))
            return
    source, target = programs[wire.source], programs[wire.target]
    if wire.result not in source.results:
        results, near = ", ".join(source.results), nearest(wire.result, source.results)
        yield Problem(f"{wire.source} has no result {wire.result!r}", where, results, near)
    if wire.target_input not in target.graph.inputs:
        inputs = ", ".join(target.graph.inputs)
        near = nearest(wire.target_input, target.graph.inputs)
        yield Problem(f"{wire.target} has no input {wire.target_input!r}", where, inputs, near)
    if wire.result in source.results and wire.target_input in target.graph.inputs:
        ends = source.graph.tensors[wire.result], target.graph.tensors[wire.target_input]
        (out, out_cores), (into, in_cores) = (
            (f"{tensor.memory_format} of {list(tensor.shape)}", cores)
            for tensor, cores in zip(ends, (source.cores, target.cores), strict=True)
        )
        if (out, out_cores) != (into, in_cores):
            yield Problem(
                f"{out} on {out_cores} cores cannot become {into} on {in_cores}", where, "the same at both ends"
            )


def _twice(wires: Sequence[Wire]) -> list[Problem]:
    ends = [(wire.target, wire.target_input) for wire in wires]
    return [
        Problem(f"{target}.{name} comes from two devices", "", "one")
        for index, (target, name) in enumerate(ends)
        if (target, name) in ends[:index]
    ]


@dataclass
class _End:
    """One end of a wire while its commands are written."""

    was: Program
    wire: Wire
    piece_B: int

    def __post_init__(self) -> None:
        self.regions, self.commands = list(self.was.regions), list[Command]()
        self.engines = dict(self.was.engines)

    def pieces(self, size_B: int) -> list[tuple[int, int]]:
        """(offset, bytes) of each piece."""
        return [(at, min(self.piece_B, size_B - at)) for at in range(0, size_B, self.piece_B)] or [(0, 0)]

    def slots(self, size_B: int) -> list[int]:
        """Two places in the network interface, so that one piece is read or written while another is on its way."""
        first = len(self.regions)
        size = min(self.piece_B, size_B)
        self.regions += [Region(first + i, "nic", f"{self._tag} {i}", -1, size) for i in range(2)]
        return [first, first + 1]

    @property
    def _tag(self) -> str:
        wire = self.wire
        return f"{wire.source}.{wire.result} to {wire.target}.{wire.target_input}"

    def tag(self, core: int, piece: int) -> str:
        """Name of the message of one piece."""
        return f"{self._tag} core {core} piece {piece}"

    def mail(self, core: int) -> str:
        """Name under which the values of a message travel."""
        return f"{self._tag} core {core}"

    def moved(self, memory: str, size_B: int, write: bool, tensor: str) -> tuple[Action, ...]:
        """Ledger entries of a piece at the memory, and of the link before it."""
        return tuple(transfer_actions(Roles(self.was.chip), memory, tensor, size_B, write)) if size_B else ()


class _Sending(_End):
    """The result is read piece by piece, each piece is sent."""

    def program(self) -> Program:
        """Return the program followed by the messages that it sends."""
        first = len(self.was.commands)
        for core, region in enumerate(self.was.results[self.wire.result]):
            self._send(core, region, first)
        self.engines |= {name: TYPES[name] for name in (READ, OUT)}
        return replace(
            self.was,
            commands=[*self.was.commands, *self.commands],
            regions=self.regions,
            engines=self.engines,
            repeat=None,
            peers={**self.was.peers, self.wire.target: self.wire.links},
        )

    def _send(self, core: int, region: int, first: int) -> None:
        home, tensor = self.was.regions[region], self.was.graph.tensors[self.wire.result]
        written = [c for c in self.was.commands if any(use.region == region for use in c.writes)]
        version = next((use.version for c in reversed(written) for use in c.writes if use.region == region), 0)
        ready = tuple(Wait(c.id, "done", "full") for c in written[-1:])
        op = written[-1].op if written else 0
        slots, pieces = self.slots(tensor.nbytes), self.pieces(tensor.nbytes)
        for index, (offset, size) in enumerate(pieces):
            last, slot, load = index == len(pieces) - 1, slots[index % 2], first + len(self.commands)
            free = (Wait(load - 3, "done", "empty"),) if index > 1 else ()
            self.commands.append(Command(
                load, "Load", READ, op, f"read {tensor.name}", Transfer(home.memory, size, False, offset),
                Effect("copy" if last else "none", operands=((tensor.name, region),), tensor=tensor.name),
                (*ready, *free), (Use(region, version, "src"),), (Use(slot, 1 + index // 2, "whole"),),
                self.moved(home.memory, size, False, tensor.name), core,
            ))  # fmt: skip
            effect = Effect("send", operands=((tensor.name, slot),), tensor=self.mail(core)) if last else Effect("none")
            self.commands.append(Command(
                load + 1, "Send", OUT, op, f"send {tensor.name} to {self.wire.target}",
                Message(self.wire.target, self.tag(core, index), size), effect, (Wait(load, "done", "full"),),
                (Use(slot, 1 + index // 2, "src"),), (),
                (Action(f"{self.wire.target}.link", TRANSFER, tensor.name, size),) if size else (), core,
            ))  # fmt: skip


class _Receiving(_End):
    """Each piece is received and written behind those before it; what reads the input waits for the last."""

    def program(self) -> Program:
        """Return the program preceded by the messages that it receives."""
        found = {key: region for region, key in self.was.presets.items() if key[0] == self.wire.target_input}
        for (_, core), region in sorted(found.items()):
            self._receive(core, region)
        self.engines |= {name: TYPES[name] for name in (IN, WRITE)}
        done = {use.region: command.id for command in self.commands for use in command.writes}
        shifted = [self._later(command, found.values(), done) for command in self.was.commands]
        return replace(
            self.was,
            commands=[*self.commands, *shifted],
            regions=self.regions,
            engines=self.engines,
            repeat=None,
            presets={r: key for r, key in self.was.presets.items() if r not in found.values()},
            received=self.was.received | {self.wire.target_input},
        )

    def _receive(self, core: int, region: int) -> None:
        home, tensor = self.was.regions[region], self.was.graph.tensors[self.wire.target_input]
        reader = next((c for c in self.was.commands if any(use.region == region for use in c.reads)), None)
        op = reader.op if reader else 0
        slots, pieces = self.slots(tensor.nbytes), self.pieces(tensor.nbytes)
        for index, (offset, size) in enumerate(pieces):
            last, slot, receive = index == len(pieces) - 1, slots[index % 2], len(self.commands)
            free = (Wait(receive - 3, "done", "empty"),) if index > 1 else ()
            effect = Effect("receive", operands=((tensor.name, slot),), tensor=self.mail(core))
            self.commands.append(Command(
                receive, "Recv", IN, op, f"receive {tensor.name} from {self.wire.source}",
                Message(self.wire.source, self.tag(core, index), size), effect if last else Effect("none"), free,
                (), (Use(slot, 1 + index // 2, "whole"),), (), core,
            ))  # fmt: skip
            copy = Effect("copy", operands=((tensor.name, slot),), tensor=tensor.name)
            self.commands.append(Command(
                receive + 1, "Store", WRITE, op, f"write {tensor.name}", Transfer(home.memory, size, True, offset),
                copy if last else Effect("none"), (Wait(receive, "done", "full"),),
                (Use(slot, 1 + index // 2, "src"),), (Use(region, 0, PIECE[index == 0, last]),),
                self.moved(home.memory, size, True, tensor.name), core,
            ))  # fmt: skip

    def _later(self, command: Command, inputs: Iterable[int], done: Mapping[int, int]) -> Command:
        """A command of the program behind the messages; one that reads the input waits for its last piece."""
        by, read = len(self.commands), {use.region for use in command.reads}
        waits = tuple(wait._replace(command=wait.command + by) for wait in command.waits)
        waits += tuple(Wait(done[region], "done", "full") for region in sorted(read & set(inputs)))
        return replace(command, id=command.id + by, waits=waits)
