"""The event machine against a machine that is decided clock edge by clock edge, on random rows of parameters."""

from __future__ import annotations

import csv
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import edge_by_edge
from tests.validation.golden import golden
from tests.validation.rtl_counters import fnv
from tests.validation.rtl_machine import simulate_row

NUMBERS = ("R", "C", "B", "L", "pipelined", "slots", "reuse", "shift", "M", "N", "K", "Tm", "Tn", "Tk")


def trace(events: dict[str, list[Any]]) -> str:
    words = [word for request in events["requests"] for word in request]
    words += [word for fold in events["folds"] for word in fold]
    return fnv([*words, *events["sums"]])


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    small, extent = st.integers(1, 8), st.integers(1, 24)
    row = {name: draw(small) for name in ("R", "C")} | {axis: draw(extent) for axis in "MNK"}
    row |= {f"T{axis}": draw(st.integers(max(1, row[axis.upper()] // 4), row[axis.upper()])) for axis in "mnk"}
    row |= {"B": draw(st.sampled_from([1, 2, 3, 4, 8, 16])), "L": draw(st.integers(0, 40))}
    row |= {"pipelined": draw(st.integers(0, 1)), "slots": draw(st.integers(1, 2)), "reuse": draw(st.integers(0, 1))}
    row |= {"order": draw(st.sampled_from(["nmk", "mnk", "nkm"])), "out": draw(st.sampled_from(["int32", "int8"]))}
    row["shift"] = draw(st.integers(0, 12)) if row["out"] == "int8" else 0
    tiles = {axis: -(-row[axis.upper()] // row[f"T{axis}"]) for axis in "mk"}
    assume(row["order"] != "nkm" or tiles["m"] <= row["slots"] or tiles["k"] == 1)
    return row


def test_the_oracle_is_the_machine_of_the_golden_rows() -> None:
    with (golden("rtl_machine") / "machine_golden.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if int(row["total_clocks"]) > 5000:
                continue
            parameters = row | {name: int(row[name]) for name in NUMBERS}
            assert trace(edge_by_edge.run(parameters)) == row["trace_fnv"], row["id"]


@settings(max_examples=150)
@given(rows())
def test_every_event_is_at_the_same_edge(row: dict[str, Any]) -> None:
    events, found = edge_by_edge.run(row), simulate_row(row)
    assert found["total_clocks"] == events["requests"][-1][3]
    assert found["trace_fnv"] == trace(events)
    assert found["numerics"] == "ok"
