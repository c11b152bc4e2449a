"""What the benchmarks run in a process of their own: ``probe.py end-to-end|against-ort MODEL CHIP DTYPE [VALUES]``.

CPU seconds (``time.process_time``, all threads) and the peak of the resident memory, as one line of JSON. Modules are
imported before anything is measured.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime

from accelsim.compiler.calibrate import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.spec.load import load_chip
from accelsim.workload import onnx_import
from accelsim.workload.load import load_model
from accelsim.workload.onnx_export import export_onnx

WARM = (onnx, onnx_import)
"""Imported here so that no measured call pays for it."""
REPEATS = 5


def cpu_s(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def end_to_end(model: str, chip_name: str, dtype: str, values: str) -> dict[str, float]:
    """Load, compile and simulate once, each measured; inputs are drawn outside the measurement."""
    chip = load_chip(chip_name)
    load, graph = cpu_s(lambda: load_model(model))
    compiled, program = cpu_s(lambda: compile(graph, chip, Options(dtype=dtype, values=values)))
    feeds = None if values == "off" else synthetic(graph, 1)
    simulated, _ = cpu_s(lambda: simulate(program, feeds, values))
    return {
        "load": load, "compile": compiled, "simulate": simulated, "total": load + compiled + simulated,
        "commands": len(program.commands), "rss_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def session(serialised: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(serialised, options, ["CPUExecutionProvider"])


def against_ort(model: str, chip_name: str, dtype: str) -> dict[str, float]:
    """The exact simulation and ONNX Runtime in turns, in one process: the best of ``REPEATS`` of each.

    ``ort``: the float model as it was loaded. ``ort_integer``: the quantised graph, as this project exports it
    (ConvInteger and MatMulInteger, then the requantisation in float), where the format is an integer.
    """
    load, graph = cpu_s(lambda: load_model(model))
    feeds = synthetic(graph, 1)
    compiled, program = cpu_s(lambda: compile(graph, load_chip(chip_name), Options(dtype=dtype)))
    first, _ = cpu_s(lambda: simulate(program, feeds, "exact"))
    models = {"ort": export_onnx(graph).SerializeToString()}
    if dtype == "int8":
        models["ort_integer"] = export_onnx(program.graph).SerializeToString()
    found = {"load": load, "compile": compiled, "first": first, "whole": load + compiled + first}
    calls: dict[str, Callable[[], Any]] = {"exact": lambda: simulate(program, feeds, "exact")}
    for name, serialised in models.items():
        found[f"{name}_session"], runner = cpu_s(lambda serialised=serialised: session(serialised))
        calls[name] = lambda runner=runner: runner.run(None, feeds)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            times[name].append(cpu_s(call)[0])
    return found | {name: min(values) for name, values in times.items()}


if __name__ == "__main__":
    kinds: dict[str, Callable[..., dict[str, float]]] = {"end-to-end": end_to_end, "against-ort": against_ort}
    print(json.dumps(kinds[sys.argv[1]](*sys.argv[2:])))
