"""Output of ``accelsim run`` for a prompt and the tokens after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import check_file_target, paragraphs, progress, show, show_notes, width
from accelsim.errors import Problem, UsageError, count_of
from accelsim.files import table, write_file

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.explore.generation import Call, Generation
    from accelsim.machine.run import Run
    from accelsim.request import Request

SEVERAL = "several --on or --set"


class Outputs(NamedTuple):
    """Where a generation is written, and what was asked for that only a run of one call has."""

    out: Path | None
    table: Path | None
    as_json: bool
    single: Mapping[str, Any]


def print_generation(request: Request, gather: Gather, outputs: Outputs) -> bool:
    """Simulate, write and print the generation that ``request`` asks for. False where it asks for a run of one graph.

    Raises UsageError, all problems at once, for ``outputs.single`` that were given and targets that cannot be written.
    """
    from accelsim.workload.sources.load import generation_of

    with gather.also():
        asked = generation_of(str(request.model), request.param)
        if asked is None:
            return False
        _refuse(asked, outputs.single)
    _check_targets(outputs, gather)
    gather.done()
    from accelsim.explore.generation import generation
    from accelsim.report.generation_report import call_records, generation_facts, write_generation

    with progress(1) as stage:
        found = generation(request, lambda share: stage("simulate", share))
    if outputs.out is not None:
        write_generation(found, outputs.out)
    if outputs.table is not None:
        write_file(outputs.table, table(*call_records(found)))
    if outputs.as_json:
        click.echo(json.dumps(generation_facts(found), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        show_generation(found)
        _print_files(outputs)
    return True


def _refuse(asked: tuple[str, dict[str, int], int, int], single: Mapping[str, Any]) -> None:
    """UsageError for what was given of ``single``, with the run of one call that has it."""
    name, params, prompt, new = asked
    others = "".join(f",{key}={value}" for key, value in params.items())
    calls = f"'{name}?seq={prompt}{others}' (the prompt)"
    if new > 1:
        calls += f" or '{name}?seq=1,past={prompt}{others}' (the token behind the first)"
    problems = [
        Problem(
            f"{option} with prompt and new, which are several runs",
            expected="one --on and one value of each --set"
            if option == SEVERAL
            else f"a run of one call: {calls}",
        )
        for option, given in single.items()
        if given
    ]
    if problems:
        raise UsageError(problems)


def _check_targets(outputs: Outputs, gather: Gather) -> None:
    from accelsim.report.generation_report import check_generation_target

    if outputs.out is not None:
        with gather.also():
            check_generation_target(outputs.out)
    if outputs.table is not None:
        with gather.also():
            check_file_target(outputs.table)


def _print_files(outputs: Outputs) -> None:
    if outputs.out is not None or outputs.table is not None:
        click.echo()
    from accelsim.report.saved_summary import CALLS_IN_A_GENERATION

    if outputs.out is not None:
        click.echo(f"Generation: {outputs.out}")
        for part in CALLS_IN_A_GENERATION:
            if (page := outputs.out / part / "report.html").exists():
                click.echo(f"Report: {page}")
    if outputs.table is not None:
        click.echo(f"CSV: {outputs.table}")


def show_generation(found: Generation) -> None:
    """The calls as a table, the summary, and sentences."""
    from accelsim.report.generation_report import kernels_row
    from accelsim.report.table import text_table
    from accelsim.report.text import decoding_text, ends_text, interval_text, si

    headers = ["call", "tokens", "time", "tokens/s", "energy", "per token", "read", "written"]
    show(text_table(headers, list(_rows(found)), width()))
    click.echo()
    rows = [
        ("chip", f"{found.chip.title} ({found.chip.name})"),
        (
            "model",
            f"{found.model}, {found.dtype}, {found.sequences} x ({found.prompt:,} + {found.new:,} tokens)",
        ),
        *kernels_row(found.chip, *_kernels(found.prefill)),
        (
            "time to first token",
            si(found.time_to_first_token_s, "s") + interval_text(found.intervals.first),
        ),
        ("decoding", decoding_text(found.tokens_per_s, found.tokens_interval_per_s)),
        *_per_token(found),
        ("energy per token", si(found.energy_per_token_J, "J") + ends_text(found.energy_interval_J, "J")),
        (
            "whole generation",
            f"{si(found.total_s, 's')}{interval_text(found.intervals.total)}, {si(found.total_J, 'J')}",
        ),
    ]
    show(text_table(["generation", ""], rows, width()))
    click.echo("\n" + paragraphs(sentences(found)))
    show_notes([*found.prefill.job.notes, *_emulated(found.prefill)])


def _kernels(run: Run) -> tuple[str, str, str]:
    """Fusion, and the format of keys and values and the serving stack where they were asked for."""
    return run.job.options.fusion, run.job.options.kv_dtype, run.job.request.stack


def _emulated(run: Run) -> list[str]:
    """Return the note on what an emulated format is computed as; nothing where none was asked for."""
    if not run.job.options.emulate:
        return []
    return [note for note in run.program.notes if note.startswith("quantise:")]


def _per_token(found: Generation) -> list[tuple[str, str]]:
    """Return the mean time of a decode step, where there is one."""
    from accelsim.report.text import interval_text, si

    if found.token_s is None:
        return []
    return [("time per token", si(found.token_s, "s") + interval_text(found.intervals.token))]


def _rows(found: Generation) -> Any:
    from accelsim.account.latency import traffic_by_memory
    from accelsim.report.text import si

    many = found.sequences * found.prompt
    of = traffic_by_memory(found.prefill).values()
    yield ("prefill", f"{many:,}", si(found.prefill.seconds, "s"), si(many / found.prefill.seconds),
           si(found.prefill_J, "J"), si(found.prefill_J / many, "J"), si(sum(m["read_B"] for m in of), "B"),
           si(sum(m["write_B"] for m in of), "B"))  # fmt: skip
    ends = found.calls if len(found.calls) < 2 else (found.calls[0], found.calls[-1])
    for call in ends:
        read, written = (sum(moved[way] for moved in call.traffic_B.values()) for way in (0, 1))
        yield (f"decode @{call.past:,}", f"{found.sequences:,}", si(call.seconds, "s"),
               si(found.sequences / call.seconds), si(call.energy_J, "J"), si(call.energy_J / found.sequences, "J"),
               si(read, "B"), si(written, "B"))  # fmt: skip


def sentences(found: Generation) -> list[str]:
    """Return what the figures say, each computed from the calls."""
    from accelsim.report import intervals
    from accelsim.report.text import at_most, si

    prefill = f"The first token appears after {si(found.time_to_first_token_s, 's')}."
    if not found.calls:
        return [prefill, *intervals.sentences(found.intervals.first, "the first token")]
    first, last = found.calls[0], found.calls[-1]
    told = [
        prefill,
        f"Decoding then produces {si(found.tokens_per_s)} tokens per second at {si(found.energy_per_token_J, 'J')} "
        f"each. The first decode step takes {si(first.seconds, 's')}; the last, after {count_of(last.past, 'token')}, "
        f"takes {si(last.seconds, 's')}.",
        f"Memory bandwidth alone accounts for {_floor(last)} of the last decode step.",
        *intervals.sentences(found.intervals.total, "the whole generation"),
    ]
    if len(found.calls) == found.decode_calls:
        one = found.decode_calls == 1
        told.append(f"{'The only decode step was' if one else f'All {found.decode_calls:,} decode steps were'} "
                    "simulated.")  # fmt: skip
    else:
        told.append(
            f"{len(found.calls)} of {found.decode_calls:,} decode steps were simulated; the rest were interpolated "
            f"(error at the last check: {at_most(found.error)})."
        )
    return told


def _floor(call: Call) -> str:
    from accelsim.report.text import percent

    return percent(call.floor_s / call.seconds)
