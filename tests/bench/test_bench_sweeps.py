"""How much of a run the points of a sweep share, as a ratio of CPU times in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from accelsim.engines.systolic.mapping import decide, search
from accelsim.engines.systolic.mapping.known import Known as Searches
from accelsim.engines.systolic.mapping.known import Tapes
from accelsim.explore.sweep.point import DONE, Known, Point, outcome
from accelsim.usercache import SWITCH, Table

CHANGES = ["matrix.rows=64", "matrix.cols=32", "matrix.dataflow=ws"]
CAPACITIES, BANDWIDTHS = ("8 MiB", "16 MiB", "32 MiB"), ("12.8 GB/s", "25.6 GB/s", "51.2 GB/s")
SHARE = 0.6
"""Most CPU time of a further point, on the average, beside that of the first one, which shares nothing."""


def test_points_share_most_of_their_work(
    benchmark: Any, figure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    monkeypatch.setattr(search, "KNOWN", Searches(Table("of a benchmark", 100)))
    monkeypatch.setattr(decide, "TAPES", Tapes(100_000))
    known = Known()

    def seconds(capacity: str, bandwidth: str) -> float:
        changes = [*CHANGES, f"act_sram.capacity={capacity}", f"memories.dram.memory.bandwidth={bandwidth}"]
        start = time.process_time()
        found = outcome(
            Point.of("resnet50", "systolic-generic", {"values": "off", "dtype": "bf16", "set": changes}), known
        )
        assert found.status == DONE
        return time.process_time() - start

    seconds("1 MiB", "6.4 GB/s")  # imports and tables that every process makes once
    first, *others = benchmark.pedantic(
        lambda: [seconds(*each) for each in product(CAPACITIES, BANDWIDTHS)], rounds=1, iterations=1
    )
    share = sum(others) / len(others) / first
    found = figure("further points of a sweep, to the first", share, "x", SHARE, f"first {first:.2f} s")
    assert found.holds
