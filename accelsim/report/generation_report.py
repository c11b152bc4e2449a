"""The answer about a generation: its calls, what a token takes, a plot, and the reports of two of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.account.latency import summary, traffic_by_memory
from accelsim.errors import count_of
from accelsim.explore.generation import Generation, generation
from accelsim.files import Make, as_bytes, records, text
from accelsim.program.roles import units
from accelsim.report import intervals
from accelsim.report.answer import Answer, Field, Part, Record, Table, block, in_unit, notes
from accelsim.report.picture import Axis, Panel, Picture, line, note
from accelsim.report.plot import SUFFIXES, pictures
from accelsim.report.saved_summary import CALLS_IN_A_GENERATION
from accelsim.report.style import BLUE, VERMILLION
from accelsim.report.text import at_most, decoding_text, ends_text, interval_text, percent, si
from accelsim.report.write import file_names, refuse_foreign, report_files
from accelsim.spec.chip import Chip
from accelsim.version import tool_version

if TYPE_CHECKING:
    from accelsim.cluster.serving.serve import Served
    from accelsim.kernels.whole import Interval
    from accelsim.request import Request

FACTS, CALLS, PLOT = "generation.json", "calls.csv", "time_per_token"
FUSED = {
    "serving": "fused as serving stacks do",
    "compiled": "elementwise functions behind what feeds them",
    "eager": "one for each node",
    "sdpa": "one for each node, attention in one",
}
"""Fusion -> what kernels are then."""
CALL_FIELDS = (
    Field("", "call", lambda row: row["call"] if row["call"] == "prefill" else f"decode @{row['past']:,}", True),
    Field("tokens", "tokens", "{:,}".format),
    Field("seconds", "time", in_unit("s")),
    Field("tokens_per_s", "tokens/s", si),
)
"""Columns that calls of every generation have."""
FIELDS = (
    *CALL_FIELDS,
    Field("energy_J", "energy", in_unit("J")),
    Field("energy_per_token_J", "per token", in_unit("J")),
    Field("read_B", "read", in_unit("B")),
    Field("write_B", "written", in_unit("B")),
)


def kernels_row(chip: Chip, fusion: str, kv_dtype: str = "", stack: str = "") -> list[tuple[str, str]]:
    """Return the rows about fused kernels, the serving stack and the format of keys and values, where they apply."""
    fuses = any(unit.spec.attends for unit in units(chip).values())
    rows = [("kernels", f"{FUSED[fusion]} (--fusion {fusion})")] if fuses else []
    rows += [("serving stack", f"{stack} (--stack {stack})")] if stack else []
    return rows + ([("keys and values", kv_dtype)] if kv_dtype else [])


def token_rows(
    found: Generation | Served, spans: Sequence[Interval | None], token_J: tuple[float, float] | None
) -> list[tuple[str, str]]:
    """Return the rows about times and energies. ``spans``: of the first token, a token and the whole generation."""
    first, each, whole = map(interval_text, spans)
    return [
        ("time to first token", si(found.time_to_first_token_s, "s") + first),
        ("decoding", decoding_text(found.tokens_per_s, found.tokens_interval_per_s)),
        ("time per token", si(found.token_s, "s") + each),
        ("energy per token", si(found.energy_per_token_J, "J") + ends_text(token_J, "J")),
        ("whole generation", f"{si(found.total_s, 's')}{whole}, {si(found.total_J, 'J')}"),
    ]


def ends(rows: Sequence[Record]) -> list[Record]:
    """Return the rows of the prefill, the first and the last decode step."""
    return [*rows[:2], *rows[2:][-1:]]


def interpolated(simulated: int, total: int, error: float) -> str:
    """Return how many decode steps were simulated, where some were not."""
    return (
        f"{simulated} of {total:,} decode steps were simulated; the rest were interpolated (error at the last check: "
        f"{at_most(error)})."
    )


def single_calls(name: str, params: Mapping[str, int], prompt: int, new: int) -> str:
    """Return the runs of one call that a generation is made of, as texts to expect."""
    others = "".join(f",{key}={value}" for key, value in params.items())
    text = f"a run of one call: '{name}?seq={prompt}{others}' (the prompt)"
    return text + f" or '{name}?seq=1,past={prompt}{others}' (the token behind the first)" * (new > 1)


def answer(request: Request, out: Path | None, told: Callable[[float], None] = lambda share: None) -> Answer:
    """Simulate a prompt and new tokens: the calls, the summary, sentences; ``out``: the directory of the report."""
    found = generation(request, told)
    rows, facts, run = call_records(found), generation_facts(found), found.prefill
    model = f"{found.model}, {found.dtype}, {found.sequences} x ({found.prompt:,} + {found.new:,} tokens)"
    of_tokens = token_rows(found, found.intervals, found.energy_interval_J)
    summed = [
        ("chip", f"{found.chip.title} ({found.chip.name})"),
        ("model", model),
        *kernels_row(found.chip, run.job.options.fusion, run.job.options.kv_dtype, run.job.request.stack),
        *(row for row in of_tokens if row[0] != "time per token" or found.token_s is not None),
    ]
    emulated = [note for note in run.program.notes if note.startswith("quantise:")] * run.job.options.emulate
    shown: list[Part] = [
        Table(FIELDS, ends(rows)),
        "",
        block("generation", summed),
        "",
        " ".join(sentences(found)),
        *notes([*run.job.notes, *emulated]),
    ]
    return Answer(facts, shown, rows, other_files={out: _files(found)} if out else {})


def generation_facts(found: Generation) -> dict[str, object]:
    """Return the figures of a generation and the summaries of two calls; 'decode' is None without a decode step."""
    head = {
        "tool": "accelsim",
        "tool_version": tool_version(),
        "chip": found.chip.name,
        "model": found.model,
        "dtype": found.dtype,
    }
    calls = {name: None if run is None else summary(run) for name, run in _runs(found)}
    return head | found.as_dict() | calls


def _runs(found: Generation) -> Iterator[tuple[str, Any]]:
    yield from zip(CALLS_IN_A_GENERATION, (found.prefill, found.decode), strict=True)


def call_records(found: Generation) -> list[dict[str, object]]:
    """Return the prefill, then every call of decoding that was simulated."""
    many, moved = found.sequences * found.prompt, traffic_by_memory(found.prefill).values()
    read_B, write_B = (sum(flow[key] for flow in moved) for key in ("read_B", "write_B"))
    rows = [_record("prefill", 0, many, found.prefill.seconds, found.prefill_J, read_B, write_B, None)]
    for call in found.calls:
        read_B, write_B = (sum(flow[way] for flow in call.traffic_B.values()) for way in (0, 1))
        figures = (call.seconds, call.energy_J, read_B, write_B, call.floor_s)
        rows.append(_record("decode", call.past, found.sequences, *figures))
    return rows


def _record(
    call: str, past: int, tokens: int, seconds: float, joules: float, read_B: int, write_B: int, floor_s: float | None
) -> dict[str, object]:
    return {
        "call": call, "past": past, "tokens": tokens, "seconds": seconds, "tokens_per_s": tokens / seconds,
        "energy_J": joules, "energy_per_token_J": joules / tokens, "read_B": read_B, "write_B": write_B,
        "memory_floor_s": floor_s,
    }  # fmt: skip


def sentences(found: Generation) -> list[str]:
    """Return what the figures say, each computed from the calls."""
    prefill = f"The first token appears after {si(found.time_to_first_token_s, 's')}."
    if not found.calls:
        return [prefill, *intervals.sentences(found.intervals.first, "the first token")]
    first, last, steps = found.calls[0], found.calls[-1], found.decode_calls
    simulated = f"{'The only decode step was' if steps == 1 else f'All {steps:,} decode steps were'} simulated."
    if len(found.calls) != steps:
        simulated = interpolated(len(found.calls), steps, found.error)
    return [
        prefill,
        f"Decoding then produces {si(found.tokens_per_s)} tokens per second at {si(found.energy_per_token_J, 'J')} "
        f"each. The first decode step takes {si(first.seconds, 's')}; the last, after {count_of(last.past, 'token')}, "
        f"takes {si(last.seconds, 's')}.",
        f"Memory bandwidth alone accounts for {percent(last.floor_s / last.seconds)} of the last decode step.",
        *intervals.sentences(found.intervals.total, "the whole generation"),
        simulated,
    ]


def time_per_token(found: Generation) -> Picture:
    """Draw time and energy of each call of decoding against the tokens before it; a mark for each that was
    simulated."""
    past, floors = ([getattr(call, key) for call in found.calls] for key in ("past", "floor_s"))
    seconds = [call.seconds for call in found.calls]
    joules = [call.energy_J / found.sequences for call in found.calls]
    marks = [
        line(past, seconds, "", BLUE, marker="o", ms=3.5),
        line(past, floors, dash="--", linewidth=1),
        note(past[0], floors[0], "its bytes at the full rate of the memory", (2, -4), va="top"),
    ]
    rate = f"{si(found.tokens_per_s)} tokens/s of {count_of(found.sequences, 'sequence')}"
    caption = f"first token after {si(found.time_to_first_token_s, 's')}; then {rate}; a mark is a simulated call"
    title = f"{found.model} on {found.chip.name}: each token after the first"
    time = Axis("time of a call", "s", low=0, high=1.2 * max(seconds))
    energy = Axis("energy per token", "J", low=0, high=1.2 * max(joules))
    steps, tokens = ([line(past, joules, "", VERMILLION, marker="o", ms=3.5)], Axis("tokens before it", whole=True))
    panels = [Panel(title, marks, y=time, note=caption, grid="both"), Panel("", steps, tokens, energy, grid="both")]
    return Picture(5.0, panels, share="x")


def check_target(target: Path) -> None:
    """Raise UsageError where no report of a generation can be written into the directory."""
    refuse_foreign(target, _names(), FACTS, "report of a generation")


def _files(found: Generation) -> dict[str, Make | None]:
    """Return what makes each file: figures, calls, the plot, and the reports of two calls."""
    facts = json.dumps(generation_facts(found), indent=2, ensure_ascii=False, allow_nan=False)
    made: dict[str, Make | None] = dict.fromkeys(_names())
    made |= {FACTS: text(facts + "\n"), CALLS: records(call_records(found))}
    if found.calls:
        made |= {name: as_bytes(drawn) for name, drawn in pictures(PLOT, time_per_token(found)).items()}
    for part, run in _runs(found):
        if run is not None:
            made |= {f"{part}/{name}": make for name, make in report_files(run).items()}
    return made


def _names() -> list[str]:
    own = [FACTS, CALLS, *(f"{PLOT}.{suffix}" for suffix in SUFFIXES)]
    return own + [f"{part}/{name}" for part in CALLS_IN_A_GENERATION for name in file_names()]
