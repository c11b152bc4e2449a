"""The counters of the RTL test bench, counted from the records of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from accelsim.machine.run import Run, Slice
from accelsim.program.actions import mac
from accelsim.time import Clock
from tests.helpers.fold_edges import FoldEdges, folds_of

FNV_BASIS, FNV_PRIME = 1469598103934665603, 1099511628211
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


def fnv(words: Iterable[int]) -> str:
    """FNV-1a over 32-bit words, as 16 hex digits."""
    h = FNV_BASIS
    for word in words:
        h = ((h ^ (word & U32)) * FNV_PRIME) & U64
    return f"{h:016x}"


def counters(run: Run) -> dict[str, Any]:
    """Every result column of one run, by the name it has in the golden file."""
    edge = Clock(run.chip.clock).edge
    return {
        **_work(run),
        **_transfers(run, edge),
        **_array(folds_of(run)),
        "compute_done_edge": max(_completed(run)),
        **_values(run),
        "trace_fnv": fnv(_events(run, edge)),
    }


def _moves(run: Run, kind: str) -> list[Slice]:
    return [piece for piece in run.slices if run.program.commands[piece.command].kind == kind]


def _work(run: Run) -> dict[str, Any]:
    moved = {row.tensor: row.count for row in run.ledger if row.component == "dram"}
    labels = [piece.label for piece in run.slices]
    return {
        "execs": len(folds_of(run)), "folds": sum(record.stream.folds for record in folds_of(run)),
        "loads_a": labels.count("load A"), "loads_w": labels.count("load B"), "stores": labels.count("store Y"),
        "bytes_a": moved["A"], "bytes_w": moved["B"], "bytes_out": moved["Y"],
        "macs": sum(row.count for row in run.ledger if row.action == mac("int8")),
    }  # fmt: skip


def _transfers(run: Run, edge: Callable[[int], int]) -> dict[str, Any]:
    total = edge(run.time_fs)
    found: dict[str, Any] = {"total_clocks": total}
    for kind, name in (("Load", "load"), ("Store", "store")):
        moves = _moves(run, kind)
        found[f"dram_{name}_clocks"] = sum(edge(piece.end) - edge(piece.data) for piece in moves)
        in_flight: set[int] = set()
        for piece in moves:
            in_flight.update(range(edge(piece.start) + 1, edge(piece.end) + 1))
        found[f"{name}_outstanding_clocks"] = len(in_flight)
    found["dram_idle_clocks"] = total - found["dram_load_clocks"] - found["dram_store_clocks"]
    return found


def _array(records: Sequence[FoldEdges]) -> dict[str, Any]:
    streamed = sum(record.stream.rows * record.stream.folds for record in records)
    last = max(start + record.stream.rows - 1 for record in records for _, start, _ in _folds(record))
    found = {
        "first_stream_edge": records[0].stream_first, "last_stream_edge": last,
        "weight_shift_clocks": sum(record.stream.load * record.stream.folds for record in records), "stream_clocks": streamed,
        "stall_total": last - streamed, "stall_a": 0, "stall_w": 0, "stall_wtok": 0, "stall_acc": 0,
    }  # fmt: skip
    for record in records:
        for free, start, load in _folds(record):
            first = start == record.stream_first
            limits = {"stall_w": load + record.stream.load, "stall_wtok": min(load, record.ready["w"]) if first else 0}
            if first:
                limits |= {"stall_a": record.ready["a"], "stall_acc": record.ready["acc"]}
            for name, limit in limits.items():
                found[name] += max(0, min(limit, start) - free)
    return found


def _folds(record: FoldEdges) -> Iterator[tuple[int, int, int]]:
    """Of each fold of a command: edge after the stream before it, first streamed row, first weight row."""
    yield record.free, record.stream_first, record.load_first
    for fold in range(1, record.stream.folds):
        before = record.stream_first + (fold - 1) * record.stream.step
        yield before + record.stream.rows, before + record.stream.step, before + record.stream.reload


def _values(run: Run) -> dict[str, Any]:
    y = run.outputs["Y"]
    a, b = run.feeds["A"].astype(np.int64), run.program.graph.tensors["B"].value().astype(np.int64)
    plain = a @ b
    epilogue = run.program.graph.nodes[0].epilogue
    if epilogue:
        shift = int(epilogue[0].attrs["shift"])
        plain = np.clip((plain + ((1 << shift) >> 1)) >> shift, -128, 127)
    return {"numerics": "ok" if np.array_equal(y, plain) else "wrong", "out_fnv": fnv(int(v) for v in y.reshape(-1))}


def _events(run: Run, edge: Callable[[int], int]) -> Iterator[int]:
    """Requests in order of acceptance, then folds, then completed accumulator tiles."""
    commands = run.program.commands
    moves = sorted((*_moves(run, "Load"), *_moves(run, "Store")), key=lambda piece: piece.start)
    for piece in moves:
        yield from (
            int(commands[piece.command].kind == "Store"),
            edge(piece.start),
            edge(piece.data) + 1,
            edge(piece.end),
        )
    for record in folds_of(run):
        for _, start, load in _folds(record):
            yield from (load, start)
    yield from _completed(run)


def _completed(run: Run) -> Iterator[int]:
    """Edges at which an accumulator tile got its last write."""
    for record in folds_of(run):
        if run.program.commands[record.command].writes[0].role in ("whole", "end"):
            yield record.done
