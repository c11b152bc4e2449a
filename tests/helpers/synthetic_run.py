"""A hand-made run that follows the contract of ``accelsim.machine.run``: what the machine would hand over.

A TPU-v1-like chip (weights in DDR3, activations over PCIe) runs matrix layers of ``tiles`` tiles each, every
fourth one followed by a vector step; the last step falls back to the host. The engines overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from typing import Any

from accelsim.engines.device import START, History
from accelsim.machine.run import Busy, LedgerRow, Run, Segment, Slice
from accelsim.program.actions import ActionName
from accelsim.program.commands import Action, Command, Effect, Region, Step, Use
from accelsim.program.program import Program
from accelsim.program.work import Cycles, Duration, Folds, Transfer
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import Gemm

NS = 10**6  # fs
CLOCK_HZ = 700_000_000

CHIP: dict[str, Any] = {
    "name": "synthetic-tpu",
    "title": "Synthetic TPU",
    "kind": "asic",
    "clock": "700 MHz",
    "source": "made up for tests",
    "cores": {
        "core": {
            "engines": {
                "matrix": {
                    "type": "systolic", "rows": 256, "cols": 256, "formats": {"int8": {}, "int16": {"cycles_per_row": 4}},
                },
                "vector": {"type": "simd", "lanes": 256, "functions": {"Relu": 1, "Add": 1}},
            },
            "memories": {
                "unified": {
                    "capacity": "24 MiB", "holds": ["activations"], "read_width": "256 B", "write_width": "256 B",
                },
                "weight_fifo": {
                    "capacity": "256 KiB", "holds": ["weights"], "read_width": "256 B", "write_width": "256 B",
                },
                "accumulators": {
                    "capacity": "4 MiB", "holds": ["partial_sums"], "read_width": "1 KiB", "write_width": "1 KiB",
                },
            },
        },
    },
    "memories": {
        "weight_memory": {
            "memory": {
                "kind": "ddr3", "capacity": "8 GiB", "bandwidth": "17 GB/s", "channels": 2, "latency": "50 ns",
                "read_energy": "160 pJ/B", "write_energy": "160 pJ/B", "static_power": "1 W",
                "source": "made up", "as_of": "2024",
            },
            "holds": ["weights"], "load_engine": "dma_w", "store_engine": "dma_w",
        },
        "pcie_memory": {
            "memory": {
                "kind": "ddr4", "capacity": "64 GiB", "bandwidth": "60 GB/s", "latency": "90 ns",
                "read_energy": "150 pJ/B", "write_energy": "150 pJ/B",
            },
            "link": {"kind": "pcie3", "bandwidth": "12 GB/s", "latency": "600 ns", "energy": "32 pJ/B"},
            "holds": ["activations"],
        },
    },
    "host": {
        "title": "Haswell", "cores": 18, "clock": "2.3 GHz", "peak": {"fp32": "1.3 TFLOPS"}, "efficiency": 0.5,
        "memory": {
            "kind": "ddr4", "capacity": "64 GiB", "bandwidth": "60 GB/s", "latency": "90 ns",
            "read_energy": "150 pJ/B", "write_energy": "150 pJ/B",
        },
        "overhead": "5 us", "energy_per_op": "50 pJ", "idle_power": "41 W",
    },
    "energy": {
        "node": "28 nm", "mac": {"int8": "0.2 pJ", "int16": "0.6 pJ"}, "vector": {"int8": "0.1 pJ", "fp32": "1 pJ"},
        "register": "0.02 pJ/B", "network": "0.01 pJ/B",
        "sram": [
            {"capacity": "8 KiB", "read": "1.2 pJ/B", "write": "1.3 pJ/B"},
            {"capacity": "32 KiB", "read": "2.5 pJ/B", "write": "2.6 pJ/B"},
            {"capacity": "1 MiB", "read": "12 pJ/B", "write": "13 pJ/B"},
        ],
    },
    "power": {"idle": "28 W", "busy": "40 W", "tdp": "75 W"},
}  # fmt: skip


def make_chip(**changes: Any) -> Chip:
    """The chip above with top-level fields replaced."""
    return Chip.model_validate(CHIP | changes)


class Builder:
    """Writes commands to queues the way the machine would time them, and keeps the records."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.slices: list[Slice] = []
        self.regions: list[Region] = []
        self.ledger: dict[tuple[str, str, int, str], int] = defaultdict(int)
        self.free: dict[str, int] = defaultdict(int)
        self.spans: dict[int, tuple[int, int]] = {}
        self.stalls: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.occupancy: dict[str, list[tuple[int, int]]] = {
            "unified": [(0, 0)],
            "weight_fifo": [(0, 0)],
            "accumulators": [(0, 0)],
        }

    def add(self, kind: Any, engine: str, op: int, work: Any, ready: int, fs: int, tensor: str) -> int:
        """One command: as soon as its engine is free and ``ready`` has passed, for ``fs``; returns its end."""
        start = max(self.free[engine], ready)
        end = start + fs
        self.free[engine] = end
        number = len(self.commands)
        label = f"{kind} {tensor} #{number}"
        actions = (Action("-", ActionName("-"), tensor, 1),)
        self.commands.append(
            Command(number, kind, engine, op, label, work, Effect("copy", tensor=tensor), actions=actions)
        )
        self.slices.append(Slice(number, engine, op, label, start, start, end))
        first, last = self.spans.get(op, (start, end))
        self.spans[op] = (min(first, start), max(last, end))
        return end

    def transfer(self, engine: str, op: int, memory: str, nbytes: int, write: bool, ready: int, tensor: str) -> int:
        """A load or store at the bandwidth of its memory."""
        rate = 34 if memory == "weight_memory" else 12  # bytes per ns
        self.count(memory, "write" if write else "read", op, tensor, nbytes)
        if memory == "pcie_memory":
            self.count("pcie_memory.link", "transfer", op, tensor, nbytes)
        work = Transfer(memory, nbytes, write)
        end = self.add("Store" if write else "Load", engine, op, work, ready, nbytes * NS // rate, tensor)
        self.regions.append(Region(len(self.regions), memory, tensor, -1, nbytes))
        moved = (Use(len(self.regions) - 1, 1, "whole"),)
        self.commands[-1].reads, self.commands[-1].writes = ((), moved) if write else (moved, ())
        return end

    def count(self, component: str, action: str, op: int, tensor: str, count: int) -> None:
        """One ledger entry."""
        self.ledger[component, ActionName(*action.split(".", 1)), op, tensor] += count


def make_run(layers: int = 5, tiles: int = 6, rows: int = 200, batch: int = 200, **changes: Any) -> Run:
    """A run of ``layers`` matrix layers; see the top of the file. ``rows`` sets how compute-bound they are."""
    chip, build = make_chip(**changes), Builder()
    steps: list[Step] = []
    tensors = {"x": Tensor("x", (batch, 256), "int8")}
    activation, ready = "x", 0
    ready = build.transfer("dma_in", 0, "pcie_memory", batch * 256, False, 0, "x")
    for layer in range(layers):
        op, weight = len(steps), f"blocks.{layer}.attention.query.weight"
        tensors[weight] = Tensor(weight, (256, 256 * tiles), "int8", source=lambda: None)  # type: ignore[arg-type,return-value]
        ready = _matrix_layer(build, op, tiles, rows * (1 + layer % 3 * 4), ready, activation, weight)
        macs = tiles * rows * (1 + layer % 3 * 4) * 256 * 256
        name = f"/blocks/block_{layer}/attention/query/MatMul"
        gemm = Gemm(1, rows * (1 + layer % 3 * 4), 256 * tiles, 256, activation, weight)
        steps.append(Step(name, "MatMul+Add", "matrix", (batch, 256 * tiles), _node(name), macs, 0, gemm))
        activation = f"y{layer}"
        tensors[activation] = Tensor(activation, (batch, 256), "int8")
        if layer % 4 == 3:
            op = len(steps)
            build.count("vector", "op.int8", op, activation, batch * 256 * 5)
            ready = build.add("Vector", "vector", op, Cycles(7000), ready, 7000 * 10**15 // CLOCK_HZ, activation)
            name = f"/blocks/norm_{layer}"
            steps.append(Step(name, "LayerNormalization", "vector", (batch, 256), _node(name), 0, batch * 1280))
    steps.append(_host_step(build, len(steps), batch, ready, activation))
    return _finish(chip, build, steps, tensors, activation)


def _matrix_layer(build: Builder, op: int, tiles: int, rows: int, ready: int, activation: str, weight: str) -> int:
    stream = rows * 10**15 // CLOCK_HZ
    shift = 256 * 10**15 // CLOCK_HZ
    end = ready
    for _ in range(tiles):
        before = max(build.free["matrix"], ready)
        loaded = build.transfer("dma_w", op, "weight_memory", 65536, False, 0, weight)
        begin = max(before, loaded + shift)
        end = build.add("MatMul", "matrix", op, Folds(1, rows, 1), begin, stream, activation)
        build.stalls[op]["active"] += stream
        build.stalls[op]["shift"] += min(shift, begin - before)
        build.stalls[op]["weights"] += max(0, begin - before - shift)
        build.occupancy["weight_fifo"] += [(loaded, 65536), (end, 0)]
        build.occupancy["accumulators"].append((end, rows * 1024))
        build.count("matrix", "mac.int8", op, weight, rows * 256 * 256)
        build.count("matrix", "mac.padding", op, weight, 1000)
        build.count("matrix", "pe_register.read", op, weight, rows * 256 * 256 * 2)
        build.count("matrix", "pe_network.hop", op, weight, rows * 256 * 255)
        build.count("unified", "read", op, activation, rows * 256)
        build.count("weight_fifo", "read", op, weight, 65536)
        build.count("weight_fifo", "write", op, weight, 65536)
        build.count("accumulators", "write", op, weight, rows * 1024)
        build.count("unified", "write", op, activation, rows * 256)
    done = build.add("Vector", "vector", op, Cycles(rows), end, stream, activation)
    build.occupancy["unified"].append((done, rows * 256 * tiles))
    return done


def _host_step(build: Builder, op: int, batch: int, ready: int, activation: str) -> Step:
    moved = build.transfer("dma_out", op, "pcie_memory", batch * 256, True, ready, activation)
    fs = 40_000 * NS
    end = build.add("Host", "host", op, Duration(fs), moved, fs, activation)
    build.count("host", "op", op, activation, batch * 256 * 5)
    build.count("host.own_memory", "read", op, activation, batch * 256)
    build.count("host.own_memory", "write", op, activation, batch * 256)
    build.occupancy["unified"].append((end, 0))
    return Step(
        "/head/Softmax",
        "Softmax",
        "host",
        (batch, 256),
        _node("/head/Softmax"),
        0,
        batch * 1280,
        note="no such function: host",
    )


def _node(name: str) -> Node:
    return Node(name, "MatMul", ["x"], ["y"])


def _finish(chip: Chip, build: Builder, steps: list[Step], tensors: dict[str, Tensor], output: str) -> Run:
    kinds = {"dma_w": "dma", "dma_in": "dma", "dma_out": "dma", "matrix": "systolic", "vector": "simd", "host": "cpu"}
    time_fs = max(end for _, end in build.spans.values())
    engines = []
    for name in kinds:
        busy = sum(piece.end - piece.start for piece in build.slices if piece.engine == name)
        idle = (time_fs - busy) // 3
        engines.append(Busy(name, busy, {"data": time_fs - busy - idle}, idle))
    graph = Graph("synthetic-net", [Node("n", "MatMul", ["x"], [output])], tensors, ["x"], [output])
    program = Program(
        graph=graph, chip=chip, dtype="int8", commands=build.commands, regions=build.regions, steps=steps, presets={}, results={},
        engines=kinds, notes=["Softmax runs on the host"],
    )  # fmt: skip
    run = Run(
        chip=chip,
        program=program,
        values="off",
        time_fs=time_fs,
        slices=sorted(build.slices, key=lambda piece: (piece.start, piece.command)),
        ledger=[LedgerRow(*key, count) for key, count in build.ledger.items()],
        engines=engines,
        step_spans=[build.spans[op] for op in range(len(steps))],
        step_stalls=[dict(build.stalls[op]) if op in build.stalls else {} for op in range(len(steps))],
        histories=[History(START, (), (piece.start,), a=piece.end) for piece in build.slices],
    )
    # nobody simulated this program, so what follows from a simulation is set by hand
    run.derived["occupancy"] = {name: sorted(points) for name, points in build.occupancy.items()}
    run.derived["critical_path"] = _critical_path(run)
    return run


def altered(run: Run, **changes: Any) -> Run:
    """A copy with other fields, which keeps what was set by hand."""
    copy = replace(run, **changes)
    copy.derived.update({name: run.derived[name] for name in ("occupancy", "critical_path")})
    return copy


def _critical_path(run: Run) -> list[Segment]:
    """Back from the last command, always to the one that ended last before; before a tile its weights are shifted."""
    names = {"weight_memory": "ddr3", "pcie_memory": "pcie3"}
    by_end = sorted(run.slices, key=lambda piece: (piece.end, piece.command))
    path: list[Segment] = []
    piece: Slice | None = by_end[-1]
    while piece is not None:
        work = run.program.commands[piece.command].work
        kind = {"matrix": "stream", "vector": "vector", "host": "host"}.get(piece.engine, "transfer")
        name = names[work.memory] if isinstance(work, Transfer) else piece.engine
        mix = (("compute", work.n * work.rows),) if isinstance(work, Folds) else ()
        path.append(Segment(piece.start, piece.end, piece.command, kind, name, mix, "full"))
        index = bisect_right(by_end, piece.start, key=lambda piece: piece.end)
        before = by_end[index - 1] if index else None
        gap = (before.end if before else 0, piece.start)
        if gap[1] > gap[0]:
            kind = "weight_shift" if piece.engine == "matrix" else "hand_over"
            path.append(Segment(*gap, piece.command, kind, piece.engine))
        piece = before
    return path[::-1]
