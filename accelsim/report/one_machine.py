"""A training step as one machine beside the one that is played pass by pass: tables and sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.one_machine import OneMachine, machines
from accelsim.errors import count_of
from accelsim.report.answer import Answer, Field, Table, in_unit
from accelsim.report.text import percent, seconds
from accelsim.time import FS
from accelsim.version import tool_version

FIELDS = (
    Field("device", "device"),
    Field("done_s", "done", in_unit("s")),
    Field("commands", "commands", "{:,}".format),
    Field("messages_sent", "messages sent"),
)


def answer(wanted: Asked, stage: Callable[[str, float], None]) -> Answer:
    """Simulate all devices of a training step as one machine: a row for each device, and both times."""
    stage("read", 0.0)
    made = ready(wanted)
    stage("simulate", 0.0)
    bare, whole = machines(made.work, made.fleet, made.plan, made.batch, made.options)
    rows = records(whole)
    table = Table(FIELDS, rows)
    return Answer(facts_of(bare, whole), [table, "", " ".join(sentences(bare, whole))], rows)


def sentences(bare: OneMachine, whole: OneMachine) -> list[str]:
    """Both times, and where they differ why; ``bare``: the machine whose messages need no copies."""
    size = f"{count_of(len(whole.runs), 'device')}, {count_of(whole.commands, 'command')}"
    played = f"played pass by pass, with gradients sent behind them, it takes {seconds(whole.played_fs)}"
    start = f"As one machine, tile by tile ({size}), the step takes {seconds(whole.time_fs)}; {played}: "
    if whole.time_fs == whole.played_fs:
        return [start + "the same to the femtosecond."]
    copies, rest = whole.time_fs - bare.time_fs, bare.time_fs - bare.played_fs
    parts = [
        (copies, "copies of messages out of memories and into them, behind whatever else their ports have to do"),
        (rest, "tokens that are handed over before messages and hosts, edges of clocks, messages that meet on a wire"),
    ]
    told = "; ".join(f"{'+' if fs > 0 else '-'}{seconds(abs(fs))} {what}" for fs, what in parts if fs)
    more = f"{percent(abs(whole.difference))} {'longer' if whole.difference > 0 else 'less'}"
    return [f"{start}the machine takes {more}.", f"The difference: {told}."]


def records(found: OneMachine) -> list[dict[str, Any]]:
    """A row for each device, for CSV."""
    return [
        {
            "device": rank,
            "done_s": end * FS,
            "commands": len(run.program.commands),
            "messages_sent": sum(command.kind == "Send" for command in run.program.commands),
            "machine_s": found.time_fs * FS,
            "played_s": found.played_fs * FS,
        }
        for rank, (end, run) in enumerate(zip(found.ends_fs, found.runs, strict=True))
    ]


def facts_of(bare: OneMachine, whole: OneMachine) -> dict[str, Any]:
    """All of it, for JSON."""
    about = {"tool": "accelsim", "tool_version": tool_version(), **whole.as_dict()}
    return {**about, "without_copies_s": bare.time_fs * FS, "sentences": sentences(bare, whole)}
