"""Programs of each device of a plan in a training step, and its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.base import Op
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.work import Graphs, Piece, Work
from accelsim.program.commands import Program
from accelsim.program.sequence import Letter, Part
from accelsim.workload.graph import Graph

STEPS = {"F": 1, "B": -1, "W": 0}
"""Kind of op -> from its piece to the one that reads its result."""


def name_of(rank: int) -> str:
    """Return what the machine calls a device."""
    return f"device{rank}"


class Parts:
    """``of[rank]``: the ops of a device in the order of its schedule; rounds of rings that add up the gradients of its
    replicas, and of an embedding that is the output projection too; the update. Adding costs nothing.

    Each graph is compiled once for all devices that run it.
    """

    def __init__(self, work: Work, fleet: Fleet, plan: Plan, samples: int, gradient_B: int) -> None:
        self.work, self.fleet, self.plan = work, fleet, plan
        self.samples, self.gradient_B = samples, gradient_B
        self.orders = schedule(plan.schedule).orders(plan.pp, plan.microbatches, plan.chunks)
        self.splits = schedule(plan.schedule).splits
        self._known: dict[object, list[Program]] = {}
        self.of = [self._device(rank) for rank in range(plan.devices)]

    @property
    def commands(self) -> int:
        """Commands of all programs, without messages."""
        programs = [part.program for parts in self.of for part in parts if part.program is not None]
        return sum(len(program.commands) for program in programs)

    def _device(self, rank: int) -> list[Part]:
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
        return found + [Part(each) for each in self._compiled(rank, count, lambda: [adam] if adam else [])]

    def _piece(self, index: int, rank: int) -> Piece:
        return self.work.piece(index, self.plan, self.samples, self.fleet.costs(rank))

    def _op(self, op: Op, p: int, d: int) -> list[Part]:
        """The programs of an op: the first waits for what comes, behind the last goes what leaves. Sizes are those that
        ``Planned.transfer`` has: of the first chunk of the stage before the boundary."""
        plan, step = self.plan, STEPS[op.kind]
        index, rank = op.chunk * plan.pp + p, plan.rank(p, d, 0)
        parts = [Part(each) for each in self._programs(op, index, rank)] or [Part(None)]
        before, behind = index - step, index + step
        if self._crosses(before, p):
            peer = name_of(plan.rank(before % plan.pp, d, 0))
            parts[0] = parts[0]._replace(receives=((peer, _tag(op, index)),))
        if self._crosses(behind, p):
            to = behind % plan.pp
            size = self._piece(p if op.kind == "F" else to, rank).result_B
            letter = Letter(name_of(plan.rank(to, d, 0)), _tag(op, behind), size)
            parts[-1] = parts[-1]._replace(sends=(letter,))
        return parts

    def _crosses(self, index: int, p: int) -> bool:
        """Return whether there is a piece of that number, on another stage."""
        return 0 <= index < self.plan.stages and index % self.plan.pp != p

    def _programs(self, op: Op, index: int, rank: int) -> list[Program]:
        graphs = partial(self.work.graphs, index, self.plan, self.samples, self.fleet.costs(rank))
        return self._compiled(rank, (index, op.kind), lambda: _of_op(graphs(), op, self.splits))

    def _compiled(self, rank: int, what: object, made: Callable[[], Iterable[Graph]]) -> list[Program]:
        costs = self.fleet.costs(rank)
        key = (costs, what)
        if key not in self._known:
            graphs = list(made())
            once = {
                id(graph): costs.compiled(graph) for graph in {id(each): each for each in graphs}.values()
            }
            self._known[key] = [once[id(graph)] for graph in graphs]
        return self._known[key]


def _of_op(graphs: Graphs, op: Op, splits: bool) -> tuple[Graph, ...]:
    """The graphs of an op; a backward pass has the gradients of weights where the schedule does not split them off."""
    if op.kind == "F":
        return graphs.forward
    if op.kind == "W":
        return graphs.weights
    return (*graphs.again, *graphs.backward, *(() if splits else graphs.weights))


def _tag(op: Op, index: int) -> str:
    """The message that an op of a piece reads."""
    return f"{op.kind}{op.microbatch + 1} of piece {index}"


def ring(group: list[int], rank: int, nbytes: int, what: str) -> list[Part]:
    """Return what ``rank`` does in an all-reduce of ``nbytes``: once around to add up, once around to pass on the sums.

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
        parts.append(Part(None, receives if turn else (), sends if turn < rounds else ()))
    return parts
