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


def test_the_table_can_be_read_and_predicted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch())  # type: ignore[arg-type]
    out = tmp_path / "measured.csv"
    assert cli("measure", "--rows", "3", "--out", str(out)).exit_code == 0
    table = read_table(out, timed=True)
    assert len(table.ops) == 3 * len(OPS) and set(table.devices) == {"Tesla T4"}
    assert cli("kernel", "--csv", str(out), "--on", "t4").exit_code == 0


def test_without_pytorch_it_is_said_what_is_needed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    result = cli("measure", "--out", str(tmp_path / "measured.csv"))
    assert result.exit_code == 2 and "PyTorch is not installed" in result.stderr
