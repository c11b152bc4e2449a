"""Check ``rtl-machine``: the general machine, configured by hwspecs/chips/dae-edu.yaml, against SystemVerilog.

The golden rows come from a small decoupled access/execute accelerator that was run through Verilator: total clocks,
counters, and a hash over the edge of every event. Nothing here computes a time; it configures, runs and counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from accelsim.compiler.lower.lower import lower
from accelsim.compiler.state import Options, State
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from tests.validation.rtl_counters import counters

PARAMETERS = (
    "R",
    "C",
    "B",
    "L",
    "pipelined",
    "slots",
    "order",
    "reuse",
    "out",
    "shift",
    "M",
    "N",
    "K",
    "Tm",
    "Tn",
    "Tk",
)
"""Columns that describe a run; everything else is a result."""

BUFFERS = ("a_spad", "w_spad", "acc")
WORD = (1 << 32) - 1


def chip_for(row: Mapping[str, Any]) -> Chip:
    """The spec file with the fields of one row put in."""
    slots = int(row["slots"])
    settings = {
        "matrix.rows": row["R"],
        "matrix.cols": row["C"],
        "memories.dram.memory.bandwidth": f"{row['B']} GB/s",
        "memories.dram.memory.beat": f"{row['B']} B",
        "memories.dram.memory.latency": f"{row['L']} ns",
        "memories.dram.memory.pipelined": "true" if int(row["pipelined"]) else "false",
        "peak": "{}",
        **{f"{name}.slots": slots for name in BUFFERS},
        **{f"{name}.capacity": "1 GiB" for name in BUFFERS},  # the test bench makes slots as large as its tiles
        "a_spad.read_width": f"{row['R']} B",
        "w_spad.read_width": f"{row['C']} B",
        "acc.read_width": f"{4 * int(row['C'])} B",
        "acc.write_width": f"{4 * int(row['C'])} B",
    }
    return load_chip("dae-edu", [f"{path}={value}" for path, value in settings.items()])


def operand(count: int, seed: int) -> Array:
    """The int8 operand stream of the test bench: a 32-bit linear congruential generator."""
    x = (seed * 2654435761 + 12345) & WORD
    values = np.empty(count, np.int8)
    for index in range(count):
        x = (x * 1664525 + 1013904223) & WORD
        values[index] = ((x >> 16) & 255) - 128
    return values


def graph_for(row: Mapping[str, Any]) -> Graph:
    """Y[M,N] = A[M,K] x B[K,N] in int8, with a shifting requantisation where the row asks for int8 results."""
    M, N, K = (int(row[axis]) for axis in "MNK")
    tensors = {
        "A": Tensor("A", (M, K), "int8"),
        "B": Tensor("B", (K, N), "int8", operand(K * N, 13 * N + 3 * K + 1).reshape(K, N)),
        "Y": Tensor("Y", (M, N), str(row["out"])),
    }
    node = Node("gemm", "MatMul", ["A", "B"], ["Y"], engine="matrix")
    if row["out"] == "int8":
        tensors["sums"] = Tensor("sums", (M, N), "int32")
        node.outputs = ["sums"]
        node.epilogue = [
            Node("shift", "RequantizeShift", ["sums"], ["Y"], {"shift": int(row["shift"])}, engine="vector")
        ]
    return Graph("gemm", [node], tensors, ["A"], ["Y"])


def mapping_for(row: Mapping[str, Any]) -> dict[str, Any]:
    """The pinned mapping of a row: nothing is left to the search."""
    slots = int(row["slots"])
    return {
        "order": row["order"], "tm": int(row["Tm"]), "tn": int(row["Tn"]), "tk": int(row["Tk"]),
        "reuse": bool(int(row["reuse"])), "a_whole_k": False, "a_resident": False, "y_resident": False,
        "a_slots": slots, "w_slots": slots, "y_slots": slots,
    }  # fmt: skip


def run_row(row: Mapping[str, Any]) -> Run:
    """Simulate one row with exact values."""
    chip, graph = chip_for(row), graph_for(row)
    options = Options(pinned={"gemm": mapping_for(row)})
    program = lower(State(graph, chip, options, "int8"))
    M, K = graph.tensors["A"].shape
    return simulate(program, {"A": operand(M * K, 7 * M + K).reshape(M, K)}, "exact")


def simulate_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """All result columns of one row of parameters."""
    return counters(run_row(row))
