"""A generation in files: figures as JSON and CSV, time and energy per token as a plot, reports of two of its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelsim.account.latency import summary, traffic_by_memory
from accelsim.engines.registry import ENGINES
from accelsim.errors import count_of
from accelsim.explore.generation import Generation
from accelsim.files import Make, as_bytes, text, write_folder
from accelsim.files import table as csv_table
from accelsim.program.roles import units
from accelsim.report.picture import Axis, Panel, Picture, line, note
from accelsim.report.plot import SUFFIXES, pictures
from accelsim.report.saved_summary import CALLS_IN_A_GENERATION
from accelsim.report.style import BLUE, VERMILLION
from accelsim.report.text import si
from accelsim.report.write import file_names, refuse_foreign, report_makers
from accelsim.spec.chip import Chip
from accelsim.version import tool_version

FACTS, CALLS, PLOT = "generation.json", "calls.csv", "time_per_token"
HEADER = (
    "call", "past", "tokens", "seconds", "tokens_per_s", "energy_J", "energy_per_token_J", "read_B", "write_B",
    "memory_floor_s",
)  # fmt: skip


FUSED = {
    "serving": "fused as serving stacks do",
    "compiled": "elementwise functions behind what feeds them",
    "eager": "one for each node",
    "sdpa": "one for each node, attention in one",
}
"""Fusion -> what kernels are then."""


def kernels_row(chip: Chip, fusion: str, kv_dtype: str = "", stack: str = "") -> list[tuple[str, str]]:
    """Name and value of what a generation says of its kernels, of the serving stack where one was asked for, and of its
    keys and values where their format is not that of attention; nothing of chips without fused kernels."""
    fuses = any(ENGINES[unit.type].attends for unit in units(chip).values())
    rows = [("kernels", f"{FUSED[fusion]} (--fusion {fusion})")] if fuses else []
    rows += [("serving stack", f"{stack} (--stack {stack})")] if stack else []
    return rows + ([("keys and values", kv_dtype)] if kv_dtype else [])


def generation_facts(found: Generation) -> dict[str, Any]:
    """The figures of the whole, and the summaries of its two calls ('decode' is None where there is none)."""
    head = {
        "tool": "accelsim", "tool_version": tool_version(), "chip": found.chip.name, "model": found.model,
        "dtype": found.dtype,
    }  # fmt: skip
    calls = {name: None if run is None else summary(run) for name, run in _runs(found)}
    return head | found.as_dict() | calls


def _runs(found: Generation) -> Iterator[tuple[str, Any]]:
    yield from zip(CALLS_IN_A_GENERATION, (found.prefill, found.decode), strict=True)


def call_records(found: Generation) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Header and rows of the CSV: the prefill, then every call of decoding that was simulated; all digits."""
    many, moved = found.sequences * found.prompt, traffic_by_memory(found.prefill).values()
    prefill_s, prefill_J = found.prefill.seconds, found.prefill_J
    rows: list[list[Any]] = [
        ["prefill", 0, many, prefill_s, many / prefill_s, prefill_J, prefill_J / many,
         sum(of["read_B"] for of in moved), sum(of["write_B"] for of in moved), ""]
    ]  # fmt: skip
    for call in found.calls:
        read_B, write_B = (sum(of[way] for of in call.traffic_B.values()) for way in (0, 1))
        rows.append(["decode", call.past, found.sequences, call.seconds, found.sequences / call.seconds,
                     call.energy_J, call.energy_J / found.sequences, read_B, write_B, call.floor_s])  # fmt: skip
    return HEADER, rows


def time_per_token(found: Generation) -> Picture:
    """Draw time and energy of each call of decoding against the tokens before it; a mark for each that was
    simulated."""
    past, floors = ([getattr(call, key) for call in found.calls] for key in ("past", "floor_s"))
    seconds = [call.seconds for call in found.calls]
    joules = [call.energy_J / found.sequences for call in found.calls]
    marks = [
        line(past, seconds, "", BLUE, marker="o", ms=3.5), line(past, floors, dash="--", linewidth=1),
        note(past[0], floors[0], "its bytes at the full rate of the memory", (2, -4), va="top"),
    ]  # fmt: skip
    rate = f"{si(found.tokens_per_s)} tokens/s of {count_of(found.sequences, 'sequence')}"
    told = (
        f"first token after {si(found.time_to_first_token_s, 's')}; then {rate}; a mark is a simulated call"
    )
    title = f"{found.model} on {found.chip.name}: each token after the first"
    time = Axis("time of a call", "s", low=0, high=1.2 * max(seconds))
    energy = Axis("energy per token", "J", low=0, high=1.2 * max(joules))
    steps, tokens = (
        [line(past, joules, "", VERMILLION, marker="o", ms=3.5)],
        Axis("tokens before it", whole=True),
    )
    panels = [
        Panel(title, marks, y=time, note=told, grid="both"),
        Panel("", steps, tokens, energy, grid="both"),
    ]
    return Picture(5.0, panels, share="x")


def check_generation_target(target: Path) -> None:
    """UsageError when ``write_generation`` would refuse the directory."""
    refuse_foreign(target, _names(), FACTS, "report of a generation")


def write_generation(found: Generation, folder: Path) -> Path:
    """Write everything into ``folder``, all of it or nothing: figures, calls, the plot, and the reports of two calls.

    The files of an earlier one are replaced, all others stay. UsageError as ``check_generation_target``.
    """
    check_generation_target(folder)
    makers: dict[str, Make] = {
        FACTS: text(
            json.dumps(generation_facts(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        ),
        CALLS: csv_table(*call_records(found)),
    }
    if found.calls:
        makers |= {name: as_bytes(made) for name, made in pictures(PLOT, time_per_token(found)).items()}
    for part, run in _runs(found):
        if run is not None:
            makers |= {f"{part}/{name}": make for name, make in report_makers(run).items()}
    write_folder(folder, makers, [name for name in _names() if name not in makers])
    return folder


def _names() -> list[str]:
    own = [FACTS, CALLS, *(f"{PLOT}.{suffix}" for suffix in SUFFIXES)]
    return own + [f"{part}/{name}" for part in CALLS_IN_A_GENERATION for name in file_names()]
