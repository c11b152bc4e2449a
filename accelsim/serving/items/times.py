"""Times of batches: a batch of each size is simulated once on the chip, as ``accelsim run`` does."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from accelsim import usercache
from accelsim.account.energy import energy_table, static_power_W, total_J
from accelsim.account.host_link import busy_fs, over_links, split_fs
from accelsim.account.interval import latency_interval
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.serving.items.batcher import Cost
from accelsim.spec.chip import Chip
from accelsim.spec.digest import digest
from accelsim.time import FS

EXACT = 64
"""Every batch up to this size is simulated by itself; of larger ones 32 in every octave, with lines in between."""
_KNOWN = usercache.Table("batches", 4096)


class Simulated(NamedTuple):
    """A simulated batch: its cost, and how much faster and slower it may be (90 %), 0 on chips without an interval."""

    cost: Cost
    low: float = 0.0
    high: float = 0.0


@dataclass
class BatchTimes:
    """Costs of batches of a model on a chip, with the host and software of a ``site``. A chip of several cores divides
    a batch among them."""

    model: str
    chip: Chip
    dtype: str = ""
    site: str | None = None
    simulated: dict[int, Simulated] = field(default_factory=dict)

    @property
    def static_W(self) -> float:
        """Static power of the chip, W."""
        return sum(static_power_W(self.chip).values())

    def cost(self, size: int) -> Cost:
        """Return the cost of a batch. Raises what ``accelsim.run`` raises."""
        size = -(-size // self.chip.core_count)
        step = 1 << max(0, (size - 1).bit_length() - EXACT.bit_length() + 1)
        low = size // step * step
        if low == size:
            return self._at(size).cost
        share = (size - low) / step
        ends = zip(self._at(low).cost, self._at(low + step).cost, strict=True)
        return Cost(*(a + share * (b - a) for a, b in ends))

    def ends(self, size: int) -> tuple[float, float] | None:
        """Return how much faster and slower a batch may be (90 %); None on chips whose times have no interval."""
        found = self._at(1 << ((-(-size // self.chip.core_count)).bit_length() - 1))
        return (found.low, found.high) if found.low else None

    def _at(self, size: int) -> Simulated:
        """Return a simulated batch of ``size`` items on each core."""
        if size not in self.simulated:
            self.simulated[size] = self._kept(size)
        return self.simulated[size]

    def _kept(self, size: int) -> Simulated:
        if not usercache.folder() or Path(self.model).exists() or self.site:
            return self._simulate(size)
        asked = f"{self.model}\0{digest(self.chip)}\0{self.dtype}\0{size}"
        key = sha256(asked.encode(errors="surrogateescape")).hexdigest()
        kept = _KNOWN.get(key)
        if isinstance(kept, list):
            return Simulated(Cost(*kept[:4]), *kept[4:])
        found = self._simulate(size)
        _KNOWN.put(key, [*found.cost, found.low, found.high])
        return found

    def _simulate(self, size: int) -> Simulated:
        run = execute(
            prepare(Request(self.model, self.chip, batch=size, values="off", dtype=self.dtype, site=self.site))
        )
        seconds, joules = run.seconds, total_J(energy_table(run))
        link_s, transfer_s = busy_fs(run, over_links(run)) * FS, split_fs(run)["link"] * FS
        cost = Cost(seconds, transfer_s, link_s, max(0.0, joules - self.static_W * seconds))
        interval = latency_interval(run)
        return Simulated(cost, *((interval.low_s / seconds, interval.high_s / seconds) if interval else ()))
