"""Answers about runs on chips: one run, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from click import wrap_text

from accelsim.account.latency import layers, summary
from accelsim.errors import AccelsimError, Gather, Problem, UsageError, count_of
from accelsim.files import Make, text
from accelsim.report.answer import Answer, Lines, Part, Table, block, bullet, notes
from accelsim.report.table import Column, layer_table, summary_table, table
from accelsim.report.text import Facts, si, signed
from accelsim.report.words import helps, nothing_helps, option_texts, sentences
from accelsim.request.job import execute, prepare
from accelsim.request.variants import Simulated, Variant

if TYPE_CHECKING:
    from accelsim.explore.against_reference import Verdict
    from accelsim.explore.what_ifs import WhatIf
    from accelsim.machine.run import Run
    from accelsim.request import Request

    Written = Mapping[Path, Make | Mapping[str, Make | None]]

WORST = 5
"""Tensors beyond the bound that --check names."""


SLOW_S = 30.0
"""Seconds from which on a run is told how it would be quicker."""


def _record(found: Simulated) -> dict[str, object]:
    """Return the row of the CSV: what was set, then every compared figure."""
    from accelsim.report.compare import METRICS

    facts = summary(found.run) if found.run is not None else None
    figures = {each.column: each.value(facts) if facts is not None else None for each in METRICS}
    return {"chip": found.variant.on, "set": "; ".join(found.variant.set), **figures, "note": found.why}


def one(
    gather: Gather,
    request: Request,
    variant: Variant,
    stage: Callable[[str, float], None],
    check: bool,
    advice: bool,
    most: int | None,
    out: Path | None,
    save_mapping: Path | None,
    save_trace: Path | None,
) -> Answer:
    """Simulate a request, and report it; on stderr how it would be quicker on this machine, where it took long.

    ``check``: compare with a second execution, and fail on wrong values; ``advice``: simulate changes of the chip too;
    ``most``: layers of the table. ``out``, ``save_mapping``, ``save_trace``: what is written. Raises all problems.
    """
    stage("read", 0.0)
    job = prepare(request, gather)
    begun = monotonic()
    run = execute(job, check, stage, save_trace is not None)
    aside = _quicker(run, monotonic() - begun)
    verdict = changes = None
    if check:
        from accelsim.explore.against_reference import check_run

        stage("check", 0.0)
        verdict = check_run(run, job.graph)
    if advice:
        from accelsim.explore.what_ifs import what_ifs

        stage("what if", 0.0)
        changes = what_ifs(run, lambda share: stage("what if", share))
    written: dict[Path, Make | Mapping[str, Make | None]] = {}
    if out is not None:
        from accelsim.report.write import report_files

        stage("report", 0.0)
        written[out] = report_files(run, changes)
    if save_mapping is not None:
        from accelsim.program.mapping_file import mapping_text

        written[save_mapping] = text(mapping_text(run.program))
    if save_trace is not None:
        from accelsim.machine.save_accesses import accesses_file

        written[save_trace] = accesses_file(run, save_trace)
    return replace(_one(Simulated(variant, run), run, changes, verdict, most, written), aside=aside)


def _quicker(run: Run, took_s: float) -> list[str]:
    """Return how exact sums of Tensor Cores would be quicker, where nothing compiled them and they took long."""
    if took_s < SLOW_S or run.values != "exact":
        return []
    from accelsim.formats.dot import rule_of
    from accelsim.formats.loops import compiled

    if compiled("dot_compiled") is not None:
        return []
    rules = {step.node.attrs.get("dot", "") for step in run.program.steps} - {""}
    if all(rule_of(rule).kernel is not None for rule in rules):
        return []
    text = (
        f"This took {took_s:.0f} s: sums of Tensor Cores are computed exactly, without Numba. With it "
        "(pip install 'accelsim[fast]') they take about a seventh of the time; --values fast and off do without them."
    )
    return [text]


def most_of(most: int, layers: int) -> str:
    """Return the subject of a sentence about the layers that are shown."""
    return f"The layer of {layers} that adds" if most == 1 else f"The {most} of {layers} layers that add"


def _one(
    found: Simulated,
    run: Run,
    changes: list[WhatIf] | None,
    verdict: Verdict | None,
    most: int | None,
    written: Written,
) -> Answer:
    """The table of layers, the summary, the sentences, what would help; then the check, which fails on wrong values."""
    rows, facts = layers(run), summary(run)
    what_ifs = None if changes is None else [each.as_dict() for each in changes]
    shown: list[Part] = [partial(layer_table, rows, most=most)]
    if most is not None and facts["layers"] > most:
        shown.append(Lines(f"{most_of(most, facts['layers'])} most time; --layers all shows all."))
    shown += ["", partial(summary_table, facts), "", " ".join(sentences(run, rows, facts))]
    shown += [*_helping(what_ifs), *_dram(run), *notes(facts["notes"])]
    checked = {}
    if verdict is not None:
        checked = {"check": verdict.as_dict()}
        shown += ["", block("check", _verdict_rows(verdict))]
        shown += [bullet(choice.text()) for choice in verdict.choices[:WORST]]
    wrong = verdict is not None and bool(verdict.wrong)
    figures = facts | {"what_ifs": what_ifs} | checked
    return Answer(figures, shown, [_record(found)], other_files=written, fails=wrong)


def _helping(found: list[dict[str, object]] | None) -> list[Part]:
    """The changes that help most, with the option that repeats each."""
    if found is None:
        return []
    if not helps(found):
        return ["", nothing_helps(found)]
    title = f"What would help most, of {count_of(len(found), 'change')} simulated one at a time:"
    return ["", title, partial(_gains, helps(found))]


def _gains(named: Sequence[Facts], width: int) -> str:
    """A line for each change. An option is never broken, so that it can be copied."""
    wide = max(len(what["change"]) for what in named)
    gains = [f"  {signed(-what['saved']):>7}  {si(what['latency_s'], 's'):>8}  " for what in named]
    lines = [
        f"{gain}{what['change']:{wide}}  {' '.join(option_texts(what))}"
        for gain, what in zip(gains, named, strict=True)
    ]
    if max(map(len, lines)) <= width:
        return "\n".join(lines)
    lines = []
    for gain, what in zip(gains, named, strict=True):
        lines.append(wrap_text(what["change"], width, gain, " " * len(gain)))
        lines += [f"    {option}" for option in option_texts(what)]
    return "\n".join(lines)


def _dram(run: Run) -> list[Part]:
    if not run.dram:
        return []
    from accelsim.machine.memory_models import engine
    from accelsim.report.dram_table import COLUMNS, dram_sentences

    told = [*dram_sentences(run), engine(run.memory_model)]
    return ["", Table(COLUMNS, list(run.dram.items())), "", " ".join(filter(None, told))]


def _verdict_rows(verdict: Verdict) -> list[tuple[str, str]]:
    equal = sum(row.relative == 0 for row in verdict.rows)
    compared = f"{len(verdict.rows)} compared, {equal} equal to the last bit, {len(verdict.wrong)} beyond the bound"
    rows = [("reference", verdict.by), ("tensors", compared)]
    if equal < len(verdict.rows):
        worst = verdict.worst
        told = f"{worst.relative:.2g} of the largest element, in {worst.tensor}; {_bound(worst.bound)}"
        rows.append(("largest error", told))
    rows += [(f"SQNR of {name}", f"{value:.1f} dB") for name, value in verdict.sqnr_dB.items()]
    rows += [("off", f"{row.tensor}: {row.relative:.2g}; {_bound(row.bound)}") for row in verdict.wrong[:WORST]]
    return [*rows, ("verdict", verdict.text)]


def _bound(bound: float) -> str:
    return f"at most {bound:g}" if bound else "must be equal"


def several(found: Sequence[Simulated], out: Path | None) -> Answer:
    """Report several runs, one per row; a run that does not fit fails the command.

    ``out``: a report of each run goes into a directory of its own in it, numbered in the order of the table.
    """
    from accelsim.report.compare import basis

    facts = [None if each.run is None else summary(each.run) for each in found]
    told = [
        {"label": each.variant.label, **(figures or {"infeasible": each.why})}
        for each, figures in zip(found, facts, strict=True)
    ]
    entries = list(filter(None, facts))
    shown: list[Part] = [partial(_side_by_side, found, facts)]
    if said := basis(entries):
        shown += ["", Lines(said)]
    shown += notes(note for each in found if each.run is not None for note in each.run.job.notes)
    problems = [Problem(each.why, each.variant.label) for each in found if each.run is None]
    rows = [_record(each) for each in found]
    fails: AccelsimError | bool = UsageError(problems) if problems else False
    return Answer(told, shown, rows, other_files=_reports(found, out) if out else {}, fails=fails)


def _side_by_side(found: Sequence[Simulated], facts: Sequence[dict[str, object] | None], width: int) -> Any:
    """Values that tell the runs apart are never shortened."""
    from accelsim.report.compare import common_metrics

    metrics = common_metrics(list(filter(None, facts)))
    cells = []
    for each, figures in zip(found, facts, strict=True):
        values = [metric.text(metric.value(figures)) for metric in metrics] if figures else []
        told = values or ["does not fit", *[""] * (len(metrics) - 1)]
        cells.append([Path(each.variant.on).stem, *(value for _, value in each.variant.swept), *told])
    columns = [
        Column("run", right=False, least=12),
        *(Column(name, right=False) for name, _ in found[0].variant.swept),
        *(Column(metric.title, rank, right=False, least=12) for rank, metric in enumerate(metrics, 1)),
    ]
    return table(columns, cells, width)


def _reports(found: Sequence[Simulated], out: Path) -> Written:
    from accelsim.report.write import report_files

    files = {}
    for index, each in enumerate(found, 1):
        if each.run is not None:
            letters = (letter if letter.isalnum() or letter in "-._" else "-" for letter in each.variant.label)
            files[out / f"{index}-{''.join(letters)}"[:100]] = report_files(each.run)
    return files
