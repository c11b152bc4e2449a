"""Times of batches: a batch of each size is simulated once on the chip, as ``accelsim run`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from accelsim import usercache
from accelsim.account.critical_path import by_blame
from accelsim.account.energy import energy_table, static_power_W, total_J
from accelsim.account.host_link import busy_fs, over_links, split_fs
from accelsim.account.interval import latency_interval
from accelsim.machine.run import Run
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
    a batch among them.

    ``edges``: where inputs become codes, as for a run; ``direct``: items are in the memory of the chip before their
    batch begins, and results stay there, so that nothing crosses the link to the host; ``longest``: tokens that kernels
    of attention compute for every item (0: those of the item), see ``_attention_s``."""

    model: str
    chip: Chip
    dtype: str = ""
    edges: str = ""
    direct: bool = False
    longest: int = 0
    site: str | None = None
    simulated: dict[int, Simulated] = field(default_factory=dict)

    @property
    def static_W(self) -> float:
        """Static power of the chip, W."""
        return sum(static_power_W(self.chip).values())

    def cost(self, size: int) -> Cost:
        """Return the cost of a batch. Raises what ``accelsim.run`` raises."""
        found = self._between(-(-size // self.chip.core_count))
        return (
            found._replace(seconds=found.seconds - found.transfer_s, transfer_s=0, link_s=0) if self.direct else found
        )

    def _between(self, size: int) -> Cost:
        """Return the cost of ``size`` items on each core."""
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
        asked = f"{self.model}\0{digest(self.chip)}\0{self.dtype}\0{self.edges}\0{self.longest}\0{size}"
        key = sha256(asked.encode(errors="surrogateescape")).hexdigest()
        kept = _KNOWN.get(key)
        if isinstance(kept, list):
            return Simulated(Cost(*kept[:4]), *kept[4:])
        found = self._simulate(size)
        _KNOWN.put(key, [*found.cost, found.low, found.high])
        return found

    def _simulate(self, size: int) -> Simulated:
        run = self._run(size)
        seconds, joules = run.seconds, total_J(energy_table(run))
        link_s, transfer_s = busy_fs(run, over_links(run)) * FS, split_fs(run)["link"] * FS
        dynamic_J = max(0.0, joules - self.static_W * seconds)
        if self.longest:
            seconds += _attention_s(self._run(size, {"seq": self.longest})) - _attention_s(run)
        interval = latency_interval(run)
        ends = (interval.low_s / run.seconds, interval.high_s / run.seconds) if interval else ()
        return Simulated(Cost(seconds, transfer_s, link_s, dynamic_J), *ends)

    def _run(self, size: int, param: Mapping[str, int] = MappingProxyType({})) -> Run:
        request = Request(
            self.model, self.chip, batch=size, param=param, values="off", dtype=self.dtype, edges=self.edges,
            site=self.site,
        )  # fmt: skip
        return execute(prepare(request))


def _attention_s(run: Run) -> float:
    """Return the time of a run in kernels of attention, s.

    Items of different lengths run without padding, but for these kernels: those of TensorRT are made for a largest
    length, and a batch takes the one of its longest item (MLPerf's harness sorts items by length where it may: "Plugin
    kernels are specialized for specific max sequence lengths", bert_concurrent_frontend.cc of
    mlcommons/inference_results_v2.1).
    """
    return sum(fs for blame, fs in by_blame(run).items() if blame.kind == "attention") * FS
