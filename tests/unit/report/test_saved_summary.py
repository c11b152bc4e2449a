"""An edited summary is refused field by field, by ``compare`` and by ``rerun``."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.report.compare import load_summaries
from accelsim.report.comparison import compare
from accelsim.report.saved_summary import Asked
from accelsim.report.write import write_run
from accelsim.request import Request


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("saved") / "report"
    write_run(accelsim.run("gemm?M=2,N=2,K=2", on="edu-4x4", values="off"), folder)
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def edited(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "summary.json").write_text(text)
    return folder


def refused(folder: Path) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load_summaries([folder])
    return [str(problem).removeprefix(f"{folder}") for problem in caught.value.problems]


def test_fields_of_a_request_that_a_file_can_hold() -> None:
    assert set(Asked.model_fields) == {entry.name for entry in fields(Request)}


def test_a_summary_as_it_was_written(summary: dict[str, Any], tmp_path: Path) -> None:
    (found,) = load_summaries([edited(tmp_path / "a", json.dumps(summary))])
    assert found == summary | {"label": "a", "source": str(tmp_path / "a")}


def test_former_names_of_fields_are_read(summary: dict[str, Any], tmp_path: Path) -> None:
    asked = {"model": "cnn", "on": "edu-4x4", "calibrate": "mse", "calibration": "data.npz"}
    old = summary | {"run": summary["run"] | {"asked": asked, "in_memory": ["calibration"]}}
    (found,) = load_summaries([edited(tmp_path / "a", json.dumps(old))])
    assert found["run"]["asked"] == {"model": "cnn", "on": "edu-4x4", "ranges": "mse", "ranges_from": "data.npz"}
    assert found["run"]["in_memory"] == ["ranges_from"]


def test_every_wrong_field_is_told(summary: dict[str, Any], tmp_path: Path) -> None:
    asked = {"model": 3, "on": "edu-4x4", "set": "clock=1 GHz", "mapping": 7}
    wrong = {"latency_s": "x", "batch": 0, "run": {"asked": asked}, "traffic": {"dram": {"read_B": True}}}
    folder = edited(tmp_path / "a", json.dumps(summary | wrong))
    assert refused(folder) == [
        f"/summary.json: {text}"
        for text in (
            "batch is 0; expected 1 or more",
            'latency_s is "x"; expected a number',
            "run.asked.mapping is 7; expected a text",
            "run.asked.model is 3; expected a text",
            'run.asked.set is "clock=1 GHz"; expected a list',
            "traffic.dram.read_B is true; expected a number",
            "traffic.dram.write_B is missing; expected a report of this version",
        )
    ]


@pytest.mark.parametrize(
    "text",
    ['{"tool": "accelsim", "chip": "\\ud800"}', '{"tool": "accelsim", "a": NaN}', "[" * 100_000, "{}", '{"tool": 1}'],
)  # fmt: skip
def test_what_is_no_report(text: str, tmp_path: Path) -> None:
    (told,) = refused(edited(tmp_path / "a", text))
    assert told == ": has no readable summary.json; expected a directory with the report of a run"


def test_a_summary_of_a_tebibyte_is_not_read(tmp_path: Path) -> None:
    folder = edited(tmp_path / "a", "")
    os.truncate(folder / "summary.json", 2**40)  # a hole, which takes no room
    assert "has no readable summary.json" in refused(folder)[0]


def test_a_ratio_that_is_no_number_is_none(summary: dict[str, Any], tmp_path: Path) -> None:
    one = edited(tmp_path / "one", json.dumps(summary | {"latency_s": 5e-324}))
    two = edited(tmp_path / "two", json.dumps(summary | {"latency_s": 1e60}))
    assert compare([one, two]).rows[1]["ratio_of_latency_s"] is None
    assert refused(edited(tmp_path / "three", json.dumps(summary | {"latency_s": 1e61})))


def test_idle_power_that_is_charged_has_a_figure(summary: dict[str, Any], tmp_path: Path) -> None:
    basis = summary["energy_basis"] | {"idle_power": "stated", "idle_power_W": None}
    (told,) = refused(edited(tmp_path / "a", json.dumps(summary | {"energy_basis": basis})))
    assert told.endswith("idle_power_W is a number where idle_power is 'stated' or 'an estimate', else null")


def test_the_report_of_a_training_step_says_where_its_page_is(tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"the report of a training step; its page is .*report\.html"):
        load_summaries([tmp_path])
