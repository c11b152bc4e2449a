"""Time per sample against the batch size, and what of it goes to the transfers from and to the host.

Time is that of the critical path, as in the report of a run: what hides behind something else takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.account.energy import energy_table, total_J
from accelsim.account.host_link import PARTS, busy_fs, linked, over_links, split_fs
from accelsim.account.latency import batch_size
from accelsim.errors import UsageError
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.time import FS

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class BatchPoint:
    """One run: ``parts_fs`` (keys of ``PARTS``) add up to ``time_fs``; ``link_B`` are the bytes over links, which keep
    them busy for ``link_fs``, hidden behind something else or not.

    ``energy_J`` is that of the whole run, static power included.
    """

    batch: int
    samples: int
    time_fs: int
    parts_fs: dict[str, int]
    link_B: int
    link_fs: int
    energy_J: float

    @property
    def seconds_per_sample(self) -> float:
        """Time of the run divided by its samples, s."""
        return self.time_fs * FS / self.samples

    @property
    def samples_per_s(self) -> float:
        """Samples per second, one run after the other."""
        return self.samples / (self.time_fs * FS)

    def per_sample_s(self, part: str) -> float:
        """Return the seconds of a part (a key of ``PARTS``) per sample."""
        return self.parts_fs[part] * FS / self.samples


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
        return [part for part in PARTS if self.links or part != "link"]

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

    ``options`` are those of ``accelsim.run`` (``dtype``, ``set`` of a chip given by name, ...); ``told`` is called with
    the share that is done. Raises UsageError for batch sizes below 1, else as ``accelsim.run``.
    """
    wrong = [batch for batch in batches if batch < 1]
    if wrong or not batches:
        raise UsageError(f"batch sizes {list(batches)}", expected="one or more, each 1 or more")
    overrides = options.pop("set", ())
    chip = on if isinstance(on, Chip) else load_chip(on, overrides)
    points = []
    for index, batch in enumerate(sorted(set(batches))):
        told(index / len(set(batches)))
        request = Request(model, chip, batch=batch, values="off", **options)
        run = execute(prepare(request))
        points.append(point(run, batch))
    return Batching(str(model), chip, linked(chip), tuple(points))


def point(run: Run, batch: int) -> BatchPoint:
    """Return time, bytes and energy of a run, its time split by ``PARTS``."""
    over = over_links(run)
    samples = batch_size(run.program.graph) * run.program.cores
    energy_J = total_J(energy_table(run))
    return BatchPoint(batch, samples, run.time_fs, split_fs(run), sum(over.values()), busy_fs(run, over), energy_J)
