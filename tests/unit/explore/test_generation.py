"""Prompts and the tokens behind them: values against one long prompt, figures against their own runs, sampling."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import accelsim
from accelsim.account.energy import energy_table, total_J
from accelsim.cli import main
from accelsim.errors import UsageError
from accelsim.explore.generation import Call, _between, generation
from accelsim.report.text import si
from accelsim.request.job import Request
from accelsim.workload import execute
from accelsim.workload.sources.load import load_model

SMALL = "llama?layers=2,hidden=32,heads=4,kv_heads=2,ffn=24,vocab=64"


@pytest.mark.parametrize("model", [SMALL, "gpt?layers=2,hidden=32,heads=4,kv_heads=4,ffn=40,vocab=64"])
@pytest.mark.parametrize("values", ["exact", "fast"])
def test_token_by_token_equals_one_long_prompt(model: str, values: str) -> None:
    """Each token is the most likely one behind all tokens before it, run through the graph in one go."""
    found = accelsim.generate(f"{model},prompt=5,new=4", "edu-mixed", dtype="fp32", values=values, batch=2)
    assert found.tokens is not None and found.tokens.shape == (2, 4)
    tokens = found.prefill.feeds["tokens"]
    for place in range(4):
        graph = load_model(f"{model},seq={5 + place}", batch=2)
        logits = execute.run(graph, {"tokens": tokens})["logits"]
        np.testing.assert_array_equal(np.argmax(logits, axis=2), found.tokens[:, place : place + 1])
        tokens = np.concatenate([tokens, found.tokens[:, place : place + 1]], axis=1)


def test_the_figures_are_those_of_the_runs() -> None:
    found = accelsim.generate(f"{SMALL},prompt=6,new=4", "neuroncore-v2", values="off")
    runs = [accelsim.run(f"{SMALL},seq=6", "neuroncore-v2", values="off")]
    runs += [accelsim.run(f"{SMALL},seq=1,past={past}", "neuroncore-v2", values="off") for past in (6, 7, 8)]
    joules = [total_J(energy_table(run)) for run in runs]
    assert found.time_to_first_token_s == runs[0].seconds
    assert found.decode_s == pytest.approx(sum(run.seconds for run in runs[1:]))
    assert found.tokens_per_s == pytest.approx(3 / sum(run.seconds for run in runs[1:]))
    assert found.energy_per_token_J == pytest.approx(sum(joules[1:]) / 3, rel=1e-9, abs=0)
    assert found.total_s == pytest.approx(sum(run.seconds for run in runs))
    assert found.total_J == pytest.approx(sum(joules), rel=1e-9, abs=0)
    assert [call.past for call in found.calls] == [6, 7, 8] and found.error == 0


def test_values_change_neither_time_nor_energy() -> None:
    facts = [accelsim.generate(f"{SMALL},prompt=3,new=3", "edu-4x4", values=values).as_dict()
             for values in ("exact", "fast", "off")]  # fmt: skip
    for entry in facts:
        entry.pop("tokens")
    assert facts[0] == facts[1] == facts[2]


@pytest.mark.parametrize(("chip", "simulated"), [("neuroncore-v2", 3), ("edu-tensor-core", 12)])
def test_what_lies_on_lines_is_near_to_all_calls_simulated(chip: str, simulated: int) -> None:
    """Sums within half a percent, and within the error that is told, which is never less than 0.1 % in words; three
    calls where they lie on one line."""
    request = Request("llama?layers=1,hidden=32,heads=2,kv_heads=1,ffn=32,vocab=64,prompt=4,new=40", chip,
                      values="off")  # fmt: skip
    some, every = generation(request, simulated=12), generation(request, simulated=10**6, close=-1.0)
    assert len(some.calls) == simulated and len(every.calls) == 39 and every.error == 0
    for ours, theirs in ((some.decode_s, every.decode_s), (some.decode_J, every.decode_J)):
        assert abs(ours / theirs - 1) <= min(0.005, max(some.error, 1e-3))


def test_the_line_between_two_calls() -> None:
    calls = tuple(Call(past, seconds, 1.0, {}, 0.0) for past, seconds in ((4, 10.0), (8, 18.0), (9, 30.0)))
    assert [_between(calls, past, lambda call: call.seconds) for past in range(4, 10)] == [10, 12, 14, 16, 18, 30]


def test_several_cores_and_sequences_count_together() -> None:
    one = accelsim.generate(f"{SMALL},prompt=3,new=3", "neuroncore-v2", values="off")
    more = accelsim.generate(f"{SMALL},prompt=3,new=3", "neuroncore-v2", values="off", batch=3)
    assert (one.sequences, more.sequences) == (1, 3)
    assert more.tokens_per_s == pytest.approx(6 / more.decode_s)


def test_one_token_is_the_prefill_alone() -> None:
    found = accelsim.generate(f"{SMALL},prompt=3", "neuroncore-v2", values="off")
    assert found.new == 1 and not found.calls
    assert found.tokens_per_s is None and found.energy_per_token_J is None and found.total_s == found.prefill.seconds


def test_the_command_prints_what_the_function_gives() -> None:
    model = f"{SMALL},prompt=3,new=3"
    result = CliRunner().invoke(main, ["run", model, "--on", "neuroncore-v2", "--values", "off", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    found = accelsim.generate(model, "neuroncore-v2", values="off").as_dict()
    for key in ("time_to_first_token_s", "tokens_per_s", "energy_per_token_J", "calls", "decode_calls_simulated"):
        assert facts[key] == found[key]
    assert facts["prefill"]["latency_s"] == facts["time_to_first_token_s"]
    text = CliRunner().invoke(main, ["run", model, "--on", "neuroncore-v2", "--values", "off"]).output
    for part in ("time to first token", "tokens/s", "energy per token", "All 2 decode steps were simulated."):
        assert part in " ".join(text.split())


def test_what_cannot_be_asked_of_a_generation_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="seq=4"):
        accelsim.generate(f"{SMALL},prompt=3,new=2,seq=4", "neuroncore-v2")
    with pytest.raises(UsageError, match="no prompt and new tokens"):
        accelsim.generate("cnn", "edu-4x4")
    with pytest.raises(UsageError, match="several graphs"):
        load_model(f"{SMALL},prompt=3,new=2")
    with pytest.raises(UsageError, match="new=0"):
        accelsim.generate(f"{SMALL},prompt=3,new=0", "neuroncore-v2")
    result = CliRunner().invoke(main, ["run", f"{SMALL},prompt=3,past=2", "--on", "edu-4x4", "--check", "--out", "x"])
    assert result.exit_code == 2
    assert "past=2" in result.output
    asked = ["run", f"{SMALL},prompt=3,new=2", "--on", "edu-4x4", "--on", "tpu-v1", "--check", "--save-mapping", "x"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 2
    for part in ("--check with prompt", "--save-mapping with prompt", "several --on", "one --on and one value"):
        assert part in result.output
    for call in re.findall(r"'(\w+\?[^']*)'", result.output):  # what it says to do instead can be done
        accelsim.run(call, "edu-4x4", values="off")


@pytest.mark.usefixtures("unpainted")
def test_the_files_of_a_generation_are_those_of_its_calls(tmp_path: Path) -> None:
    """JSON, CSV, plot, and two reports; the same bytes again; a foreign directory is refused before anything runs."""
    model, folder, file = f"{SMALL},prompt=4,new=4", tmp_path / "out", tmp_path / "calls.csv"
    asked = [
        "run",
        model,
        "--on",
        "neuroncore-v2",
        "--values",
        "off",
        "--no-advice",
        "--out",
        str(folder),
        "--csv",
        str(file),
    ]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"generation.json", "calls.csv", "time_per_token.svg"} <= names
    assert {f"{part}/{name}" for part in ("prefill", "decode") for name in ("report.html", "summary.json")} <= names
    found = accelsim.generate(model, "neuroncore-v2", values="off")
    facts = json.loads((folder / "generation.json").read_text())
    assert (facts["model"], facts["chip"], facts["total_s"]) == ("llama", "neuroncore-v2", found.total_s)
    last = json.loads((folder / "decode/summary.json").read_text())
    assert last["latency_s"] == facts["decode"]["latency_s"] == found.calls[-1].seconds
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert file.read_bytes() == (folder / "calls.csv").read_bytes()
    assert [row["call"] for row in rows] == ["prefill"] + 3 * ["decode"]
    assert [int(row["past"]) for row in rows[1:]] == [4, 5, 6]
    assert sum(float(row["seconds"]) for row in rows) == pytest.approx(found.total_s)
    assert sum(float(row["energy_J"]) for row in rows) == pytest.approx(found.total_J, rel=1e-9, abs=0)
    before = {name: (folder / name).read_bytes() for name in names}
    assert CliRunner().invoke(main, asked).exit_code == 0
    assert before == {name: (folder / name).read_bytes() for name in names}
    assert CliRunner().invoke(main, ["compare", *(str(folder / part) for part in ("prefill", "decode"))]).exit_code == 0
    whole = CliRunner().invoke(main, ["compare", str(folder)])
    assert whole.exit_code == 2 and f"one of its calls: {folder / 'prefill'} or {folder / 'decode'}" in whole.output
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("three years")
    refused = CliRunner().invoke(main, [*asked[:-3], str(foreign)])
    assert refused.exit_code == 2 and "holds no report of a generation" in refused.output
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("unpainted")
def test_one_token_has_no_call_of_decoding_to_report(tmp_path: Path) -> None:
    asked = [
        "run",
        f"{SMALL},prompt=4",
        "--on",
        "neuroncore-v2",
        "--values",
        "off",
        "--no-advice",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"generation.json", "calls.csv", "prefill"}


def test_on_a_gpu_both_calls_have_intervals() -> None:
    model = "llama?prompt=8,new=3"
    told = CliRunner().invoke(main, ["run", model, "--on", "h100-sxm", "--dtype", "bf16", "--values", "off"]).output
    (first,) = [line for line in told.splitlines() if line.startswith("time to first token")]
    (each,) = [line for line in told.splitlines() if line.startswith("time per token")]
    found = accelsim.generate(model, "h100-sxm", dtype="bf16", values="off")
    ends, seconds = found.intervals, (found.time_to_first_token_s, found.token_s)
    for line, taken, interval in zip((first, each), seconds, (ends.first, ends.token), strict=True):
        assert interval is not None and si(taken, "s") in line and si(interval.low_s, "s") in line
    assert ends.total is not None and f"{si(ends.total.low_s, 's')} to {si(ends.total.high_s, 's')}" in told
    assert "The 90 % interval of the whole generation is that of " in told.replace("\n", " ")
    plain = CliRunner().invoke(main, ["run", model, "--on", "neuroncore-v2", "--values", "off"]).output
    assert "90 %" not in plain and "time per token" in plain
