"""A requested training step: texts of a model, a cluster and a plan become the arguments of ``train_step``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from accelsim.cluster.buckets import policy
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.costs import ATTENTIONS, PLAIN, PLAIN_ATTENTION, Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import OutOfMemory, offload_problems
from accelsim.cluster.step.ops import DEFAULTS, Options
from accelsim.cluster.step.result import Refused, StepResult
from accelsim.cluster.step.step import step_s, train_step
from accelsim.cluster.step.transformer import transformer_of
from accelsim.cluster.step.work import DecoderWork, Work, recomputes
from accelsim.compiler.numbers.formats import is_integer, pair
from accelsim.errors import Gather, known
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml.clusters import load_devices
from accelsim.workload.graph import Graph

SAMPLES = 32
"""Default samples of a microbatch of a model that is no decoder."""
FILL = 4
"""Default microbatches for each stage of a pipeline: GPipe's bubble is then at most a fifth."""


@dataclass(frozen=True)
class Asked:
    """A request: model, cluster or chip and plan, as texts of the command line or what they name.

    ``batch``: samples of all replicas together, None for as many as make full microbatches. ``set``: overrides of the
    cluster's spec; ``params``: of the model. ``setting``, ``options``: how devices compute, how the step is done.
    """

    model: str
    on: str | Path | ClusterSpec
    plan: str | Plan = ""
    batch: int | None = None
    set: Sequence[str] = ()
    setting: Setting = PLAIN
    options: Options = DEFAULTS
    params: Mapping[str, int] | None = None


class Ready(NamedTuple):
    """The arguments of ``train_step``."""

    work: Work
    fleet: Fleet
    plan: Plan
    batch: int
    options: Options

    def step(self, **changes: object) -> StepResult:
        """Simulate the step, with other fields of the plan."""
        plan = replace(self.plan, **changes) if changes else self.plan  # type: ignore[arg-type]
        return train_step(self.work, self.fleet, plan, self.batch, self.options)

    def fitted(self) -> tuple[Ready, StepResult]:
        """Simulate the step with the least recomputation that fits, where the plan leaves that open, and then with the
        fastest microbatches; the result says so.

        Raises OutOfMemory where nothing fits, with what it takes to compute nothing again.
        """
        try:
            return self._sized()
        except OutOfMemory as refused:
            lacked = Refused(refused.rank, refused.needed_B, refused.available_B)
            for recompute in recomputes(self.work, self.fleet.flash)[1:] if self.options.open_recompute else ():
                with suppress(OutOfMemory):
                    made, result = self._replace(plan=replace(self.plan, recompute=recompute))._sized()
                    return made, replace(result, refused=lacked)
            raise

    def _sized(self) -> tuple[Ready, StepResult]:
        """The step, with the fastest microbatches that fit where their number is open: twice as large ones are tried as
        long as they fit and the step gets shorter. Raises OutOfMemory where not even the smallest fit."""
        if not self.options.open_microbatches:
            return self, self.step()
        best, best_s, tried = self.plan, float("inf"), list[int]()
        each = self.batch // self.plan.dp
        for plan in self._microbatched():
            try:
                seconds = step_s(self.work, self.fleet, plan, self.batch, self.options)
            except OutOfMemory:
                if not tried:
                    raise
                break
            tried.append(each // plan.microbatches)
            if seconds >= best_s:
                break
            best, best_s = plan, seconds
        made = self._replace(plan=best)
        return made, replace(made.step(), tried=tuple(tried))

    def _microbatched(self) -> Iterator[Plan]:
        """Plans with microbatches of one sequence, two, four, ... or the next size that divides the batch and suits the
        schedule; the plan itself where no size does, which then says what is wrong."""
        each, least, plan = self.batch // self.plan.dp, 1, self.plan
        kind = SCHEDULES.get(plan.schedule)
        for size in range(1, each + 1):
            fits = kind is not None and each % size == 0 and size >= least
            if fits and kind is not None and not kind.check(plan.pp, each // size, plan.chunks):
                yield replace(plan, microbatches=each // size)
                least = 2 * size
        if least == 1:
            yield plan


def ready(asked: Asked) -> Ready:
    """Read model, cluster and plan. Raises UsageError, SpecError and ModelError, all problems at once."""
    gather, setting = Gather(), asked.setting
    work = fleet = None
    plan = Plan()
    with gather.also():
        work = work_of(asked.model, asked.params)
    with gather.also():
        cluster = asked.on if isinstance(asked.on, ClusterSpec) else load_devices(asked.on, asked.set)
        fleet = fleet_of(cluster, setting)
    with gather.also():
        if setting.attention:
            known("attention", setting.attention, ATTENTIONS)
            _check_attention(gather, setting.attention, work, fleet)
    with gather.also():
        if asked.plan:
            plan = parse_plan(asked.plan) if isinstance(asked.plan, str) else asked.plan
    adds = f"--overlap-tensor with {plan}, whose tensor-parallel group only adds up"
    gather.refuse(setting.overlap_tensor and asked.plan and not plan.sp, adds, "--plan", "sp, beside tp=2 or more")
    if setting.offload and work is not None and fleet is not None:
        for problem in offload_problems(fleet, work.sample_tokens, work.name):
            gather.refuse(True, problem.what, problem.where, problem.expected)
    with gather.also():
        policy(asked.options.gradients.policy)
    with gather.also():
        integer = setting.dtype and any(map(is_integer, pair(setting.dtype)))
        floating = "a floating-point format, as gradients have"
        gather.refuse(integer, f"a training in {setting.dtype}", "--dtype", floating)
    gather.done()
    assert work is not None and fleet is not None
    if not asked.plan:
        plan = Plan(dp=fleet.size)
    given = not isinstance(asked.plan, str) or "microbatches" in asked.plan
    batch = asked.batch or default_batch(work, plan)
    if not given:
        plan = replace(plan, microbatches=default_microbatches(work, plan, batch))
    left = isinstance(asked.plan, str) and "recompute" not in asked.plan
    sized = not given and bool(work.sample_tokens) and not _updates_each(plan) and batch % plan.dp == 0
    return Ready(work, fleet, plan, batch, replace(asked.options, open_recompute=left, open_microbatches=sized))


def _check_attention(gather: Gather, attention: str, work: Work | None, fleet: Fleet | None) -> None:
    """Keep the problems of a kind of attention that a model does not have, or a chip."""
    if work is not None:
        gather.refuse(not work.sample_tokens, f"--attention of {work.name}", "--attention", "a decoder")
    if fleet is not None and attention != PLAIN_ATTENTION:
        for name, dtype in {each.chip.name: each.dtype for each in fleet.kinds if not each.flash}.items():
            what = f"attention in one kernel on {name} in {dtype}"
            gather.refuse(True, what, "--attention", "plain, or a GPU in fp16 or bf16")


def step(asked: Asked) -> StepResult:
    """Simulate the requested training step. Raises as ``ready`` and ``train_step``."""
    return ready(asked).fitted()[1]


def work_of(model: str, params: Mapping[str, int] | None = None) -> Work:
    """Return the work of a plain decoder of the zoo by its sizes, of another model by its graph. Raises UsageError and
    ModelError."""
    decoder = transformer_of(model, params)
    if decoder is not None and decoder.plain:
        return DecoderWork(decoder)
    given = {**(params or {}), **({"train": 1, "seq": decoder.seq} if decoder is not None else {})}
    from accelsim.cluster.plan.check import sizes_of
    from accelsim.cluster.values.work import GraphWork
    from accelsim.workload.sources.load import load_model

    def load(samples: int) -> Graph:
        return load_model(model, batch=samples, params=given, data=False)

    return GraphWork(load(1).name, load, sizes_of(model), "sequences" if decoder is not None else "samples")


def default_batch(work: Work, plan: Plan) -> int:
    """Return the default batch: full microbatches for all replicas, ``FILL`` per stage of a pipeline."""
    count = plan.microbatches if plan.pp == 1 or _updates_each(plan) else FILL * plan.pp
    return plan.dp * count * (1 if work.sample_tokens else SAMPLES)


def _updates_each(plan: Plan) -> bool:
    kind = SCHEDULES.get(plan.schedule)
    return kind is not None and kind.weights.per_update == "microbatch"


def default_microbatches(work: Work, plan: Plan, batch: int) -> int:
    """Return the default number of microbatches: for a decoder one sequence each; for other models one, or with a
    pipeline as many as divide the batch, up to ``FILL`` per stage."""
    each = batch // plan.dp
    kind = SCHEDULES.get(plan.schedule)
    if _updates_each(plan):
        return 1
    if work.sample_tokens:
        return max(1, each)
    if plan.pp == 1 or each < 1:
        return 1
    fits = [m for m in range(1, each + 1) if each % m == 0 and m <= FILL * plan.pp]
    able = [m for m in fits if kind is not None and not kind.check(plan.pp, m, plan.chunks)]
    return max(able or fits)
