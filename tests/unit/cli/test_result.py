"""What ``accelsim.run`` returns can be asked."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import click
import pytest

import accelsim
from accelsim.account.latency import layers, summary
from accelsim.cli.run import run as command
from accelsim.request import Request
from accelsim.workload.graph import Graph

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.shipped_search]


@pytest.fixture(scope="module")
def result() -> accelsim.Result:
    return accelsim.run("cnn", "edu-4x4", values="off")


def test_repr_is_one_short_line(result: accelsim.Result) -> None:
    assert repr(result) == "Result(cnn on edu-4x4, int8: 605 us, 3.39 uJ)"
    for each in (result.program, result.program.graph):
        assert len(repr(each)) < 120 and "\n" not in repr(each)


def test_answers_are_those_of_the_report(result: accelsim.Result, tmp_path: Path) -> None:
    assert result.summary() == summary(result)
    assert result.layers() == layers(result)
    assert result.latency_s == result.time_fs * 1e-15
    assert result.energy_J == result.summary()["energy_J"]
    assert result.report(tmp_path / "r").read_text().startswith("<!DOCTYPE html>")
    html = result._repr_html_()
    assert "<table>" in html and "conv1" in html and "605 us" in html


def test_ledger_frame_holds_every_action(result: accelsim.Result) -> None:
    frame = result.ledger_frame()
    rows = frame if isinstance(frame, list) else frame.to_dict("records")
    assert set(rows[0]) == {"component", "action", "layer", "tensor", "count", "energy_J"}
    assert sum(row["energy_J"] for row in rows) == pytest.approx(result.energy_J, rel=1e-9, abs=0)


def test_simulate_returns_one_too() -> None:
    program = accelsim.compile(accelsim.load_model("mlp?hidden=16"), accelsim.load_chip("edu-4x4"))
    assert isinstance(accelsim.simulate(program), accelsim.Result)


def test_arguments_options_and_fields_have_one_name() -> None:
    assert isinstance(command, click.Command)
    arguments = set(inspect.signature(accelsim.run).parameters) - {"keep"}
    assert arguments == {entry.name for entry in fields(Request)}
    options = {name.lstrip("-").replace("-", "_") for each in command.params for name in each.opts}
    assert arguments - {"model", "scales"} <= options


def test_a_notebook_shows_conversions_as_one_line_and_a_run_of_nothing() -> None:
    html = accelsim.run("lstm?steps=2", "tpu-v1", values="off")._repr_html_()
    assert html.count("conversion") == 2 and "dequantize" not in html
    empty = accelsim.simulate(accelsim.compile(Graph("none", [], {}, [], []), accelsim.load_chip("edu-4x4")))
    assert empty.time_fs == 0 and "<table>" in empty._repr_html_()
