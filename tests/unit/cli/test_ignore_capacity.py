"""The command line refuses a model that a memory cannot hold, and runs it when told to ignore that."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.errors import memory_text

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
SPACE = "memories.dram.memory.capacity"


@pytest.mark.parametrize("command", ["run", "accuracy", "batching", "quantize", "train"])
def test_every_command_that_takes_a_model_has_the_option(cli: Cli, command: str) -> None:
    assert "--ignore-capacity" in cli(command, "--help").stdout


def test_the_command_line_refuses_and_obeys(cli: Cli) -> None:
    line = ("run", "mlp", "--on", "edu-4x4", "--values", "off", "--no-advice", "--set", f"{SPACE}=16 KiB")
    refused = cli(*line)
    assert refused.exit_code == 2
    told = " ".join(refused.stderr.split())
    assert "of weights" in told and "do not fit into 16 KiB" in told and "--ignore-capacity" in told
    obeyed = cli(*line, "--ignore-capacity")
    assert obeyed.exit_code == 0
    assert "capacity ignored: dram:" in " ".join(obeyed.stdout.split())
    facts = json.loads(cli(*line, "--ignore-capacity", "--json").stdout)
    assert facts["run"]["asked"]["ignore_capacity"] is True
    need = facts["memory_needs"]["dram"]
    assert need["needed_B"] == need["weights_B"] + need["states_B"] + need["activations_B"] > need["available_B"]
    assert memory_text(need["weights_B"]) in told


def test_limits_are_recorded_and_the_run_can_be_repeated(cli: Cli, tmp_path: Path) -> None:
    line = ("run", "mlp", "--on", "edu-4x4", "--values", "off", "--no-advice", "--set", f"{SPACE}=16 KiB")
    limits = ("--ignore-capacity", "--limit-commands", "90000", "--limit-bytes", "3 GiB")
    assert cli(*line, *limits, "--out", tmp_path / "report").exit_code == 0
    asked = json.loads((tmp_path / "report" / "summary.json").read_text())["run"]
    assert asked["asked"]["limit_commands"] == 90_000 and asked["asked"]["limit_bytes"] == 3 * 2**30
    assert cli("rerun", tmp_path / "report").exit_code == 0
    again = cli(*shlex.split(asked["command"])[1:], "--no-advice", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["run"]["asked"] == asked["asked"]
