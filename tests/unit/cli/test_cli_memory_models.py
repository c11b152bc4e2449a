"""``accelsim run --memory-model``: what is printed, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from accelsim.machine.memory_models import MODELS

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
CNN = ("run", "cnn", "--on", "tpu-v1", "--values", "off", "--no-advice")
FOLLOWED = [name for name, level in MODELS.items() if level.dram is not None]


def test_the_default_says_nothing_of_memory_models(cli: Cli) -> None:
    result = cli(*CNN)
    assert "memory model" not in result.stdout and "row hits" not in result.stdout
    assert cli(*CNN, "--memory-model", "bandwidth").stdout == result.stdout


def test_another_level_is_named_and_changes_the_time_only(cli: Cli) -> None:
    text = cli(*CNN, "--memory-model", "ideal").stdout
    assert "ideal: off-chip memories take no time" in text
    plain, ideal = (json.loads(cli(*CNN, "--memory-model", name, "--json").stdout) for name in ("bandwidth", "ideal"))
    assert ideal["latency_s"] < plain["latency_s"] and ideal["traffic"] == plain["traffic"]
    assert ideal["memory_model"] == "ideal" and ideal["dram"] == {}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("columns", [60, 80, 132])
def test_followed_memories_have_a_table_and_sentences_that_fit(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("ACCELSIM_KERNEL", "python")
    result = cli(*CNN, "--memory-model", name)
    assert result.exit_code == 0 and result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= columns
    for text in ("row hits", "ddr3", "found their row", "memory model"):
        assert text in result.stdout
    assert "The loop over DRAM bursts ran in plain Python" in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_summary_and_the_page_have_the_statistics(cli: Cli, tmp_path: Path, name: str) -> None:
    out = tmp_path / "report"
    facts = json.loads(cli(*CNN, "--memory-model", name, "--json", "--out", out).stdout)
    assert set(facts["dram"]) == {"ddr3", "pcie_memory"}
    for memory, stats in facts["dram"].items():
        moved = facts["traffic"][memory]
        assert stats["requested_B"] == moved["read_B"] + moved["write_B"] > 0
        assert stats["moved_B"] - stats["requested_B"] == stats["overfetch_B"] >= 0
        assert 0 < stats["bus_utilisation"] <= 1 and stats["pJ_per_bit"] > 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>DRAM</h2>" in page and "row hits" in page
    ledger = (out / "ledger.csv").read_text(encoding="utf-8")
    assert "ddr3,act," in ledger and "static,open.ddr3," in ledger and "static,idle.ddr3," not in ledger


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_trace_has_every_burst(cli: Cli, tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace.npz"
    result = cli(*CNN, "--memory-model", name, "--json", "--save-trace", trace)
    counts = json.loads(result.stdout)["dram"]
    with np.load(trace, allow_pickle=False) as file:
        for memory, stats in counts.items():
            writes = file[f"{memory}.write"]
            assert (int((~writes).sum()), int(writes.sum())) == (stats["counts"]["rd"], stats["counts"]["wr"])
            assert (np.diff(file[f"{memory}.at"]) >= 0).all()


def test_what_makes_no_sense_is_refused_with_everything_else(cli: Cli, tmp_path: Path) -> None:
    result = cli(
        "run", "cn", "--on", "edu-4x4", "--memory-model", "bank", "--save-trace", tmp_path / "trace.txt",
        "--set", "memories.dram.memory.bandwidth=300 MB/s",
    )  # fmt: skip
    assert result.exit_code == 2 and result.stdout == ""
    for text in ("'cn'", "memory 'dram' (ideal) has no DRAM", "--set memories.dram.memory=", "ends in .npz"):
        assert text in result.stderr
    result = cli(*CNN, "--memory-model", "bnk", "--save-trace", tmp_path / "trace.npz")
    assert "did you mean 'bank'" in result.stderr
    result = cli(*CNN, "--save-trace", tmp_path / "trace.npz")
    assert "which sees no addresses; expected --memory-model pattern or bank" in result.stderr


def test_compare_names_the_level_where_it_differs(cli: Cli, tmp_path: Path) -> None:
    for name in ("bandwidth", "ideal"):
        cli(*CNN, "--memory-model", name, "--out", tmp_path / name)
    text = cli("compare", tmp_path / "bandwidth", tmp_path / "ideal").stdout
    assert text.splitlines()[2].split() == ["memory-model", "bandwidth", "memory-model", "ideal", "ratio"]


def test_more_bandwidth_is_not_the_only_advice(cli: Cli) -> None:
    """A DRAM that is followed has no bandwidth of its own: that of its channels follows from rows, banks and buses."""
    plain, followed = (
        cli(
            "run", "gemm?M=8,N=1024,K=1024", "--on", "tpu-v1", "--values", "off", "--memory-model", model
        ).stdout.replace("\n", " ")
        for model in ("bandwidth", "bank")
    )
    assert "twice the bandwidth of ddr3" in plain
    assert "twice the channels of ddr3" in followed
    assert "--set memories.ddr3.memory.dram.organisation.channels=4" in followed
