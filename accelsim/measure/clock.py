"""Times of calls of PyTorch on a GPU: of the kernels alone, or with the host that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from types import ModuleType

WARM, CALLS = 3, 10
"""Calls, or replays, before those that count, and those."""
LEAST_S, MOST_CALLS = 2e-3, 512
"""A graph has calls for so long, but no more than so many."""

Call = Callable[[], object]


def host_seconds(torch: ModuleType, calls: Sequence[Call]) -> float:
    """Median time of a call, asked for one by one: with the host's work where that is longer than the kernel."""
    for number in range(WARM):
        calls[number % len(calls)]()
    return float(median(between(torch, calls[number % len(calls)]) for number in range(CALLS)))


def graph_seconds(torch: ModuleType, calls: Sequence[Call]) -> float:
    """Time of a call among many in a CUDA graph, in turn: that of its kernels, without the host."""
    replay, count = captured(torch, calls)
    for _ in range(WARM):
        replay()
    return float(median(between(torch, replay) for _ in range(CALLS))) / count


def captured(torch: ModuleType, calls: Sequence[Call]) -> tuple[Call, int]:
    """The replay of a graph of many calls, in turn, and how many there are. Results of different calls lie apart."""
    warmed(torch, calls)
    once = between(torch, calls[0])
    count = len(calls) * max(1, min(MOST_CALLS, round(LEAST_S / once)) // len(calls))
    results: list[object] = [None] * len(calls)

    def every() -> None:
        for number in range(count):
            results[number % len(calls)] = calls[number % len(calls)]()

    return recorded(torch, every), count


def warmed(torch: ModuleType, calls: Sequence[Call]) -> None:
    """Warm up on a stream of its own, as PyTorch requires before a graph is recorded."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for number in range(WARM):
            calls[number % len(calls)]()
    torch.cuda.current_stream().wait_stream(side)


def recorded(torch: ModuleType, call: Call) -> Call:
    """The replay of a CUDA graph of what a call does."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Call = graph.replay
    return replay


def between(torch: ModuleType, call: Call) -> float:
    """Return the seconds between two CUDA events before and after a call."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    call()
    after.record()
    torch.cuda.synchronize()
    return float(before.elapsed_time(after)) * 1e-3
