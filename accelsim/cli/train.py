"""``accelsim train``: train a small model, in the formats of the chip, and say what a step costs there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    OUT,
    PICTURES,
    check_file_target,
    example,
    json_option,
    paragraphs,
    progress,
    save_csv,
    show,
    width,
)
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options
from accelsim.errors import Problem, UsageError, count_of

if TYPE_CHECKING:
    from accelsim.explore.training import TrainingResult
    from accelsim.workload.training import QuantConfig


@click.command(cls=Grouped, epilog=example(
    "accelsim train digits-mlp --steps 300 --plot loss.png",
    "accelsim train digits-mlp --steps 300 --on neuroncore-v2 --precision mixed-bf16",
    "accelsim train digits-cnn --steps 400 --qat int4 --out digits.onnx",
    "accelsim train digits-cnn --on 4x-edu --plan dp=2,pp=2 --schedule 1f1b --microbatches 4 --steps 20",
    "accelsim train gpt --on 4x-edu --plan dp=2,tp=2 --optimiser adam --steps 20",
))  # fmt: skip
@click.argument("model")
@click.option("--on", metavar="CHIP|CLUSTER", help="Simulate one step on this chip, or train on all devices of this "
              "cluster: a name or a YAML file.")  # fmt: skip
@click.option("--plan", metavar="dp=2,pp=2", help="How the devices of the cluster share the work: dp, tp, pp, sp, "
              "zero, chunks, recompute, period (steps between averagings).")  # fmt: skip
@click.option("--schedule", metavar="1f1b", help="Order of a pipeline's microbatches: gpipe, 1f1b, interleaved, "
              "zb-h1, pipedream, pipedream-vertical, pipedream-2bw.")  # fmt: skip
@click.option("--microbatches", type=click.IntRange(1), help="Microbatches of each replica and step.")
@click.option("--compare", default="", metavar="plain,local-sgd,pipedream",
              help="With a cluster: also train with these methods and show their losses.")  # fmt: skip
@click.option("--data", default="", metavar="digits|sums|FILE.npz",
              help="Samples and labels: x_train, y_train, x_test, y_test, or x and y; for a language model text, token "
              "numbers in a row. Default: digits; for a language model sums.")  # fmt: skip
@click.option("--steps", type=int, default=300, show_default=True, help="Batches to train on.")
@click.option("--batch", type=click.IntRange(1), help="Samples per step; default: 64.")
@click.option("--lr", type=float, help="Learning rate; default: 0.05 for sgd, 0.001 for adam.")
@click.option("--optimiser", "--optimizer", default="sgd", show_default=True, metavar="sgd|adam",
              help="Update rule; sgd has momentum 0.9.")  # fmt: skip
@click.option("--precision", default="fp32", show_default=True, metavar="fp32|mixed|mixed-bf16|fp16|bf16",
              help="mixed: products in fp16, weights in fp32; fp16 and bf16: both in that format.")  # fmt: skip
@click.option("--loss-scale", default="", metavar="dynamic|none|NUMBER",
              help="Factor against underflow of gradients in fp16; default: dynamic for mixed, fp16.")  # fmt: skip
@click.option("--qat", default="", metavar="int8|int4|int2|int1|int4xint8",
              help="Quantisation-aware training: formats of weights and activations.")  # fmt: skip
@click.option(
    "--edges", default="", metavar="int8", help="With --qat: format of the first and the last layer."
)
@click.option("--sparsity", default="", metavar="2:4",
              help="Prune the starting weights to this pattern and keep the zeros.")  # fmt: skip
@click.option("--dtype", default="", help="Format of the MACs on the chip; default: that of the precision.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Seed of starting weights and batches.")  # fmt: skip
@click.option("--set", multiple=True, metavar="PATH=VALUE", help="Change a field of the spec. Repeatable.")
@limit_options
@click.option("--out", type=OUT, help="Write the learnt model to this ONNX file.")
@click.option(
    "--csv", "table", type=OUT, help="Write each step's loss and loss scale, and whether it was skipped."
)
@click.option("--plot", type=OUT, help="Draw the loss: FILE.png or FILE.svg.")
@json_option
def train(out: Path | None, table: Path | None, plot: Path | None, as_json: bool, **asked: Any) -> None:
    """Train MODEL (a name from 'accelsim models', or an ONNX file) and report what it costs.

    The values are those of the training graph in the formats of the chip; with --on one step of it is compiled
    and simulated. On a cluster every device computes its part by a plan, and the weights are compared with those of
    one device. digits-mlp and digits-cnn train in seconds, gpt in a minute.
    """
    from accelsim.cli import train_cluster
    from accelsim.explore.training import train as run_training

    _check_targets(out, plot, table)
    if train_cluster.is_cluster(asked["on"]):
        train_cluster.run(asked, out, table, plot, as_json)
        return
    train_cluster.refuse_others(asked, cluster=False)
    for name in train_cluster.ONLY_CLUSTER:
        del asked[name]
    qat, edges, sparsity = asked.pop("qat"), asked.pop("edges"), asked.pop("sparsity")
    quant = _quant(qat, edges)
    with progress(1) as stage:
        stage("train", 0.0)
        result = run_training(fake_quant=quant, sparsity=sparsity, **asked)
    _write(result, out, plot)
    save_csv(table, _steps(result))
    facts = summary(result)
    if as_json:
        click.echo(json.dumps(facts, indent=2, allow_nan=False))
        return
    _print(result, facts)
    for name, path in (("Model", out), ("Plot", plot)):
        if path is not None:
            click.echo(f"{name}: {path}")


def summary(result: TrainingResult) -> dict[str, Any]:
    """The training in one dictionary that JSON can hold; None where there is no chip, no scale or no number."""
    run, step = result.step, result.training
    quant = {name: item.dtype for name, item in step.wrapped.items()}
    return {
        "tool": "accelsim",
        "model": step.model.name,
        "chip": None if run is None else run.chip.name,
        "precision": step.precision.name,
        "steps": result.steps,
        "batch": result.batch,
        "seed": result.seed,
        "weights": sum(weight.size for weight in result.weights.values()),
        "loss_first": _number(result.losses[0]),
        "loss_last": _number(result.losses[-1]),
        "train_accuracy": _number(result.train_accuracy),
        "test_accuracy": _number(result.test_accuracy),
        "skipped_steps": int(result.skipped.sum()),
        "loss_scale_last": float(result.scales[-1]) if step.scaled else None,
        "quantised": quant or None,
        "step_s": result.step_s,
        "step_J": result.step_J,
        "time_s": result.time_s,
        "energy_J": result.energy_J,
        "images_per_s": result.images_per_s,
    }


def _steps(result: TrainingResult) -> list[dict[str, Any]]:
    columns = zip(result.losses, result.scales, result.skipped, strict=True)
    return [
        {"step": step, "loss": _number(loss), "loss_scale": _number(scale), "skipped": int(skipped)}
        for step, (loss, scale, skipped) in enumerate(columns, 1)
    ]


def _write(result: TrainingResult, out: Path | None, plot: Path | None) -> None:
    from accelsim.explore.training import save_model

    if out is not None:
        save_model(result, out)
    if plot is not None:
        from accelsim.report.style import save, styled
        from accelsim.report.training_plot import losses

        name, precision = result.training.model.name, result.training.precision.name
        with styled():
            drawn = losses(
                {precision: result},
                f"Loss of {name}, {count_of(result.batch, 'sample')} per step, {precision}",
            )
        save(drawn, plot)


def _number(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def _check_targets(out: Path | None, plot: Path | None, table: Path | None) -> None:
    from accelsim.errors import Gather

    gather = Gather()
    for target, suffixes in ((out, ()), (plot, PICTURES), (table, ())):
        if target is not None:
            with gather.also():
                check_file_target(target, suffixes)
    gather.done()


def _quant(qat: str, edges: str) -> QuantConfig | None:
    from accelsim.workload.training import QuantConfig

    if edges and not qat:
        raise UsageError(Problem("--edges without --qat", "", "both"))
    return QuantConfig.parse(qat, edges) if qat else None


def _print(result: TrainingResult, facts: Mapping[str, Any]) -> None:
    from accelsim.report.table import text_table
    from accelsim.report.words import sentences

    steps = f"{count_of(facts['steps'], 'step')} of {count_of(facts['batch'], 'sample')}"
    title = f"{facts['model']}: {steps} in {facts['precision']}"
    show(text_table([title, ""], [*_learnt_rows(result, facts), *_chip_rows(facts)], width()))
    click.echo("\n" + paragraphs(_words(result, facts)))
    if result.step is not None:
        from accelsim.account.latency import layers
        from accelsim.account.latency import summary as of_run

        click.echo(
            "\nOne step: " + paragraphs(sentences(result.step, layers(result.step), of_run(result.step)))
        )


def _learnt_rows(result: TrainingResult, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    from accelsim.report.text import percent

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


def _chip_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    from accelsim.report.text import si

    if facts["chip"] is None:
        return []
    return [
        (f"time per step on {facts['chip']}", si(facts["step_s"], "s")),
        ("energy per step", si(facts["step_J"], "J")),
        ("time of all steps", si(facts["time_s"], "s")),
        ("energy of all steps", si(facts["energy_J"], "J")),
        ("samples per second", si(facts["images_per_s"])),
    ]


def _words(result: TrainingResult, facts: Mapping[str, Any]) -> list[str]:
    """Return what the numbers mean, above all when the training failed."""
    from math import log

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
