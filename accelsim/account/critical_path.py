"""What the time of a run goes to: each instant of its critical path is blamed on one resource and one layer.

The path itself is the machine's (``machine.critical_path``). Here its pieces get names that a reader knows: what the
array did while a MatMul streamed, which operand a transfer moved. All parts add up to the time of the run, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from accelsim.account.spans import MAC_ACTION, OUTSIDE, PADDING, SKIPPED, unit_of
from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import Run, Segment
from accelsim.program.commands import Command, Transfer


class Kind(NamedTuple):
    """One thing that time goes to: ``text`` in tables (with the resource and operand), ``phrase`` in a sentence."""

    key: str
    text: str
    phrase: str


KINDS: dict[str, Kind] = {
    kind.key: kind
    for kind in (
        Kind("compute", "compute", "computing in the matrix unit"),
        Kind("padding", "unused PEs", "PEs that stream without work"),
        Kind("weight_shift", "weight shift", "shifting weights into the array"),
        Kind("fill_drain", "array fill and drain", "filling and draining the array"),
        Kind("vector", "vector unit", "the vector unit"),
        Kind("host", "host", "the host"),
        Kind("transfer", "{resource} ({operand})", "moving {operand} ({resource})"),
        Kind("latency", "{resource} latency", "the latency of {resource}"),
        Kind("requests", "requests ({resource})", "issuing requests ({resource})"),
        Kind("buffer_port", "port of {resource}", "waiting for a port of {resource}"),
        Kind("message", "message ({resource})", "a message to or from {resource}"),
        Kind("peer", "waiting for {resource}", "waiting for {resource}"),
        Kind("hand_over", "hand-over", "handing over between engines"),
    )
}
"""Kinds of blame; 'transfer' is data on the move, as fast as the memory or link that is the slower allows."""

OPERANDS = ("weights", "activations", "results", "states")
"""What a transfer moves: constants in, other operands in, anything out, and what the model keeps between calls."""

KEYS: dict[str, str] = {
    "compute": "compute",
    "padding": "unused PEs",
    "weight_shift": "weight shift",
    "fill_drain": "array fill and drain",
    "vector": "vector unit",
    "host": "host",
    **{operand: f"moving {operand}" for operand in OPERANDS},
    "latency": "latency of memories and links",
    "requests": "requests",
    "buffer_port": "buffer ports",
    "message": "messages between devices",
    "peer": "waiting for other devices",
    "hand_over": "hand-over",
}
"""Columns, colours and legends, whatever the chip: a kind, or the operand of a transfer -> text."""

BY_STEP, STATES = "time on the critical path by step", "names of states"
"""Where a run keeps the table of ``by_step``, and what ``operand_of`` looks up for each transfer."""

HIDDEN = "hidden"
"""``bound_key`` of a layer that adds no time: all that it does happens while the run waits for others."""


class Blame(NamedTuple):
    """Who keeps the run waiting: a key of ``KINDS``, the resource by its own name, the operand of a transfer."""

    kind: str
    resource: str
    operand: str = ""

    @property
    def key(self) -> str:
        """The entry of ``KEYS``."""
        return self.operand if self.kind == "transfer" else self.kind

    @property
    def text(self) -> str:
        """For a table: 'ddr3 (weights)', 'pcie-gen3-x16 latency', 'vector unit'."""
        return KINDS[self.kind].text.format(resource=self.resource, operand=self.operand)

    @property
    def phrase(self) -> str:
        """For a sentence: 'moving weights (ddr3)'."""
        return KINDS[self.kind].phrase.format(resource=self.resource, operand=self.operand)


Times = dict[Blame, int]


class Part(NamedTuple):
    """A share of a piece of the path: whose (index of the step, ``OUTSIDE`` for none), blamed on what, fs."""

    step: int
    blame: Blame
    fs: int


def parts(run: Run) -> Iterator[Part]:
    """The critical path in order of time, blamed; the parts add up to ``run.time_fs``.

    What somebody else does outside of the run costs nothing; that it comes to know of a result belongs to the result.
    """
    steps, before = run.program.steps, OUTSIDE
    for piece in critical_path(run):
        command = run.program.commands[piece.command]
        step = command.op if 0 <= command.op < len(steps) else OUTSIDE
        if step != OUTSIDE and steps[step].outside and before != OUTSIDE:
            step = before
        before = step
        for blame, fs in blamed(run, piece):
            if fs:
                yield Part(step, blame, fs)


def by_step(run: Run) -> dict[int, Times]:
    """Step -> what it adds to the run, fs by blame, largest first; ``OUTSIDE``: time that no step caused."""
    return run.once(BY_STEP, lambda: _by_step(run))


def _by_step(run: Run) -> dict[int, Times]:
    table: dict[int, Times] = {step: {} for step in range(len(run.program.steps))}
    for step, blame, fs in parts(run):
        times = table.setdefault(step, {})
        times[blame] = times.get(blame, 0) + fs
    return {step: ranked(times) for step, times in table.items()}


def by_blame(run: Run) -> Times:
    """Blame -> fs of the run, largest first; they add up to ``time_fs``."""
    totals: Times = {}
    for times in by_step(run).values():
        for blame, fs in times.items():
            totals[blame] = totals.get(blame, 0) + fs
    return ranked(totals)


def added_fs(run: Run) -> list[int]:
    """What each step adds to the latency, fs: its time on the critical path."""
    table = by_step(run)
    return [sum(table[step].values()) for step in range(len(run.program.steps))]


def ranked(times: Mapping[Blame, int]) -> Times:
    """Largest first; equal ones by name."""
    return dict(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def by_key(times: Mapping[Blame, int]) -> dict[str, int]:
    """The same by the keys of ``KEYS``, in their order; those that take any time."""
    totals = dict.fromkeys(KEYS, 0)
    for blame, fs in times.items():
        totals[blame.key] += fs
    return {key: fs for key, fs in totals.items() if fs}


def blamed(run: Run, piece: Segment) -> list[tuple[Blame, int]]:
    """What the time of one piece of the path goes to, fs; the parts add up to it."""
    command = run.program.commands[piece.command]
    fs = piece.end - piece.start
    if piece.kind == "stream":
        return _array(piece, command, fs)
    operand = operand_of(run, command) if piece.kind == "transfer" else ""
    resource = "" if piece.kind == "hand_over" else piece.resource
    return [(Blame(piece.kind, resource, operand), fs)]


def _array(piece: Segment, command: Command, fs: int) -> list[tuple[Blame, int]]:
    """Streaming, with PEs at work and without, shifting, and neither: by their clock edges."""
    streamed, shifted, idle = piece.edges
    whole = max(1, streamed + shifted + idle)
    work, unused = _multiplications(command)
    shift_fs, idle_fs = fs * shifted // whole, fs * idle // whole
    stream_fs = fs - shift_fs - idle_fs
    padding_fs = stream_fs * unused // max(1, work + unused)
    shares = {
        "compute": stream_fs - padding_fs, "padding": padding_fs, "weight_shift": shift_fs, "fill_drain": idle_fs
    }  # fmt: skip
    return [(Blame(kind, piece.resource), share) for kind, share in shares.items()]


def _multiplications(command: Command) -> tuple[int, int]:
    """Multiplications that PEs carried out for a MatMul, and those for which they had nothing."""
    work = unused = 0
    for component, action, _, count in command.actions:
        if unit_of(component) == "matrix" and action.startswith(MAC_ACTION) and action != SKIPPED:
            work, unused = (work, unused + count) if action == PADDING else (work + count, unused)
    return work, unused


def operand_of(run: Run, command: Command) -> str:
    """What a transfer moves, one of ``OPERANDS``."""
    assert isinstance(command.work, Transfer)
    graph, regions = run.program.graph, run.program.regions
    uses = command.writes if command.work.write else command.reads
    names = [regions[use.region].name for use in uses]
    if not _states(run).isdisjoint(names):
        return "states"
    if command.work.write:
        return "results"
    found = [graph.tensors[name] for name in names if name in graph.tensors]
    return "weights" if found and all(tensor.is_constant for tensor in found) else "activations"


def _states(run: Run) -> frozenset[str]:
    """States of the graph and their next values."""
    states = run.program.graph.states
    return run.once(STATES, lambda: frozenset((*states, *states.values())))
