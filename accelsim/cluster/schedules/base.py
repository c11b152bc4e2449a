"""A pipeline schedule: the list of ops of each device, which weights each op uses, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from accelsim.errors import Problem, UsageError

Kind = Literal["F", "B", "W"]
"""Forward; backward (of the inputs alone where there are ``W``, else of everything); gradients of the weights."""


class Op(NamedTuple):
    """One op of one device: ``kind`` of ``microbatch`` (from 0) on the device's model chunk ``chunk`` (from 0)."""

    kind: Kind
    microbatch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.microbatch + 1}" + (f".{self.chunk + 1}" if self.chunk else "")


MOST_OPS = 8_000_000
"""Ops that a schedule may have: about a gigabyte."""

Orders = list[list[Op]]
"""The ops of each device, in the order in which it does them."""


Versions = Callable[[int, int, int, int], int]
"""The version of the weights that is used by (stage, stages, microbatch, microbatches per update); version n: the
weights after n updates."""


@dataclass(frozen=True)
class WeightRule:
    """Versions of the weights that ops use (rule R6), as data.

    ``forward`` and ``backward``: the version by stage and microbatch. ``per_update``: microbatches between two
    updates of the weights are those of a batch ("batch") or one ("microbatch"). ``kept``: how many versions a
    stage holds at one time.
    """

    per_update: Literal["batch", "microbatch"]
    forward: Versions
    backward: Versions
    kept: Callable[[int, int], int]


def of_batch(stage: int, stages: int, microbatch: int, per_update: int) -> int:
    """Return the version that earlier batches left: all microbatches of a batch use it (R5)."""
    return microbatch // per_update


FLUSH = WeightRule("batch", of_batch, of_batch, lambda stage, stages: 1)
"""One version: the pipeline is empty at each update. W(t+1) = W(t) - lr grad(W(t))."""


@dataclass(frozen=True)
class Shape:
    """Sizes that a schedule is made for: stages p, microbatches m, model chunks v of a device, replicas of each
    stage."""

    stages: int
    microbatches: int
    chunks: int = 1
    replicas: tuple[int, ...] = ()


Law = Callable[[Shape], Problem | None]
"""A condition on shapes: the problem of a shape, None where it holds."""


@dataclass(frozen=True)
class Schedule:
    """A pipeline schedule.

    ``name``: its key; ``title``: what it is; ``synchronous``: whether weights change only when the pipeline is
    empty; ``make``: the op lists of a shape; ``weights``: which versions ops use; ``laws``: what it asks of a shape
    beyond positive numbers; ``chunked``: whether devices may hold several model chunks; ``replicated``: whether
    stages may have replicas that take minibatches in turn; ``splits``: whether there are ``W`` ops;
    ``source``: where it was published.
    """

    name: str
    title: str
    synchronous: bool
    make: Callable[[Shape], Orders]
    source: str
    weights: WeightRule = FLUSH
    laws: tuple[Law, ...] = ()
    chunked: bool = False
    replicated: bool = False
    splits: bool = False

    def check(self, stages: int, microbatches: int, chunks: int = 1, replicas: Sequence[int] = ()) -> list[Problem]:
        """Return all problems of a shape. For PipeDream-2BW, ``microbatches`` are those of one update."""
        shape = Shape(stages, microbatches, chunks, tuple(replicas))
        problems = _positive(shape)
        if chunks > 1 and not self.chunked:
            expected = "1, or the schedule 'interleaved'"
            problems.append(
                Problem(f"{self.name} has one model chunk per device, {chunks} are given", "chunks", expected)
            )
        if replicas and not self.replicated:
            what = f"{self.name} has no replicas of single stages"
            problems.append(Problem(what, "replicas", "none: replicate the whole pipeline (dp)"))
        return problems or _too_many(shape, self.splits) or [found for law in self.laws if (found := law(shape))]

    def orders(self, stages: int, microbatches: int, chunks: int = 1, replicas: Sequence[int] = ()) -> Orders:
        """Return the ops of each device. Devices are stages, or their replicas one after the other.

        An asynchronous schedule does not end with a batch: ``microbatches`` are all that are ever given to it.
        UsageError tells everything that is wrong.
        """
        problems = self.check(stages, microbatches, chunks, replicas)
        UsageError.raise_for(problems)
        return self.make(Shape(stages, microbatches, chunks, tuple(replicas)))


def _positive(shape: Shape) -> list[Problem]:
    counts = {"stages": shape.stages, "microbatches": shape.microbatches, "chunks": shape.chunks}
    problems = [
        Problem(f"{value} {name}", name, "a whole number from 1") for name, value in counts.items() if value < 1
    ]
    if shape.replicas and (len(shape.replicas) != shape.stages or min(shape.replicas) < 1):
        expected = f"{shape.stages} whole numbers from 1, one per stage"
        problems.append(Problem(f"replicas {list(shape.replicas)}", "replicas", expected))
    return problems


def _too_many(shape: Shape, splits: bool) -> list[Problem]:
    ops = shape.stages * shape.microbatches * shape.chunks * (3 if splits else 2)
    expected = f"stages and microbatches for at most {MOST_OPS:,}"
    return [Problem(f"a schedule of {ops:,} ops", "microbatches", expected)] if ops > MOST_OPS else []


def alternate(forwards: Sequence[Op], backwards: Sequence[Op], warm_up: int) -> list[Op]:
    """Return ``warm_up`` forwards, then one forward and one backward in turn, then the other backwards (1F1B)."""
    warm_up = min(warm_up, len(forwards))
    ops = list(forwards[:warm_up])
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        ops += (forward, backward)
    return ops + list(backwards[len(forwards) - warm_up :])


def ops_of(kind: Kind, microbatches: Sequence[int]) -> list[Op]:
    """Return one op per microbatch."""
    return [Op(kind, microbatch) for microbatch in microbatches]
