"""Accesses that the DRAM models serve in a second of one core, on named traces and DDR4-2400.

Beside them stand the speeds of DRAMsim3 and Ramulator 2 on the same traces (tests/golden/dram), which were measured on
another machine: they show the order of magnitude, no more. Without the extra ``fast`` (numba) its cases are skipped.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
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
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import golden

MEMORY = "ddr4-2400"
THEIRS = (("DRAMsim3", "DDR4_8Gb_x8_2400"), ("Ramulator2", "DDR4_2400U_8Gb_x8"))
GOLDEN = golden("dram/dram_golden.csv")

MILLION, NANO = 1e6, 1e9
NUMBA_BARS = {"seq_read": 3.0, "stream3": 3.0, "tile3": 3.0, "conflict": 2.0}
"""Trace -> least million accesses per second of ``bank``, compiled."""
PYTHON_BARS = {"seq_read": 120.0, "stream3": 180.0, "tile3": 260.0, "conflict": None}
"""Trace -> most steps of plain Python (see ``step_s``) that an access may take; None: no bar."""
PATTERN_BARS = {
    ("ddr3-1600", "seq_read"): None, ("ddr4-2400", "seq_read"): 2.0,
    ("ddr3-1600", "stream3"): 2.0, ("ddr4-2400", "stream3"): 1.5,
    ("ddr3-1600", "tile3"): None, ("ddr4-2400", "tile3"): None,
    ("ddr3-1600", "rand_read"): None, ("ddr4-2400", "rand_read"): None,
}  # fmt: skip
"""(memory, trace) -> how many times as fast as ``bank`` ``pattern`` must be, both compiled; None: no bar (on one stream of
reads without bank groups ``bank`` runs over row hits at once, and nothing is left to gain). The aim of 20 million
accesses per second holds or not by the processor (40 and 28 on one, 20 and 13 on another, where ``bank`` is slower
alike), so it is shown and not asked."""
PATTERN_TIMES = 8
"""Repetitions of a trace."""
MOST_OF_BANDWIDTH = 3.0
"""CPU time of a whole run with the memory model 'bank' over that with 'bandwidth', at most."""
REPEATS, PYTHON_ACCESSES, MANY_STEPS = 5, 32_768, 500_000
"""Rounds of which the best counts; of longer traces plain Python gets so many accesses; steps of a round."""

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


def once(benchmark: Any, call: Callable[[], Any]) -> Any:
    """Return what is measured repeats by itself; the benchmark only records how long all of it took."""
    return benchmark.pedantic(call, rounds=1, iterations=1)


def step_s() -> float:
    """Least CPU seconds of a step of plain Python: reading an entry of a list, comparing, often writing it."""
    found = float("inf")
    for _ in range(REPEATS):
        table, start = [0] * 64, process_time()
        for step in range(MANY_STEPS):
            at = step & 63
            if table[at] < step:
                table[at] = step + 1
        found = min(found, process_time() - start)
    return found / MANY_STEPS


def bank(kernel: str) -> Callable[[Device], Any]:
    return lambda memory: Bank(memory, kernel=kernel)


def speed(found: float, trace: str) -> str:
    return f"{1 / found / MILLION:.2f} {theirs(trace)}"


@needs_numba
@pytest.mark.parametrize("trace", NUMBA_BARS)
def test_bank_with_numba(benchmark: Any, figure: Any, trace: str) -> None:
    found = once(benchmark, lambda: seconds(bank("numba"), trace))
    limit = NANO / (NUMBA_BARS[trace] * MILLION)
    assert figure(f"bank, numba, {trace}: an access", found * NANO, " ns", limit, speed(found, trace)).holds


@pytest.mark.parametrize("trace", PYTHON_BARS)
def test_bank_in_plain_python(benchmark: Any, figure: Any, trace: str) -> None:
    found, step = once(benchmark, lambda: (seconds(bank("python"), trace, PYTHON_ACCESSES), step_s()))
    what = f"bank, plain Python, {trace}: an access in steps of {step * NANO:.0f} ns"
    assert figure(what, found / step, " x", PYTHON_BARS[trace], speed(found, trace)).holds


@needs_numba
@pytest.mark.parametrize(("name", "trace"), PATTERN_BARS)
def test_pattern(benchmark: Any, figure: Any, name: str, trace: str) -> None:
    """Times of accesses, as a share of those of ``bank``."""

    def measure() -> tuple[float, float]:
        return seconds(Pattern, trace, None, name, PATTERN_TIMES), seconds(bank("numba"), trace, None, name)

    (found, slow), bar = once(benchmark, measure), PATTERN_BARS[name, trace]
    what = f"pattern, {name}, {trace}: an access / that of bank"
    assert figure(what, found / slow, " x", bar and 1 / bar, speed(found, trace)).holds


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

    found = once(benchmark, ratio)
    assert figure("resnet50 on tpu-v1, bank over bandwidth", found, " x", MOST_OF_BANDWIDTH).holds
