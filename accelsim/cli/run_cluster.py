"""``accelsim run ... --on CLUSTER``: a training step, on a chip too, or a prompt and the tokens behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import (
    check_file_target,
    pairs,
    paragraphs,
    progress,
    save_csv,
    show,
    show_json,
    whole,
    width,
)
from accelsim.cli.fusion import Fused, problems, read
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from accelsim.cluster.step.fusing import TunedStep
    from accelsim.cluster.step.result import Lasting, StepResult
    from accelsim.cluster.step.search import WhatIf


USED = frozenset(
    {"model", "on", "set", "batch", "dtype", "fusion", "site", "values", "ignore_capacity", "param", "seed"}
)
"""Fields of a request that mean something on a cluster."""
OF_SERVING = ("dtype", "fusion", "site", "quantiser", "kv_dtype", "stack")
"""Fields that say how devices compute, in a generation."""


class OnCluster(NamedTuple):
    """What the command line gave beside the fields of a request."""

    plan: str
    train: bool
    out: Path | None
    table: Path | None
    as_json: bool
    no_advice: bool
    fused: Fused = Fused()
    whole: bool = False
    tokens: int | None = None
    attention: str = ""
    overlap_tensor: bool = False
    offload: bool = False
    library: str = ""

    @property
    def decoder_only(self) -> dict[str, bool]:
        """Options of the training of decoders -> whether they were given."""
        return {
            "--attention": bool(self.attention), "--overlap-tensor": self.overlap_tensor,
            "--offload-activations": self.offload,
        }  # fmt: skip


def on_cluster(on: Sequence[str], given: OnCluster) -> bool:
    """Return whether a cluster is among what follows ``--on``, or a chip is to train: a cluster of one. UsageError for
    options of clusters on chips."""
    from accelsim.spec.yaml.clusters import is_cluster, listed

    if given.train or any(is_cluster(name) for text in on for name in listed(text)):
        return True
    options = {"--plan": bool(given.plan), "--whole": given.whole, "--tokens": given.tokens is not None,
               **given.decoder_only, "--library": bool(given.library)}  # fmt: skip
    wrong = [name for name, there in options.items() if there] + given.fused.given
    if wrong:
        what = f"{' and '.join(wrong)} on {', '.join(on)}"
        training = "" if wrong == ["--library"] else ", or --train"
        raise UsageError(Problem(what, "--on", f"a cluster (see 'accelsim clusters'){training}"))
    return False


def print_on_cluster(asked: Mapping[str, Any], given: OnCluster, unused: Mapping[str, bool]) -> None:
    """Run and print. ``asked``: fields of a request as the command line gave them; ``unused``: other options and
    whether they were given. Raises UsageError with all that does not go with a cluster."""
    from accelsim.cli.run_cluster_serve import is_serving
    from accelsim.workload.sources.load import check_there

    model = str(asked["model"])
    serving = is_serving(model)
    if not serving:
        check_there(model)
    used = USED.union(OF_SERVING) if serving and not given.train else USED
    found = [*_problems(asked, unused, used), *_mode(asked, given, serving)]
    found += problems(given.fused, given.train, given.plan)
    if found:
        raise UsageError(found)
    if serving:
        from accelsim.cli.run_cluster_serve import Outputs, Serving, print_serving
        from accelsim.cluster.step.costs import Setting

        wanted = Serving(
            model, asked["on"][0], asked["set"], given.plan, asked["batch"],
            Setting(**{name: asked[name] for name in OF_SERVING}), given.library, _ignores_capacity(),
            not given.no_advice,
        )  # fmt: skip
        print_serving(wanted, Outputs(given.out, given.table, given.as_json))
        return
    if given.whole:
        print_whole(asked, given, _ignores_capacity())
        return

    print_training(asked, given, _ignores_capacity())


def _ignores_capacity() -> bool:
    """Return whether --ignore-capacity holds while the command runs."""
    from accelsim.workload.limits import limits

    return limits().ignore_capacity


def _problems(asked: Mapping[str, Any], unused: Mapping[str, bool], used: frozenset[str]) -> list[Problem]:
    from accelsim.request.fields import DEFAULTS, OPTIONS
    from accelsim.request.recording import flag
    from accelsim.spec.yaml.clusters import is_cluster, listed

    chips = [name for text in asked["on"] for name in listed(text)]
    found = []
    if len(chips) > 1:
        found.append(
            Problem(f"--on {','.join(chips)}", expected="one at a time of a cluster, or with --train")
        )
    changed = [
        flag(name) for name in OPTIONS
        if name in asked and name not in used and asked[name] and asked[name] != DEFAULTS[name]
    ]  # fmt: skip
    changed += [name for name, there in unused.items() if there]
    if any(map(is_cluster, chips)):
        return found + [Problem(f"{name} on a cluster", expected="a chip for it") for name in changed]
    return found + [Problem(f"{name} with --train", expected="a run without --train") for name in changed]


def _mode(asked: Mapping[str, Any], given: OnCluster, serving: bool) -> list[Problem]:
    found = []
    if serving and given.train:
        found.append(Problem("--train of a prompt and new tokens", expected="a model without prompt and new"))
    if not serving and not given.train:
        found.append(
            Problem(
                f"{asked['model']} on a cluster needs a task",
                expected="--train for a training step, or a decoder that generates ('MODEL?prompt=P,new=N')",
            )
        )
    wrong = [name for name, there in given.decoder_only.items() if there]
    if wrong and not given.train:
        found.append(Problem(f"{' and '.join(wrong)} without --train", expected="--train: a training step"))
    if given.overlap_tensor and not given.plan:
        found.append(Problem("--overlap-tensor without --plan", expected="a plan with sp, such as tp=8,sp"))
    if given.library and not serving:
        found.append(
            Problem("--library without a generation", expected="a decoder with prompt and new tokens")
        )
    if given.tokens is not None and (given.whole or not given.train):
        found.append(Problem("--tokens", expected="--train without --whole: so many in a whole training"))
    if given.whole and not given.train:
        found.append(Problem("--whole without --train", expected="--train: a training step"))
    if given.whole and given.fused.given:
        what = f"{' and '.join(given.fused.given)} with --whole"
        found.append(
            Problem(what, expected="--whole alone: gradients are sent in one piece behind the passes")
        )
    if given.whole and given.out is not None:
        found.append(Problem("--out with --whole, which has no report", expected="--csv or --json"))
    if asked["values"] != "off":
        what = f"--values {asked['values']} {'with --train' if given.train else 'on a cluster'}"
        found.append(Problem(what, expected="--values off; values are those of 'accelsim train'"))
    return found


def print_whole(asked: Mapping[str, Any], given: OnCluster, ignore_capacity: bool) -> None:
    """Simulate and print. Raises UsageError, SpecError, OutOfMemory."""
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.one_machine import machines
    from accelsim.report.one_machine import HEADERS, device_rows, facts_of, records, sentences
    from accelsim.report.table import text_table

    if given.table is not None:
        check_file_target(given.table)
    sizes = pairs("--param", asked["param"] or (), whole, "a whole number from 1")
    wanted = Asked(
        str(asked["model"]), asked["on"][0], given.plan, asked["batch"], asked["set"], asked["dtype"],
        asked["fusion"], asked["site"], ignore_capacity=ignore_capacity, params=sizes, attention=given.attention,
        overlap_tensor=given.overlap_tensor, offload=given.offload,
    )  # fmt: skip
    with progress(2) as stage:
        stage("read", 0.0)
        made = ready(wanted)
        stage("simulate", 0.0)
        bare, full = machines(made.work, made.fleet, made.plan, made.batch, made.options)
    save_csv(given.table, records(full))
    if given.as_json:
        show_json(facts_of(bare, full))
        return
    show(text_table(HEADERS, device_rows(full), width()))
    click.echo("\n" + paragraphs(sentences(bare, full)))
    if given.table is not None:
        click.echo(f"\nCSV: {given.table}")


def print_training(asked: Mapping[str, Any], given: OnCluster, ignore_capacity: bool) -> None:
    """Simulate, write and print. Raises UsageError, SpecError, OutOfMemory."""
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.fusing import tuned
    from accelsim.cluster.step.result import lasting
    from accelsim.cluster.step.search import what_ifs
    from accelsim.report.answer import flat
    from accelsim.report.step import facts_of, records
    from accelsim.report.write_step import check_target, write_step

    if given.out is not None:
        check_target(given.out)
    if given.table is not None:
        check_file_target(given.table)
    wanted = Asked(
        str(asked["model"]), asked["on"][0], given.plan, asked["batch"], asked["set"], asked["dtype"],
        asked["fusion"], asked["site"], gradients=read(given.fused), gradient_B=given.fused.gradient_B,
        ignore_capacity=ignore_capacity, params=_counts(asked["param"]), overlap_gather=given.fused.overlap_gather,
        attention=given.attention, overlap_tensor=given.overlap_tensor, offload=given.offload,
    )  # fmt: skip
    tune = given.fused.tune_gradients
    with progress(3 - given.no_advice + tune) as stage:
        stage("read", 0.0)
        made = ready(wanted)
        stage("simulate", 0.0)
        made, result = made.fitted()
        helps = None
        if not given.no_advice:
            stage("what if", 0.0)
            helps = what_ifs(made, result, lambda share: stage("what if", share))
        if tune:
            stage("tune", 0.0)
        fused = tuned(made) if tune else None
    whole = None if given.tokens is None else lasting(result, given.tokens)
    save_csv(given.table, [flat(row) for row in records(result)])
    if given.out is not None:
        write_step(made, result, given.out, helps, fused, whole)
    if given.as_json:
        show_json(facts_of(result, helps, fused, whole))
        return
    show_step(result, helps, fused, whole)
    written = [("Report", given.out), ("CSV", given.table)]
    lines = [f"{what}: {path}" for what, path in written if path is not None]
    if lines:
        click.echo("\n" + "\n".join(lines))


def _counts(texts: Sequence[str] | None) -> dict[str, int]:
    """Parameters NAME=COUNT of a listed model."""
    from accelsim.cli.common import pairs, whole

    return pairs("--param", texts or (), whole, "a whole number from 1")


def show_step(
    result: StepResult,
    helps: Sequence[WhatIf] | None,
    fused: TunedStep | None = None,
    whole: Lasting | None = None,
) -> None:
    """Devices, the summary, what fused gradients cost, sentences."""
    from accelsim.report import fusing
    from accelsim.report.step import (
        DEVICE_HEADERS,
        device_rows,
        helping,
        lasting_rows,
        sentences,
        summary_rows,
    )
    from accelsim.report.table import text_table

    show(text_table(DEVICE_HEADERS, device_rows(result), width()))
    click.echo()
    show(text_table(["training step", ""], summary_rows(result), width()))
    if whole is not None:
        click.echo()
        show(text_table(["whole training", ""], lasting_rows(whole), width()))
    if fused is not None:
        click.echo()
        show(text_table(fusing.headers(fused), fusing.rows(fused), width()))
    click.echo("\n" + paragraphs(sentences(result, None, fused, whole)))
    if helps is not None:
        click.echo("\n" + paragraphs([helping(helps)]))
