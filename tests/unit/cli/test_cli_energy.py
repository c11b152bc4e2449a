"""``accelsim energy``: what it prints and writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelsim.cli.energy import energy
from accelsim.cli.run import run
from accelsim.errors import UsageError


def call(*words: object) -> Result:
    return CliRunner().invoke(energy, [str(word) for word in words], catch_exceptions=False)


def test_table_names_units_statuses_and_the_spread() -> None:
    told = call("table").output
    assert "Arithmetic (spec tables), pJ" in told
    assert "DRAM, 32-bit word, pJ" in told
    (row,) = [line for line in told.splitlines() if line.startswith("int32 multiply  ") and "x" in line]
    assert row.split()[2:] == ["4.1x", "3.1", "horowitz-2014", "12.7", "aladdin"]
    assert "2,240 accelergy-cacti" in told, "DDR3 of 70 pJ/bit"
    assert "0.2 quoted" in told and "0.7 guess" not in told
    assert "quoted = secondary, recalled, guess;" in told


def test_json_and_files_hold_every_figure(tmp_path: Path) -> None:
    result = call("table", "--node", 7, "--json", "--out", tmp_path / "new")
    rows = json.loads(result.output)
    assert {row["node"] for row in rows} == {"7 nm", ""}
    (fp32,) = [row for row in rows if row["origin"] == "jouppi-2021" and row["what"] == "fp32 multiply"]
    assert (fp32["low_J"], fp32["per"], fp32["status"], fp32["low_J_per_32_bits"]) == (
        1.31e-12,
        "operation",
        "recalled",
        None,
    )
    with (tmp_path / "new" / "energy.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(rows) == len(json.loads((tmp_path / "new" / "energy.json").read_text(encoding="utf-8")))
    assert [row["what"] for row in written] == [row["what"] for row in rows]
    for name in ("energy-per-access.png", "energy-per-access.svg"):
        assert (tmp_path / "new" / name).stat().st_size > 10_000


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words, what in (
        (("table", "--node", 3), "no scaling to 3 nm"),
        (("table", "--out", tmp_path / "file" / "below"), "cannot be written: "),
    ):
        with pytest.raises(UsageError, match=what):
            call(*words)


def test_run_takes_another_table() -> None:
    words = ["cnn", "--on", "edu-4x4", "--values", "off", "--json"]
    plain, other = (
        json.loads(CliRunner().invoke(run, [*words, *more], catch_exceptions=False).output)
        for more in ([], ["--energy", "jouppi-7nm"])
    )
    assert other["latency_s"] == plain["latency_s"]
    assert other["energy_by_category_J"]["MAC"] < plain["energy_by_category_J"]["MAC"]
    assert other["energy_status"].keys() != plain["energy_status"].keys()
