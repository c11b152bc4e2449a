"""The timeline as a Chrome trace (JSON, gzip): opens in Perfetto and chrome://tracing.

Format: "Trace Event Format" of the Chromium project: 'M' metadata, 'X' complete events, 'C' counters, 's' and 'f' the
ends of an arrow; times in us.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import attrgetter
from typing import IO, Any, NamedTuple

from accelsim.account.critical_path import blamed
from accelsim.account.spans import stream_ends_fs
from accelsim.engines.registry import ENGINES
from accelsim.machine.critical_path import critical_path
from accelsim.machine.lifetimes import occupancy
from accelsim.machine.run import PATH_LINKS, Run, Slice
from accelsim.program.work import Transfer

FS_PER_US, FS_PER_NS = 1e9, 10**6
PID_ENGINES, PID_COUNTERS, PID_PATH = 1, 2, 3
Event = dict[str, object]


class Drawn(NamedTuple):
    """One row of the timeline: its name, its engine, and its slices, each with the end at which it is drawn, fs."""

    name: str
    engine: str
    pieces: list[tuple[Slice, int]]


def events(run: Run) -> list[Event]:
    """All events: the critical path, a row per engine (more where transfers overlap), arrows from each command on the
    path to the one that it let begin, counters of ports and buffers."""
    rows = drawn_rows(run)
    return [*_critical_path(run), *_engine_rows(run, rows), *_arrows(run, rows), *_bandwidth(run), *_occupancy(run)]


def document(run: Run) -> dict[str, object]:
    """Return the content of the file."""
    return {
        "displayTimeUnit": "ns",
        "otherData": {"chip": run.chip.name, "model": run.program.graph.name},
        "traceEvents": events(run),
    }


def write(run: Run, file: IO[bytes]) -> None:
    """Write the gzipped file; the same run gives the same bytes (no name, no time in the gzip header)."""
    text = json.dumps(document(run), separators=(",", ":")).encode()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write(text)


def _meta(pid: int, tid: int, kind: str, **args: Any) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": args}


def drawn_rows(run: Run) -> list[Drawn]:
    """Return a row for each engine, several where its transfers overlap; computed once per run."""
    return run.once("rows of the timeline", lambda: _drawn_rows(run))


def _drawn_rows(run: Run) -> list[Drawn]:
    streamed = stream_ends_fs(run)
    names = dict.fromkeys([*run.program.engines, *(piece.engine for piece in run.slices)])
    found = []
    for engine in names:
        mine = sorted((p for p in run.slices if p.engine == engine), key=lambda p: (p.data, p.end, p.command))
        clip = ENGINES[run.program.engines[engine]].drains if engine in run.program.engines else False
        drawn = [(piece, streamed.get(piece.command, piece.end)) for piece in mine]
        for lane, pieces in enumerate(_lanes(drawn, clip) or [[]]):
            found.append(Drawn(engine if not lane else f"{engine} +{lane}", engine, pieces))
    return found


def _engine_rows(run: Run, rows: list[Drawn]) -> Iterator[Event]:
    yield _meta(PID_ENGINES, 0, "process_name", name=f"{run.chip.name} running {run.program.graph.name}")
    for tid, row in enumerate(rows, 1):
        yield _meta(PID_ENGINES, tid, "thread_name", name=row.name)
        yield _meta(PID_ENGINES, tid, "thread_sort_index", sort_index=tid)
        for piece, end in row.pieces:
            yield _slice(run, piece, end, tid)


def _arrows(run: Run, rows: list[Drawn]) -> Iterator[Event]:
    """From each command of the critical path to the next: at the time when the path goes over, or near it.

    None where the second is drawn before the first (its data moved earlier, through another port).
    """
    drawn = {p.command: (tid, p.data, end) for tid, row in enumerate(rows, 1) for p, end in row.pieces}
    path = [(ident, list(pieces)) for ident, pieces in groupby(critical_path(run), attrgetter("command"))]
    for number, ((one, _), (two, pieces)) in enumerate(pairwise(path), 1):
        tid, begin, end = drawn[one]
        leaves = _within(pieces[0].start, begin, end)
        into, begin, end = drawn[two]
        arrives = _within(max(pieces[0].start, leaves), begin, end)
        if arrives < leaves:
            continue
        why = next((piece.why for piece in pieces if piece.why), "")
        name = f"waited for {PATH_LINKS[why]}" if why else "waited for a token"
        both = {"pid": PID_ENGINES, "name": name, "cat": "critical path", "id": number}
        yield {"ph": "s", "tid": tid, "ts": leaves / FS_PER_US, **both}
        yield {"ph": "f", "bp": "e", "tid": into, "ts": arrives / FS_PER_US, **both}


def _within(t_fs: int, begin_fs: int, end_fs: int) -> int:
    """The nearest time at which a slice is open: its end is no longer part of it, and viewers count in ns."""
    return max(begin_fs, min(t_fs, end_fs - FS_PER_NS))


def _critical_path(run: Run) -> Iterator[Event]:
    """One row that is never empty: what the run waited for, whose command that was, and why it began when it did."""
    yield _meta(PID_PATH, 0, "process_name", name="critical path")
    yield _meta(PID_PATH, 0, "process_sort_index", sort_index=0)
    yield _meta(PID_PATH, 1, "thread_name", name="what the run waited for")
    steps = run.program.steps
    for piece in critical_path(run):
        command = run.program.commands[piece.command]
        shares = sorted(blamed(run, piece), key=lambda share: -share[1])
        args: dict[str, object] = {
            "layer": steps[command.op].name if 0 <= command.op < len(steps) else "",
            "command": piece.command,
            "engine": command.engine,
        }
        if len(shares) > 1:
            args |= {f"{blame.text}_us": fs / FS_PER_US for blame, fs in shares if fs}
        if piece.why:
            args["began_after"] = PATH_LINKS[piece.why]
        yield {
            "ph": "X", "pid": PID_PATH, "tid": 1, "name": shares[0][0].text, "cat": "critical path",
            "ts": piece.start / FS_PER_US, "dur": (piece.end - piece.start) / FS_PER_US, "args": args,
        }  # fmt: skip


def _lanes(pieces: list[tuple[Slice, int]], clip: bool) -> list[list[tuple[Slice, int]]]:
    """Slices with their drawn ends, cut up so that no two in one lane overlap.

    On an array a command may drain while the next one streams: its slice is cut there. Transfers that overlap
    (two ports, or requests in flight) go to further lanes.
    """
    if clip and pieces:
        limits = [*(piece.data for piece, _ in pieces[1:]), None]
        return [
            [(p, end if limit is None else min(end, limit)) for (p, end), limit in zip(pieces, limits, strict=True)]
        ]
    lanes: list[list[tuple[Slice, int]]] = []
    for piece, end in pieces:
        for lane in lanes:
            if lane[-1][1] <= piece.data:
                lane.append((piece, end))
                break
        else:
            lanes.append([(piece, end)])
    return lanes


def _slice(run: Run, piece: Slice, end: int, tid: int) -> Event:
    work = run.program.commands[piece.command].work
    args: dict[str, object] = {
        "layer": run.program.steps[piece.op].name if 0 <= piece.op < len(run.program.steps) else "",
        "command": piece.command,
        "waited_us": (piece.data - piece.start) / FS_PER_US,
        "completed_us": piece.end / FS_PER_US,
    }
    if isinstance(work, Transfer):
        args |= {"memory": work.memory, "bytes": work.nbytes}
    return {
        "ph": "X",
        "pid": PID_ENGINES,
        "tid": tid,
        "name": piece.label,
        "cat": run.program.engines.get(piece.engine, ""),
        "ts": piece.data / FS_PER_US,
        "dur": max(0, end - piece.data) / FS_PER_US,
        "args": args,
    }


def _bandwidth(run: Run) -> Iterator[Event]:
    """Bytes per second through each port, from the data phase of every transfer."""
    changes: dict[str, dict[int, float]] = {}
    for piece in run.slices:
        work = run.program.commands[piece.command].work
        if not isinstance(work, Transfer) or piece.end <= piece.data:
            continue
        port = f"{work.memory} {'write' if work.write else 'read'} GB/s"
        rate = work.nbytes / (piece.end - piece.data) * 1e6  # bytes per fs -> GB/s
        steps = changes.setdefault(port, {})
        steps[piece.data] = steps.get(piece.data, 0.0) + rate
        steps[piece.end] = steps.get(piece.end, 0.0) - rate
    for port in sorted(changes):
        yield from _counter(port, "GB/s", _running(changes[port]))


def _running(changes: dict[int, float]) -> list[tuple[int, float]]:
    level, points = 0.0, []
    for time, change in sorted(changes.items()):
        level += change
        points.append((time, round(level, 6) + 0.0))
    return points


def _occupancy(run: Run) -> Iterator[Event]:
    yield _meta(PID_COUNTERS, 0, "process_name", name="ports and buffers")
    for buffer, points in occupancy(run).items():
        yield from _counter(f"{buffer} bytes in use", "B", [(time, float(size)) for time, size in points])


def _counter(name: str, unit: str, points: list[tuple[int, float]]) -> Iterator[Event]:
    for time, value in points:
        yield {"ph": "C", "pid": PID_COUNTERS, "tid": 0, "name": name, "ts": time / FS_PER_US, "args": {unit: value}}
