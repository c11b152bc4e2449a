"""Recorded requests for items, their history, and changes of a service of items."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.errors import UsageError
from accelsim.seeds import generator
from accelsim.serving.items.asked import Question, read, served
from accelsim.serving.items.batcher import Cost, Dynamic
from accelsim.serving.items.flow import Host, simulate
from accelsim.serving.items.history import AFTER, BEFORE, CHIP, TRANSFER, WAITS, means, spans
from accelsim.serving.items.levers import levers
from accelsim.serving.items.line import Arrival
from accelsim.serving.items.measures import latencies, lost, within
from accelsim.serving.items.rules import read_dynamic, text_of
from accelsim.serving.items.trace import read_trace
from tests.helpers.pictures import unpainted

SMALL = Question("mlp?hidden=64", "t4", "poisson:20000/s", "dynamic:max=4,delay=1ms", requests=60, before="50us")


def written(folder: Path, text: str) -> Path:
    (file := folder / "trace.csv").write_text(text, encoding="utf-8")
    return file


def test_rows_become_requests_with_classes_and_items(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, "arrival_s,priority,items\n2,7,1\n2.5,3,4\n4,7,2\n"))
    assert found.classes == ("priority 3", "priority 7")
    assert found.arrivals == (Arrival(0.0, 1), Arrival(0.5, 0, items=4), Arrival(2.0, 1, items=2))
    assert found.rate == 7 / 2
    named = read_trace(written(tmp_path, "TIMESTAMP,class\n2023-11-16 18:15:46.68,other\n2023-11-16 18:15:47,urgent\n"))
    assert [each.rank for each in named.arrivals] == [1, 0] and named.classes == ("urgent", "other")
    assert read_trace(written(tmp_path, "arrival_s\n1\n2\n")).arrivals == (Arrival(0.0), Arrival(1.0))


@pytest.mark.parametrize(("text", "told"), [
    ("arrival_s,items\n0,1\n1,0\n2,x\n", ["trace.csv:3: 1, 0", "trace.csv:4: 2, x"]),
    ("arrival_s,class\n0,gold\n", ["trace.csv:2: 0, gold; expected arrival_s of 0 or more; class: urgent or other"]),
    ("arrival_s\n1\n0.5\n", ["0.5 is before"]), ("when\n1\n", ["no column arrival_s"]), ("arrival_s\n", ["no requests"]),
    ("arrival_s,class,priority\n1,urgent,2\n", ["both class and priority"]),
])  # fmt: skip
def test_bad_rows_are_refused_with_their_lines(tmp_path: Path, text: str, told: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        read_trace(written(tmp_path, text))
    for each in told:
        assert each in str(error.value)


def test_items_of_a_request_come_together_and_the_last_one_answers_it() -> None:
    """Three items are one batch on an idle chip; of a request of five the fifth waits for a second batch."""
    flow = simulate([Arrival(0.0, items=3), Arrival(10.0, items=5)], Dynamic(4), lambda size: Cost(float(size)))
    assert [(each.start_s, each.size) for each in flow.batches] == [(0, 3), (10, 4), (14, 1)]
    assert [each.e2e_s for each in flow.requests] == [3, 5]
    assert latencies(flow)["e2e"]["mean"].value == 4
    assert within(flow, 3.0) == 0.5
    short = simulate([Arrival(0.0, items=5)], Dynamic(2, queue=3), lambda size: Cost(1.0))
    assert sum(lost(short).values()) == 1 and not short.answered


def test_classes_go_in_order() -> None:
    waiting = [Arrival(0.0, 2), Arrival(0.1, 2), Arrival(0.2, 1), Arrival(0.3, 0)]
    flow = simulate(waiting, Dynamic(1), lambda size: Cost(1.0), ranks=3)
    assert [each.end_s for each in flow.items] == [1, 4, 3, 2]


def test_spans_follow_each_other_from_the_arrival_to_the_end() -> None:
    random, count = generator(3), 300
    work = random.exponential(0.01, count).tolist()
    host = Host(work.__getitem__, lambda number: work[-number - 1] / 4, 4, timeout_s=0.06)
    times = np.cumsum(random.exponential(0.003, count)).tolist()
    arrivals = [Arrival(at, kept=bool(keep)) for at, keep in zip(times, random.random(count) < 0.8, strict=True)]
    flow = simulate(arrivals, Dynamic(4, 0.004, queue=20), lambda size: Cost(0.01 + 0.002 * size, 0.001), host)
    assert lost(flow)
    for item, own in zip(flow.requests, spans(flow), strict=True):
        ends = [item.arrival.arrival_s, *(each.end_s for each in own)]
        assert [each.start_s for each in own] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(item.end_s)
        if not item.lost:
            parts = [sum(s.end_s - s.start_s for s in own if s.kind == kind) for kind in range(5)]
            known = {
                WAITS: item.queue_s, BEFORE: item.before_s, TRANSFER: item.transfer_s, CHIP: item.chip_s,
                AFTER: item.after_s,
            }  # fmt: skip
            assert parts == pytest.approx([known[kind] for kind in range(5)], abs=1e-9)


def test_means_over_parts_of_the_time_are_weighted() -> None:
    found = means(np.array([0.5, 1.0]), np.array([2.5, 2.0]), np.array([0.0, 1.0, 2.0, 3.0]), np.array([2.0, 10.0]))
    assert found.tolist() == [1.0, 12.0, 1.0]


@pytest.mark.parametrize("text", ["dynamic", "dynamic:max=8,delay=2ms,prefer=2/4,instances=3,queue=9", "dynamic:max=1"])
def test_rules_are_read_from_their_text(text: str) -> None:
    assert read_dynamic(text_of(read_dynamic(text))) == read_dynamic(text)


def test_options_of_a_change_make_it() -> None:
    asked = read(SMALL)
    for lever in levers(asked):
        if "--scheduler" in lever.options:
            flow, again = lever.make(), served(replace(SMALL, scheduler=lever.options[1])).flow
            assert [each.end_s for each in flow.items] == [each.end_s for each in again.items]
    assert {each.binds for each in levers(asked)} == {
        "chips", "cores", "chip", "link", "batches", "delay", "instances",
    }  # fmt: skip


def test_a_trace_makes_a_page_with_every_request(tmp_path: Path) -> None:
    file = written(tmp_path, "arrival_s,class,items\n0,urgent,1\n0.0001,other,6\n0.0002,urgent,2\n")
    given = ["serve", SMALL.model, "--on", "t4", "--trace", str(file), "--out", str(tmp_path / "out")]
    with unpainted():
        done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    facts = json.loads((tmp_path / "out" / "service.json").read_text())
    assert (facts["requests"], facts["items"], facts["answered"]) == (3, 9, 3)
    assert set(facts["e2e_by_class_s"]) == {"urgent", "other"}
    rows = [*csv.DictReader((tmp_path / "out" / "requests.csv").read_text().splitlines())]
    parts = sum(float(value) for row in rows for name, value in row.items() if name.endswith("_s"))
    assert parts == pytest.approx(sum(2 * float(row["e2e_s"]) + float(row["arrival_s"]) for row in rows))
    beside = CliRunner().invoke(main, [*given, "--load", "poisson:3/s", "--urgent", "0.5"])
    assert beside.exit_code == 2 and "--load" in beside.output and "--urgent" in beside.output


@pytest.mark.parametrize(("names", "told"), [
    ("arrival_s,prompt,output", "tokens of language models, prompt, output; expected columns of items"),
    ("arrival_s,clas", "a column clas; expected arrival_s, and perhaps class, priority, items; did you mean 'class'?"),
])  # fmt: skip
def test_columns_of_tokens_and_misspelt_ones_are_refused(tmp_path: Path, names: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_trace(written(tmp_path, f"{names}\n" + ",".join("1" for _ in names.split(",")) + "\n"))
    assert told in str(caught.value)
