"""Watts and clock of a GPU while it computes, from the counters of its driver (NVML)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep
from types import ModuleType
from typing import TYPE_CHECKING

from accelsim.errors import UsageError

if TYPE_CHECKING:
    from torch.cuda import Event

SETTLE_S, WINDOW_S, QUEUED = 0.3, 1.0, 4
"""Seconds of load before those that are metered, and those; replays that wait on the device meanwhile."""
IDLE_S = 2.0
"""Seconds for which an idle GPU is metered."""


class Meter:
    """The energy counter and the clock of a GPU. Raises UsageError where NVML or the counter is not there."""

    def __init__(self, torch: ModuleType, device: str) -> None:
        try:
            import pynvml
        except ImportError:
            raise UsageError("NVML is not installed", "--power", "pip install nvidia-ml-py") from None
        self._nvml, self._torch = pynvml, torch
        uuid = torch.cuda.get_device_properties(device).uuid
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self._energy_J()
        except pynvml.NVMLError as error:
            raise UsageError(f"no energy counter: {error}", "--power", "Volta or newer") from None

    def _energy_J(self) -> float:
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1e-3

    def idle_W(self) -> float:
        """Power of a GPU that waits, with a context on it."""
        self._torch.cuda.synchronize()
        sleep(SETTLE_S)
        return self._metered(lambda: sleep(0.01), IDLE_S)[0]

    def __call__(self, replay: Callable[[], object], calls: int = 1) -> dict[str, str]:
        """Columns ``power_W``, ``clock_MHz`` and ``energy_mJ`` of each of the calls that are replayed over and over."""
        waiting: list[Event] = []

        def once() -> None:
            event = self._torch.cuda.Event()
            replay()
            event.record()
            waiting.append(event)
            if len(waiting) > QUEUED:
                waiting.pop(0).synchronize()

        until = perf_counter() + SETTLE_S
        while perf_counter() < until:
            once()
        watts, clock, each_J = self._metered(once, WINDOW_S)
        self._torch.cuda.synchronize()
        return {"power_W": f"{watts:.4g}", "clock_MHz": f"{clock:.4g}", "energy_mJ": f"{each_J / calls * 1e3:.5g}"}

    def _metered(self, once: Callable[[], None], window_s: float) -> tuple[float, float, float]:
        """Mean power, W, median clock, MHz, and energy of a call, J, between two ticks of the counter, which moves some
        times a second."""
        clocks: list[float] = []
        began, first, _ = self._tick(once, 0)
        while perf_counter() - began < window_s:
            once()
            clocks.append(float(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)))
        ended, last, more = self._tick(once, len(clocks))
        return (last - first) / (ended - began), median(clocks), (last - first) / max(1, more)

    def _tick(self, once: Callable[[], None], calls: int) -> tuple[float, float, int]:
        """Return when the counter has just moved, s, its value, J, and ``calls`` with those made meanwhile."""
        before, until = self._energy_J(), perf_counter() + WINDOW_S
        while (now := self._energy_J()) == before and perf_counter() < until:
            once()
            calls += 1
        return perf_counter(), now, calls
