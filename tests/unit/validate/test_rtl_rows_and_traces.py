"""The general machine, configured as a small Verilog machine, against its recorded runs: every column, every event."""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest

from accelsim.machine.run import Run
from accelsim.time import Clock
from tests.helpers.fold_edges import folds_of
from tests.validation.golden import golden
from tests.validation.rtl_machine import PARAMETERS, run_row, simulate_row

GOLDEN = golden("rtl_machine")
Event = tuple[str, int, tuple[int, ...]]


def table(name: str) -> list[dict[str, str]]:
    with (GOLDEN / name).open(newline="") as file:
        return list(csv.DictReader(file))


ROWS = table("machine_golden.csv")
EVENTS: dict[str, set[Event]] = defaultdict(set)
for line in table("machine_traces.csv"):
    edges = tuple(int(line[name]) for name in ("edge1", "edge2", "edge3") if line[name])
    EVENTS[line["id"]].add((line["event"], int(line["index"]), edges))


def test_the_golden_files_are_whole() -> None:
    assert len(ROWS) == 60 and len({row["id"] for row in ROWS}) == 60
    assert sorted(EVENTS) == ["0", "1", "2", "3", "4", "5"]
    assert sum(len(found) for found in EVENTS.values()) == 250


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_every_column_of_every_row(row: dict[str, str]) -> None:
    """Clocks, counters, stalls, bytes, the hash of the results and the hash of all events."""
    found = {name: str(value) for name, value in simulate_row({name: row[name] for name in PARAMETERS}).items()}
    assert found == {name: value for name, value in row.items() if name not in (*PARAMETERS, "id")}


def events(run: Run) -> set[Event]:
    """Requests (acceptance, first and last data edge), folds (weights, rows) and completed sums, as in the traces."""
    edge, commands = Clock(run.chip.clock).edge, run.program.commands
    found: list[tuple[str, tuple[int, ...]]] = []
    for kind, name in (("Load", "load"), ("Store", "store")):
        moves = sorted((p for p in run.slices if commands[p.command].kind == kind), key=lambda piece: piece.start)
        found += [(name, (edge(p.start), edge(p.data) + 1, edge(p.end))) for p in moves]
    for record in folds_of(run):
        stream = record.stream
        for fold in range(stream.folds):
            start = record.stream_first + fold * stream.step
            found.append(("fold", (start - stream.step + stream.reload if fold else record.load_first, start)))
    for record in folds_of(run):
        if commands[record.command].writes[0].role in ("whole", "end"):
            found.append(("accdone", (record.done,)))
    count: dict[str, int] = defaultdict(int)
    numbered = set()
    for name, edges in found:
        numbered.add((name, count[name], edges))
        count[name] += 1
    return numbered


@pytest.mark.parametrize("row", ROWS[:6], ids=lambda row: row["id"])
def test_every_event_of_the_traced_rows(row: dict[str, str]) -> None:
    assert events(run_row(row)) == EVENTS[row["id"]]
