"""Memory of each device of a pipeline over time: what stays, and stashes that come and go with the ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelsim.cluster.schedules.costs import Cost, Given, Number, checked, whole
from accelsim.cluster.schedules.played import PlayedSchedule


@dataclass(frozen=True)
class MemoryTrace:
    """Bytes of one device: ``static_B`` by kind all the time, ``stash_B[k]`` from ``times_fs[k]`` to the next time."""

    times_fs: tuple[Number, ...]
    stash_B: tuple[int, ...]
    static_B: Mapping[str, int]

    @cached_property
    def peak_stash_B(self) -> int:
        """The most that stashes take at one time."""
        return max(self.stash_B)

    @property
    def peak_B(self) -> int:
        """The most that everything takes at one time."""
        return sum(self.static_B.values()) + self.peak_stash_B

    def parts_B(self) -> dict[str, int]:
        """Bytes by kind at that time."""
        return {**self.static_B, "stash": self.peak_stash_B}


def memory_traces(
    played: PlayedSchedule, stash_B: Cost, static_B: Mapping[str, Sequence[int]]
) -> list[MemoryTrace]:
    """Memory of each device over time.

    ``stash_B``: what a forward of one microbatch leaves for its backward (by stage and chunk), freed at the end of B.
    ``static_B``: kind ("weights", "gradients", "optimiser", ...) -> bytes of each stage, which stay. UsageError for
    tables that do not fit.
    """
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    sizes = (played.stages, chunks)
    static = [Given(f"static_B[{kind}]", list(each), sizes[:1]) for kind, each in static_B.items()]
    checked([Given("stash_B", stash_B, sizes), *static])
    found = []
    for device, stage in enumerate(played.stage_of):
        by_chunk = [whole(stash_B, 1, stage, chunk) for chunk in range(chunks)]
        times, held = _stash_over_time(played, device, by_chunk)
        here = {kind: int(each[stage]) for kind, each in static_B.items()}
        found.append(MemoryTrace(tuple(times), tuple(held), here))
    return found


def _stash_over_time(
    played: PlayedSchedule, device: int, by_chunk: Sequence[int]
) -> tuple[list[Number], list[int]]:
    """Times of change and bytes from then on; what ends at a time is freed before what starts at it."""
    times: list[Number] = [0]
    held = [0]
    spans = zip(played.orders[device], played.start_fs[device], played.end_fs[device], strict=True)
    for op, start, end in spans:
        if op.kind == "W":
            continue
        time, change = (start, by_chunk[op.chunk]) if op.kind == "F" else (end, -by_chunk[op.chunk])
        if change and time == times[-1]:
            held[-1] += change
        elif change:
            times.append(time)
            held.append(held[-1] + change)
    return times, held
