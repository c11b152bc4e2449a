"""What the benchmarks run in a process of their own, one of these:

    probe.py end-to-end MODEL CHIP DTYPE VALUES
    probe.py against-ort MODEL CHIP DTYPE [VALUES]
    probe.py ort MODEL
    probe.py run MODEL CHIP
    probe.py ranges MODEL CHIP DTYPE METHOD
    probe.py nodes KIND NODES CHIP DTYPE
    probe.py searches MODEL CHIP EFFORT

CPU seconds (``time.process_time``, all threads) and the peak of the resident memory, as one line of JSON. Modules are
imported before anything is measured.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from accelsim.account.latency import layers
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile, transform
from accelsim.compiler.state import Options
from accelsim.engines.systolic.mapping.known import Choice
from accelsim.engines.systolic.mapping.search import ProductSearch
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.limits import limited
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.onnx.importing import importer as onnx_import
from accelsim.workload.sources.load import load_model
from tests.helpers.long_graphs import LONG

WARM = (onnx, onnx_import)
"""Imported here so that no measured call pays for it."""
REPEATS = 5


def cpu_s(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def with_weights(graph: Graph) -> Graph:
    """All weights in memory: the light models have none of their own, so they are drawn."""
    for tensor in graph.constants():
        tensor.value()
    return graph


def peak_MB() -> float:
    """The most memory that this process had. Not ``ru_maxrss`` where that can be helped, in which Linux counts what the
    process had that started this one."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return float(found[0] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def end_to_end(model: str, chip_name: str, dtype: str, values: str) -> dict[str, float]:
    """Load, compile and simulate once, each measured; inputs (and weights, if values are computed) are drawn before."""
    chip = load_chip(chip_name)
    load, graph = cpu_s(lambda: load_model(model))
    if values != "off":
        with_weights(graph)
    compiled, program = cpu_s(lambda: compile(graph, chip, Options(dtype=dtype, values=values)))
    feeds = None if values == "off" else synthetic(graph, 1)
    simulated, _ = cpu_s(lambda: simulate(program, feeds, values))
    return {
        "load": load, "compile": compiled, "simulate": simulated, "total": load + compiled + simulated,
        "commands": len(program.commands), "rss_MB": peak_MB(),
    }  # fmt: skip


def ort(model: str) -> dict[str, float]:
    """ONNX Runtime on the float model, from its bytes: making the session, and the first run."""
    graph = with_weights(load_model(model))
    feeds, serialised = synthetic(graph, 1), export_onnx(graph).SerializeToString()
    made, runner = cpu_s(lambda: session(serialised))
    first, _ = cpu_s(lambda: runner.run(None, feeds))
    return {"session": made, "run": first}


def session(serialised: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(serialised, options, ["CPUExecutionProvider"])


class OneBatch(CalibrationDataReader):  # type: ignore[misc]
    """The data for ranges of ONNX Runtime's quantiser: the one batch that is run."""

    def __init__(self, feeds: dict[str, Any]) -> None:
        self._left = [feeds]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None


def static_int8(serialised: bytes, feeds: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        before.write_bytes(serialised)
        quantize_static(before, after, OneBatch(feeds), per_channel=True)
        return after.read_bytes()


def whole_run(model: str, chip_name: str) -> dict[str, float]:
    """Compile and simulate without values, whether the chip's memory holds the model or not."""
    graph, chip = load_model(model), load_chip(chip_name)
    with limited(ignore_capacity=True):
        took, run = cpu_s(lambda: simulate(compile(graph, chip, Options(values="off"))))
    replayed = run.replay.commands if run.replay is not None else 0
    return {
        "total": took, "commands": len(run.program.commands), "replayed": replayed,
        "rss_MB": peak_MB(),
    }  # fmt: skip


def against_ort(model: str, chip_name: str, dtype: str, values: str = "exact") -> dict[str, float]:
    """The simulation with ``values`` and ONNX Runtime in turns, in one process: the best of ``REPEATS`` of each.

    ``ort``: the float model as it was loaded. ``ort_integer``: the quantised graph, as this project exports it
    (ConvInteger and MatMulInteger, then the requantisation in float). ``ort_static``: the float model as ONNX Runtime
    quantises it (uint8 activations, int8 weights per channel), so other integers than ours; both for int8 only.
    ``products``: nothing but the matrix products by NumPy in float32, whose BLAS may know fewer instructions of this
    processor than ONNX Runtime does.
    """
    graph = with_weights(load_model(model))
    feeds = synthetic(graph, 1)
    program = compile(graph, load_chip(chip_name), Options(dtype=dtype))
    models = {"ort": export_onnx(graph).SerializeToString()}
    if dtype == "int8":
        models["ort_integer"] = export_onnx(program.graph).SerializeToString()
        models["ort_static"] = static_int8(models["ort"], feeds)
    calls: dict[str, Callable[[], Any]] = {
        values: lambda: simulate(program, feeds, values),
        "products": bare_products(program),
    }
    for name, serialised in models.items():
        calls[name] = partial(session(serialised).run, None, feeds)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            times[name].append(cpu_s(call)[0])
    return {name: min(values) for name, values in times.items()}


def bare_products(program: Program) -> Callable[[], None]:
    gemms = [step.gemm for step in program.steps if step.gemm is not None]
    shapes = [(gemm.groups, gemm.M, gemm.K, gemm.N) for gemm in gemms]
    pairs = [(np.ones((g, m, k), np.float32), np.ones((g, k, n), np.float32)) for g, m, k, n in shapes]

    def multiply() -> None:
        for a, b in pairs:
            np.matmul(a, b)

    return multiply


IMAGES = 16


def ranged(model: str, chip_name: str, dtype: str, method: str) -> dict[str, float]:
    """All passes over the graph with ``IMAGES`` drawn images as data: ranges, scales, codes."""
    graph, chip = with_weights(load_model(model)), load_chip(chip_name)
    batches = [synthetic(graph, seed) for seed in range(IMAGES)]
    data = {name: np.concatenate([batch[name] for batch in batches]) for name in graph.inputs}
    options = Options(dtype=dtype, ranges=method, ranges_from=data)
    total, made = cpu_s(lambda: transform(graph, chip, options))
    scaled = sum(tensor.quant is not None for tensor in made.tensors.values())
    return {"total": total, "images": IMAGES, "tensors": scaled}


def searches(model: str, chip_name: str, effort: str) -> dict[str, float]:
    """All searches for mappings of a compilation: candidates that were tried, and the time of the searches alone."""
    graph, chip, found = (load_model(model), load_chip(chip_name), {"searches": 0.0, "tried": 0.0, "seconds": 0.0})
    best = ProductSearch.best

    def measured(search: ProductSearch) -> Choice:
        seconds, choice = cpu_s(lambda: best(search))
        for name, more in (("searches", 1), ("tried", choice.scored), ("seconds", seconds)):
            found[name] += more
        return choice

    ProductSearch.best = measured  # type: ignore[method-assign]
    compile(graph, chip, Options(values="off", search=effort))
    return found | {"per_second": found["tried"] / found["seconds"]}


def long_graph(kind: str, nodes: str, chip_name: str, dtype: str) -> dict[str, float]:
    """Compile, simulate and account a graph of so many nodes (a key of ``long_graphs.LONG``); a short one before, so
    that nothing is made or loaded for the first time while it is measured."""
    chip, options = load_chip(chip_name), Options(dtype=dtype, values="off")
    for count in (60, int(nodes)):
        graph = LONG[kind](count)
        compiled, program = cpu_s(lambda graph=graph: compile(graph, chip, options))
        simulated, done = cpu_s(lambda program=program: simulate(program, None, "off"))
        accounted, _ = cpu_s(lambda done=done: layers(done))
    return {
        "compile": compiled, "simulate": simulated, "account": accounted, "commands": len(program.commands),
    }  # fmt: skip


if __name__ == "__main__":
    kinds: dict[str, Callable[..., dict[str, float]]] = {
        "end-to-end": end_to_end,
        "against-ort": against_ort,
        "ranges": ranged,
        "nodes": long_graph,
        "run": whole_run,
        "searches": searches,
        "ort": ort,
    }
    print(json.dumps(kinds[sys.argv[1]](*sys.argv[2:])))
