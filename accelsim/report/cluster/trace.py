"""A training step as a Chrome trace (JSON, gzip), which Perfetto opens: a process per kind of device.

Format: "Trace Event Format" of the Chromium project, as in ``accelsim.report.trace``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import IO, Any

from accelsim.cluster.step.result import Device, StepResult
from accelsim.report.cluster.looks import device_names

FS_PER_US = 1e9
Event = dict[str, Any]


def events(result: StepResult) -> Iterator[Event]:
    """All events: what each device did, and what it held of each kind."""
    for pid, (device, name) in enumerate(zip(result.devices, device_names(result), strict=True), 1):
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}
        yield {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": device.chip}}
        for piece in device.slices:
            if piece.kind != "wait":
                yield {
                    "ph": "X", "pid": pid, "tid": 1, "name": piece.label or piece.kind, "cat": piece.kind,
                    "ts": piece.start_fs / FS_PER_US, "dur": (piece.end_fs - piece.start_fs) / FS_PER_US,
                }  # fmt: skip
        yield from _memory(pid, device)


def _memory(pid: int, device: Device) -> Iterator[Event]:
    """A counter of bytes by kind."""
    for time, stash in zip(device.memory.times_fs, device.memory.stash_B, strict=True):
        held = {**device.memory.static_B, "stash": stash}
        yield {"ph": "C", "pid": pid, "name": "memory (B)", "ts": float(time) / FS_PER_US, "args": held}


def write(result: StepResult, file: IO[bytes]) -> None:
    """Write the gzipped file; the same step gives the same bytes."""
    about = {"cluster": result.cluster, "model": result.model, "plan": str(result.plan)}
    whole = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": list(events(result))}
    with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write(json.dumps(whole, separators=(",", ":")).encode())
