"""What the page of a run shows: sums that hold, spans that are joined by the stated rule, names that say something."""

from __future__ import annotations

import json
from math import fsum
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.account.energy import energy_table, total_J
from accelsim.machine.run import Run
from accelsim.report.page import buffers, joules, timeline
from accelsim.report.page.data import packed, page_data
from accelsim.report.page.layers import NO_LINE, blocks, lines_of
from accelsim.report.page.saved import read_pages
from accelsim.report.page.timeline import spans, thinned
from accelsim.report.write import facts_of
from accelsim.types import Ints
from tests.helpers.doc_blocks import ROOT
from tests.helpers.synthetic_run import make_run

CASES = (("cnn", "edu-4x4"), ("cnn", "tpu-v1"), ("mlp?hidden=64", "a100-80-sxm"), ("gpt-decode", "neuroncore-v2"))


@pytest.fixture(scope="module", params=CASES, ids=[chip for _, chip in CASES])
def run(request: pytest.FixtureRequest) -> Run:
    model, chip = request.param
    return accelsim.run(model, chip, values="off")


@pytest.fixture(scope="module")
def data(run: Run) -> dict[str, Any]:
    return page_data(run, run.layers(), facts_of(run, None))


def test_the_data_are_json_and_the_same_every_time(run: Run, data: dict[str, Any]) -> None:
    again = page_data(run, run.layers(), facts_of(run, None))
    assert packed(again) == packed(data)
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(again))


def test_the_example_in_the_repository_is_of_this_version() -> None:
    (found,) = read_pages([ROOT / "reports/cnn-edu-4x4"])
    assert found.data["lines"]["names"][1] == "conv1"


def marks(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """All boxes of a picture."""
    panels = [panel for picture in data["pictures"] if picture["name"] == name for panel in picture["panels"]]
    return [mark for panel in panels for mark in panel["marks"] if mark["kind"] == "boxes" and mark["columns"]]


def texts(data: dict[str, Any], name: str) -> list[str]:
    found: list[str] = next(picture["texts"] for picture in data["pictures"] if picture["name"] == name)
    return found


def test_the_path_covers_the_run_and_engines_stay_within_it(run: Run, data: dict[str, Any]) -> None:
    path, *engines = marks(data, "timeline")
    assert sum(path["span"]) == run.time_fs and path["steps"][0] == 0
    assert len(engines) >= len({piece.engine for piece in run.slices})
    assert sum(len(row["steps"]) for row in engines) == len(run.slices)
    for row in engines:
        starts = np.cumsum(row["steps"])
        assert (np.array(row["span"]) >= 0).all() and (starts[1:] >= (starts + row["span"])[:-1]).all()
        assert not len(starts) or starts[-1] + row["span"][-1] <= run.time_fs
        assert (np.array(row["columns"]["lead"]) >= 0).all()


def test_every_slice_says_what_it_waited_for(data: dict[str, Any]) -> None:
    names = texts(data, "timeline")
    said = {names[number] for row in marks(data, "timeline")[1:] for number in row["columns"]["wait"]}
    assert len(said) > 2 and all(said)


def test_joules_of_all_rows_but_the_last_add_up_to_the_run(run: Run, data: dict[str, Any]) -> None:
    whole = total_J(energy_table(run))
    *rows, tensors = marks(data, "joules")
    assert len(rows) == 3 and fsum(tensors["columns"]["J"]) <= whole * (1 + 1e-12)
    for row in rows:
        assert fsum(row["columns"]["J"]) == pytest.approx(whole, rel=1e-12, abs=0)
    for row in (*rows, tensors):
        ends = np.array(row["start"]) + row["columns"]["J"]
        assert (np.array(row["start"])[1:] >= ends[:-1] - 1e-12 * whole).all(), "parts stand beside each other"


def test_layers_of_all_pictures_are_lines_of_the_table(data: dict[str, Any]) -> None:
    lines = range(NO_LINE, len(data["layers"]["names"]))
    every = [mark for picture in data["pictures"] for panel in picture["panels"] for mark in panel["marks"]]
    used = {line for mark in every for line in mark["columns"].get("line", ()) if line is not None}
    assert used <= set(lines) and len(used) > 1


def test_bars_of_layers_add_up_to_the_run(run: Run, data: dict[str, Any]) -> None:
    assert fsum(value for mark in marks(data, "latency") for value in mark["columns"]["value"]) == pytest.approx(
        run.seconds, rel=1e-9
    )


def test_buffers_name_tensors_not_slots() -> None:
    run = accelsim.run("cnn", "edu-4x4", values="off")
    found = page_data(run, run.layers(), facts_of(run, None))
    names = texts(found, "buffers")
    memories = {mark["name"]: {names[i] for i in mark["columns"]["tensor"]} for mark in marks(found, "buffers")}
    assert {"conv1.weight", "conv2.weight", "fc.weight"} <= memories["weight_sram"]
    assert not any(
        name.startswith(("slot", "weights ", "tiles ", "sums ")) for names in memories.values() for name in names
    )


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def test_neighbours_of_one_row_and_kind_are_joined_until_they_are_few() -> None:
    row, kind = ints(*[0] * 8), ints(0, 0, 0, 0, 1, 1, 1, 1)
    start = ints(*range(0, 80, 10))
    found = spans(row, start, start + 9, kind)
    same, gap = thinned(found, 8, 80)
    assert gap == 0 and len(same.row) == 8
    few, gap = thinned(found, 2, 80)
    assert gap == 1 and few.start.tolist() == [0, 40] and few.end.tolist() == [39, 79]
    assert few.many.tolist() == [4, 4] and few.joined == 8


def test_kinds_are_joined_where_their_own_neighbours_do_not_suffice() -> None:
    start = ints(*range(0, 1000, 10))
    found = spans(start * 0, start, start + 5, ints(*range(100)))
    few, gap = thinned(found, 10, 1000)
    assert len(few.row) <= 10 and few.joined == 100 and gap >= 5


def test_a_page_says_what_it_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(layers=5)
    lines = lines_of(run)
    assert timeline.timeline(run, lines).note == ""
    monkeypatch.setattr(timeline, "MOST", 12)
    found = timeline.timeline(run, lines)
    rows = [mark for mark in found.picture.panels[0].marks if "lead" in mark.page]
    assert sum(len(mark.x) for mark in rows) <= 12
    assert "are drawn as one" in found.note and "Slices of one engine and layer" in found.note
    monkeypatch.setattr(buffers, "MOST", 3)
    whole = accelsim.run("cnn", "edu-4x4", values="off")
    told = buffers.buffers(whole, lines_of(whole))
    assert told is not None and "are drawn as one" in told.note


def test_small_tensors_are_told_together_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    run = accelsim.run("cnn", "edu-4x4", values="off")
    monkeypatch.setattr(joules, "MOST", 5)
    tree = joules.joules(run, lines_of(run))
    assert "are not told apart" in tree.note
    assert fsum(tree.picture.panels[0].marks[0].page["columns"]["J"]) == pytest.approx(
        total_J(energy_table(run)), rel=1e-12, abs=0
    )


def test_blocks_of_a_language_model_are_found_and_numbered_layers_are_none() -> None:
    inner = ("norm", "q", "k", "attention", "out")
    names = ["embed", *(f"l{block}.{name}" for block in range(12) for name in inner), "head"]
    assert blocks(names) == [(1, 5, 12)]
    assert blocks([f"conv{number}" for number in range(20)]) == []
    assert blocks([]) == []
