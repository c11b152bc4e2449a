"""``accelsim measure``: its table is one that ``kernel`` and ``calibrate`` read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.kernels.table import read_table
from accelsim.measure.kernels import OPS
from tests.helpers.fake_torch import Torch

Cli = Callable[..., Result]


def test_the_table_can_be_read_and_predicted(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch())  # type: ignore[arg-type]
    out = tmp_path / "measured.csv"
    assert cli("measure", "--rows", "3", "--out", str(out)).exit_code == 0
    table = read_table(out, timed=True)
    assert len(table.ops) == 3 * len(OPS) and set(table.devices) == {"Tesla T4"}
    assert cli("kernel", "--csv", str(out), "--on", "t4").exit_code == 0


def test_without_pytorch_it_is_said_what_is_needed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    result = cli("measure", "--out", str(tmp_path / "measured.csv"))
    assert result.exit_code == 2 and "PyTorch is not installed" in result.stderr


def test_networks_need_a_model_that_there_is(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch())  # type: ignore[arg-type]
    result = cli(
        "measure", "--model", "resnet5", "--model", "cnn", "--batches", "1,2", "--out", str(tmp_path / "n.csv")
    )
    assert result.exit_code == 2 and "did you mean 'resnet50'" in result.stderr
    assert not (tmp_path / "n.csv").exists()


def test_what_cannot_be_measured_is_left_out_and_said(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"model": "cnn", "batch": 1, "mode": "eager", "time_us": "5"},
        {"model": "mlp", "batch": 1, "why": "no room"},
    ]
    monkeypatch.setitem(sys.modules, "torch", Torch())  # type: ignore[arg-type]
    monkeypatch.setattr("accelsim.measure.asked.measured_networks", lambda *given: iter(rows))
    out = tmp_path / "n.csv"
    result = cli("measure", "--model", "cnn", "--model", "mlp", "--out", str(out))
    assert result.exit_code == 0 and "left out: mlp: no room" in result.stderr
    assert out.read_text() == "model,batch,mode,time_us\ncnn,1,eager,5\n"
