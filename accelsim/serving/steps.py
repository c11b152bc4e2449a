"""Steps that a replica has computed: columns of the last ones, groups of those before."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from operator import sub

import numpy as np

from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.types import Array

KEPT, GROUP = 1 << 19, 512
"""Steps, and times between tokens, that are kept one by one; steps of a group of those before."""
FINE = 12
"""Older times between tokens are counted in bins, 2^FINE in each octave."""


def _floats() -> array[float]:
    return array("d")


def _counts() -> array[int]:
    return array("l")


@dataclass
class Steps:
    """Steps of a replica, in order: when each ends (s), what it takes (s, J), sequences that decode, and, before those
    that end leave, the requests that run and wait and the blocks that are held. ``prompts``: the share of a step that
    prompts add. ``gaps_s``: times between two tokens, each of ``gaps`` sequences. ``number``, ``from_s``, ``to_s``: of
    sequences that compute more than a next token in a step; from and to are equal for those that lose their blocks.
    ``adapted``: steps by the tokens with an adapter and the distinct adapters of these; ``loads`` of adapters before
    steps, and ``admitted`` requests that have one.

    When there are more than ``KEPT`` steps, the columns lose the older ones: ``column`` has a row for each group of
    them. Their times between tokens stay as bins with their mean.
    """

    end_s: array[float] = field(default_factory=_floats)
    seconds: array[float] = field(default_factory=_floats)
    joules: array[float] = field(default_factory=_floats)
    decoding: array[int] = field(default_factory=_counts)
    running: array[int] = field(default_factory=_counts)
    waiting: array[int] = field(default_factory=_counts)
    held: array[int] = field(default_factory=_counts)
    prompts: array[float] = field(default_factory=_floats)
    gaps_s: array[float] = field(default_factory=_floats)
    gaps: array[int] = field(default_factory=_counts)
    number: array[int] = field(default_factory=_counts)
    from_s: array[float] = field(default_factory=_floats)
    to_s: array[float] = field(default_factory=_floats)
    older: list[dict[str, Array]] = field(default_factory=list)
    adapted: Counter[tuple[int, int]] = field(default_factory=Counter)
    loads: int = 0
    admitted: int = 0
    _before: int = 0
    _prompts: tuple[float, float] = (0.0, 0.0)
    _decoding: Counter[int] = field(default_factory=Counter)

    def __len__(self) -> int:
        return self._before + len(self.end_s)

    def column(self, name: str) -> Array:
        """Return a column: a row for each group of older steps (sums of ``seconds`` and ``joules``, the largest
        ``held``, the mean of ``decoding`` over time, else the last value), then one for each step."""
        own = np.array(getattr(self, name))
        return np.concatenate([*(each[name] for each in self.older), own]) if self.older else own

    @property
    def of_prompts(self) -> tuple[float, float]:
        """Time (s) and energy (J) that prompts add."""
        parts = np.array(self.prompts)
        seconds, joules = self._prompts
        return seconds + float(parts @ np.array(self.seconds)), joules + float(parts @ np.array(self.joules))

    @property
    def by_decoding(self) -> Counter[int]:
        """Steps by the number of sequences that decode in them."""
        return self._decoding + Counter(self.decoding)

    def add(self, end_s: float, cost: tuple[float, ...], batch: Batch, scheduler: Scheduler) -> None:
        """Keep a step that has been computed, before the scheduler completes it."""
        if batch.chunks or batch.preempted:
            self._keep_work(end_s - cost[0], end_s, batch)
        self.prompts.append(cost[2] if len(cost) > 2 else float(not batch.decoding))
        self.end_s.append(end_s)
        self.seconds.append(cost[0])
        self.joules.append(cost[1])
        self.decoding.append(batch.decoding)
        self.running.append(len(scheduler.running))
        self.waiting.append(len(scheduler.waiting))
        self.held.append(scheduler.pool.size - scheduler.pool.free)
        self._keep_gaps(end_s, batch, scheduler)
        self._keep_adapted(batch, 1)
        if len(self.end_s) > KEPT or len(self.gaps_s) > KEPT:
            self._fold()

    def add_alike(
        self, ends_s: Many[float], costs: tuple[array[float], array[float]], batch: Batch, scheduler: Scheduler
    ) -> None:
        """Keep steps that each add a token to the same sequences, before the scheduler skips them. ``costs``: times (s)
        and energies (J)."""
        decoding, count, held = batch.decoding, len(ends_s), scheduler.pool.size - scheduler.pool.free
        for last_s, sequences in scheduler.decoding.dates.items():
            self.gaps_s.append(ends_s[0] - last_s)
            self.gaps.append(sequences)
        same = array("l", [decoding]) * count
        self.gaps_s.extend(map(sub, ends_s[1:], ends_s))
        self.gaps.extend(same[1:])
        self.end_s.extend(ends_s)
        self.seconds.extend(costs[0])
        self.joules.extend(costs[1])
        self.prompts.extend(array("d", [0.0]) * count)
        self.decoding.extend(same)
        self.running.extend(array("l", [len(scheduler.running)]) * count)
        self.waiting.extend(array("l", [len(scheduler.waiting)]) * count)
        self.held.append(held)
        self.held.extend([held + more for more in scheduler.decoding.taken(count - 1)])
        self._keep_adapted(batch, count)

    def _keep_adapted(self, batch: Batch, count: int) -> None:
        """Count what adapters do in so many steps like a batch."""
        tokens, distinct, loads, admitted = batch.adapted
        if tokens:
            self.adapted[tokens, distinct] += count
            self.loads, self.admitted = self.loads + loads, self.admitted + admitted

    def _keep_work(self, begin_s: float, end_s: float, batch: Batch) -> None:
        """Keep which sequences compute prompts (or what they lost), and which lost their blocks."""
        every = [(each, end_s) for each, tokens in batch.chunks if each.first_s < 0 or tokens > batch.width]
        for sequence, until_s in (*every, *((each, begin_s) for each in batch.preempted)):
            self.number.append(sequence.number)
            self.from_s.append(begin_s)
            self.to_s.append(until_s)

    def _keep_gaps(self, end_s: float, batch: Batch, scheduler: Scheduler) -> None:
        """Keep the times since the last tokens of all that get one, but their first."""
        dates = [*scheduler.decoding.dates.items()] if batch.decoding else []
        for sequence, tokens in batch.chunks:
            if sequence.first_s >= 0 and sequence.computed + tokens == sequence.total:
                dates.append((sequence.last_s, 1))
        if batch.decoding and scheduler.decoding.more:
            dates.append((end_s, scheduler.decoding.more))
        for last_s, count in dates:
            self.gaps_s.append(end_s - last_s)
            self.gaps.append(count)

    def _fold(self) -> None:
        """Sum up all steps in whole groups, and times between tokens in bins."""
        count = len(self.end_s) // GROUP * GROUP
        found = {name: np.array(getattr(self, name)[:count]) for name in COLUMNS}
        seconds, joules = found["seconds"], found["joules"]
        self._before += count
        self._prompts = self._prompts[0] + found["prompts"] @ seconds, self._prompts[1] + found["prompts"] @ joules
        self._decoding.update(found["decoding"].tolist())
        rows = {name: values.reshape(-1, GROUP) for name, values in found.items()}
        mean = (rows["decoding"] * rows["seconds"]).sum(1) / rows["seconds"].sum(1)
        last = {name: rows[name][:, -1].copy() for name in ("end_s", "running", "waiting")}
        sums = {name: rows[name].sum(1) for name in ("seconds", "joules")}
        self.older.append({**last, **sums, "held": rows["held"].max(1), "decoding": mean})
        for name in COLUMNS:
            del getattr(self, name)[:count]
        values, counts = binned(np.array(self.gaps_s), np.array(self.gaps))
        self.gaps_s, self.gaps = array("d", values.tolist()), array("l", counts.tolist())


COLUMNS = ("end_s", "seconds", "joules", "decoding", "running", "waiting", "held", "prompts")
"""Columns with a row for each step."""


def binned(values: Array, counts: Array) -> tuple[Array, Array]:
    """Return the mean of the values in each bin that has some, and how many there are; a bin is 2^-FINE of its values
    wide."""
    values, counts = values[counts > 0], counts[counts > 0]
    _, place = np.unique(values.view(np.int64) >> (52 - FINE), return_inverse=True)
    total = np.bincount(place, counts)
    return np.bincount(place, counts * values) / total, total.astype(np.int64)
