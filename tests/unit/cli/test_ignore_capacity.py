"""The command line refuses a model that a memory cannot hold, and runs it when told to ignore that."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from accelsim.errors import memory_text

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
    assert (
        need["needed_B"] == need["weights_B"] + need["states_B"] + need["activations_B"] > need["available_B"]
    )
    assert memory_text(need["weights_B"]) in told
