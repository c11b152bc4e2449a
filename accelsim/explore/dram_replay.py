"""One trace on one DRAM alone: time, latency, rows, energy, and what the data bus waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Device
from accelsim.dram.energy import Energy, energy
from accelsim.dram.saved_runs import check_memory
from accelsim.dram.served import COUNTS, Served, in_batches
from accelsim.dram.trace_files import read_trace
from accelsim.dram.traces import NAMED, Trace, named
from accelsim.errors import UsageError, nearest
from accelsim.explore.dram_waits import Waits, waits
from accelsim.files.reading import exists
from accelsim.spec import dram_device as build
from accelsim.spec.dram import Dram
from accelsim.spec.status import UNSTATED, Status
from accelsim.spec.yaml.parts import load_dram
from accelsim.time import FS
from accelsim.types import Array

QUANTILES = (0.5, 0.99)


class Offer(NamedTuple):
    """Pace at which a trace is offered. ``outstanding``: accesses in flight, None for as many as the
    windows hold; ``injection``: accesses accepted per clock, None for one per channel."""

    outstanding: int | None = None
    injection: int | None = None


class Level(NamedTuple):
    """One model: what it is, and how it serves a trace. ``timed``: it knows the time of each burst and command."""

    text: str
    serve: Callable[[Device, Trace, Offer], Served]
    timed: bool = False


def _bank(device: Device, trace: Trace, offer: Offer) -> Served:
    from accelsim.dram.bank import Bank

    model = Bank(device, offer.injection, offer.outstanding)
    return in_batches(partial(model.serve, record=True, commands=True), trace)


def _pattern(device: Device, trace: Trace, offer: Offer) -> Served:
    from accelsim.dram.pattern import Pattern

    return in_batches(Pattern(device).serve, trace)


def _bandwidth(device: Device, trace: Trace, offer: Offer) -> Served:
    """The unloaded latency, then every burst at the peak rate."""
    clocks = -(-len(trace.addresses) * device.burst // device.geometry.channels)
    return _by_the_byte(device, trace, device.unloaded_read - device.burst + clocks)


def _ideal(device: Device, trace: Trace, offer: Offer) -> Served:
    return _by_the_byte(device, trace, 0)


def _by_the_byte(device: Device, trace: Trace, clocks: int) -> Served:
    counts = dict.fromkeys(COUNTS, 0)
    counts["wr"] = int(trace.writes.sum())
    counts["rd"] = len(trace.addresses) - counts["wr"]
    return Served(0, clocks, counts, 0, len(trace.addresses) * device.burst)


MODELS: dict[str, Level] = {
    "ideal": Level("no time at all", _ideal),
    "bandwidth": Level("a latency, then the peak rate", _bandwidth),
    "pattern": Level("simulates windows of a long trace command by command, extrapolates the rest", _pattern),
    "bank": Level("every command of every bank", _bank, timed=True),
}
"""Level of detail -> how it serves, the simplest first."""


@dataclass(frozen=True)
class Replay:
    """Result of one trace on one DRAM. ``status``: how far the energies of its spec can be trusted."""

    device: Device
    trace_name: str
    trace: Trace
    model: str
    offer: Offer
    served: Served
    status: Status

    @property
    def bursts(self) -> int:
        """Number of accesses, each of one burst."""
        return len(self.trace.addresses)

    @property
    def moved_B(self) -> int:
        """Bytes on the data buses."""
        return self.bursts * self.device.geometry.access_B

    @property
    def seconds(self) -> float:
        """Time from the first access to the last data, s."""
        return self.served.elapsed * self.device.clock_fs * FS

    @property
    def bandwidth_Bps(self) -> float:
        """Bytes per second; inf when no time passed."""
        return self.moved_B / self.seconds if self.seconds else float("inf")

    @property
    def share_of_peak(self) -> float:
        """Bandwidth of the peak, 0 to 1; inf when no time passed."""
        return self.bandwidth_Bps / self.device.peak_Bps

    @property
    def clock_s(self) -> float:
        """Duration of a clock (tCK), s."""
        return self.device.clock_fs * FS

    @cached_property
    def latencies_s(self) -> Array | None:
        """Seconds from acceptance to the last data of each read; None where the model has none, or nothing was read."""
        served = self.served
        if not MODELS[self.model].timed or served.done is None or served.arrived is None:
            return None
        clocks = (served.done - served.arrived)[~self.trace.writes]
        return clocks * self.clock_s if len(clocks) else None

    @cached_property
    def unloaded_s(self) -> float:
        """Seconds of one read on an idle memory with all rows closed."""
        if self.model == "ideal":
            return 0.0
        if not MODELS[self.model].timed:
            return self.device.unloaded_read * self.clock_s
        one = Trace(np.zeros(1, np.int64), np.zeros(1, bool))
        served = _bank(self.device, one, Offer())
        assert served.done is not None and served.arrived is not None
        return int(served.done[0] - served.arrived[0]) * self.clock_s

    @cached_property
    def energy(self) -> Energy | None:
        """Energy by parts; None where the memory states none, or the model has no commands."""
        if self.device.energy is None or self.served.counts["act"] == 0:
            return None
        return energy(self.served, self.device)

    @cached_property
    def waits(self) -> Waits | None:
        """Return what the data buses waited for; None where the model has no commands."""
        return waits(self.served, self.device) if self.served.commands is not None else None

    def as_dict(self) -> dict[str, object]:
        """Everything as JSON can hold it; the unit is the end of each key."""
        c = self.device.controller
        facts: dict[str, object] = {
            "tool": "accelsim", "dram": self.device.name, "standard": self.device.standard, "trace": self.trace_name,
            "model": self.model, "mapping": c.mapping, "page_policy": c.page_policy, "window": c.window,
            "refresh": c.refresh, "scheduler": c.scheduler, "outstanding": self.offer.outstanding,
            "injection": self.offer.injection,
            "accesses": self.bursts, "moved_B": self.moved_B, "clocks": self.served.elapsed,
            "seconds": self.seconds, "peak_Bps": self.device.peak_Bps,
            "bandwidth_Bps": _finite(self.bandwidth_Bps), "share_of_peak": _finite(self.share_of_peak),
            "unloaded_s": self.unloaded_s, "latency_s": latency_facts(self.latencies_s), **self.served.counts,
        }  # fmt: skip
        if self.waits is not None:
            facts["bus"] = {reason: self.waits.share(reason) for reason in self.waits.clocks}
        return facts | {"energy": _energy_facts(self.energy, self.status)}


def latency_facts(latencies_s: Array | None) -> dict[str, float] | None:
    """Return mean, median, 99th percentile and largest latency, s; None without latencies."""
    if latencies_s is None:
        return None
    p50, p99 = (float(np.quantile(latencies_s, q)) for q in QUANTILES)
    return {"mean": float(latencies_s.mean()), "p50": p50, "p99": p99, "max": float(latencies_s.max())}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _energy_facts(found: Energy | None, status: Status) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "status": status,
        **{f"{part}_J": joules for part, joules in found.parts_J.items()},
        "io_J": found.io_J,
        "die_J": found.die_J,
        "pJ_per_bit": found.pJ_per_bit,
        "pJ_per_word": found.pJ_per_word,
        "mean_W": found.mean_W,
        "idle_share": found.idle_share,
    }


def replay(
    spec: Dram | str, trace: str = "seq_read", model: str = "bank", *, offer: Offer | None = None,
    limit: int | None = None, memory: str = "", overrides: Sequence[str] = (), **controller: Any,
) -> Replay:  # fmt: skip
    """Run a trace (a name of ``traces.NAMED``, or a file) on a DRAM (a spec, or the name or file of one) alone.

    ``limit``: the first so many accesses. ``memory``: which one of a saved run with several. ``offer``: None for
    that of the trace. ``controller``: fields of ``Controller`` to change. Raises SpecError, ModelError or UsageError
    for what is wrong with any of them.
    """
    name = spec if isinstance(spec, str) else spec.title
    loaded = load_dram(spec, overrides) if isinstance(spec, str) else spec
    made, status = build.device(loaded, name, **controller), loaded.energy_status or UNSTATED
    return run(made, status, trace, model, offer, limit, memory)


def run(
    device: Device,
    status: Status,
    trace: str,
    model: str = "bank",
    offer: Offer | None = None,
    limit: int | None = None,
    memory: str = "",
) -> Replay:
    """Run a trace on a device that is built already; arguments as in ``replay``."""
    accesses = accesses_of(trace, device, limit, memory)
    offered = offer or Offer(NAMED[trace].outstanding if trace in NAMED else None)
    served = MODELS[checked_model(model)].serve(device, accesses, offered)
    title = Path(trace).name + (f", memory {memory}" if memory else "")
    return Replay(device, title, accesses, model, offered, served, status)


def offered(trace: str, outstanding: int | None, injection: int | None) -> Offer | None:
    """Return how accesses are offered: as asked for, what is left open as the trace has it; None where all is open."""
    if not outstanding and not injection:
        return None
    own = NAMED[trace].outstanding if trace in NAMED else None
    return Offer(outstanding or own, injection)


def checked_model(name: str) -> str:
    """``name``; UsageError when there is no such model."""
    if name not in MODELS:
        raise UsageError(f"no model {name!r}", "", "one of " + ", ".join(MODELS), nearest(name, MODELS))
    return name


def check_trace(name: str, memory: str = "") -> None:
    """Raise UsageError when ``name`` is neither a named trace nor a file; ModelError when the file has no such
    memory."""
    if name not in NAMED:
        if not name or not exists(Path(name)):
            expected = "a file of accesses, or one of " + ", ".join(NAMED)
            raise UsageError(f"no trace {name!r}", "", expected, nearest(name, NAMED))
        check_memory(name, memory)
    elif memory:
        what = f"--memory {memory} with the trace {name!r}, which is of no memory"
        raise UsageError(what, "", "a file of 'accelsim run --save-trace'")


def accesses_of(name: str, device: Device, limit: int | None = None, memory: str = "") -> Trace:
    """The trace of a name or file (of which a ``memory``) for this device, or its beginning."""
    check_trace(name, memory)
    found = named(name, device) if name in NAMED else read_trace(name, memory)
    at = None if found.at is None else found.at[:limit]
    return Trace(found.addresses[:limit], found.writes[:limit], at)
