"""``accelsim run`` on a cluster: a training step (of a chip too), or a prompt and the tokens after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelsim.cli.cluster_checks import SERVING, USED, check_mode, check_used
from accelsim.cli.cluster_options import DECODERS, Fused, check, read, taken
from accelsim.cli.common import pairs, progress, whole
from accelsim.errors import Gather, UsageError
from accelsim.report.answer import Answer
from accelsim.workload.limits import limits


def answer(gather: Gather, out: Path | None, no_advice: bool, **asked: Any) -> Answer:
    """Simulate what the options ask for. Raises all problems at once."""
    from accelsim.workload.sources.load import check_there, generation_of

    model, fused = str(asked["model"]), taken(asked)
    serving = generation_of(model) is not None
    if not serving:
        check_there(model)
    check_used(gather, asked, USED.union(SERVING) if serving and not asked["train"] else USED)
    check_mode(gather, asked, fused, serving, out)
    check(gather, fused, asked["train"], asked["plan"])
    if asked["train"]:
        return _trained(gather, out, not no_advice, fused, **asked)
    return _generated(gather, out, not no_advice, **asked)


def _trained(gather: Gather, out: Path | None, advice: bool, fused: Fused, **asked: Any) -> Answer:
    """A training step, pass by pass, or with --whole tile by tile."""
    from accelsim.cluster.step.asked import Asked
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.ops import Options
    from accelsim.report import one_machine, write_step

    gather.check(out, write_step.check_target)
    params = gather.read(lambda: pairs("--param", asked["param"] or (), whole, "a whole number from 1"))
    setting = Setting(**{name: asked[name] for name in ("dtype", "fusion", "site", *DECODERS.values())})
    capacity, overlap = limits().ignore_capacity, fused.overlap_gather
    options = Options(True, read(fused), fused.gradient_B, ignore_capacity=capacity, overlap_gather=overlap)
    wanted = Asked(
        str(asked["model"]), asked["on"][0], asked["plan"], asked["batch"], asked["set"], setting, options, params
    )
    with progress(2 if asked["whole"] else 2 + advice + fused.tune_gradients) as stage:
        if asked["whole"]:
            return one_machine.answer(wanted, stage)
        return write_step.answer(wanted, out, advice, fused.tune_gradients, asked["tokens"], stage)


def _generated(gather: Gather, out: Path | None, advice: bool, **asked: Any) -> Answer:
    """A prompt and new tokens; with ``advice``, changes of the network are tried."""
    from accelsim.cluster.plan.plan import Plan, parse_plan
    from accelsim.cluster.serving.asked import served
    from accelsim.cluster.serving.what_if import what_ifs
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.values.generated import generated, problems
    from accelsim.report import serving
    from accelsim.workload.sources.load import generation_of

    gather.check(out, serving.check_target)
    name, plan = str(asked["model"]), asked["plan"]
    with gather.also():
        shared, (*_, new) = parse_plan(plan) if plan else Plan(), generation_of(name) or (0, 0)
        UsageError.raise_for(problems(shared, new) if asked["values"] != "off" else ())
    gather.done()
    setting = Setting(**{name: asked[name] for name in (*SERVING, "routing")})
    with progress(1 + advice) as stage:
        found, devices = served(
            name, asked["on"][0], asked["set"], plan, asked["batch"], setting, asked["library"],
            limits().ignore_capacity, lambda share: stage("simulate", share),
        )  # fmt: skip
        if advice and found.plan.devices > 1:
            stage("what if", 0.0)
        sizes, off = (found.asked.prompt, new, found.asked.sequences), asked["values"] == "off"
        values = None if off else generated(found.model, shared, *sizes, seed=asked["seed"])
        return serving.answer(found, what_ifs(found, devices) if advice else [], out, values)
