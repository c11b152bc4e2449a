"""The question: a model, limits, an objective, and what may be chosen from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar, cast

from accelsim.errors import Gather, UsageError, nearest
from accelsim.spec.instance import Term
from accelsim.workload.sources.load import check_there, generation_of

P = ParamSpec("P")
T = TypeVar("T")
FORGET: list[Callable[[], None]] = []
"""Functions that forget what was read for a question, each of one cache."""


def kept(function: Callable[P, T]) -> Callable[P, T]:
    """Keep the results of a function while a question is answered."""
    made = cache(function)
    FORGET.append(made.cache_clear)
    return cast("Callable[P, T]", made)


def forget_all() -> None:
    """Forget models, chips, clusters and requests, whose files may change between questions."""
    for clear in FORGET:
        clear()


class Measure(NamedTuple):
    """A figure of a candidate: its key, its unit, more is better where ``most``; ``tasks`` that have it (none: all)."""

    key: str
    unit: str
    most: bool = False
    tasks: Sequence[str] = ()


RUN, GENERATION, TRAINING, SERVICE = "run", "generation", "training", "service"
MEASURES = {
    "cost": Measure("cost_USD", "USD"),
    "latency": Measure("latency_s", "s"),
    "throughput": Measure("throughput_per_s", "/s", True, (RUN, GENERATION, TRAINING)),
    "energy": Measure("energy_per_sample_J", "J"),
    "power": Measure("power_W", "W"),
    "ttft": Measure("ttft_s", "s", tasks=(GENERATION, SERVICE)),
    "tpot": Measure("tpot_s", "s", tasks=(GENERATION, SERVICE)),
    "tokens": Measure("tokens_per_s", "/s", True, (GENERATION,)),
    "days": Measure("days", "d", tasks=(TRAINING,)),
    "accuracy": Measure("accuracy", "%", True, (RUN,)),
}
"""Figures by the names that limits and objectives have."""
UNITS = {name: measure.unit for name, measure in MEASURES.items()}
"""Names of limits -> their units."""
OBJECTIVES = ("cost", "latency", "throughput", "energy")
NO_DATA = {"area": "most chips on offer state no area; 'accelsim sweep' has it for chips that do"}
"""Objectives that are asked for and have no figures here."""


@dataclass(frozen=True)
class Question:
    """A question. ``limits``: name -> value, least for rates; accuracy is what may be lost, as a share.

    ``on``: chips, clusters, instances, 'gpus' or 'all' (nothing: what is for rent). ``dtypes``, ``batch``: those alone.
    ``tokens``: of a whole training. ``data``: labelled samples for a limit of accuracy. ``load``: how requests come to
    a service, with ``lengths`` and ``schedulers`` as ``accelsim serve`` has them; limits of times are then what 99 of
    100 ``requests`` keep (None: as many as come in a minute, at least 1,000).
    """

    model: str
    limits: Mapping[str, float] = field(default_factory=dict)
    objective: str = "cost"
    on: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    batch: int | None = None
    train: bool = False
    tokens: int | None = None
    providers: Sequence[str] = ()
    term: Term = "on-demand"
    prices: Path | None = None
    data: str = "digits"
    load: str = ""
    lengths: str = "lognormal:1024,256"
    schedulers: Sequence[str] = ()
    requests: int | None = None

    @cached_property
    def task(self) -> str:
        """Kind of work: 'run', 'generation', 'training' or 'service'."""
        if self.train:
            return TRAINING
        if self.load:
            return SERVICE
        return RUN if generation_of(self.model) is None else GENERATION

    @property
    def unit(self) -> str:
        """Amount of work that the cost is for."""
        if self.train:
            return "training" if self.tokens else "1,000 samples"
        return "million new tokens" if self.task in (GENERATION, SERVICE) else "1,000 samples"

    @property
    def speed(self) -> str:
        """Measure of speed against which cost is weighed."""
        return "days" if self.train and self.tokens else "latency"

    def check(self) -> None:
        """Raise UsageError or ModelError with all that is wrong with it."""
        gather = Gather()
        task = None
        with gather.also():
            check_there(self.model)
            task = self.task
        reason = NO_DATA.get(self.objective)
        known = "one of " + ", ".join(OBJECTIVES)
        if self.objective not in OBJECTIVES:
            what = f"no figures for {self.objective}: {reason}" if reason else f"no objective {self.objective!r}"
            gather.refuse(True, what, "--objective", known + _hint(self.objective, OBJECTIVES))
        for name in self.limits if task else ():
            tasks = MEASURES[name].tasks
            other = tasks and task not in tasks
            gather.refuse(other, f"a limit of {name}, which a {task} has not", "--limit", f"a {' or '.join(tasks)}")
        days = "days" in self.limits and self.train and not self.tokens
        gather.refuse(days, "a limit of days without tokens", "--tokens", "how many the training takes, such as 300e9")
        gather.refuse(self.tokens and not self.train, "--tokens without --train", "", "--train")
        with gather.also():
            if self.train and not _trains(self.model) and self.tokens:
                raise UsageError(f"--tokens of {self.model}", "", "a language model")
        gather.done()


def _trains(model: str) -> bool:
    """Return whether a model is a language model; raises UsageError for one that no training knows."""
    from accelsim.cluster.step.transformer import trained_of

    return trained_of(model) is not None


def _hint(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""
