"""Time of a run by what it waits for: computing, the host, its link, the chip's own memory; and time on the link."""

from __future__ import annotations

from collections.abc import Collection

from accelsim.account.critical_path import KINDS, Blame, by_blame
from accelsim.machine.run import Run
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.link import link_name

PARTS: dict[str, str] = {
    "compute": "the chip computes",
    "host": "the host processor computes",
    "link": "a transfer to or from the host, or its latency",
    "memory": "the chip's own memory: data, latency, requests",
    "other": "ports of buffers, and handing over between engines",
}
"""Part of the time -> what it says of an instant of the critical path."""

MOVING = ("transfer", "latency", "requests")
"""Kinds of ``critical_path.KINDS`` in which a memory or link is waited for."""


def linked(chip: Chip) -> dict[str, str]:
    """Memories that lie behind a link -> kind of the link."""
    return {name: each.link.kind for name, each in chip.memories.items() if each.link is not None}


def over_links(run: Run) -> dict[int, int]:
    """Return the commands that transfer over a link to the host, each with its bytes."""
    links = linked(run.chip)
    return {
        index: command.work.nbytes
        for index, command in enumerate(run.program.commands)
        if isinstance(command.work, Transfer) and command.work.memory in links
    }


def busy_fs(run: Run, commands: Collection[int]) -> int:
    """Time in which at least one of these commands is on its way, fs."""
    pieces = sorted((piece.start, piece.end) for piece in run.slices if piece.command in commands)
    busy, until = 0, 0
    for start, end in pieces:
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return busy


def split_fs(run: Run) -> dict[str, int]:
    """Time of a run by part (keys of ``PARTS``), fs; in sum ``run.time_fs``."""
    attached = run.chip.memories
    behind = {name for each in linked(run.chip) for name in (each, link_name(attached[each].link))}
    parts = dict.fromkeys(PARTS, 0)
    for blame, fs in by_blame(run).items():
        parts[_part(blame, behind)] += fs
    return parts


def _part(blame: Blame, behind: Collection[str]) -> str:
    if blame.kind in MOVING:
        return "link" if blame.resource in behind else "memory"
    if KINDS[blame.kind].computing:
        return "compute"
    return "host" if blame.kind == "host" else "other"
