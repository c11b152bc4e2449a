"""One convention for outputs: whatever prints a table has --json, which parses, and --csv; no command has others."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

import accelsim.cli
from accelsim.cli import main
from accelsim.cli.common import OUT
from accelsim.cli.dram import replay_on
from accelsim.lessons.registry import find
from accelsim.lessons.work import filled, start
from tests.helpers.kernel_rows import measured_csv
from tests.helpers.pictures import unpainted

Cli = Callable[..., Result]

SAMPLES: dict[str, tuple[str, ...]] = {
    "run": ("mlp?hidden=16", "--on", "edu-4x4", "--values", "off", "--no-advice"), "rerun": ("REPORT",),
    "compare": ("REPORT", "REPORT", "--layers"), "report": ("REPORT", "--out", "page.html"), "formats": (), "formats show": ("fp16", "0.3"),
    "quantize": ("digits-mlp", "--weights", "random:0", "--out", "q.onnx"),
    "accuracy": ("digits-mlp", "--on", "edu-mixed", "--dtypes", "int8", "--steps", "1"),
    "train": ("digits-mlp", "--steps", "1"), "chips": (), "clusters": ("4x-edu",), "models": (), "memories": (), "prices": (),
    "serve": ("llama?layers=2,hidden=64", "--on", "t4", "--requests", "3", "--lengths", "fixed:8,2"),
    "rent-or-buy": ("mlp?hidden=16", "--on", "edu-4x4", "--price", "100 USD"), "sweep": ("SWEEP",),
    "choose": ("gemm?M=8,N=12,K=16", "--on", "t4,l4", "--batch", "1", "--objective", "latency"),
    "spec show": ("edu-4x4",), "spec tree": ("edu-4x4",), "spec check": ("edu-4x4",), "spec schema": ("links",),
    "dram": ("ddr3-1600", "--limit", "20"), "dram list": (), "dram compare": ("ddr3-1600", "--limit", "20"),
    "dram lessons": ("--limit", "20"), "sram": ("--capacity", "1MiB"), "sram conflicts": ("--length", "16"),
    "energy table": (), "energy eyeriss": ("--out", "eyeriss"), "link": ("pcie-gen4-x16",),
    "noc": ("mesh-4x4", "--load", "0.1", "--clocks", "100"), "collective": ("all_reduce", "--on", "4x-edu", "--size", "64KiB"),
    "plan": ("digits-mlp", "--on", "4x-edu", "--batch", "1"),
    "batching": ("mlp?hidden=16", "--on", "edu-4x4", "--batches", "1,2"),
    "export-trace": ("seq_read", "--on", "ddr3-1600", "--format", "dramsim3", "--out", "t.trace"),
    "array": ("--rows", "4", "--cols", "4", "5", "4", "4"), "validate": ("--list",),
    "kernel": ("gemm", "256", "512", "128", "--on", "t4"), "calibrate": ("t4", "--data", "MEASURED"),
    "study precision": ("mlp?hidden=16", "--on", "edu-mixed", "--dtypes", "fp16,int8"),
    "study crossover": ("mlp?hidden=16", "--on", "haswell-e5-2699v3,t4", "--batches", "1,2"),
    "study service": ("mlp?hidden=16", "--on", "t4", "--before", "1ms", "--most", "2"), "study cost-by-year": (), "study bus-or-sports-car": (), "study cpu-or-gpu": (), "study gpt3-then-and-now": (),
    "measure": ("--rows", "1", "--out", "measured.csv"),
    "lesson": (), "lesson start": ("1",), "lesson check": ("1", "LESSON"), "lesson hint": ("1",), "lesson notebook": ("1",), "lesson solution": ("1",),
    "lesson reset": ("1", "LESSON"), "lesson grade": ("LESSON", "--trust-students"),
}  # fmt: skip
"""A command line of each command that takes a moment."""
NO_TABLE = {
    "report", "spec schema", "dram lessons", "energy eyeriss", "export-trace", "measure", "lesson start", "lesson hint", "lesson notebook",
    "lesson solution", "lesson reset",
}  # fmt: skip
"""Commands that print a schema, the names of the files that they wrote, a trace, a text."""
SLOW = {"dram lessons", "energy eyeriss", "measure"}
"""Of these, commands that take up to a minute, or need a GPU; other tests run them."""
NO_CSV = {"rerun", "formats show", "spec show", "spec tree", "spec check", "kernel", "lesson check"}
"""Commands whose result is no table: a verdict, one number, one spec, a tree; of ``kernel`` --csv is where kernels come
from, and --out where they go."""
READS_CSV = {"kernel"}


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be called, under its words."""
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield name, command
        context = click.Context(command)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from leaves(below, f"{name} {word}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves(main)) | {"dram": replay_on("ddr3-1600")}


def options(name: str) -> dict[str, click.Parameter]:
    return {opt: param for param in COMMANDS[name].params for opt in param.opts}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from accelsim.report.write import write_run
    from accelsim.result import run

    with unpainted():
        return write_run(run("mlp?hidden=16", "edu-4x4", values="off"), tmp_path_factory.mktemp("reports") / "mlp")


def solved_lesson(parent: Path) -> Path:
    """The folder of lesson 1 with its solution."""
    lesson = find("1")
    folder = start(lesson, parent, "")
    (folder / lesson.file).write_text(filled(lesson, "solution.py.in", ""), encoding="utf-8")
    return folder


SHARED = {"__init__", "answers", "common", "cluster_options", "inputs", "options"}
"""Modules of ``accelsim.cli`` that commands share; every other one is part of a command."""


def test_the_file_of_a_command_is_its_options_and_a_call() -> None:
    """What is more belongs to the package that knows it."""
    folder = Path(accelsim.cli.__file__).parent
    lines = {file.stem: len(file.read_text(encoding="utf-8").splitlines()) for file in folder.glob("*.py")}
    assert lines.keys() >= SHARED
    assert {name: count for name, count in lines.items() if name not in SHARED and count >= 80} == {}


def small_sweep(folder: Path) -> str:
    """The path of a sweep of two points."""
    file = folder / "sweep.yaml"
    file.write_text("model: gemm?M=4,N=4,K=4\non: edu-4x4\naxes: {clock: [1 GHz, 2 GHz]}\n", encoding="utf-8")
    return str(file)


def test_every_command_has_a_sample() -> None:
    assert set(SAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - NO_TABLE))
def test_what_prints_figures_prints_them_as_json_too(
    cli: Cli, name: str, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    measured, work = measured_csv(tmp_path / "measured.csv", "t4", 40), solved_lesson(tmp_path / "work")
    named = {"REPORT": str(report), "MEASURED": str(measured), "LESSON": str(work), "SWEEP": small_sweep(tmp_path)}
    words = [*name.split(), *(named.get(word, word) for word in SAMPLES[name]), "--json"]
    table = [] if name in NO_CSV else ["--csv", "table.csv"]
    result = cli(*words, *table)
    assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    if table:
        header, *rows = csv.reader(Path("table.csv").read_text(encoding="utf-8").splitlines())
        assert rows and all(len(row) == len(header) for row in rows)


@pytest.mark.parametrize("name", sorted(NO_TABLE - SLOW))
def test_what_has_no_json_prints_no_table(
    cli: Cli, name: str, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    work = solved_lesson(tmp_path / "work")
    named = {"REPORT": str(report), "LESSON": str(work)}
    result = cli(*name.split(), *(named.get(word, word) for word in SAMPLES[name]))
    assert result.exit_code == 0, result.output
    assert "───" not in result.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_options_of_outputs_are_of_one_kind(name: str) -> None:
    given = options(name)
    for option in ("--out", "--csv", "--plot"):
        if option in given and not (option == "--csv" and name in READS_CSV):
            assert given[option].type is OUT, f"{name} {option} is no output"
    if "--json" in given:
        flag = given["--json"]
        assert isinstance(flag, click.Option) and flag.is_flag
    assert ("--json" in given) == (name not in NO_TABLE)
    assert ("--csv" in given) == (name not in NO_TABLE | NO_CSV or name in READS_CSV)


SWEPT = {"kernel": ("--sweep", "M=64:256:64")}
"""What makes a command one that draws."""
PICTURES = [name for name in sorted(COMMANDS) if "--plot" in options(name)]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_where_plot_says(
    cli: Cli, name: str, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"REPORT": str(report), "SWEEP": small_sweep(tmp_path)}
    words = [named.get(word, word) for word in (*SAMPLES[name], *SWEPT.get(name, ()))]
    result = cli(*name.split(), *words, "--plot", "picture.png")
    assert result.exit_code == 0, result.output
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    refused = cli(*name.split(), *words, "--plot", "picture.pdf")
    assert refused.exit_code == 2 and "picture.pdf: ends in '.pdf'" in refused.stderr
