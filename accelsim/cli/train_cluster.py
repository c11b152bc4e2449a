"""``accelsim train --on CLUSTER``: a training under a plan, its weights beside those of one device, costs of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import paragraphs, progress, save_csv, save_plot, show, show_json, whole_list, width
from accelsim.errors import Problem, UsageError, count_of

if TYPE_CHECKING:
    from accelsim.cluster.plan.plan import Plan
    from accelsim.cluster_training import ClusterTraining, Curve

ONLY_CHIP = ("qat", "edges", "sparsity", "loss_scale", "dtype")
"""Options of a training on one chip."""
ONLY_CLUSTER = ("plan", "schedule", "microbatches", "compare")
"""Options of a training on a cluster."""
SHARED = ("", "states of the optimiser", "these and gradients", "these, gradients and weights")
"""What replicas share out, by the stage of ZeRO."""


def is_cluster(on: str | None) -> bool:
    """Return whether what follows --on is a cluster."""
    from accelsim.spec.yaml.clusters import is_cluster as known

    return on is not None and known(on)


def refuse_others(asked: Mapping[str, Any], cluster: bool) -> None:
    """UsageError with every option that is given but belongs to the other kind of training."""
    names = ONLY_CHIP if cluster else ONLY_CLUSTER
    expected = "one chip, or none" if cluster else "--on with a cluster (accelsim clusters lists them)"
    given = [f"--{name.replace('_', '-')}" for name in names if asked.get(name)]
    problems = [Problem(f"{option} is of a training on {'one chip' if cluster else 'a cluster'}", option, expected)
                for option in given]  # fmt: skip
    if cluster and not asked.get("plan"):
        problems.append(Problem("a cluster without a plan", "--on", "--plan, such as dp=2,pp=2"))
    if problems:
        raise UsageError(problems)


def plan_of(text: str, schedule: str | None, microbatches: int | None) -> Plan:
    """The plan of --plan with --schedule and --microbatches. UsageError for one that is given in both."""
    from accelsim.cluster.plan.plan import parse_plan

    plan = parse_plan(text)
    given = {name: value for name, value in (("schedule", schedule), ("microbatches", microbatches)) if value}
    twice = [name for name in given if f"{name}=" in text.replace(" ", "")]
    if twice:
        raise UsageError(
            [Problem(f"{name} is given twice", "--plan", f"here or in --{name}") for name in twice]
        )
    return replace(plan, **given)  # type: ignore[arg-type]


def run(
    asked: Mapping[str, Any], out: Path | None, table: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Train, write the files, print the figures."""
    from accelsim.cluster.plan.plan import Plan
    from accelsim.cluster_training import train_on_cluster
    from accelsim.errors import Gather

    gather = Gather()
    with gather.also():
        refuse_others(asked, cluster=True)
    plan = Plan()
    if asked["plan"]:
        with gather.also():
            plan = plan_of(asked["plan"], asked["schedule"], asked["microbatches"])
    gather.done()
    with progress(1) as stage:
        stage("train", 0.0)
        result = train_on_cluster(
            asked["model"], asked["data"], on=asked["on"], plan=plan, steps=asked["steps"], batch=asked["batch"],
            lr=asked["lr"], optimiser=asked["optimiser"], precision=asked["precision"], seed=asked["seed"],
            compare=whole_list(asked["compare"]), set=asked["set"],
        )  # fmt: skip
    _write(result, out, table, plot)
    if as_json:
        show_json(summary(result))
        return
    _print(result)
    for name, path in (("Model", out), ("Plot", plot)):
        if path is not None:
            click.echo(f"{name}: {path}")


def summary(result: ClusterTraining) -> dict[str, Any]:
    """The training in one dictionary that JSON can hold; None where there is no number."""
    step = result.step
    return {
        "tool": "accelsim", "model": result.model, "cluster": result.cluster, "plan": str(result.plan),
        "devices": result.plan.devices, "precision": result.precision, "steps": len(result.trained.losses),
        "batch": result.batch, "seed": result.seed, **_curve(result.trained), "one_device": _curve(result.alone),
        "largest_difference": _number(result.difference), "same_bits": result.same_bits,
        "difference_in_fp64": result.in_fp64,
        "compared": {name: {"plan": str(curve.plan), **_curve(curve)} for name, curve in result.others.items()},
        "whole_weights": list(result.notes), "step": step.as_dict(),
    }  # fmt: skip


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "loss_first": _number(curve.losses[0]), "loss_last": _number(curve.losses[-1]),
        "test_accuracy": _number(curve.test_accuracy),
    }  # fmt: skip


def _number(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def _write(result: ClusterTraining, out: Path | None, table: Path | None, plot: Path | None) -> None:
    from accelsim.files import as_bytes, write_file

    if out is not None:
        from accelsim.workload.onnx.exporting.model import export_onnx

        write_file(out, as_bytes(export_onnx(result.graph).SerializeToString()))
    columns = {name: curve.losses for name, curve in result.curves.items()}
    save_csv(table, [
        {"step": index + 1, **{f"loss {name}": _number(losses[index]) for name, losses in columns.items()}}
        for index in range(len(result.trained.losses))
    ])  # fmt: skip

    def draw() -> Any:
        from accelsim.report.style import styled
        from accelsim.report.training_plot import losses

        with styled():
            title = f"Loss of {result.model} on {result.cluster}, {count_of(result.batch, 'sample')} per step"
            return losses(result.curves, title)

    save_plot(plot, draw)


def _print(result: ClusterTraining) -> None:
    from accelsim.report.table import text_table

    steps = f"{count_of(len(result.trained.losses), 'step')} of {count_of(result.batch, 'sample')}"
    title = f"{result.model} on {result.cluster}: {steps} in {result.precision}"
    show(text_table([title, ""], [*_plan_rows(result), *_learnt_rows(result), *_step_rows(result)], width()))
    click.echo("\n" + paragraphs(words(result)))


def _plan_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    plan = result.plan
    samples, many = result.batch // plan.dp // plan.microbatches, "s" if plan.microbatches > 1 else ""
    parts = [f"{plan.dp} replicas" if plan.dp > 1 else "", f"{plan.tp} tensor parts" if plan.tp > 1 else "",
             f"{plan.stages} stages" if plan.stages > 1 else ""]  # fmt: skip
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


def _learnt_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    from accelsim.report.text import percent

    trained, alone = result.trained, result.alone
    rows = [
        ("loss, first and last step", f"{trained.losses[0]:.3f}, {trained.losses[-1]:.4g}"),
        ("accuracy, test data", percent(trained.test_accuracy)),
        ("one device: last loss, accuracy", f"{alone.losses[-1]:.4g}, {percent(alone.test_accuracy)}"),
        ("largest difference of a weight", f"{result.difference:.3g}"),
    ]
    for name, curve in result.others.items():
        rows.append(
            (f"{name}: last loss, accuracy", f"{curve.losses[-1]:.4g}, {percent(curve.test_accuracy)}")
        )
    return rows


def _step_rows(result: ClusterTraining) -> list[tuple[str, str]]:
    from accelsim.report.text import ends_text, interval_text, percent, seconds, si

    step = result.step
    rows = [("time per step", si(step.time_s, "s") + interval_text(step.interval))]
    rows += [
        (f"  {name}", f"{seconds(fs)} ({percent(fs / step.time_fs)})") for name, fs in step.parts_fs.items() if fs
    ]  # fmt: skip
    return [
        *rows, ("samples per second", si(step.samples_per_s) + ends_text(step.samples_ends_per_s, "")),
        ("energy per step", si(step.total_J, "J")),
        ("energy per sample", si(step.sample_J, "J")),
    ]  # fmt: skip


def words(result: ClusterTraining) -> list[str]:
    """Return what the numbers mean: first whether the weights are those of one device."""
    found = [_verdict(result)]
    if result.step.parts_fs:
        name, fs = max(result.step.parts_fs.items(), key=lambda item: item[1])
        share = fs / result.step.time_fs
        found.append(f"Most of a step, {share:.0%}, goes to one part of it: {name}.")
    found += [f"{note}." for note in result.notes]
    return found


def _verdict(result: ClusterTraining) -> str:
    from accelsim.cluster_training import EXACT, LOOSE, differing

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
