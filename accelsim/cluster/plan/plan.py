"""A parallel plan: the split of data, tensors and layers, and the part of the model that each device holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.digits import whole
from accelsim.errors import Problem, UsageError, brief, count_of, nearest

T = TypeVar("T")
Recompute = Literal["none", "selective", "full"]

RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
"""Kinds of recomputation: what the backward pass computes again instead of keeping it."""


@dataclass(frozen=True)
class Plan:
    """A plan to run a model on ``devices`` devices.

    ``dp`` replicas, each of ``pp`` pipeline stages, each of ``ep`` groups that share its experts, have all other
    weights and compute samples of their own, each of ``cp`` parts that share the tokens of its sequences, each of
    ``tp`` devices that share its tensors. ``chunks``: pieces of the
    model that each device holds (an interleaved pipeline). ``microbatches``: per replica and step.
    ``schedule``: a key of ``accelsim.cluster.schedules.SCHEDULES``. ``sp``: sequence parallel, with ``tp``. ``zero``:
    what replicas share out among them: 1 the states of the optimiser, 2 gradients too, 3 weights too. ``recompute``:
    what the backward pass computes again. ``period``: steps between two averagings of the replicas (local SGD; 1:
    gradients are summed in every step). ``legal.check`` says what is wrong with a plan.

    Source of the layout of ranks: Narayanan et al., SC21 (Megatron-LM): tensor groups are next to each other.
    """

    dp: int = 1
    tp: int = 1
    ep: int = 1
    cp: int = 1
    pp: int = 1
    chunks: int = 1
    microbatches: int = 1
    schedule: str = "1f1b"
    sp: bool = False
    zero: int = 0
    recompute: Recompute = "none"
    period: int = 1

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.data * self.wide * self.pp

    @property
    def data(self) -> int:
        """Number of groups with samples of their own: ``dp`` times ``ep``."""
        return self.dp * self.ep

    @property
    def wide(self) -> int:
        """Number of devices of a stage with the same samples: ``cp`` times ``tp``."""
        return self.cp * self.tp

    @property
    def shares_gradients(self) -> bool:
        """Return whether replicas share gradients out: ZeRO 2 and 3."""
        return self.zero > 1 and self.dp > 1

    @property
    def stages(self) -> int:
        """Pieces that the layers are cut into: ``pp`` times ``chunks``; piece k lies on pipeline rank k mod ``pp``."""
        return self.pp * self.chunks

    def rank(self, p: int, d: int, t: int) -> int:
        """Return the device of pipeline rank ``p``, group ``d`` of ``data``, number ``t`` in it (the part of the tokens
        times ``tp`` plus that of the tensors); t is fastest, then d, of which the groups of a replica come one after
        the other, then p."""
        return (p * self.data + d) * self.wide + t

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return (pipeline rank, group of ``data``, number in it) of a device."""
        rest, t = divmod(rank, self.wide)
        p, d = divmod(rest, self.data)
        return p, d, t

    def stage_ranks(self, p: int) -> list[int]:
        """Return the devices of pipeline rank ``p`` in all replicas."""
        return [self.rank(p, d, t) for d in range(self.data) for t in range(self.wide)]

    def to_next(self, p: int) -> tuple[list[tuple[int, int]], list[tuple[int, ...]]]:
        """Return pairs of devices between pipeline rank ``p`` and the next (after the last the first), and the
        tensor-parallel groups of the next."""
        to = (p + 1) % self.pp
        pairs = zip(self.stage_ranks(p), self.stage_ranks(to), strict=True)
        return [*pairs], self.tp_groups(to)

    def tp_groups(self, p: int) -> list[tuple[int, ...]]:
        """Return the groups of devices that share tensors, of pipeline rank ``p``."""
        return [self.tp_group(self.rank(p, d, t)) for d in range(self.data) for t in range(0, self.wide, self.tp)]

    def cp_groups(self, p: int) -> list[tuple[int, ...]]:
        """Return the groups of devices that share the tokens of sequences, of pipeline rank ``p``, in their order."""
        parts = range(0, self.wide, self.tp)
        return [tuple(self.rank(p, d, c + t) for c in parts) for d in range(self.data) for t in range(self.tp)]

    def ring(self, p: int) -> list[tuple[int, ...]]:
        """Return the pairs of devices of pipeline rank ``p`` that follow each other in rings of ``cp_groups``."""
        return [pair for group in self.cp_groups(p) for pair in zip(group, group[1:] + group[:1], strict=True)]

    def part(self, rank: int) -> int:
        """Return the part of the tokens of a device, 0 to ``cp`` - 1."""
        return self.place(rank)[2] // self.tp

    def with_last_tokens(self, ranks: Iterable[int]) -> list[int]:
        """Return the devices among ``ranks`` that have the last token of a prompt: the first has the outer chunks."""
        return [rank for rank in ranks if self.part(rank) == 0]

    def ep_groups(self, p: int) -> list[tuple[int, ...]]:
        """Return the groups of devices that share experts, of pipeline rank ``p``."""
        firsts = range(0, self.data, self.ep)
        return [tuple(self.rank(p, d + e, t) for e in range(self.ep)) for d in firsts for t in range(self.wide)]

    def tp_group(self, rank: int) -> tuple[int, ...]:
        """Return the devices that share the tensors of ``rank``'s stage and replica, in the order of their parts."""
        first = rank - rank % self.tp
        return tuple(range(first, first + self.tp))

    def dp_group(self, rank: int) -> tuple[int, ...]:
        """Return the devices that hold the same part of the model as ``rank``, one per replica."""
        p, d, t = self.place(rank)
        return tuple(self.rank(p, first + d % self.ep, t) for first in range(0, self.data, self.ep))

    def __str__(self) -> str:
        """Return a text that ``parse_plan`` reads: what differs from one device, such as 'dp=2,pp=2'."""
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                parts.append(field.name if value is True else f"{field.name}={value}")
        return ",".join(parts) or "dp=1"


def _count(text: str, least: int = 1, most: int = 10**6) -> int:
    value = whole(text)
    if value is None or not least <= value <= most:
        raise ValueError(f"a whole number from {least:,} to {most:,}")
    return value


def _one_of(names: Mapping[str, T], text: str) -> T:
    if text not in names:
        raise ValueError("one of " + ", ".join(names))
    return names[text]


FLAGS = {"": True, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
"""Texts after ``sp=``."""

_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("dp", "tp", "ep", "cp", "pp", "chunks", "microbatches", "period"), _count),
    "schedule": str,
    "sp": lambda text: _one_of(FLAGS, text),
    "zero": lambda text: _count(text, 0, 3),
    "recompute": lambda text: _one_of({name: name for name in RECOMPUTE}, text),
}
"""Field of a plan -> how its text is read."""
FSDP = "fsdp"
"""fsdp=N is PyTorch's name of dp=N,zero=3: weights, gradients and states of the optimiser are shared out, units of
layers are gathered one ahead (prefetch)."""


def parse_plan(text: str) -> Plan:
    """Read a plan from a text such as 'tp=8,pp=8,dp=16,sp,zero=1'. Fields that it leaves out are those of ``Plan()``.

    Raises UsageError with everything that is wrong: unknown names (with the nearest), a name given twice, values.
    """
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for part in re.split(r"[,\s]+", text.strip(", \t\n")):
        name, equals, value = part.partition("=")
        if name not in (*_READ, FSDP):
            expected = "one of " + ", ".join((*_READ, FSDP))
            problems.append(Problem(f"a plan has no {brief(name)}", "--plan", expected, nearest(name, _READ)))
        elif name in found:
            problems.append(Problem(f"{name} is given twice", "--plan", "once"))
        elif not equals and name != "sp":
            problems.append(Problem(f"{name} has no value", "--plan", f"{name}=..."))
        else:
            found[name] = None
            try:
                found[name] = _READ["dp" if name == FSDP else name](value)
            except ValueError as error:
                problems.append(Problem(f"{name}={brief(value)[1:-1]}", "--plan", str(error)))
    if FSDP in found:
        twice = [name for name in ("dp", "zero") if name in found]
        problems += [Problem(f"{name} beside {FSDP}", "--plan", f"{FSDP}=N, which is dp=N,zero=3") for name in twice]
        found |= {"dp": found.pop(FSDP), "zero": 3}
    UsageError.raise_for(problems)
    return Plan(**found)


def size_problems(
    plan: Plan, devices: int | None, sizes: Mapping[str, int], layers: int, other: str = "", experts: int = 0
) -> Iterator[Problem]:
    """Yield what is wrong with the number of devices (None: any), ``sizes`` that tensor parallelism divides, the
    ``experts`` that expert parallelism divides, and the layers that stages divide.

    ``other``: what to say of a cluster with as many devices as the plan, see ``Fleet.resized``.
    """
    if devices is not None and plan.devices != devices:
        shared = "".join(f"{name}={size} x " for name, size in (("ep", plan.ep), ("cp", plan.cp)) if size > 1)
        what = f"dp={plan.dp} x {shared}tp={plan.tp} x pp={plan.pp} are {count_of(plan.devices, 'device')}"
        yield Problem(what, "--plan", f"{devices:,}, as many as the cluster has{other}")
    for name, size in sizes.items():
        if size % plan.tp:
            yield Problem(f"tp={plan.tp} of {name}={size}", "--plan", f"a number that divides {size}")
    if plan.ep > 1 and experts < 2:
        yield Problem(f"ep={plan.ep} of a model without experts", "--plan", "dp, tp or pp: there is nothing to share")
    elif plan.ep > 1 and experts % plan.ep:
        near = sorted((each for each in range(1, experts + 1) if not experts % each), key=lambda n: abs(n - plan.ep))
        expected = f"a number that divides {experts}, such as {' or '.join(map(str, sorted(near[:2])))}"
        yield Problem(f"ep={plan.ep} of {count_of(experts, 'expert')}", "--plan", expected)
    if layers < plan.stages:
        chunks = f" x chunks={plan.chunks}" if plan.chunks > 1 else ""
        what, expected = f"pp={plan.pp}{chunks} of {count_of(layers, 'layer')}", count_of(layers, "stage")
        yield Problem(what, "--plan", f"at most {expected}")


def context_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with shared tokens, which only a generation has."""
    if plan.cp > 1:
        yield Problem(
            f"cp={plan.cp} without a prompt", "--plan", "a generation ('MODEL?prompt=P,new=N'), or dp, tp, pp"
        )


def batch_problems(plan: Plan, batch: int) -> Iterator[Problem]:
    """Yield what is wrong with a batch for the replicas and microbatches of a plan."""
    if batch < 1 or batch % plan.data:
        groups = f" of {plan.ep} groups with samples of their own" if plan.ep > 1 else ""
        yield Problem(f"a batch of {batch:,} on {plan.dp} replicas{groups}", "--batch", f"a multiple of {plan.data}")
    elif batch // plan.data % plan.microbatches:
        what = f"{plan.microbatches} microbatches of {batch // plan.data:,} samples of a replica"
        yield Problem(what, "--plan", "a number that divides them")


def schedule_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with a schedule, and with stages, microbatches and chunks for it."""
    if plan.schedule not in SCHEDULES:
        expected = "one of " + ", ".join(SCHEDULES)
        yield Problem(f"no schedule {plan.schedule!r}", "--plan", expected, nearest(plan.schedule, SCHEDULES))
    else:
        yield from SCHEDULES[plan.schedule].check(plan.pp, plan.microbatches, plan.chunks)


def update_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with microbatches where each is an update."""
    schedule = SCHEDULES.get(plan.schedule)
    if schedule is not None and schedule.weights.per_update == "microbatch" and plan.microbatches > 1:
        what = f"{plan.microbatches} microbatches with {plan.schedule}, where each is an update"
        yield Problem(what, "--plan", "microbatches=1: minibatches of the whole batch")


def whole_plan(text: str, **fields: object) -> Plan:
    """Return the plan of a text with other ``fields`` where given. Raises UsageError for one that is in both."""
    given = {name: value for name, value in fields.items() if value}
    plan = parse_plan(text) if text else Plan()
    UsageError.raise_for(
        Problem(f"{name} is given twice", "--plan", f"here or in --{name}")
        for name in given
        if f"{name}=" in text.replace(" ", "")
    )
    return replace(plan, **given)  # type: ignore[arg-type]
