"""What ``accelsim run`` prints of a prompt and the tokens behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import paragraphs, progress, show, width
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from accelsim.api import Gather
    from accelsim.explore.generation import Call, Generation
    from accelsim.request import Request


def print_generation(request: Request, gather: Gather, files: Mapping[str, Any], as_json: bool) -> bool:
    """Simulate and print the generation that ``request`` asks for. False where it asks for a run of one graph.

    ``files``: options that belong to one run, and what they were given. Raises UsageError, all problems at once, for
    those that were given.
    """
    from accelsim.workload.load import generation_of

    with gather.also():
        if generation_of(str(request.model), request.param) is None:
            return False
    for option, given in files.items():
        if given:
            with gather.also():
                what = f"{option} with prompt and new, which are several runs"
                raise UsageError(Problem(what, expected="one chip, or a run of one call: seq=S,past=P"))
    gather.done()
    from accelsim.explore.generation import generation

    with progress(1) as stage:
        found = generation(request, lambda share: stage("simulate", share))
    if as_json:
        from accelsim.account.latency import summary

        facts = found.as_dict() | {"prefill": summary(found.prefill)}
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        show_generation(found)
    return True


def show_generation(found: Generation) -> None:
    """The calls as a table, the summary, and sentences."""
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    headers = ["call", "tokens", "time", "tokens/s", "energy", "per token", "read", "written"]
    show(text_table(headers, list(_rows(found)), width()))
    click.echo()
    rows = [
        ("chip", f"{found.chip.title} ({found.chip.name})"),
        (
            "model",
            f"{found.model}, {found.dtype}, {found.sequences} x ({found.prompt:,} + {found.new:,} tokens)",
        ),
        ("time to first token", si(found.time_to_first_token_s, "s")),
        ("decoding", f"{si(found.tokens_per_s)} tokens/s" if found.calls else "nothing: one token"),
        ("energy per token", si(found.energy_per_token_J, "J")),
        ("whole generation", f"{si(found.total_s, 's')}, {si(found.total_J, 'J')}"),
    ]
    show(text_table(["generation", ""], rows, width()))
    click.echo("\n" + paragraphs(sentences(found)))


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
        yield (f"decode behind {call.past:,}", f"{found.sequences:,}", si(call.seconds, "s"),
               si(found.sequences / call.seconds), si(call.energy_J, "J"), si(call.energy_J / found.sequences, "J"),
               si(read, "B"), si(written, "B"))  # fmt: skip


def sentences(found: Generation) -> list[str]:
    """What the figures say, each computed from the calls."""
    from accelsim.report.text import at_most, si

    prefill = f"The first token is there after {si(found.time_to_first_token_s, 's')}."
    if not found.calls:
        return [prefill]
    first, last = found.calls[0], found.calls[-1]
    told = [
        prefill,
        f"Then come {si(found.tokens_per_s)} tokens per second at {si(found.energy_per_token_J, 'J')} each: "
        f"the first in {si(first.seconds, 's')}, the last, after {last.past:,} tokens, in {si(last.seconds, 's')}.",
        f"To move what the last call moves at the full rate of the memories of the chip takes {_floor(last)} of its "
        "time.",
    ]
    if len(found.calls) == found.decode_calls:
        one = found.decode_calls == 1
        told.append(f"{'The one call' if one else f'All {found.decode_calls:,} calls'} of decoding "
                    f"{'was' if one else 'were'} simulated.")  # fmt: skip
    else:
        told.append(
            f"{len(found.calls)} of {found.decode_calls:,} calls of decoding were simulated, those between lie on "
            f"lines; where such a line was checked last, it was off by {at_most(found.error)} of a call."
        )
    return told


def _floor(call: Call) -> str:
    from accelsim.report.text import percent

    return percent(call.floor_s / call.seconds)
