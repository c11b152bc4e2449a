"""``accelsim run``: simulate a model on a chip and say what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import (
    OUT,
    check_file_target,
    check_report_target,
    count_or_all,
    example,
    large_count,
    paragraphs,
    png_option,
    progress,
    show,
    show_notes,
    width,
)
from accelsim.cli.fusion import decoder_options, fusion_options, taken
from accelsim.cli.groups import Grouped
from accelsim.cli.options import read, run_options
from accelsim.cli.run_many import (
    Outcome,
    Variant,
    outcomes,
    refuse,
    show_json,
    show_table,
    variants,
    write_csv,
    write_reports,
)
from accelsim.errors import Problem, UsageError, count_of

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.explore.against_reference import Verdict
    from accelsim.explore.what_ifs import WhatIf
    from accelsim.machine.run import Run
    from accelsim.request import Request
    from accelsim.request.job import Job

LAYERS = 10
"""Layers that the table shows unless asked for more."""

WORST = 5
"""Tensors beyond the bound that --check names."""


@click.command(cls=Grouped, epilog=example(
    "accelsim run resnet50 --on tpu-v1 --out reports/resnet50-tpu-v1",
    "accelsim run my-model.onnx --on neuroncore-v2 --dtype bf16 --shape tokens=1,128 --check",
    "accelsim run 'gemm?M=64,N=512,K=512' --on my-chip.yaml --set 'clock=1 GHz' --json",
    "accelsim run 'llama2-7b?prompt=512,new=128' --on neuroncore-v2 --values off",
    "accelsim run cnn --on edu-mixed --dtype int4 --layer-dtype conv1=fp16 --ranges mse --sparsity 2:4",
    "accelsim run resnet50 --on a100-80-sxm --train --batch 64 --values off",
    "accelsim run gpt3 --on 128x-dgx-a100 --plan tp=8,pp=8,dp=16,recompute=full --train --batch 1536 --values off",
    "accelsim run 'mlp?inputs=16,hidden=8' --on 4x-edu --plan dp=2,pp=2 --train --whole --batch 8 --values off",
    "accelsim run resnet50 --on 8x-t4-pcie --plan dp=8 --train --batch 256 --tune-gradients --values off",
))  # fmt: skip
@click.argument("model")
@run_options
@click.option(
    "--plan",
    default="",
    metavar="PLAN",
    help="On a cluster: how data, layers and tensors are shared out: 'tp=8,pp=8,dp=16,schedule=1f1b'. "
    "Without recompute=, accelsim chooses the least recomputation that fits in memory; without microbatches=, the "
    "fastest size that fits.",
)
@click.option(
    "--train",
    is_flag=True,
    help="Simulate a training step (forward, backward, update) on a cluster or a chip.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="With --train: simulate all devices as one machine, tile by tile; small clusters.",
)
@click.option("--tokens", callback=large_count, metavar="N",
              help="With --train: how long training on N tokens takes, such as 300e9.")  # fmt: skip
@decoder_options
@click.option("--library", default="", metavar="NAME",
              help="Of a generation on a cluster: the library of its collectives, such as nccl or vllm; default: "
              "vllm where the cluster knows it and kernels are those of serving stacks.")  # fmt: skip
@fusion_options
@click.option("--save-mapping", type=OUT, help="Write the mapping of every layer to this file.")
@click.option(
    "--save-trace", type=OUT, help="Write every DRAM access to this .npz file (models pattern and bank)."
)
@click.option(
    "--check",
    is_flag=True,
    help="Compare every tensor with a second execution: floats with ONNX Runtime within a bound that depends on the "
    "format, integers with plain arithmetic to the last bit. Exit code 1 if one differs.",
)
@click.option(
    "--out",
    type=OUT,
    help="Directory for the report: tables, ledger, timeline, plots, one HTML page. For a prompt and "
    "new tokens: figures, calls, a plot, and the reports of two calls.",
)
@png_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON, and nothing else, on stdout."
)
@click.option(
    "--csv",
    "table",
    type=OUT,
    help="Write the figures of the run, of several, or of the calls of a generation, to this file.",
)
@click.option(
    "--no-advice", is_flag=True, help="Do not simulate changes of the chip to find those that help most."
)
@click.option("--layers", callback=count_or_all, default=str(LAYERS), show_default=True, metavar="N|all",
              help="Rows of the table: the layers that add most time, or all in their order.")  # fmt: skip
def run(
    plan: str,
    train: bool,
    whole: bool,
    tokens: int | None,
    attention: str,
    overlap_tensor: bool,
    offload: bool,
    library: str,
    check: bool,
    out: Path | None,
    save_mapping: Path | None,
    save_trace: Path | None,
    table: Path | None,
    as_json: bool,
    no_advice: bool,
    layers: int | None,
    **asked: Any,
) -> None:
    """Simulate MODEL (an ONNX file, a name from 'accelsim models', or a topology CSV) on a chip.

    Prints a table of the layers, a summary, where time and energy went in plain words, and which changes of the chip
    would shorten the run most: each is simulated without values, which takes as long as such a run. A decoder with
    prompt=P and new=N ('llama2-7b?prompt=512,new=128') runs the prompt and then token by token: time to the first
    token, tokens per second, energy per token. With --train, a training step is simulated. On a cluster (see
    'accelsim clusters') both run by a parallel --plan.
    """
    from accelsim.cli.generation import SEVERAL, Outputs, print_generation
    from accelsim.cli.run_cluster import OnCluster, on_cluster, print_on_cluster
    from accelsim.errors import Gather

    together = OnCluster(plan, train, out, table, as_json, no_advice, taken(asked), whole, tokens, attention,
                         overlap_tensor, offload, library)  # fmt: skip
    single = {"--check": check, "--save-mapping": save_mapping, "--save-trace": save_trace}
    if on_cluster(asked["on"], together):
        print_on_cluster(asked, together, {name: bool(given) for name, given in single.items()})
        return
    chosen = variants(asked["on"], asked["set"])
    gather, files = Gather(), _Files(out, save_mapping, save_trace, table)
    request = _request(asked | {"on": chosen[0].on, "set": chosen[0].set}, gather)
    if print_generation(request, gather, Outputs(out, table, as_json, {**single, SEVERAL: len(chosen) > 1})):
        return
    _check_targets(files, check and request.values == "off", request.memory_model, gather)
    if len(chosen) > 1:
        refuse(single)
        _many(request, chosen, files, as_json, gather)
        return
    _one(request, gather, files, chosen[0], check, no_advice, layers, as_json)


def _one(
    request: Request, gather: Gather, files: _Files, variant: Variant, check: bool, no_advice: bool,
    layers: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Simulate one chip, write what was asked for and print the result. Exit code 1 where its values are wrong."""
    from accelsim.request.job import execute, prepare

    with progress(4 - no_advice + check + (files.out is not None)) as stage:
        stage("read", 0.0)
        job = prepare(request, gather)
        begun = monotonic()
        result = execute(job, check, stage, files.trace is not None)
        took_s = monotonic() - begun
        verdict = _verdict(result, job, stage) if check else None
        changes = None if no_advice else _what_ifs(result, stage)
        _write(result, changes, files, variant, stage)
    if as_json:
        _print_json(result, changes, verdict)
    else:
        _print(result, changes, layers, verdict)
        _print_quicker(result, took_s)
        _print_files(files, f"Report: {files.out / 'report.html'}" if files.out is not None else "")
    if verdict is not None and verdict.wrong:
        raise click.exceptions.Exit(1)


SLOW_S = 30.0
"""Seconds from which on a run is told how it would be quicker."""


def _print_quicker(result: Run, took_s: float) -> None:
    """On stderr, since it is about this machine: exact sums of Tensor Cores that nothing compiled."""
    from accelsim.formats.dot import rule_of
    from accelsim.formats.loops import compiled

    if took_s < SLOW_S or result.values != "exact" or compiled("dot_compiled") is not None:
        return
    rules = {step.node.attrs.get("dot", "") for step in result.program.steps} - {""}
    if any(rule_of(rule).kernel is None for rule in rules):
        text = (
            f"This took {took_s:.0f} s: sums of Tensor Cores are computed exactly, without Numba. With it "
            "(pip install 'accelsim[fast]') they take about a seventh of the time; --values fast and off do "
            "without them."
        )
        click.echo("\n" + paragraphs([text]), err=True)


def _request(asked: dict[str, Any], gather: Gather) -> Request:
    from accelsim.request import Request

    return Request(**read(asked, gather))


class _Files(NamedTuple):
    """What is to be written, and where."""

    out: Path | None
    mapping: Path | None
    trace: Path | None
    table: Path | None = None


def _check_targets(files: _Files, blind: bool, memory_model: str, gather: Gather) -> None:
    """Return what would be found out only after the simulation."""
    if files.out is not None:
        with gather.also():
            check_report_target(files.out)
    for file in (files.mapping, files.trace, files.table):
        if file is not None:
            with gather.also():
                check_file_target(file)
    if files.trace is not None:
        with gather.also():
            _check_trace(files.trace, memory_model)
    if blind:
        with gather.also():
            raise UsageError(
                Problem("--check with --values off", expected="exact or fast, which compute something")
            )


def _check_trace(file: Path, memory_model: str) -> None:
    from accelsim.machine.memory_models import MODELS

    followed = [name for name, level in MODELS.items() if level.dram is not None]
    problems = []
    if memory_model in MODELS and memory_model not in followed:
        what = f"--save-trace with memory model {memory_model!r}, which sees no addresses"
        problems.append(Problem(what, expected=f"--memory-model {' or '.join(followed)}"))
    if file.suffix != ".npz":
        problems.append(Problem(f"--save-trace {file}", expected="a name that ends in .npz"))
    if problems:
        raise UsageError(problems)


def _many(request: Request, chosen: Sequence[Variant], files: _Files, as_json: bool, gather: Gather) -> None:
    """Several runs: one table, one row each; exit code 2 when one does not fit."""
    found = outcomes(request, chosen, gather)
    reports = [] if files.out is None else write_reports(found, files.out)
    if files.table is not None:
        write_csv(files.table, found)
    if as_json:
        show_json(found)
    else:
        show_table(found)
        _print_files(files, f"Reports: {files.out}" if reports else "")
    if any(each.run is None for each in found):
        raise click.exceptions.Exit(2)


def _verdict(result: Run, job: Job, stage: Callable[[str, float], None]) -> Verdict:
    from accelsim.explore.against_reference import check_run

    stage("check", 0.0)
    return check_run(result, job.graph)


def _what_ifs(result: Run, stage: Callable[[str, float], None]) -> list[WhatIf]:
    from accelsim.explore.what_ifs import what_ifs

    stage("what if", 0.0)
    return what_ifs(result, lambda share: stage("what if", share))


def _write(
    result: Run,
    changes: list[WhatIf] | None,
    files: _Files,
    variant: Variant,
    stage: Callable[[str, float], None],
) -> None:
    if files.out is not None:
        from accelsim.report.write import write_run

        stage("report", 0.0)
        write_run(result, files.out, changes)
    if files.mapping is not None:
        from accelsim.program.mapping_file import save_mappings

        save_mappings(result.program, files.mapping)
    if files.trace is not None:
        from accelsim.machine.save_accesses import save_accesses

        save_accesses(result, files.trace)
    if files.table is not None:
        write_csv(files.table, [Outcome(variant, result)])


def _print_json(result: Run, changes: list[WhatIf] | None, verdict: Verdict | None) -> None:
    from accelsim.report.write import facts_of

    facts = facts_of(result, changes) | ({} if verdict is None else {"check": verdict.as_dict()})
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False))


def _print(result: Run, changes: list[WhatIf] | None, most: int | None, verdict: Verdict | None) -> None:
    """The table, the summary, the sentences, what would help; then the check."""
    from accelsim.account.latency import layers, summary
    from accelsim.report.table import layer_table, summary_table
    from accelsim.report.words import sentences

    rows, facts = layers(result), summary(result)
    show(layer_table(rows, width(), most))
    if most is not None and facts["layers"] > most:
        click.echo(f"The {most} of {facts['layers']} layers that add most time; --layers all shows all.")
    click.echo()
    show(summary_table(facts, width()))
    click.echo("\n" + paragraphs(sentences(result, rows, facts)))
    if changes is not None:
        _print_what_ifs([what.as_dict() for what in changes])
    if result.dram:
        _print_dram(result)
    show_notes(facts["notes"])
    if verdict is not None:
        click.echo()
        _print_check(verdict)


def _print_what_ifs(found: list[dict[str, Any]]) -> None:
    """The changes that help most, with the option that repeats each."""
    from accelsim.report.text import si, signed
    from accelsim.report.words import helps, nothing_helps, option_texts

    named = helps(found)
    if not named:
        click.echo("\n" + paragraphs([nothing_helps(found)]))
        return
    title = f"What would help most, of {count_of(len(found), 'change')} simulated one at a time:"
    click.echo("\n" + paragraphs([title]))
    wide = max(len(what["change"]) for what in named)
    gains = [f"  {signed(-what['saved']):>7}  {si(what['latency_s'], 's'):>8}  " for what in named]
    lines = [
        f"{gain}{what['change']:{wide}}  {' '.join(option_texts(what))}"
        for gain, what in zip(gains, named, strict=True)
    ]
    if max(map(len, lines)) <= width():
        click.echo("\n".join(lines))
        return
    for gain, what in zip(gains, named, strict=True):  # an option is never broken, so that it can be copied
        change = click.wrap_text(what["change"], width(), gain, " " * len(gain))
        click.echo("\n".join([change, *(f"    {option}" for option in option_texts(what))]))


def _print_dram(result: Run) -> None:
    from accelsim.machine.memory_models import engine
    from accelsim.report.dram_table import dram_sentences, dram_table

    click.echo()
    show(dram_table(result, width()))
    told = [*dram_sentences(result), engine(result.memory_model)]
    click.echo("\n" + paragraphs([sentence for sentence in told if sentence]))


def _print_check(verdict: Verdict) -> None:
    from accelsim.report.table import text_table

    equal = sum(row.relative == 0 for row in verdict.rows)
    rows = [
        ("reference", verdict.by),
        (
            "tensors",
            f"{len(verdict.rows)} compared, {equal} equal to the last bit, {len(verdict.wrong)} beyond the bound",
        ),
    ]
    if equal < len(verdict.rows):
        worst = verdict.worst
        text = f"{worst.relative:.2g} of the largest element, in {worst.tensor}; {_bound(worst.bound)}"
        rows.append(("largest error", text))
    rows += [(f"SQNR of {name}", f"{value:.1f} dB") for name, value in verdict.sqnr_dB.items()]
    rows += [
        ("off", f"{row.tensor}: {row.relative:.2g}; {_bound(row.bound)}") for row in verdict.wrong[:WORST]
    ]
    rows.append(("verdict", verdict.text))
    show(text_table(["check", ""], rows, width()))
    for choice in verdict.choices[:WORST]:
        click.echo(click.wrap_text(choice.text(), min(width(), 110), "- ", "  "))


def _bound(bound: float) -> str:
    return f"at most {bound:g}" if bound else "must be equal"


def _print_files(files: _Files, report: str) -> None:
    """Where what was written is; ``report``: the line about reports, '' for none."""
    named = (("Mapping", files.mapping), ("Trace", files.trace), ("CSV", files.table))
    told = [report] * bool(report) + [f"{what}: {file}" for what, file in named if file is not None]
    if told:
        click.echo("\n" + "\n".join(told))
