"""Trainings under a plan: losses, and the distance of their weights from those of one device."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import schedule
from accelsim.types import Array
from accelsim.workload.graph import Graph

if TYPE_CHECKING:
    from accelsim.cluster.step.result import StepResult

EXACT = {"fp64": 1e-12, "fp32": 1e-5}
"""Precision -> the largest difference that another order of the same sums explains in weights of about 1."""
LOOSE = 1e-2
"""Largest such distance in narrower formats."""


@dataclass(frozen=True)
class Curve:
    """Losses of one training, one per step; its weights by name and the share of test samples that they get right."""

    plan: Plan
    losses: Array
    weights: dict[str, Array] = field(repr=False)
    test_accuracy: float

    @property
    def scales(self) -> Array:
        """Loss scale of each step: 1, as there is none."""
        return np.ones(len(self.losses))

    @property
    def skipped(self) -> Array:
        """Return whether each step was skipped: none was."""
        return np.zeros(len(self.losses), bool)


@dataclass(frozen=True)
class ClusterTraining:
    """A training under a plan. ``trained``: its losses and weights; ``alone``: those of one device that adds up as many
    microbatches of the same size; ``others``: requested comparisons, by name. ``graph``: the model with the learnt
    weights. ``step``: time, memory and energy of a step. ``notes``: weights that tensor parallelism leaves whole.
    ``in_fp64``: the largest difference of a weight where both are computed in FP64, if another order of sums does not
    explain the difference in FP32; None otherwise."""

    model: str
    cluster: str
    plan: Plan
    precision: str
    batch: int
    seed: int
    trained: Curve
    alone: Curve
    others: dict[str, Curve]
    graph: Graph
    step: StepResult
    notes: tuple[str, ...] = ()
    in_fp64: float | None = None

    @property
    def difference(self) -> float:
        """The largest difference of any weight from that of one device; NaN where one of them is no number."""
        return differing(self.trained, self.alone)[1]

    @property
    def same_bits(self) -> bool:
        """Return whether all weights are those of one device to the last bit."""
        trained, alone = self.trained.weights, self.alone.weights
        return all(np.array_equal(trained[name], alone[name]) for name in alone)

    @property
    def synchronous(self) -> bool:
        """Return whether it must have the weights of one device: the schedule flushes, and replicas stay together."""
        return synchronous(self.plan)

    @property
    def curves(self) -> dict[str, Curve]:
        """All trainings by their names in pictures."""
        return {str(self.plan): self.trained, "one device": self.alone, **self.others}


def synchronous(plan: Plan) -> bool:
    """Return whether a plan must learn the weights of one device."""
    return schedule(plan.schedule).synchronous and plan.period == 1


def differing(one: Curve, other: Curve) -> tuple[str, float]:
    """Return the weight that differs most, and by how much; NaN where one of them is no number."""
    found = {
        name: float(np.max(np.abs(one.weights[name].astype(np.float64) - other.weights[name])))
        for name in other.weights
    }
    name = max(found, key=lambda each: (isnan(found[each]), found[each]))
    return name, found[name]
