"""``accelsim run`` on a cluster: a training step (of a chip too), or a prompt and the tokens after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.cli.cluster_options import DECODERS, Fused, check, read, taken
from accelsim.cli.common import pairs, progress, whole
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.cluster.serving.pieces import Devices
    from accelsim.cluster.serving.serve import Served
    from accelsim.cluster.step.costs import Setting

USED = frozenset(
    {"model", "on", "set", "batch", "dtype", "fusion", "site", "values", "ignore_capacity", "param", "seed"}
)
"""Fields of a request that mean something on a cluster."""
SERVING = ("dtype", "fusion", "site", "quantiser", "kv_dtype", "stack")
"""Fields that say how devices compute, in a generation."""
SINGLE = ("check", "save_mapping", "save_trace")
"""Options of a run of one chip."""


def answer(gather: Gather, out: Path | None, no_advice: bool, **asked: Any) -> Answer:
    """Simulate what the options ask for. Raises all problems at once."""
    from accelsim.workload.limits import limits
    from accelsim.workload.sources.load import check_there, generation_of

    model, fused = str(asked["model"]), taken(asked)
    serving = generation_of(model) is not None
    if not serving:
        check_there(model)
    _check_used(gather, asked, USED.union(SERVING) if serving and not asked["train"] else USED)
    _check_mode(gather, asked, fused, serving, out)
    check(gather, fused, asked["train"], asked["plan"])
    if asked["train"]:
        return _trained(gather, out, not no_advice, fused, limits().ignore_capacity, **asked)
    return _generated(gather, out, not no_advice, limits().ignore_capacity, **asked)


def _check_used(gather: Gather, asked: Mapping[str, Any], used: frozenset[str]) -> None:
    """Refuse fields of a request that mean nothing here, and options of a single chip."""
    from accelsim.request.fields import DEFAULTS, OPTIONS
    from accelsim.request.recording import flag
    from accelsim.spec.yaml.clusters import is_cluster, listed

    chips = [name for text in asked["on"] for name in listed(text)]
    one = "one at a time of a cluster, or with --train"
    gather.refuse(len(chips) > 1, f"--on {','.join(chips)}", "", one)
    where, expected = "with --train", "a run without --train"
    if any(map(is_cluster, chips)):
        where, expected = "on a cluster", "a chip for it"
    for name in (*OPTIONS, *SINGLE):
        changed = name in asked and name not in used and asked[name] and asked[name] != DEFAULTS.get(name)
        gather.refuse(changed, f"{flag(name)} {where}", "", expected)


def _check_mode(gather: Gather, asked: Mapping[str, Any], fused: Fused, serving: bool, out: Path | None) -> None:
    """Refuse options that do not go together."""
    train, whole = asked["train"], asked["whole"]
    decoders = " and ".join(name for name, key in DECODERS.items() if asked[key])
    task = "--train for a training step, or a decoder that generates ('MODEL?prompt=P,new=N')"
    step, joined = "--train: a training step", " and ".join(fused.given)
    values = f"--values {asked['values']} {'with --train' if train else 'on a cluster'}"
    for wrong, what, expected in (
        (serving and train, "--train of a prompt and new tokens", "a model without prompt and new"),
        (not serving and not train, f"{asked['model']} on a cluster needs a task", task),
        (decoders and not train, f"{decoders} without --train", step),
        (
            asked["overlap_tensor"] and not asked["plan"],
            "--overlap-tensor without --plan",
            "a plan with sp, such as tp=8,sp",
        ),
        (asked["library"] and not serving, "--library without a generation", "a decoder with prompt and new tokens"),
        (
            asked["tokens"] is not None and (whole or not train),
            "--tokens",
            "--train without --whole: so many in a whole training",
        ),
        (whole and not train, "--whole without --train", step),
        (
            whole and joined,
            f"{joined} with --whole",
            "--whole alone: gradients are sent in one piece behind the passes",
        ),
        (whole and out is not None, "--out with --whole, which has no report", "--csv or --json"),
        (asked["values"] != "off", values, "--values off; values are those of 'accelsim train'"),
    ):
        gather.refuse(wrong, what, "", expected)


def _trained(
    gather: Gather, out: Path | None, advice: bool, fused: Fused, ignore_capacity: bool, **asked: Any
) -> Answer:
    """A training step, pass by pass, or with --whole tile by tile."""
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.fusing import tuned
    from accelsim.cluster.step.one_machine import machines
    from accelsim.cluster.step.ops import Options
    from accelsim.cluster.step.result import lasting
    from accelsim.cluster.step.search import what_ifs
    from accelsim.report import one_machine, step
    from accelsim.report.write_step import check_target, step_files

    gather.check(out, check_target)
    params = gather.read(lambda: pairs("--param", asked["param"] or (), whole, "a whole number from 1"))
    setting = Setting(**{name: asked[name] for name in ("dtype", "fusion", "site", *DECODERS.values())})
    gradients = (read(fused), fused.gradient_B)
    options = Options(True, *gradients, ignore_capacity=ignore_capacity, overlap_gather=fused.overlap_gather)
    wanted = Asked(
        str(asked["model"]), asked["on"][0], asked["plan"], asked["batch"], asked["set"], setting, options, params
    )
    tune = fused.tune_gradients
    with progress(2 if asked["whole"] else 2 + advice + tune) as stage:
        stage("read", 0.0)
        made = ready(wanted)
        stage("simulate", 0.0)
        if asked["whole"]:
            return one_machine.answer(*machines(made.work, made.fleet, made.plan, made.batch, made.options))
        made, result = made.fitted()
        helps = grouped = None
        if advice:
            stage("what if", 0.0)
            helps = what_ifs(made, result, lambda share: stage("what if", share))
        if tune:
            stage("tune", 0.0)
            grouped = tuned(made)
        lasts = None if asked["tokens"] is None else lasting(result, asked["tokens"])
        report = step.StepReport(result, helps, grouped, lasts)
        return report.answer({} if out is None else {out: step_files(made, report)})


def _generated(gather: Gather, out: Path | None, advice: bool, ignore_capacity: bool, **asked: Any) -> Answer:
    """A prompt and new tokens; with ``advice``, changes of the network are tried."""
    from accelsim.cluster.serving.what_if import what_ifs
    from accelsim.cluster.step.costs import Setting
    from accelsim.report import serving

    gather.check(out, serving.check_target)
    gather.done()
    setting = Setting(**{name: asked[name] for name in SERVING})
    with progress(1 + advice) as stage:
        found, devices = served(
            str(asked["model"]), asked["on"][0], asked["set"], asked["plan"], asked["batch"], setting,
            asked["library"], ignore_capacity, lambda share: stage("simulate", share),
        )  # fmt: skip
        changes = []
        if advice and found.plan.devices > 1:
            stage("what if", 0.0)
            changes = what_ifs(found, devices)
        return serving.answer(found, changes, out)


def served(
    model: str,
    cluster: str,
    overrides: Sequence[str] = (),
    plan: str = "",
    batch: int | None = None,
    setting: Setting | None = None,
    library: str = "",
    ignore_capacity: bool = False,
    told: Callable[[float], None] = lambda share: None,
) -> tuple[Served, Devices]:
    """Simulate a generation; returns it and what its devices do. Raises UsageError, SpecError and OutOfMemory.

    ``model``: with ``prompt`` and ``new``; ``batch``: sequences of all replicas (None: one each); ``library``: of the
    collectives ('': that of a serving stack, where the cluster knows it).
    """
    from accelsim.cluster.plan.plan import Plan, parse_plan
    from accelsim.cluster.serving.pieces import Devices, serving_library
    from accelsim.cluster.serving.serve import Asked, serve
    from accelsim.cluster.step.costs import PLAIN
    from accelsim.cluster.step.fleet import fleet_of
    from accelsim.cluster.step.transformer import transformer_of
    from accelsim.spec.yaml.clusters import load_cluster
    from accelsim.workload.sources.load import generation_of

    generation = generation_of(model)
    if generation is None:
        raise UsageError(f"no prompt and new tokens in {model}", expected="NAME?prompt=P,new=N")
    name, params, prompt, new = generation
    decoder = transformer_of(name, params)
    assert decoder is not None  # a generation is of a decoder
    shared = parse_plan(plan) if plan else Plan()
    spec, setting = load_cluster(cluster, overrides), setting or PLAIN
    fleet = fleet_of(spec, setting, serving_library(spec, library, setting))
    devices = Devices(fleet, fleet.setting)
    wanted = Asked(batch or shared.dp, prompt, new, ignore_capacity)
    return serve(decoder, fleet, shared, wanted, told, devices), devices
