"""The other commands, their help, and what they cost to start."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import Result

from accelsim.cli import COMMANDS, main
from accelsim.engines.systolic.sweep import RESULTS, one
from accelsim.spec.yaml.load import KINDS, list_chips, load_chip
from accelsim.workload.sources.load import list_models
from tests.validation.base import CHECKS, Check
from tests.validation.golden import golden

Cli = Callable[..., Result]


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and subcommand."""
    context = click.Context(main)
    for name in COMMANDS:
        yield (name,)
        command = main.get_command(context, name)  # type: ignore[attr-defined]
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in command.list_commands(context))


@pytest.mark.parametrize("command", [(), *commands()], ids=" ".join)
def test_every_help_has_an_example(cli: Cli, command: tuple[str, ...]) -> None:
    result = cli(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    examples = result.stdout.split("Example")[1]
    assert " ".join(("accelsim", *command)) in examples
    assert max(map(len, examples.splitlines())) <= 80


def test_a_misspelt_command(cli: Cli) -> None:
    result = cli("rnu")
    assert result.exit_code == 2
    assert "did you mean 'run'?" in result.stderr


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout == "accelsim 0.1.0\n"


HEAVY = ("onnx", "matplotlib", "rich", "pydantic", "yaml", "simpy", "numpy")
NEEDED = {
    "import accelsim": (),
    "from accelsim.cli import main; main(['--help'], standalone_mode=False)": (),
    "import accelsim.explore.what_ifs, accelsim.cluster.step.asked": ("simpy", "numpy"),
}
"""Code -> packages that it needs. A run whose chip is in the user's cache validates nothing and reads no YAML."""


@pytest.mark.parametrize("code", NEEDED)
def test_starting_loads_nothing_heavy(code: str) -> None:
    heavy = {*HEAVY} - {*NEEDED[code]}
    check = f"{code}\nimport sys\nassert not [name for name in {heavy} if name in sys.modules]"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "accelsim", "rnu"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: accelsim ")


def test_chips_lists_all_and_says_what_is_broken(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chips = {chip.name: str(chip.year or "-") for chip in list_chips()}
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "cracked.yaml").write_text("name: cracked\nclock: 3\n")
    monkeypatch.setenv("ACCELSIM_HWSPECS", str(tmp_path))
    result = cli("chips")
    assert result.exit_code == 0
    words = [line.split() for line in result.stdout.splitlines()]
    found = {name: year for name, year, *_ in filter(lambda each: len(each) > 1, words) if name in chips}
    assert found == chips and ["cracked", "broken:"] in [each[:2] for each in words]
    nvidia = [
        found[each[0]]
        for each in words[words.index(["NVIDIA", "GPUs"]) : words.index(["Accelerators"])]
        if each and each[0] in chips
    ]
    assert nvidia == sorted(nvidia) and len(nvidia) > 20


def test_models_lists_all_with_parameters(cli: Cli) -> None:
    result = cli("models")
    listed = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
    assert listed == [row.name for row in list_models()]
    assert "resolution=28" in result.stdout


def test_spec_show_gives_a_file_that_is_the_same_chip(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "same.yaml"
    path.write_text(cli("spec", "show", "tpu-v1", "--set", "clock=350 MHz", "--set", "peak={}").stdout)
    assert load_chip(path) == load_chip("tpu-v1", ["clock=350 MHz", "peak={}"])


def test_spec_check_names_each_good_file_with_its_kind(cli: Cli) -> None:
    files = [chip.path for chip in list_chips()]
    memory = files[0].parents[1] / "memories" / "hbm2.yaml"
    result = cli("spec", "check", *files, memory)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"{memory}: nothing wrong (memories)"
    assert result.stdout.count("nothing wrong (chips)") == len(files)


@pytest.mark.parametrize("kind", KINDS)
def test_spec_schema_is_a_schema(cli: Cli, kind: str) -> None:
    assert json.loads(cli("spec", "schema", kind).stdout)["type"] == "object"


@pytest.mark.usefixtures("unpainted")
def test_compare_puts_runs_side_by_side(cli: Cli, tmp_path: Path) -> None:
    for chip in ("tpu-v1", "edu-4x4"):
        line = ("run", "cnn", "--on", chip, "--values", "off", "--no-advice")
        assert cli(*line, "--out", tmp_path / chip).exit_code == 0
    result = cli("compare", tmp_path / "tpu-v1", tmp_path / "edu-4x4", "--plot", tmp_path / "plot.svg")
    assert result.exit_code == 0
    assert "latency" in result.stdout
    heading, _, header, *_ = result.stdout.splitlines()
    assert heading == "In all runs: cnn, int8, batch 1, values off"
    assert header.split() == ["tpu-v1", "edu-4x4", "ratio"]
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.usefixtures("unpainted")
def test_compare_runs_a_model_on_chips(cli: Cli, tmp_path: Path) -> None:
    words = ("compare", "mlp", "--on", "k80,p100", "--dtype", "fp32", "--batch", "4")
    result = cli(*words, "--plot", tmp_path / "plot.svg")
    assert result.exit_code == 0, result.output
    assert "k80" in result.stdout and "p100-sxm2" in result.stdout and (tmp_path / "plot.svg").exists()
    wrong = cli("compare", "mlp", "--on", "k81,p100", "--dtype", "int4")
    assert wrong.exit_code == 2 and "did you mean 'k80'" in wrong.stderr and "int4" in wrong.stderr


def test_compare_gives_layers_csv_and_json(cli: Cli, tmp_path: Path) -> None:
    for name, rows in (("few", 4), ("many", 8)):
        line = ("run", "mlp?hidden=16", "--on", "edu-4x4", "--values", "off", "--no-advice")
        assert cli(*line, "--set", f"matrix.rows={rows}", "--out", tmp_path / name).exit_code == 0
    both = ("compare", tmp_path / "few", tmp_path / "many")
    assert cli(*both, "--csv", tmp_path / "runs.csv").exit_code == 0
    found = json.loads(cli(*both, "--layers", "--json").stdout)
    assert [each["run"] for each in found["runs"]] == ["matrix.rows=4", "matrix.rows=8"]
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert [float(row["latency_s"]) for row in rows] == [each["latency_s"] for each in found["runs"]]
    for words in (("--layers",), ("--layers", "all"), ("--layers", 1)):
        result = cli("compare", *words, *both[1:], "--csv", tmp_path / "layers.csv")
        assert result.exit_code == 0, result.output
        assert "First: matrix.rows=4; second: matrix.rows=8." in result.stdout
        layers = list(csv.DictReader((tmp_path / "layers.csv").read_text().splitlines()))
        assert [row["name"] for row in layers] == [each["name"] for each in found["layers"]]
    alone = cli(*both[:2], "--layers")
    assert alone.exit_code == 2 and "two runs of one model" in alone.stderr


SHAPE = ("--rows", 4, "--cols", 3, "--dataflow", "ws", "--schedule", "overlapped", "--shadow-load", "diagonal")


def test_array_prints_every_figure(cli: Cli) -> None:
    expected = one(4, 3, "ws", "overlapped", 5, 6, 7, "diagonal")
    found = json.loads(cli("array", *SHAPE, "--json", 5, 6, 7).stdout)
    assert {name: found[name] for name in expected} == expected
    energies = {f"{part}_energy_J" for part in ("mac", "register", "network", "array")}
    assert set(found) == set(expected) | energies | {"dataflow"}
    table = cli("array", *SHAPE, 5, 6, 7).stdout
    assert len(table.splitlines()) == 3 + len(RESULTS) + len(energies)
    assert re.search(rf"^cycles +{expected['cycles']:,}$", table, re.MULTILINE)


def test_array_watch_shows_every_edge(cli: Cli) -> None:
    result = cli("array", *SHAPE, "--watch", 5, 3, 4)
    cycles = one(4, 3, "ws", "overlapped", 5, 3, 4, "diagonal")["cycles"]
    assert result.stdout.count("\nedge ") == cycles
    assert result.stdout.startswith("A[5,4] and B[4,3] count from 1")


def test_array_csv_fills_the_table(cli: Cli, tmp_path: Path) -> None:
    shapes, out = tmp_path / "in.csv", tmp_path / "out.csv"
    shapes.write_text("id,array_rows,array_cols,dataflow,schedule,gemm_M,gemm_N,gemm_K\na,4,3,os,sequential,5,6,7\n")
    result = cli("array", "--shapes", shapes, "--csv", out)
    assert result.exit_code == 0
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert row["id"] == "a"
    assert int(row["cycles"]) == one(4, 3, "os", "sequential", 5, 6, 7)["cycles"]
    shapes.write_text("array_rows,array_cols,dataflow,schedule,gemm_M,gemm_N,gemm_K\n4,0,os,sequential,5,6,7\n")
    result = cli("array", "--shapes", shapes, "--csv", tmp_path / "none.csv")
    assert result.exit_code == 2
    assert f"{shapes}:2: array_cols is '0'" in result.stderr
    assert not (tmp_path / "none.csv").exists()


@pytest.fixture
def two_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks of our own in the registry: one that passes and one that fails."""
    good = Check("good", "numbers that agree", 3, 3, np.array([0.01, -0.02, 2e-6]), ["all three"])
    bad = Check("bad", "numbers that differ", 4, 3, np.zeros(0), ["row 2: 5 != 6"])
    monkeypatch.setitem(CHECKS, "good", lambda: good)
    monkeypatch.setitem(CHECKS, "bad", lambda: bad)


@pytest.mark.usefixtures("two_checks")
def test_validate_prints_the_figures_of_each_check(cli: Cli) -> None:
    result = cli("validate", "good")
    assert result.exit_code == 0
    header, _, row = result.stdout.splitlines()
    assert header.split() == [
        "check",
        "rows",
        "agree",
        "bound",
        "verdict",
        "median",
        "error",
        "90th",
        "percentile",
        "largest",
    ]
    assert row.split() == ["good", "3", "3", "exact", "passes", "1.0%", "1.8%", "2.0%"]
    assert "all three" in cli("validate", "good", "--details").stdout


@pytest.mark.usefixtures("two_checks")
def test_validate_fails_when_one_check_fails(cli: Cli) -> None:
    result = cli("validate", "good", "bad")
    assert result.exit_code == 1
    assert "bad: numbers that differ\n  row 2: 5 != 6\n" in result.stdout
    outcome = json.loads(cli("validate", "bad", "--json").stdout)
    assert (outcome[0]["passes"], outcome[0]["equal"]) == (False, 3)


@pytest.mark.parametrize("args", [("validate", "scalesim"), ("energy", "eyeriss", "--out", "eyeriss")])
def test_what_needs_a_checkout_says_so_where_there_is_none(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setattr("accelsim.cli.checkout.ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    result, command = cli(*args), args[0] if args[0] == "validate" else " ".join(args[:2])
    assert result.exit_code == 2 and not list(tmp_path.iterdir())
    assert f"'accelsim {command}' needs a checkout" in " ".join(result.stderr.split())


def test_validate_knows_every_check_of_the_package(cli: Cli) -> None:
    result = cli("validate", "--list")
    assert {"light-models", "neuroncore-v2", "onnxruntime", "rtl-machine", "scalesim", "systolic", "tpu-v1"} <= set(
        result.stdout.split()
    )


def test_validate_runs_rows_of_the_small_machine_from_a_file(cli: Cli, tmp_path: Path) -> None:
    lines = golden("rtl_machine/machine_golden.csv").read_text().splitlines()[:6]
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("\n".join(lines) + "\n")
    result = cli("validate", "rtl-machine", "--rows", rows, "--csv", out)
    assert result.exit_code == 0
    assert out.read_text() == rows.read_text()
    assert result.stdout.splitlines()[2].split()[:5] == ["rtl-machine", "5", "5", "exact", "passes"]
    rows.write_text("\n".join([lines[0], lines[1].replace(",57,", ",58,", 1)]) + "\n")
    result = cli("validate", "rtl-machine", "--rows", rows, "--csv", out)
    assert result.exit_code == 1
    told = f"{rows}:2: total_clocks 57, the file has 58"
    assert "".join(told.split()) in "".join(result.stdout.split())  # lines are cut to the width of the terminal
