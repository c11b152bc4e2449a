"""Stages of a model on a cluster as PipeDream's optimiser chooses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.cluster.collectives.reach import reach
from accelsim.cluster.partition.pipedream import Partition, Rules, optimise
from accelsim.cluster.partition.profile import read_profile
from accelsim.cluster.partition.states import Layer, chain_states
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.asked import Asked, default_batch, ready
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.work import SHORT_B, Work
from accelsim.errors import Problem, UsageError
from accelsim.files.reading import read_text
from accelsim.spec.yaml.clusters import load_devices
from accelsim.time import FS

MOST_MACHINES = 256
"""Machines of a level: the optimiser's tables grow with their square."""


@dataclass(frozen=True)
class Assigned:
    """What was asked, and the partition. ``machines``, ``rates_Bps``: of each level, the innermost first;
    ``samples`` of a minibatch of one device (0: a profile, which does not say)."""

    model: str
    cluster: str
    samples: int
    machines: tuple[int, ...]
    rates_Bps: tuple[float, ...]
    partition: Partition

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return the stages in order: first and last layer, replicas of each, seconds of a minibatch on one device."""
        levels = self.partition.levels
        for number, stage in enumerate(self.partition.stages):
            replicas = 1
            for level in levels:
                replicas *= next(
                    each.replicas for each in level.stages if each.start <= stage.start < each.end
                )
            yield {
                "stage": number, "first_layer": stage.start, "last_layer": stage.end - 1, "replicas": replicas,
                "compute_s": stage.compute_s,
            }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.partition
        return {
            "model": self.model, "cluster": self.cluster, "samples": self.samples, "machines": list(self.machines),
            "rates_Bps": list(self.rates_Bps), "stages": list(self.rows()), "unused": [list(each.unused)
            for each in found.levels], "minibatch_s": found.time_s, "one_device_s": found.single_s,
            "data_parallel_s": found.data_parallel_s, "speedup": found.speedup,
            "speedup_over_data_parallel": found.speedup_over_data_parallel,
        }  # fmt: skip


def assigned(asked: Asked) -> Assigned:
    """Partition a model, or a profile of PipeDream (a text file), over a cluster.

    Raises UsageError, SpecError and ModelError, as ``ready``; UsageError for clusters that the optimiser does not know:
    devices or nodes that differ, a single device, too many machines, and for models that do not fit.
    """
    if Path(asked.model).suffix == ".txt":
        states, samples = read_profile(_text(Path(asked.model)), asked.model), 0
        fleet = fleet_of(load_devices(str(asked.on), asked.set))
        machines, rates = _levels(fleet)
    else:
        made = ready(asked)
        fleet, samples = made.fleet, asked.batch or default_batch(made.work, Plan())
        machines, rates = _levels(fleet)
        states = chain_states(list(_layers(made.work, fleet, samples)))
    room = None if asked.ignore_capacity else float(capacity_B(fleet.chips[0]))
    found = optimise(states, machines, rates, Rules(memory_B=room, least=1))
    return Assigned(asked.model, fleet.name, samples, machines, rates, found)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(Problem(f"{error}", str(path), "a profile of PipeDream")) from None


def _layers(work: Work, fleet: Fleet, samples: int) -> Iterator[Layer]:
    """The parts that a pipeline may be cut between, each simulated on the first chip."""
    plan, costs = Plan(pp=work.depth()), fleet.costs(0)
    for index in range(plan.pp):
        piece = work.piece(index, plan, samples, costs)
        took_fs = sum(cost.time_fs for cost in (piece.costs.forward, piece.costs.inputs, piece.costs.weights))
        yield Layer(f"layer {index}", took_fs * FS, piece.result_B, SHORT_B * sum(piece.parameters))


def _levels(fleet: Fleet) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Machines and bytes per second of each level: devices of a node, then nodes."""
    nodes = Counter(fleet.topology.groups)
    each, count = max(nodes.values()), len(nodes)
    problems = []
    if len({id(chip) for chip in fleet.chips}) > 1 or len({*fleet.speeds}) > 1 or len({*nodes.values()}) > 1:
        problems.append(
            Problem("devices or nodes that differ", fleet.name, "equal ones, as PipeDream assumes")
        )
    if fleet.size == 1:
        problems.append(Problem("one device", fleet.name, "a cluster of several"))
    if max(each, count) > MOST_MACHINES:
        problems.append(
            Problem(f"{max(each, count):,} machines of one level", fleet.name, f"at most {MOST_MACHINES}")
        )
    if problems:
        raise UsageError(problems)
    rings = reach(fleet.topology, tuple(range(fleet.size)))
    levels = [(each, rings.inside_Bps), (count, rings.between_Bps)]
    kept = [level for level in levels if level[0] > 1]
    return tuple(machines for machines, _ in kept), tuple(rate for _, rate in kept)
