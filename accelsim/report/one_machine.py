"""A training step as one machine beside the one that is played pass by pass: tables and sentences."""

from __future__ import annotations

from collections.abc import Callable

from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.one_machine import OneMachine, machines
from accelsim.errors import count_of
from accelsim.machine.run import Run
from accelsim.report.answer import Answer, Field, Table, in_unit, records
from accelsim.report.text import percent, seconds
from accelsim.time import FS
from accelsim.version import tool_version

FIELDS: tuple[Field, ...] = (
    Field("device", "device", read=lambda each: each[1]),
    Field("done_s", "done", in_unit("s"), read=lambda each: each[0].ends_fs[each[1]] * FS),
    Field("commands", "commands", "{:,}".format, read=lambda each: len(each[0].runs[each[1]].program.commands)),
    Field("messages_sent", "messages sent", read=lambda each: _sent(each[0].runs[each[1]])),
    Field("machine_s", read=lambda each: each[0].time_fs * FS),
    Field("played_s", read=lambda each: each[0].played_fs * FS),
)
"""Columns about a device, which are read of the machine and its number."""


def _sent(run: Run) -> int:
    return sum(command.kind == "Send" for command in run.program.commands)


def answer(wanted: Asked, stage: Callable[[str, float], None]) -> Answer:
    """Simulate all devices of a training step as one machine: a row for each device, and both times."""
    stage("read", 0.0)
    made = ready(wanted)
    stage("simulate", 0.0)
    bare, whole = machines(made.work, made.fleet, made.plan, made.batch, made.options)
    rows = records(FIELDS, ((whole, rank) for rank in range(len(whole.runs))))
    table = Table(FIELDS, rows)
    return Answer(facts_of(bare, whole), [table, "", " ".join(sentences(bare, whole))], rows)


def sentences(bare: OneMachine, whole: OneMachine) -> list[str]:
    """Return both times, and why they differ; ``bare``: the machine whose messages need no copies."""
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


def facts_of(bare: OneMachine, whole: OneMachine) -> dict[str, object]:
    """Return the figures of both machines and the sentences, for JSON."""
    about = {"tool": "accelsim", "tool_version": tool_version(), **whole.as_dict()}
    return {**about, "without_copies_s": bare.time_fs * FS, "sentences": sentences(bare, whole)}
