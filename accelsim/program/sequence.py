"""Programs that one device runs one after the other, with messages between them.

A part begins when the one before is done and what it receives is there; what it sends leaves when it is done, while
later parts go on. Between two parts the device comes to rest: buffers begin empty, as where each is a kernel of its
own. So a part takes as long as alone, from the first edge of the clock at which it may begin (engines without a clock,
a host, one hand-over later). What a device sends to another leaves one message after the other; it is ready for all
that comes from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from accelsim.program.actions import TRANSFER
from accelsim.program.commands import Action, Command, Effect, Region, Step, Use, Wait
from accelsim.program.messages import IN, OUT, PIECE_B, READ, TYPES, WRITE
from accelsim.program.program import Program
from accelsim.program.roles import Roles
from accelsim.program.verify import verify
from accelsim.program.work import Message, Transfer
from accelsim.program.writing.entries import transfer_actions
from accelsim.spec.chip import Chip
from accelsim.spec.link import Link
from accelsim.workload.graph import Graph, Node, Tensor


class Letter(NamedTuple):
    """A message without values to or from ``peer``, known by ``tag`` between the two."""

    peer: str
    tag: str
    nbytes: int


class SequencePart(NamedTuple):
    """One program, or None for a part that only passes messages on; the tags that it waits for, by peer; what leaves
    when it is done."""

    program: Program | None
    receives: tuple[tuple[str, str], ...] = ()
    sends: tuple[Letter, ...] = ()


def in_sequence(
    name: str,
    chip: Chip,
    parts: Sequence[SequencePart],
    incoming: Sequence[Letter],
    links: Mapping[str, tuple[Link, ...]],
    copies: bool = True,
    piece_B: int = PIECE_B,
) -> Program:
    """One program for the device ``name`` that does all ``parts`` in order, without values.

    ``incoming``: all that comes, from each peer in the order in which it sends. ``links``: on the way to each peer.
    ``copies``: bytes are read from the memory of activations before they leave, and written there when they have come,
    in pieces of ``piece_B``, beside whatever else its port has to do; otherwise that costs nothing.
    """
    writing = _Writing(name, chip, links, copies, piece_B)
    for letter in incoming:
        writing.receive(letter)
    for part in parts:
        writing.part(part)
    program = writing.program()
    verify(program)
    return program


class _Writing:
    """The commands while they are written; ``done``: what must have completed before the next part begins."""

    def __init__(
        self, name: str, chip: Chip, links: Mapping[str, tuple[Link, ...]], copies: bool, piece_B: int
    ) -> None:
        self.name, self.chip, self.links, self.piece_B = name, chip, links, piece_B
        self.roles = Roles(chip)
        self.memory = self.roles.activations_home
        self.copies = copies and self.memory in chip.memories
        self.commands: list[Command] = []
        self.regions: list[Region] = []
        self.steps: list[Step] = []
        self.presets: dict[int, tuple[str, int]] = {}
        self.engines: dict[str, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.arrived: dict[tuple[str, str], int] = {}
        self.done: list[int] = []
        self.dtype = ""

    def program(self) -> Program:
        """Return the program written so far."""
        graph = Graph(self.name, [], self.tensors, [], [], trains=True)
        steps = self.steps or [_nothing()]
        return Program(
            graph, self.chip, self.dtype, self.commands, self.regions, steps, self.presets, {}, self.engines,
            peers=dict(self.links),
        )  # fmt: skip

    def receive(self, letter: Letter) -> None:
        """Append the receipt of a message, ready from the start; with ``copies`` each piece is written to memory."""
        peer, tag, nbytes = letter
        for index, size in enumerate(self._pieces(nbytes)):
            work = Message(peer, f"{tag} piece {index}", size)
            slot = f"{IN}.{peer}.{len(self.commands)}"  # so that the latency of one does not hold up the next
            last = self._add("Recv", slot, f"receive {tag} from {peer}", work)
            if self.copies and size:
                last = self._move(f"{WRITE}.{peer}", f"write {tag}", size, index, (last,))
        self.arrived[peer, tag] = last

    def part(self, part: SequencePart) -> None:
        """Append a program after all before it, and the messages that it sends."""
        self.done += [self.arrived[came] for came in part.receives]
        if part.program is not None and len(part.program.commands):
            self._compute(part.program)
        for letter in part.sends:
            self._send(letter)

    def _send(self, letter: Letter) -> None:
        peer, tag, nbytes = letter
        for index, size in enumerate(self._pieces(nbytes)):
            needs: Sequence[int] = self.done
            if self.copies and size:
                needs = (self._move(f"{READ}.{peer}", f"read {tag}", size, index, needs),)
            paid = (Action(f"{peer}.link", TRANSFER, tag, size),) if size else ()
            work = Message(peer, f"{tag} piece {index}", size)
            self._add("Send", f"{OUT}.{peer}", f"send {tag} to {peer}", work, needs, paid)

    def _pieces(self, nbytes: int) -> list[int]:
        size = self.piece_B if self.copies else max(1, nbytes)
        return [min(size, nbytes - at) for at in range(0, nbytes, size)] or [0]

    def _move(self, engine: str, label: str, size: int, index: int, needs: Iterable[int]) -> int:
        """A piece out of the memory, or into it."""
        write = engine.startswith(WRITE)
        work = Transfer(self.memory, size, write, index * self.piece_B)
        paid = tuple(transfer_actions(self.roles, self.memory, label, size, write))
        return self._add("Store" if write else "Load", engine, label, work, needs, paid)

    def _add(
        self,
        kind: str,
        engine: str,
        label: str,
        work: Message | Transfer,
        needs: Iterable[int] = (),
        actions: tuple[Action, ...] = (),
    ) -> int:
        self.engines[engine] = TYPES[engine.split(".", 1)[0]]
        waits = tuple(Wait(number, "done", "full") for number in needs)
        number, op = len(self.commands), max(0, len(self.steps) - 1)
        self.commands.append(
            Command(number, kind, engine, op, label, work, Effect("none"), waits, actions=actions)  # type: ignore[arg-type]
        )
        return number

    def _compute(self, program: Program) -> None:
        """The commands of a program; the first of each queue waits for all that came before."""
        by, regions, steps = len(self.commands), len(self.regions), len(self.steps)
        seen: set[str] = set()
        last: dict[tuple[str, str, bool], int] = {}
        for command in program.commands:
            moved = _moved(command, by, regions, steps)
            if command.engine not in seen:
                seen.add(command.engine)
                moved = replace(moved, waits=(*moved.waits, *self._rest(command)))
            self.commands.append(moved)
            last[_lane(command)] = moved.id
        self.done = list(last.values())
        self.dtype = program.dtype
        self.engines |= program.engines
        self.tensors |= program.graph.tensors
        self.steps += program.steps
        self.presets |= {region + regions: key for region, key in program.presets.items()}
        self.regions += [
            region._replace(id=region.id + regions, overlaps=tuple(each + regions for each in region.overlaps))
            for region in program.regions
        ]

    def _rest(self, command: Command) -> tuple[Wait, ...]:
        """Waits of a command that begins a queue; an array asks which of its operands is missing."""
        why = "a" if command.kind == "MatMul" else "full"
        return tuple(Wait(number, "done", why) for number in self.done)


def _lane(command: Command) -> tuple[str, str, bool]:
    """Commands of one lane end in their order: those of an engine, of one that moves data by port."""
    work = command.work
    return (command.engine, work.memory, work.write) if isinstance(work, Transfer) else (command.engine, "", False)


def _moved(command: Command, by: int, regions: int, steps: int) -> Command:
    """A command with numbers that are larger by so much."""
    effect = command.effect
    if effect.operands:
        effect = effect._replace(operands=tuple((name, region + regions) for name, region in effect.operands))
    return replace(
        command,
        id=command.id + by,
        op=command.op + steps,
        effect=effect,
        waits=tuple([wait._replace(command=wait.command + by) for wait in command.waits]),
        reads=_uses(command.reads, regions),
        writes=_uses(command.writes, regions),
    )


def _uses(uses: tuple[Use, ...], regions: int) -> tuple[Use, ...]:
    return tuple([use._replace(region=use.region + regions) for use in uses])


def _nothing() -> Step:
    """Return what a device does that only passes messages on."""
    return Step("messages", "messages", "", (), Node("messages", "Identity", [], []))
