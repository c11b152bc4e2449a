"""``accelsim run --train --whole``: a training step as one machine."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelsim.cli import main

MODEL = ("run", "mlp?inputs=8,hidden=4,classes=4", "--values", "off")
WHOLE = (*MODEL, "--on", "2x-edu", "--plan", "dp=2", "--batch", "2", "--train", "--whole")


def test_both_times_are_printed_and_written(tmp_path: Path) -> None:
    table = tmp_path / "devices.csv"
    told = CliRunner().invoke(main, [*WHOLE, "--csv", str(table)])
    assert told.exit_code == 0, told.output
    text = " ".join(told.output.split())
    for part in ("As one machine, tile by tile (2 devices", "played pass by pass", "% longer", "copies of messages"):
        assert part in text
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["device"] for row in rows] == ["0", "1"]
    facts = json.loads(CliRunner().invoke(main, [*WHOLE, "--json"]).stdout)
    assert facts["machine_s"] == max(facts["ends_s"]) == float(rows[0]["machine_s"])
    assert facts["played_s"] < facts["without_copies_s"] < facts["machine_s"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((*MODEL, "--on", "edu-4x4", "--whole"), ("--whole on edu-4x4", "a cluster")),
        ((*MODEL, "--on", "2x-edu", "--whole", "--out", "x"), ("--whole without --train", "--out with --whole")),
        ((*WHOLE, "--gradients", "horovod"), ("--gradients with --whole", "in one piece")),
        ((*MODEL, "--on", "32x-edu", "--train", "--whole"), ("32 devices as one machine", "at most 16")),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main, list(arguments))
    assert told.exit_code == 2
    for part in parts:
        assert part in told.output
