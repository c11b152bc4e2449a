"""Answers about trainings: of one chip, and of a cluster, whose weights stand beside those of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim import files
from accelsim.errors import Gather, count_of
from accelsim.explore.training import TrainingResult, train
from accelsim.report.answer import Answer, Part, block, finite
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, points
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from accelsim.report.text import Facts, ends_text, interval_text, percent, seconds, si
from accelsim.types import Array
from accelsim.workload.training import QuantConfig

if TYPE_CHECKING:
    from accelsim.cluster.values.trained import ClusterTraining, Curve
    from accelsim.workload.graph import Graph

SHARED = ("", "states of the optimiser", "these and gradients", "these, gradients and weights")
"""State that replicas share out, by the stage of ZeRO."""
ONLY_CHIP = ("qat", "edges", "sparsity", "loss_scale", "dtype")
"""Options of a training on one chip."""
ONLY_CLUSTER = ("plan", "schedule", "microbatches", "compare")
"""Options of a training on a cluster."""
COSTS = (
    ("time per step on {chip}", "step_s", "s"),
    ("energy per step", "step_J", "J"),
    ("time of all steps", "time_s", "s"),
    ("energy of all steps", "energy_J", "J"),
    ("samples per second", "images_per_s", ""),
)
"""Costs of a training on a chip: words, key, unit."""


def drop_others(gather: Gather, cluster: bool, asked: dict[str, object]) -> None:
    """Take options of the other kind of training out of ``asked``, with a problem for each that was given."""
    others, kind = (ONLY_CHIP, "one chip") if cluster else (ONLY_CLUSTER, "a cluster")
    expected = "one chip, or none" if cluster else "--on with a cluster (accelsim clusters lists them)"
    for name in others:
        typed = f"--{name.replace('_', '-')}"
        gather.refuse(asked.pop(name), f"{typed} is of a training on {kind}", typed, expected)


def on_chip(
    gather: Gather, out: Path | None, told: Callable[[], None], *, qat: str, edges: str, **asked: Any
) -> Answer:
    """Train in the formats of one chip, and report it; ``out``: the file of the learnt model.

    ``qat``, ``edges``: as for ``QuantConfig.parse``; the others as for ``explore.training.train``, whose errors it
    raises with those of ``gather``. ``told`` is called before it begins.
    """
    gather.refuse(edges and not qat, "--edges without --qat", "", "both")
    quant = gather.read(lambda: QuantConfig.parse(qat, edges) if qat else None)
    told()
    result = train(fake_quant=quant, **asked)
    facts, name, precision = (finite(_chip_facts(result)), result.training.model.name, result.training.precision.name)
    rows = [
        {"step": step, "loss": float(loss), "loss_scale": float(scale), "skipped": int(skipped)}
        for step, (loss, scale, skipped) in enumerate(zip(result.losses, result.scales, result.skipped, strict=True), 1)
    ]
    of = f"{count_of(result.steps, 'step')} of {count_of(result.batch, 'sample')}"
    costs = [(words.format(**facts), si(facts[key], unit)) for words, key, unit in COSTS if facts["chip"]]
    shown: list[Part] = [
        block(f"{name}: {of} in {precision}", [*_learnt_rows(result, facts), *costs]),
        "",
        " ".join(_words(result, facts)),
    ]
    if result.step is not None:
        from accelsim.account.latency import layers, summary
        from accelsim.report.words import sentences

        said = sentences(result.step, layers(result.step), summary(result.step))
        shown += ["", " ".join(["One step:", *said])]
    title = f"Loss of {name}, {count_of(result.batch, 'sample')} per step, {precision}"
    return _answer(facts, shown, rows, {precision: result}, title, result.graph, out)


def _answer(
    facts: Any,
    shown: list[Part],
    rows: list[Facts],
    curves: Mapping[str, TrainingResult | Curve],
    title: str,
    graph: Graph,
    out: Path | None,
) -> Answer:
    model = {}
    if out is not None:
        from accelsim.workload.onnx.exporting.model import export_onnx

        model = {out: files.as_bytes(export_onnx(graph).SerializeToString())}
    return Answer(facts, shown, rows, {"loss": partial(losses, curves, title)}, other_files=model)


def _chip_facts(result: TrainingResult) -> dict[str, object]:
    run, step = result.step, result.training
    quant = {name: item.dtype for name, item in step.wrapped.items()}
    return {
        "tool": "accelsim", "model": step.model.name, "chip": None if run is None else run.chip.name,
        "precision": step.precision.name, "steps": result.steps, "batch": result.batch, "seed": result.seed,
        "weights": sum(weight.size for weight in result.weights.values()), "loss_first": float(result.losses[0]),
        "loss_last": float(result.losses[-1]), "train_accuracy": float(result.train_accuracy),
        "test_accuracy": float(result.test_accuracy), "skipped_steps": int(result.skipped.sum()),
        "loss_scale_last": float(result.scales[-1]) if step.scaled else None, "quantised": quant or None,
        "step_s": result.step_s, "step_J": result.step_J, "time_s": result.time_s, "energy_J": result.energy_J,
        "images_per_s": result.images_per_s,
    }  # fmt: skip


def _learnt_rows(result: TrainingResult, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("formats", result.training.precision.what),
        ("loss, first and last step", f"{result.losses[0]:.3f}, {result.losses[-1]:.4g}"),
        ("accuracy, training data", percent(facts["train_accuracy"])),
        ("accuracy, test data", percent(facts["test_accuracy"])),
    ]
    if facts["quantised"]:
        formats = ", ".join(dict.fromkeys(facts["quantised"].values()))
        rows.append(("fake-quantised", f"{count_of(len(facts['quantised']), 'tensor')}: {formats}"))
    if result.training.scaled:
        rows.append(("steps skipped", f"{facts['skipped_steps']} of {facts['steps']}"))
        rows.append(("loss scale at the end", f"{facts['loss_scale_last']:g}"))
    return rows


def _words(result: TrainingResult, facts: Mapping[str, Any]) -> list[str]:
    """Return what the numbers mean, above all when the training failed."""
    chance = log(result.training.graph.tensors["labels"].shape[1])
    skipped, steps = facts["skipped_steps"], facts["steps"]
    last = result.losses[-max(1, steps // 20) :].mean()
    words = []
    if facts["loss_last"] is None:
        words.append("The loss is no longer a number: an infinity got into the weights.")
    elif last > 0.9 * chance:
        words.append(f"The model has learnt nothing: guessing has a loss of ln(classes) = {chance:.2f}.")
    else:
        words.append(f"The loss fell from {result.losses[0]:.2f} to {last:.2g} (mean of the last steps).")
    if skipped:
        words.append(
            f"{count_of(skipped, 'step', 'was', steps)} skipped because a scaled gradient was infinite or NaN."
        )
    if facts["precision"] in ("mixed", "fp16") and not result.training.scaled:
        words.append("Without a loss scale, gradients below 3e-8 are zero in fp16.")
    return words


def on_cluster(
    gather: Gather,
    out: Path | None,
    told: Callable[[], None],
    train: Callable[..., ClusterTraining],
    *,
    plan: str | None,
    schedule: str | None = None,
    microbatches: int | None = None,
    compare: str = "",
    **asked: Any,
) -> Answer:
    """Train under a plan of a cluster, and report it; ``out``: the file of the learnt model.

    ``train``: ``train_on_cluster``, whose errors it raises with those of ``gather``, and whose arguments the others
    are; ``schedule``, ``microbatches``: where the plan does not say so; ``compare``: with commas. ``told`` is called
    before it begins.
    """
    from accelsim.cluster.plan.plan import whole_plan

    gather.refuse(not plan, "a cluster without a plan", "--on", "--plan, such as dp=2,pp=2")
    made = gather.read(lambda: whole_plan(plan or "", schedule=schedule, microbatches=microbatches))
    told()
    methods = dict.fromkeys(name.strip() for name in compare.split(",") if name.strip())
    result = train(plan=made, compare=list(methods), **asked)
    columns = {f"loss {name}": curve.losses for name, curve in result.curves.items()}
    rows = [
        {"step": index + 1, **{name: float(losses[index]) for name, losses in columns.items()}}
        for index in range(len(result.trained.losses))
    ]
    facts = {
        "tool": "accelsim", "model": result.model, "cluster": result.cluster, "plan": str(result.plan),
        "devices": result.plan.devices, "precision": result.precision, "steps": len(rows), "batch": result.batch,
        "seed": result.seed, **_curve(result.trained), "one_device": _curve(result.alone),
        "largest_difference": float(result.difference), "same_bits": result.same_bits,
        "difference_in_fp64": result.in_fp64,
        "compared": {name: {"plan": str(curve.plan), **_curve(curve)} for name, curve in result.others.items()},
        "whole_weights": list(result.notes), "step": result.step.as_dict(),
    }  # fmt: skip
    samples, model = count_of(result.batch, "sample"), f"{result.model} on {result.cluster}"
    title = f"{model}: {count_of(len(rows), 'step')} of {samples} in {result.precision}"
    table = block(title, [*_plan_rows(result), *_compared_rows(result), *_step_rows(result)])
    loss = f"Loss of {model}, {samples} per step"
    return _answer(facts, [table, "", " ".join(_verdicts(result))], rows, result.curves, loss, result.graph, out)


def _curve(curve: Curve) -> dict[str, object]:
    return {
        "loss_first": float(curve.losses[0]),
        "loss_last": float(curve.losses[-1]),
        "test_accuracy": float(curve.test_accuracy),
    }


def _plan_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    plan = result.plan
    samples, many = result.batch // plan.dp // plan.microbatches, "s" if plan.microbatches > 1 else ""
    parts = [
        f"{plan.dp} replicas" if plan.dp > 1 else "",
        f"{plan.tp} tensor parts" if plan.tp > 1 else "",
        f"{plan.ep} groups that share experts" if plan.ep > 1 else "",
        f"{plan.stages} stages" if plan.stages > 1 else "",
    ]
    rows = [
        ("devices", " x ".join(part for part in parts if part) or "one device"),
        ("each replica and step", f"{plan.microbatches} microbatch{'e' if many else ''}{many} of {samples}"),
        ("schedule", plan.schedule),
        ("between products", "split along the tokens" if plan.sp else ""),
        ("shared out among replicas (ZeRO)", SHARED[plan.zero]),
        ("computed again", "" if plan.recompute == "none" else plan.recompute),
        ("steps between averagings", str(plan.period) if plan.period > 1 else ""),
    ]
    return [row for row in rows if row[1]]


def _compared_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    trained, alone = result.trained, result.alone
    rows = [
        ("loss, first and last step", f"{trained.losses[0]:.3f}, {trained.losses[-1]:.4g}"),
        ("accuracy, test data", percent(trained.test_accuracy)),
        ("one device: last loss, accuracy", f"{alone.losses[-1]:.4g}, {percent(alone.test_accuracy)}"),
        ("largest difference of a weight", f"{result.difference:.3g}"),
    ]
    for name, curve in result.others.items():
        rows.append((f"{name}: last loss, accuracy", f"{curve.losses[-1]:.4g}, {percent(curve.test_accuracy)}"))
    return rows


def _step_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    step = result.step
    rows = [("time per step", si(step.time_s, "s") + interval_text(step.interval))]
    rows += [(f"  {name}", f"{seconds(fs)} ({percent(fs / step.time_fs)})") for name, fs in step.parts_fs.items() if fs]
    return [
        *rows,
        ("samples per second", si(step.samples_per_s) + ends_text(step.samples_ends_per_s, "")),
        ("energy per step", si(step.total_J, "J")),
        ("energy per sample", si(step.sample_J, "J")),
    ]


def _verdicts(result: ClusterTraining) -> list[str]:
    """Return what the numbers mean: first whether the weights are those of one device."""
    found = [_verdict(result)]
    if result.step.parts_fs:
        name, fs = max(result.step.parts_fs.items(), key=lambda item: item[1])
        share = fs / result.step.time_fs
        found.append(f"Most of a step, {share:.0%}, goes to one part of it: {name}.")
    found += [f"{note}." for note in result.notes]
    return found


def _verdict(result: ClusterTraining) -> str:
    from accelsim.cluster.values.trained import EXACT, LOOSE, differing

    difference = f"largest difference {result.difference:.2g}"
    if result.same_bits:
        return "Same weights as one device, to the last bit."
    if not result.synchronous:
        why = "averages its replicas" if result.plan.period > 1 else "sees older weights"
        return f"Other weights than one device ({difference}), as must be: this plan {why}."
    if result.difference <= EXACT.get(result.precision, LOOSE):
        return f"Same weights as one device: {difference}, from another order of the same sums."
    name, _ = differing(result.trained, result.alone)
    more = f"{difference}, in {name}, more than another order of sums explains"
    if result.in_fp64 is None or result.in_fp64 > EXACT["fp64"]:
        return f"Other weights than one device: {more}."
    return (
        f"The same training as one device, but for rounding that grows: {more} at once; in fp64 both differ by "
        f"{result.in_fp64:.2g}."
    )


LOOKS = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--"))
"""Colour and dash of one training after the other, so that a grey print can be read."""
PARTS = 40
"""The bold line is the mean over this part of all steps; single steps are drawn faintly behind it."""


def losses(curves: Mapping[str, TrainingResult | Curve], title: str = "Loss of training", note: str = "") -> Picture:
    """Draw the loss of each training over its steps, by label; below it the loss scales, if any of them changes."""
    lost: list[Mark] = []
    scales: list[Mark] = []
    for (label, curve), (color, dash) in zip(curves.items(), LOOKS * len(curves), strict=False):
        steps, means, bad = (np.arange(1, len(curve.losses) + 1), _smooth(curve.losses), np.flatnonzero(curve.skipped))
        lost.append(line(steps, curve.losses, "", color, linewidth=0.6, alpha=0.35))
        lost.append(line(steps, means, label, color, dash, linewidth=1.8))
        if len(bad):
            lost.append(points(bad + 1, means[bad], f"{count_of(len(bad), 'step')} skipped", color, "x"))
        if np.any(curve.scales != curve.scales[0]):
            scales.append(line(steps, curve.scales, "", color, dash, linewidth=1.6, drawstyle="steps-mid"))
    values = np.concatenate([curve.losses for curve in curves.values()])
    found = values[np.isfinite(values)]
    y = Axis("loss (cross-entropy, logarithmic)", scale="log" if len(found) and found.min() > 0 else "linear")
    panels = [Panel(title, lost, Axis("" if scales else "step"), y, note, "y")]
    if scales:
        panels.append(Panel("", scales, Axis("step"), Axis("loss scale", scale="log2", text="{:g}".format), grid="y"))
    columns = 2 if len(curves) > 3 else 3 if len(curves) > 1 or scales else 0
    return Picture(5.4 if scales else 3.8, panels, legend=columns, share="x", ratios=(2.2, 1)[: len(panels)])


def _smooth(values: Array) -> Array:
    """Return the running mean over a window that is shorter at both ends."""
    half = len(values) // PARTS // 2
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    index = np.arange(len(values))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))
