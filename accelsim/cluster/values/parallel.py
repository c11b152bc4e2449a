"""Training under a plan, with values: every device follows its op list, and weights carry version numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from accelsim.cluster.plan.experts import sharded
from accelsim.cluster.plan.objective import Objective
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.plan.shard import Sharded
from accelsim.cluster.plan.stages import Stage, cut
from accelsim.cluster.plan.update import FLAT, SUM, Update, update_graph
from accelsim.cluster.plan.verify import verify_sharded, verify_update
from accelsim.cluster.schedules.base import Op, Orders, Schedule
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.values.lockstep import Lockstep, Values, all_reduce
from accelsim.errors import AccelsimError, Problem
from accelsim.types import Array
from accelsim.workload.ops.values import contain
from accelsim.workload.training import Optimiser
from accelsim.workload.training.step import LABELS, RATE

Batch = tuple[Array, Array]
"""Samples and labels (one-hot), of all microbatches of all replicas in their order."""
Devices = list[list[Values]]
"""Values by replica and rank in it: tensor part, or share of the experts."""


class VersionError(AccelsimError):
    """A backward pass used other weights than its forward pass (rule R6), or a version that does not exist."""


@dataclass
class _Held:
    """Contents of the devices of one stage. ``versions``: number -> weights; ``states``: of the optimiser."""

    stage: Stage
    update: Update
    versions: dict[int, Devices]
    states: Devices
    sums: Devices
    newest: int = 0
    added: int = 0
    waiting: dict[int, Devices] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    """Microbatch -> version that its forward used."""


class Parallel:
    """One training under ``plan``. ``made`` is the objective of one microbatch, cut into ``plan.stages``.

    Its losses and gradients are already divided by the rows of a whole batch, so they are added: microbatches of a
    replica in their order whatever the order of the schedule, then replicas in theirs. With ``plan.period`` above 1,
    each replica trains on its own and has a batch of its own (the objective counts the rows of that), and weights are
    averaged after so many steps.
    """

    def __init__(self, made: Objective, plan: Plan, rule: Optimiser, lr: float) -> None:
        self.made, self.plan = made, plan
        self.schedule: Schedule = schedule(plan.schedule)
        self.sharded: Sharded = sharded(made, plan)
        self.ranks = self.sharded.ranks
        if plan.ep == 1:
            verify_sharded(self.sharded)
        wide = np.float64 if made.precision.master == "fp64" else np.float32
        self.lr = np.asarray(np.float32(lr), wide)
        stages = cut(made, self.sharded.graph, self.sharded.block, plan.recompute, self.schedule.splits)
        self._passes = [{"F": Lockstep(s.forward), "B": Lockstep(s.backward), "W": Lockstep(s.weight)} for s in stages]
        self.held = [self._begin(stage, rule) for stage in stages]
        self._updates = [Lockstep(held.update.graph) for held in self.held]
        self._gathers = [Lockstep(held.update.gather) for held in self.held]
        self._live: dict[tuple[int, int], list[Values]] = {}
        self.losses: dict[int, float] = {}
        self.history: list[float] = []

    def _begin(self, stage: Stage, rule: Optimiser) -> _Held:
        plan, made = self.plan, self.made
        own = [self._start(stage, t) for t in range(self.ranks)]
        shapes = {name: array.shape for name, array in own[0].items()}
        together = 1 if plan.period > 1 else plan.dp
        update = update_graph(shapes, rule, made.precision, together, plan.zero)
        verify_update(update, together)
        weights, states, tensors = self._none(), self._none(), update.graph.tensors
        for d, t in product(range(plan.dp), range(self.ranks)):
            weights[d][t] = dict(own[t])
            if update.gather.nodes:  # the part of a replica of all weights as a vector, filled up with zeros
                row = np.concatenate([array.ravel() for array in own[t].values()])
                whole = np.concatenate([row, np.zeros(update.padded - row.size, row.dtype)])
                weights[d][t] = {FLAT: np.split(whole, plan.dp)[d].copy()}
            for name in update.kept:
                states[d][t][name] = contain(np.zeros(tensors[name].shape), tensors[name].dtype)
        return _Held(stage, update, {0: weights}, states, self._none())

    def _none(self) -> Devices:
        return [[{} for _ in range(self.ranks)] for _ in range(self.plan.dp)]

    def _start(self, stage: Stage, t: int) -> Values:
        """The rank's part of each weight of the stage at the start."""
        found = {}
        for name in stage.weights:
            start = np.asarray(self.made.start[self.made.weights[name]].value(), np.float32)
            value = contain(start, self.made.precision.master)
            found[name] = self.sharded.part(name, value, t)
        return found

    def run(self, batches: Sequence[Batch]) -> list[float]:
        """Run a step for each batch; return their losses, which ``history`` keeps too. Raises VersionError as rule R6
        says.

        A schedule that does not flush sees all of them as one row of minibatches: it runs once.
        """
        if self.schedule.synchronous:
            losses = [self._step(batch) for batch in batches]
        else:
            m = self.plan.microbatches
            self._play(self.schedule.orders(self.plan.pp, m * len(batches), self.plan.chunks), batches)
            losses = [sum(self.losses[i] for i in range(b * m, (b + 1) * m)) for b in range(len(batches))]
        self.history += losses
        return losses

    def _step(self, batch: Batch) -> float:
        """One step of a synchronous schedule: all microbatches, the update, and the loss before it."""
        self._play(self.schedule.orders(self.plan.pp, self.plan.microbatches, self.plan.chunks), [batch])
        self._add_shared()
        for k, held in enumerate(self.held):
            self._update(k)
            if self.plan.period > 1 and held.newest % self.plan.period == 0:
                held.versions[held.newest] = self._mean(held)
        loss = sum(self.losses.pop(index) for index in sorted(self.losses))
        return loss / self.plan.dp if self.plan.period > 1 else loss

    def weights(self) -> dict[str, Array]:
        """Return the newest weights by their name in the model, whole: the first of several copies, the mean of
        replicas that train apart."""
        found: dict[str, Array] = {}
        for k, held in enumerate(self.held):
            own = (self._mean(held) if self.plan.period > 1 else self._weights(k, held.newest))[0]
            for name in held.stage.weights:
                whole = self.sharded.whole(name, [values[name] for values in own])
                found.setdefault(self.made.weights[name], whole)
        return {name: found[name] for name in self.made.start if name in found}

    def newest(self) -> list[Devices]:
        """Return the newest weights of each stage, by replica and tensor part."""
        return [self._weights(k, held.newest) for k, held in enumerate(self.held)]

    def _play(self, orders: Orders, batches: Sequence[Batch]) -> None:
        """Run all ops, each device in its order, none before those whose results it reads."""
        played = play_schedule(orders, 1, 1, 1)
        ops = [(start, d, op) for d in range(len(orders)) for op, (start, _) in played.when(d).items()]
        for _, device, op in sorted(ops, key=lambda each: each[:2]):
            self._do(device, op, batches)
        self._live.clear()

    def _piece(self, device: int, op: Op) -> int:
        return op.chunk * self.plan.pp + device

    def _do(self, device: int, op: Op, batches: Sequence[Batch]) -> None:
        k, made = self._piece(device, op), self._passes[self._piece(device, op)][op.kind]
        weights = self._weights(k, self._version(k, op))
        grads: Devices = []
        for d in range(self.plan.dp):
            live = self._live.setdefault((d, op.microbatch), [{} for _ in range(self.ranks)])
            feeds = [self._data(batches, d * self.plan.ep + each, op.microbatch) for each in range(self.plan.ep)]
            out = made.run([{**feeds[t % self.plan.ep], **live[t], **weights[d][t]} for t in range(self.ranks)])
            for t, values in enumerate(out):
                live[t].update(values)
            wanted = self.held[k].stage.grads.items()
            grads.append([{name: own[grad] for name, grad in wanted if grad in own} for own in live])
            if op.kind == "F" and self.made.loss in out[0]:
                before = self.losses.get(op.microbatch, 0.0)
                self.losses[op.microbatch] = before + sum(float(own[self.made.loss]) for own in out[: self.plan.ep])
        if op.kind == ("W" if self.schedule.splits else "B"):
            self._add(k, op.microbatch, grads)

    def _data(self, batches: Sequence[Batch], d: int, microbatch: int) -> Values:
        """Samples and labels of one microbatch of a group of devices with its own, see ``Plan.data``."""
        batch, index = divmod(microbatch, self.plan.microbatches)
        place, tensors, found = d * self.plan.microbatches + index, self.made.graph.tensors, {}
        counts = (self.made.samples, tensors[LABELS].shape[0])
        for name, array, rows in zip((self.made.model.inputs[0], LABELS), batches[batch], counts, strict=True):
            found[name] = contain(array[place * rows : (place + 1) * rows], tensors[name].dtype)
        return found

    def _version(self, k: int, op: Op) -> int:
        """The version of the weights that an op uses. VersionError when a backward's is not its forward's."""
        held = self.held[k]
        if self.schedule.synchronous:
            return held.newest
        rule, m = self.schedule.weights, self.plan.microbatches
        tell = rule.forward if op.kind == "F" else rule.backward
        version = tell(k, self.plan.stages, op.microbatch, m)
        if op.kind == "F":
            held.used[op.microbatch] = version
        elif held.used[op.microbatch] != version:
            used = f"its forward used version {held.used[op.microbatch]}"
            what = f"stage {k}: the backward of minibatch {op.microbatch} uses weights of version {version}, {used}"
            raise VersionError(Problem(what, self.schedule.name, "one version for both (weight stashing)"))
        if version not in held.versions:
            raise VersionError(Problem(f"stage {k}: no weights of version {version}", self.schedule.name))
        return version

    def _weights(self, k: int, version: int) -> Devices:
        """The weights of a stage on all its devices, gathered where replicas have parts of them."""
        kept = self.held[k].versions[version]
        if not self._gathers[k].graph.nodes:
            return kept
        states, found = self._gathers[k].graph.states, self._none()
        for t in range(self.ranks):
            for d, out in enumerate(self._gathers[k].run([kept[d][t] for d in range(self.plan.dp)])):
                found[d][t] = {name: out[tensor] for name, tensor in states.items()}
        return found

    def _add(self, k: int, microbatch: int, grads: Devices) -> None:
        """Gradients of a microbatch to the sums, in the order of the microbatches."""
        held, m = self.held[k], self.plan.microbatches
        held.waiting[microbatch] = grads
        first = 0 if self.schedule.synchronous else held.newest * m
        while first + held.added in held.waiting:
            for sums, own in zip(held.sums, held.waiting.pop(first + held.added), strict=True):
                for total, values in zip(sums, own, strict=True):
                    for name, grad in values.items():
                        total[name] = total[name] + grad if name in total else grad
            held.added += 1
            together = m if self.schedule.weights.per_update == "batch" else 1
            if not self.schedule.synchronous and held.added == together:
                self._update(k)
                first = held.newest * m

    def _add_shared(self) -> None:
        """Gradients of a weight that lies on several stages: added up over these, last stage first."""
        place = {name: held for held in self.held for name in held.stage.weights}
        for copies in self.made.shared.values():
            names = copies[::-1]
            for d, t in product(range(self.plan.dp), range(self.ranks)):
                sums = [place[name].sums[d][t] for name in names]
                parts = [total[name] for total, name in zip(sums, names, strict=True)]
                for total, name, array in zip(sums, names, all_reduce(parts), strict=True):
                    total[name] = array

    def _update(self, k: int) -> None:
        """A new version of the weights of a stage."""
        held, plan = self.held[k], self.plan
        graph, new, old = held.update.graph, self._none(), held.versions[held.newest]
        for t in range(self.ranks):
            feeds = []
            for d in range(plan.dp):
                sums = {f"{name}{SUM}": total for name, total in held.sums[d][t].items()}
                feeds.append({RATE: self.lr, **old[d][t], **held.states[d][t], **sums})
            alone = plan.period > 1  # local SGD: each replica on its own
            run = self._updates[k].run
            for d, out in enumerate([run([own])[0] for own in feeds] if alone else run(feeds)):
                values = {state: out[tensor] for state, tensor in graph.states.items()}
                held.states[d][t] = {name: values.pop(name) for name in held.update.kept}
                new[d][t] = values
        held.newest += 1
        held.versions[held.newest] = new
        oldest = held.newest - self.plan.stages - 1
        held.versions = {number: kept for number, kept in held.versions.items() if number >= oldest}
        held.sums, held.added = self._none(), 0

    def _mean(self, held: _Held) -> Devices:
        """The mean of the replicas' weights (local SGD: Stich, ICLR 2019, algorithm 1)."""
        weights, found = held.versions[held.newest], self._none()
        for t in range(self.ranks):
            for name in weights[0][t]:
                total = all_reduce([weights[d][t][name] for d in range(self.plan.dp)])[0]
                mean = contain(total / total.dtype.type(self.plan.dp), self.made.precision.master)
                for d in range(self.plan.dp):
                    found[d][t][name] = mean
        return found
