"""``accelsim run`` on chips: one run, several side by side, or a prompt and the tokens after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import check_file_target, check_report_target, paragraphs, progress
from accelsim.cli.options import read
from accelsim.errors import Gather, Infeasible
from accelsim.files.reading import exists
from accelsim.report.answer import Answer
from accelsim.request.fields import OPTIONS

if TYPE_CHECKING:
    from accelsim.machine.run import Run
    from accelsim.report.run import Variant
    from accelsim.request import Request

SEVERAL, ONE = "several --on or --set", "one --on and one value of each --set"
SLOW_S = 30.0
"""Seconds from which on a run is told how it would be quicker."""


def answer(
    gather: Gather,
    out: Path | None,
    save_mapping: Path | None,
    save_trace: Path | None,
    check: bool,
    no_advice: bool,
    layers: int | None,
    **asked: Any,
) -> Answer:
    """Simulate what the options ask for. Raises all problems at once."""
    from accelsim.report import run as said
    from accelsim.request import Request
    from accelsim.workload.sources.load import generation_of

    chosen = variants(asked["on"], asked["set"])
    fields = {name: value for name, value in asked.items() if name in OPTIONS}
    request = Request(**read(fields | {"on": chosen[0].on, "set": chosen[0].set}, gather))
    single = {"--check": check, "--save-mapping": save_mapping, "--save-trace": save_trace}
    calls: Any = ()
    with gather.also():
        calls = generation_of(str(request.model), request.param)
    if calls is not None:
        return _generation(gather, request, calls, {**single, SEVERAL: len(chosen) > 1}, out)
    gather.check(out, check_report_target)
    gather.check(save_mapping, check_file_target)
    gather.check(save_trace, check_file_target, lambda file: _check_trace(gather, file, request.memory_model))
    blind = check and request.values == "off"
    gather.refuse(blind, "--check with --values off", "", "exact or fast, which compute something")
    if len(chosen) > 1:
        for option, given in single.items():
            gather.refuse(given, f"{option} with several runs", "", ONE)
        return said.several(_several(gather, request, chosen), out)
    saves = {"mapping": save_mapping, "trace": save_trace}
    return _one(gather, request, chosen[0], saves, out, check, not no_advice, layers)


def _one(
    gather: Gather,
    request: Request,
    variant: Variant,
    saves: dict[str, Path | None],
    out: Path | None,
    check: bool,
    advice: bool,
    layers: int | None,
) -> Answer:
    """Return the answer about one run. ``saves``: files of its mapping and its trace."""
    from accelsim.report import run as said
    from accelsim.request.job import execute, prepare

    save_mapping, save_trace = saves["mapping"], saves["trace"]
    with progress(3 + advice + check + (out is not None)) as stage:
        stage("read", 0.0)
        job = prepare(request, gather)
        begun = monotonic()
        result = execute(job, check, stage, save_trace is not None)
        took_s = monotonic() - begun
        verdict = changes = None
        if check:
            from accelsim.explore.against_reference import check_run

            stage("check", 0.0)
            verdict = check_run(result, job.graph)
        if advice:
            from accelsim.explore.what_ifs import what_ifs

            stage("what if", 0.0)
            changes = what_ifs(result, lambda share: stage("what if", share))
        written: dict[Path, Any] = {}
        if out is not None:
            from accelsim.report.write import report_files

            stage("report", 0.0)
            written[out] = report_files(result, changes)
    if save_mapping is not None:
        from accelsim.files import text
        from accelsim.program.mapping_file import mapping_text

        written[save_mapping] = text(mapping_text(result.program))
    if save_trace is not None:
        from accelsim.machine.save_accesses import accesses_file

        written[save_trace] = accesses_file(result, save_trace)
    _tell_quicker(result, took_s)
    return said.one(said.Simulated(variant, result), changes, verdict, layers, written)


def _check_trace(gather: Gather, file: Path, memory_model: str) -> None:
    from accelsim.machine.memory_models import MODELS

    followed = [name for name, level in MODELS.items() if level.dram is not None]
    what = f"--save-trace with memory model {memory_model!r}, which sees no addresses"
    blind = memory_model in MODELS and memory_model not in followed
    gather.refuse(blind, what, "", f"--memory-model {' or '.join(followed)}")
    gather.refuse(file.suffix != ".npz", f"--save-trace {file}", "", "a name that ends in .npz")


def _tell_quicker(result: Run, took_s: float) -> None:
    """On stderr, since it is about this machine: exact sums of Tensor Cores that nothing compiled."""
    if took_s < SLOW_S or result.values != "exact":
        return
    from accelsim.formats.dot import rule_of
    from accelsim.formats.loops import compiled

    if compiled("dot_compiled") is not None:
        return
    rules = {step.node.attrs.get("dot", "") for step in result.program.steps} - {""}
    if any(rule_of(rule).kernel is None for rule in rules):
        text = (
            f"This took {took_s:.0f} s: sums of Tensor Cores are computed exactly, without Numba. With it "
            "(pip install 'accelsim[fast]') they take about a seventh of the time; --values fast and off do "
            "without them."
        )
        click.echo("\n" + paragraphs([text]), err=True)


def _generation(gather: Gather, request: Request, calls: Any, single: Mapping[str, Any], out: Path | None) -> Answer:
    """A prompt and new tokens.

    ``calls``: as ``generation_of`` gives it, () where it could not be read; ``single``: options of a run of one call.
    """
    from accelsim.explore.generation import generation
    from accelsim.report import generation_report as said

    if calls:
        name, params, prompt, new = calls
        others = "".join(f",{key}={value}" for key, value in params.items())
        expected = f"a run of one call: '{name}?seq={prompt}{others}' (the prompt)"
        if new > 1:
            expected += f" or '{name}?seq=1,past={prompt}{others}' (the token behind the first)"
        for option, given in single.items():
            what = f"{option} with prompt and new, which are several runs"
            gather.refuse(given, what, "", ONE if option == SEVERAL else expected)
    gather.check(out, said.check_target)
    gather.done()
    with progress(1) as stage:
        return said.answer(generation(request, lambda share: stage("simulate", share)), out)


def _several(gather: Gather, request: Request, chosen: Sequence[Variant]) -> list[Any]:
    """Each variant simulated; one that does not fit on its chip says so and stops none of the others."""
    from accelsim.report.run import Simulated
    from accelsim.request.job import execute, prepare

    jobs, found = [], []
    for variant in chosen:
        with gather.also():
            jobs.append(prepare(replace(request, on=variant.on, set=variant.set)))
    gather.done()
    with progress(len(chosen)) as stage:
        for variant, job in zip(chosen, jobs, strict=True):
            stage(variant.label, 0.0)
            try:
                found.append(Simulated(variant, execute(job)))
            except Infeasible as error:
                found.append(Simulated(variant, None, str(error)))
    return found


def variants(chips: Sequence[str], overrides: Sequence[str]) -> list[Variant]:
    """Every chip with every combination of settings; a field that is set more than once takes each value in turn.

    ``chips``: names or files, or several with commas between them.
    """
    from accelsim.report.run import Variant

    names = [name for text in chips for name in ([text] if exists(Path(text)) else text.split(","))]
    values: dict[str, list[str]] = {}
    for text in overrides:
        values.setdefault(text.partition("=")[0].strip(), []).append(text)
    found, tails = [], _tails([path for path, all_of in values.items() if len(all_of) > 1])
    for name, chosen in product(dict.fromkeys(part.strip() for part in names), product(*values.values())):
        settings = {path: text for path, text in zip(values, chosen, strict=True) if path in tails}
        swept = tuple((tails[path], text.partition("=")[2].strip()) for path, text in settings.items())
        found.append(Variant(name, chosen, " ".join([Path(name).stem, *settings.values()]), swept))
    return found


def _tails(paths: Sequence[str]) -> dict[str, str]:
    """The shortest end of each path that no other one has: 'rows' of 'matrix.rows'."""

    def ends(path: str) -> list[str]:
        parts = path.split(".")
        return [".".join(parts[start:]) for start in reversed(range(len(parts)))]

    taken = Counter(end for path in paths for end in ends(path))
    return {path: next((end for end in ends(path) if taken[end] == 1), path) for path in paths}
