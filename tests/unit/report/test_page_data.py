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
from accelsim.report.page.timeline import spans, thinned
from accelsim.report.write import facts_of
from accelsim.types import Ints
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


def test_the_path_covers_the_run_and_engines_stay_within_it(run: Run, data: dict[str, Any]) -> None:
    path, *engines = data["timeline"]["rows"]
    assert sum(path["span"]) == run.time_fs and path["start"][0] == 0
    assert len(engines) >= len({piece.engine for piece in run.slices})
    assert sum(len(row["start"]) for row in engines) == len(run.slices)
    for row in engines:
        starts = np.cumsum(row["start"])
        assert (np.array(row["span"]) >= 0).all() and (starts[1:] >= (starts + row["span"])[:-1]).all()
        assert not len(starts) or starts[-1] + row["span"][-1] <= run.time_fs
        assert (np.array(row["request"]) >= 0).all()


def test_every_slice_says_what_it_waited_for(data: dict[str, Any]) -> None:
    texts = data["timeline"]["texts"]
    said = {texts[number] for row in data["timeline"]["rows"][1:] for number in row["wait"]}
    assert len(said) > 2 and all(said)


def test_joules_of_all_parts_add_up_to_the_run(run: Run, data: dict[str, Any]) -> None:
    tree = data["joules"]
    whole = total_J(energy_table(run))
    assert tree["total"] == pytest.approx(whole, rel=1e-12, abs=0)

    def check(part: dict[str, Any]) -> None:
        below = part.get("parts", [])
        if below:
            assert fsum(each["J"] for each in below) <= part["J"] * (1 + 1e-12)
            if "layer" not in part:
                assert fsum(each["J"] for each in below) == pytest.approx(part["J"], rel=1e-12, abs=0)
        for each in below:
            check(each)

    assert fsum(part["J"] for part in tree["parts"]) == pytest.approx(whole, rel=1e-12, abs=0)
    for part in tree["parts"]:
        check(part)
    assert all(
        figure["trust"] in tree["trust"] or not figure["trust"] for part in tree["parts"] for figure in part["parts"]
    )


def test_layers_of_all_parts_are_lines_of_the_table(data: dict[str, Any]) -> None:
    lines = range(NO_LINE, len(data["layers"]["names"]))
    used = [layer for row in data["timeline"]["rows"] for layer in row["layer"]]
    used += [point[0] for roof in data["rooflines"] or [] for point in roof["points"]]
    used += [layer for memory in (data["buffers"] or {"memories": []})["memories"] for layer in memory["layer"]]
    used += [
        layer["layer"] for part in data["joules"]["parts"] for figure in part["parts"] for layer in figure["parts"]
    ]
    assert set(used) <= set(lines) and len(set(used)) > 1


def test_buffers_name_tensors_not_slots() -> None:
    run = accelsim.run("cnn", "edu-4x4", values="off")
    found = buffers.buffers(run, lines_of(run))
    assert found is not None
    memories = {memory["name"]: {memory["texts"][i] for i in memory["tensor"]} for memory in found["memories"]}
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
    assert timeline.timeline(run, lines)["note"] == ""
    monkeypatch.setattr(timeline, "MOST", 12)
    found = timeline.timeline(run, lines)
    assert sum(len(row["start"]) for row in found["rows"][1:]) <= 12
    assert "are drawn as one" in found["note"] and "Slices of one engine and layer" in found["note"]
    monkeypatch.setattr(buffers, "MOST", 3)
    whole = accelsim.run("cnn", "edu-4x4", values="off")
    told = buffers.buffers(whole, lines_of(whole))
    assert told is not None and "are drawn as one" in told["note"]


def test_small_tensors_are_told_together_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    run = accelsim.run("cnn", "edu-4x4", values="off")
    monkeypatch.setattr(joules, "MOST", 5)
    tree = joules.joules(run, lines_of(run))
    assert "are not told apart" in tree["note"]
    assert fsum(part["J"] for part in tree["parts"]) == pytest.approx(total_J(energy_table(run)), rel=1e-12, abs=0)


def test_blocks_of_a_language_model_are_found_and_numbered_layers_are_none() -> None:
    inner = ("norm", "q", "k", "attention", "out")
    names = ["embed", *(f"l{block}.{name}" for block in range(12) for name in inner), "head"]
    assert blocks(names) == [(1, 5, 12)]
    assert blocks([f"conv{number}" for number in range(20)]) == []
    assert blocks([]) == []
