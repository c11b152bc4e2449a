"""Blame for the time of a run: each instant of its critical path is blamed on one resource and one layer.

The path itself is the machine's (``machine.critical_path``). Here its pieces get names that a reader knows: what the
array did while a MatMul streamed, which operand a transfer moved. All parts add up to the time of the run, exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from accelsim.account.spans import OUTSIDE
from accelsim.engines.base import Reason
from accelsim.engines.registry import ENGINES, Types, TypeTable
from accelsim.program.actions import multiplications
from accelsim.program.commands import Command
from accelsim.program.work import Transfer

if TYPE_CHECKING:
    from accelsim.machine.run import Replay, Run, Segment


OPERANDS = ("weights", "activations", "results", "states")
"""Kinds of data that a transfer moves: constants in, other operands in, anything out, and the model's states."""

OPERAND_LOOKS = {
    "weights": ("#d55e00", "\\\\\\\\"),
    "activations": ("#e69f00", "||||"),
    "results": ("#8c510a", "----"),
    "states": ("#009e73", "----"),
}
MACHINE = (
    Reason("buffer_port", "port of {resource}", "waiting for a port of {resource}", "buffer ports", "#7a5195", "++++"),
    Reason("hand_over", "hand-over", "handing over between engines", "hand-over", "#cfcfcf"),
)
"""Reasons for lost time that every type of engine can have."""


def _reasons(types: Types) -> dict[str, Reason]:
    return {reason.key: reason for reasons in (*(kind.reasons for kind in types), MACHINE) for reason in reasons}


KINDS = TypeTable(_reasons)
"""Kinds of blame; 'transfer' is data on the move, as fast as the memory or link that is the slower allows."""
UNUSED = TypeTable(lambda types: {each.unused_of: each.key for each in _reasons(types).values() if each.unused_of})
"""Kind of blame -> that of its part without use."""


def _by_operand(reason: Reason) -> list[Reason]:
    """Return what stands for a reason in columns and legends: of a transfer what it moves."""
    if reason.key != "transfer":
        return [reason]
    return [
        reason._replace(key=name, legend=f"moving {name}", colour=OPERAND_LOOKS[name][0], hatch=OPERAND_LOOKS[name][1])
        for name in OPERANDS
    ]


LISTED = TypeTable(
    lambda types: {each.key: each for reason in _reasons(types).values() for each in _by_operand(reason)}
)
"""Columns, colours and legends, whatever the chip: a kind, or the operand of a transfer -> its reason."""
KEYS = TypeTable(
    lambda types: {each.key: each.legend for reason in _reasons(types).values() for each in _by_operand(reason)}
)
"""A kind, or the operand of a transfer -> text for a legend."""


def keys_of(run: Run) -> list[str]:
    """Keys of ``KEYS`` that time of this run can go to: those of the types of its engines, and of every run."""
    types = {ENGINES[kind] for kind in run.program.engines.values()}
    reasons = _reasons(tuple(sorted(types, key=lambda kind: (kind.rank, kind.type))))
    return [each.key for reason in reasons.values() for each in _by_operand(reason)]


BY_STEP, STATES, DONE = "time on the critical path by step", "names of states", "multiplications of commands"
"""Names under which a run keeps the table of ``by_step``, what ``operand_of`` looks up for each transfer, and what
``_multiplied`` counts."""

HIDDEN = "hidden"
"""``bound_key`` of a layer that adds no time: all that it does happens while the run waits for others."""


class Blame(NamedTuple):
    """Cause of a wait: a key of ``KINDS``, the resource by its own name, the operand of a transfer."""

    kind: str
    resource: str
    operand: str = ""

    @property
    def key(self) -> str:
        """Key of ``KEYS`` that the time counts for."""
        return self.operand if self.kind == "transfer" else self.kind

    @property
    def text(self) -> str:
        """Text for a table: 'ddr3 (weights)', 'pcie-gen3-x16 latency', 'vector unit'."""
        return KINDS[self.kind].text.format(resource=self.resource, operand=self.operand)

    @property
    def phrase(self) -> str:
        """Words for a sentence: 'moving weights (ddr3)'."""
        return KINDS[self.kind].phrase.format(resource=self.resource, operand=self.operand)


Times = dict[Blame, int]


class PathShare(NamedTuple):
    """A share of a piece of the path: whose (index of the step, ``OUTSIDE`` for none), blamed on what, fs."""

    step: int
    blame: Blame
    fs: int


def parts(run: Run) -> Iterator[PathShare]:
    """The critical path in order of time, blamed; the parts add up to ``run.time_fs``.

    What somebody else does outside of the run costs nothing; that it comes to know of a result belongs to the result.
    """
    from accelsim.machine.critical_path import critical_path

    return _parts(run, critical_path(run))


def _parts(run: Run, path: Iterable[Segment], before: int = OUTSIDE) -> Iterator[PathShare]:
    """Pieces of the path, blamed; ``before``: the step of the piece before them."""
    pieces = list(path)
    for piece, step in zip(pieces, _steps_of(run, pieces, before), strict=True):
        for blame, fs in blamed(run, piece):
            if fs:
                yield PathShare(step, blame, fs)


def _steps_of(run: Run, path: Iterable[Segment], before: int) -> Iterator[int]:
    """The step that each piece of a path belongs to; ``before``: that of the piece before them."""
    steps, commands = run.program.steps, run.program.commands
    for piece in path:
        step = commands[piece.command].op
        step = step if 0 <= step < len(steps) else OUTSIDE
        if step != OUTSIDE and steps[step].outside and before != OUTSIDE:
            step = before
        before = step
        yield step


def by_step(run: Run) -> dict[int, Times]:
    """Step -> what it adds to the run, fs by blame, largest first; ``OUTSIDE``: time that no step caused."""
    return run.once(BY_STEP, lambda: _by_step(run))


def _by_step(run: Run) -> dict[int, Times]:
    from accelsim.machine.critical_path import critical_path

    table: dict[int, Times] = {step: {} for step in range(len(run.program.steps))}
    if run.replay is None:
        _add(table, _parts(run, critical_path(run)))
    else:
        _add_replayed(table, run, run.replay, critical_path(run))
    return {step: ranked(times) for step, times in table.items()}


def _add_replayed(table: dict[int, Times], run: Run, replay: Replay, path: Sequence[Segment]) -> None:
    """Add the path of a run of which a part was simulated."""
    from accelsim.machine.replay import RepeatedPath

    if not isinstance(path, RepeatedPath):
        _add(table, _parts(run, path))
        return
    *before, last = _parts(run, path.items[: path.span.end])
    _add(table, [*before, last])
    steps = replay.repeat.steps.size
    for copies, unit in path.groups():
        for step, blame, fs in _parts(run, unit, last.step):
            _add(table, [PathShare(step + copy * steps, blame, fs) for copy in copies])
    _add(table, _parts(run, path.behind, last.step + replay.repeat.times * steps))


def _add(table: dict[int, Times], found: Iterable[PathShare]) -> None:
    for step, blame, fs in found:
        times = table.setdefault(step, {})
        times[blame] = times.get(blame, 0) + fs


def by_blame(run: Run) -> Times:
    """Blame -> fs of the run, largest first; they add up to ``time_fs``."""
    totals = Counter[Blame]()
    for times in by_step(run).values():
        totals.update(times)
    return ranked(totals)


def added_fs(run: Run) -> list[int]:
    """Return what each step adds to the latency, fs: its time on the critical path."""
    table = by_step(run)
    return [sum(table[step].values()) for step in range(len(run.program.steps))]


def ranked(times: Mapping[Blame, int]) -> Times:
    """Return the times sorted, the largest first; equal ones by name."""
    return dict(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def by_key(times: Mapping[Blame, int]) -> dict[str, int]:
    """Return the time of each cause, by the keys of ``KEYS`` in their order; causes without time are left out."""
    totals: defaultdict[str, int] = defaultdict(int)
    for blame, fs in times.items():
        totals[blame.key] += fs
    return {key: totals[key] for key in KEYS.ordered(totals) if totals[key]}


def blamed(run: Run, piece: Segment) -> list[tuple[Blame, int]]:
    """Return what the time of one piece of the path goes to, fs; the parts add up to it."""
    command = run.program.commands[piece.command]
    operand = operand_of(run, command) if piece.kind == "transfer" else ""
    resource = "" if piece.kind == "hand_over" else piece.resource
    if not piece.mix and piece.kind not in UNUSED.loaded:
        return [(Blame(piece.kind, resource, operand), piece.end - piece.start)]
    return [(Blame(kind, resource, operand), fs) for kind, fs in _shares(run, piece, command)]


def _shares(run: Run, piece: Segment, command: Command) -> list[tuple[str, int]]:
    """Reasons that the time of a piece goes to, and fs of each: as its mix says, with what is unused of one apart."""
    whole_fs, unused = piece.end - piece.start, UNUSED.loaded
    found = [(piece.kind, whole_fs)]
    if piece.mix:
        (first, _), *others = piece.mix
        in_all = max(1, sum([count for _, count in piece.mix]))
        rest = [(key, whole_fs * count // in_all) for key, count in others]
        found = [(first, whole_fs - sum([fs for _, fs in rest])), *rest]
    if unused.keys().isdisjoint([key for key, _ in found]):
        return found
    done, idle = _multiplied(run, command)
    apart = []
    for key, fs in found:
        unused_fs = fs * idle // max(1, done + idle) if key in unused else 0
        apart += [(unused[key], unused_fs)] if key in unused else []
        apart.append((key, fs - unused_fs))
    return apart


def _multiplied(run: Run, command: Command) -> tuple[int, int]:
    """Multiplications of a command, and those for which there was nothing to multiply; commands of equal cost share
    their entries, so each set of entries is read once."""
    known: dict[int, tuple[object, tuple[int, int]]] = run.once(DONE, dict)
    key = id(command.actions)
    if key not in known:
        known[key] = command.actions, multiplications(command.actions)
    return known[key][1]


def operand_of(run: Run, command: Command) -> str:
    """Return what a transfer moves, one of ``OPERANDS``."""
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
