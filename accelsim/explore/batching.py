"""Time per sample against the batch size, and what of it goes to the transfers from and to the host.

At every instant of a run the chip computes (matrix or vector unit), else the host processor does, else data move over a
link, else data of the chip's own memories move, else all wait. These parts add up to the time of the run exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.account.energy import energy_table, total_J
from accelsim.account.latency import batch_size
from accelsim.api import execute, prepare
from accelsim.compiler.program import Transfer
from accelsim.errors import Problem, UsageError
from accelsim.machine.run import Run, Slice
from accelsim.request import Request
from accelsim.spec.load import load_chip
from accelsim.spec.models import Chip

PARTS: dict[str, str] = {
    "compute": "the chip computes, no transfer to or from the host",
    "both": "the chip computes, and a transfer to or from the host is hidden behind it",
    "host": "the host processor computes, the chip does not",
    "transfer": "waiting for a transfer to or from the host",
    "memory": "waiting for the chip's own memory",
    "waiting": "waiting for anything else",
}
"""Part of the time -> what it says."""

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_COMPUTE, _HOST, _LINK, _MEMORY = range(4)


@dataclass(frozen=True)
class BatchPoint:
    """One run: ``parts_fs`` (keys of ``PARTS``) add up to ``time_fs``; ``link_B`` are the bytes over links.

    ``energy_J`` is that of the whole run, static power included.
    """

    batch: int
    samples: int
    time_fs: int
    parts_fs: dict[str, int]
    link_B: int
    energy_J: float

    @property
    def seconds_per_sample(self) -> float:
        """Time of the run by its samples, s."""
        return self.time_fs * 1e-15 / self.samples

    @property
    def samples_per_s(self) -> float:
        """Samples per second, one run after the other."""
        return self.samples / (self.time_fs * 1e-15)

    def per_sample_s(self, part: str) -> float:
        """Share of one sample in a part, s."""
        return self.parts_fs[part] * 1e-15 / self.samples


@dataclass(frozen=True)
class Batching:
    """The runs of one model on one chip, by rising batch size; ``links``: memories behind a link, and its kind."""

    model: str
    chip: Chip
    links: dict[str, str]
    points: tuple[BatchPoint, ...]

    @property
    def parts(self) -> list[str]:
        """Keys of ``PARTS`` that can occur: without a link there are no transfers over one."""
        return [part for part in PARTS if self.links or part not in ("both", "transfer")]

    @property
    def fastest(self) -> BatchPoint:
        """The run with most samples per second; of equal ones the smallest batch."""
        return max(self.points, key=lambda point: (point.samples_per_s, -point.batch))


def batching(
    model: str | Path,
    on: str | Path | Chip,
    batches: Sequence[int] = BATCHES,
    told: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> Batching:
    """Simulate ``model`` on the chip ``on`` once per batch size, without values.

    ``options`` are those of ``accelsim.run`` (``dtype``, ``set`` of a chip given by name, ...); ``told`` hears the
    share that is done. Raises UsageError for batch sizes below 1, else as ``accelsim.run``.
    """
    wrong = [batch for batch in batches if batch < 1]
    if wrong or not batches:
        raise UsageError(Problem(f"batch sizes {list(batches)}", expected="one or more, each 1 or more"))
    overrides = options.pop("set", ())
    chip = on if isinstance(on, Chip) else load_chip(on, overrides)
    points = []
    for index, batch in enumerate(sorted(set(batches))):
        told(index / len(set(batches)))
        request = Request(model, chip, batch=batch, values="off", **options)
        run = execute(prepare(request))
        points.append(point(run, batch))
    return Batching(str(model), chip, linked(chip), tuple(points))


def linked(chip: Chip) -> dict[str, str]:
    """Memories that lie behind a link -> kind of the link."""
    return {name: each.link.kind for name, each in chip.memories.items() if each.link is not None}


def point(run: Run, batch: int) -> BatchPoint:
    """The parts of a run's time."""
    link_B = sum(
        command.work.nbytes
        for command in run.program.commands
        if isinstance(command.work, Transfer) and command.work.memory in linked(run.chip)
    )
    samples = batch_size(run.program.graph) * run.program.cores
    return BatchPoint(batch, samples, run.time_fs, split_fs(run), link_B, total_J(energy_table(run)))


def split_fs(run: Run) -> dict[str, int]:
    """Time of a run by part (keys of ``PARTS``), fs; in sum ``run.time_fs``.

    A transfer counts from its acceptance to its last byte, latency included; a computation from its first operand.
    """
    links = linked(run.chip)
    changes: dict[int, list[int]] = {0: [0] * 4, run.time_fs: [0] * 4}
    for piece in run.slices:
        kind, start = _kind(run, piece, links)
        changes.setdefault(start, [0] * 4)[kind] += 1
        changes.setdefault(piece.end, [0] * 4)[kind] -= 1
    parts = dict.fromkeys(PARTS, 0)
    active, last = [0] * 4, 0
    for time in sorted(changes):
        parts[_part(active)] += time - last
        active = [count + change for count, change in zip(active, changes[time], strict=True)]
        last = time
    return parts


def _kind(run: Run, piece: Slice, links: dict[str, str]) -> tuple[int, int]:
    """What a slice does, and from when on it counts."""
    work = run.program.commands[piece.command].work
    if isinstance(work, Transfer):
        return (_LINK if work.memory in links else _MEMORY), piece.start
    on_host = run.program.engines[piece.engine] == "host"
    return (_HOST if on_host else _COMPUTE), min(piece.data, piece.end)


def _part(active: list[int]) -> str:
    if active[_COMPUTE]:
        return "both" if active[_LINK] else "compute"
    waits = ((_HOST, "host"), (_LINK, "transfer"), (_MEMORY, "memory"))
    return next((part for kind, part in waits if active[kind]), "waiting")
