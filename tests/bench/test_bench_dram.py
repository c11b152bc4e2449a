"""Accesses that the DRAM models serve in a second of one core, on named traces and DDR4-2400.

Beside them stand the speeds of DRAMsim3 and Ramulator 2 on the same traces (tests/golden/dram), which were measured on
another machine: they show the order of magnitude, no more. Without the extra ``fast`` (numba) its cases are skipped.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.dram import traces
from accelsim.dram.bank import Bank
from accelsim.dram.device import Device
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.load_dram import load_dram

MEMORY = "ddr4-2400"
THEIRS = (("DRAMsim3", "DDR4_8Gb_x8_2400"), ("Ramulator2", "DDR4_2400U_8Gb_x8"))
GOLDEN = Path(__file__).parents[1] / "golden" / "dram" / "dram_golden.csv"

MILLION, NANO = 1e6, 1e9
NUMBA_BARS = {"seq_read": 3.0, "stream3": 3.0, "tile3": 3.0, "conflict": 2.0}
PYTHON_BARS = {"seq_read": 0.15, "stream3": 0.15, "tile3": 0.15, "conflict": None}
"""Trace -> least million accesses per second; None: no bar."""
PATTERN_BARS = {
    (memory, trace): bar
    for memory in ("ddr3-1600", "ddr4-2400")
    for trace, bar in (("seq_read", 20.0), ("stream3", 20.0), ("tile3", None), ("rand_read", None))
}
"""The same for (memory, trace), the trace PATTERN_TIMES over: the aim is 20, which streams reach; tiles and random reads
come near."""
PATTERN_TIMES = 8
MOST_OF_BANDWIDTH = 3.0
"""CPU time of a whole run with the memory model 'bank' over that with 'bandwidth', at most."""
REPEATS, PYTHON_ACCESSES = 5, 32_768
"""Rounds of which the best counts; of longer traces plain Python gets so many accesses."""

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba is not installed (extra `fast`)"
)


def theirs(trace: str) -> str:
    """Speeds of the others, of another machine."""
    with GOLDEN.open() as file:
        rows = {(row["simulator"], row["config"], row["trace"]): row for row in csv.DictReader(file)}
    found = (rows[*each, trace] for each in THEIRS)
    speeds = (f"{row['simulator']} {float(row['accesses_per_cpu_s']) / MILLION:.2f}" for row in found)
    return "million accesses/s; on another machine " + ", ".join(speeds)


def seconds(
    make: Callable[[Device], Any], trace: str, most: int | None = None, name: str = MEMORY, times: int = 1
) -> float:
    """Least CPU seconds of an access, decoding of addresses inside."""
    memory = device(load_dram(name))
    addresses, writes, _ = traces.named(trace, memory)
    addresses, writes = np.tile(addresses[:most], times), np.tile(writes[:most], times)
    make(memory).serve(addresses[:64], writes[:64])  # compiles, or loads what was compiled
    found = float("inf")
    for _ in range(REPEATS):
        model = make(memory)
        start = process_time()
        model.serve(addresses, writes)
        found = min(found, process_time() - start)
    return found / len(addresses)


def judge(benchmark: Any, figure: Any, name: str, trace: str, bar: float | None, *work: Any) -> bool:
    """Nanoseconds of an access, which must not exceed those of the bar."""
    found = benchmark.pedantic(lambda: seconds(*work), rounds=1, iterations=1)
    note = f"{1 / found / MILLION:.2f} {theirs(trace)}"
    limit = NANO / (bar * MILLION) if bar else None
    return bool(figure(f"{name}, {trace}: an access", found * NANO, " ns", limit, note).holds)


@needs_numba
@pytest.mark.parametrize("trace", NUMBA_BARS)
def test_bank_with_numba(benchmark: Any, figure: Any, trace: str) -> None:
    make = lambda memory: Bank(memory, kernel="numba")  # noqa: E731
    assert judge(benchmark, figure, "bank, numba", trace, NUMBA_BARS[trace], make, trace)


@pytest.mark.parametrize("trace", PYTHON_BARS)
def test_bank_in_plain_python(benchmark: Any, figure: Any, trace: str) -> None:
    make = lambda memory: Bank(memory, kernel="python")  # noqa: E731
    name, bar = "bank, plain Python", PYTHON_BARS[trace]
    assert judge(benchmark, figure, name, trace, bar, make, trace, PYTHON_ACCESSES)


@needs_numba
@pytest.mark.parametrize(("name", "trace"), PATTERN_BARS)
def test_pattern(benchmark: Any, figure: Any, name: str, trace: str) -> None:
    bar, work = PATTERN_BARS[name, trace], (Pattern, trace, None, name, PATTERN_TIMES)
    assert judge(benchmark, figure, f"pattern, {name}", trace, bar, *work)


@needs_numba
def test_a_run_with_banks(benchmark: Any, figure: Any) -> None:
    """ResNet-50 on TPU v1: what following every DRAM command costs beside latency and a constant rate."""

    def ratio() -> float:
        found = {}
        for model in ("bandwidth", "bank") * (REPEATS - 2):
            start = process_time()
            accelsim.run("resnet50", "tpu-v1", values="off", memory_model=model)
            found[model] = min(found.get(model, float("inf")), process_time() - start)
        return found["bank"] / found["bandwidth"]

    found = benchmark.pedantic(ratio, rounds=1, iterations=1)
    assert figure("resnet50 on tpu-v1, bank over bandwidth", found, " x", MOST_OF_BANDWIDTH).holds
