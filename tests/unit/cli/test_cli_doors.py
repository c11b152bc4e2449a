"""What a user meets first: the help, completion, the launcher, the list of checks, the array side by side."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.cli import COMMANDS, SECTIONS
from tests.validation.claims import CLAIMS
from tests.validation.command import all_checks

pytestmark = pytest.mark.usefixtures("unpainted")

ROOT = Path(__file__).parents[3]
Cli = Callable[..., Result]
Refused = Callable[..., list[str]]


def test_every_command_is_in_one_section_of_the_help(cli: Cli) -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(set(COMMANDS) - set(named)) == []
    assert len(named) == len(set(named))
    text = cli("--help").stdout
    assert [title for title in SECTIONS if f"{title}:" in text] == list(SECTIONS)
    assert "Other commands" not in text


@pytest.mark.parametrize("command", ["run", "accuracy", "train", "quantize"])
def test_options_are_shown_in_groups(cli: Cli, command: str) -> None:
    text = cli(command, "--help").stdout
    for title in ("What runs, and where:", "Number formats:", "What is shown and written:"):
        assert title in text
    rest = text.partition("Other options:")[2]
    only = re.findall(r"^  (-\S+)", rest, re.MULTILINE)
    assert only in (["-h,"], ["--help"]), "click keeps the names of the context that asked first, of whichever test"


def completions(*words: str) -> list[str]:
    """Return what bash would offer for the last word."""
    env = {"_ACCELSIM_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "accelsim"], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert completions("accelsim", "ru") == ["plain,run"]
    assert "plain,--memory-model" in completions("accelsim", "run", "--mem")


def test_the_line_for_bash_works(tmp_path: Path) -> None:
    """The documented line, in a bash that has an ``accelsim``."""
    line = re.search(r"^eval .*$", (ROOT / "docs" / "command-line.md").read_text("utf-8"), re.MULTILINE)
    assert line is not None
    command = tmp_path / "accelsim"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m accelsim "$@"\n')
    command.chmod(0o755)
    script = (
        f'{line[0]}\nCOMP_WORDS=(accelsim ru); COMP_CWORD=1; _accelsim_completion accelsim; echo "${{COMPREPLY[@]}}"'
    )
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    done = subprocess.run([bash, "-c", script], env=env, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("run", "")


def test_the_launcher_sets_up_and_runs_where_one_is(tmp_path: Path) -> None:
    """In a stand-in of a clone whose set-up makes a command that says where it runs and with what."""
    clone, elsewhere = tmp_path / "a clone", tmp_path / "elsewhere"
    clone.mkdir()
    elsewhere.mkdir()
    shutil.copy(ROOT / "accelsim.sh", clone)
    (clone / "Makefile").write_text(
        ".venv/.installed:\n\t@mkdir -p .venv/bin\n\t@printf '#!/bin/sh\\npwd; echo \"$$2\"\\n' > .venv/bin/accelsim\n"
        "\t@chmod +x .venv/bin/accelsim\n\t@touch $@\n\t@echo set up\n"
    )
    (tmp_path / "link").symlink_to(clone / "accelsim.sh")
    for told in ("set up\n", ""):
        done = subprocess.run([tmp_path / "link", "run", "x y"], cwd=elsewhere, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == (f"{elsewhere}\nx y\n", told)


def test_the_list_of_checks_says_what_each_is_and_how_long_it_takes(cli: Cli) -> None:
    assert set(CLAIMS) == set(all_checks())
    text = " ".join(cli("validate", "--list").stdout.split())
    assert "scalesim cycles, utilisation, SRAM words against SCALE-Sim" in text
    assert len(re.findall(r" \((at once|up to a minute|minutes)(, an estimate)?\)", text)) == len(CLAIMS)
    assert text.count(", an estimate)") == sum(each.seconds is None for each in CLAIMS.values())
    rows = json.loads(cli("validate", "--list", "--json").stdout)
    assert [row["name"] for row in rows] == list(all_checks())


def test_dataflows_side_by_side_with_their_energies(cli: Cli, tmp_path: Path) -> None:
    words = ("array", "--rows", "4", "--cols", "4", "--dataflow", "ws,os,is", "9", "5", "6")
    rows = json.loads(cli(*words, "--json").stdout)
    assert [row["dataflow"] for row in rows] == ["ws", "os", "is"]
    for row in rows:
        alone = json.loads(cli(*words[:6], row["dataflow"], *words[7:], "--json").stdout)
        assert alone == row
        assert row["mac_energy_J"] == pytest.approx(270 * 0.3e-12, rel=1e-9, abs=0)  # 0.2 + 0.1 pJ, as the table says
        words_B = sum(
            row[f"{kind}_{way}"] for kind in ("moving", "stationary", "shadow") for way in ("reads", "writes")
        )
        sums_B = 4 * (row["psum_reads"] + row["psum_writes"])
        per_B = row["register_energy_J"] / (words_B + sums_B)
        assert per_B == pytest.approx(rows[0]["register_energy_J"] / (
            sum(rows[0][f"{kind}_{way}"] for kind in ("moving", "stationary", "shadow") for way in ("reads", "writes"))
            + 4 * (rows[0]["psum_reads"] + rows[0]["psum_writes"])), rel=1e-9, abs=0)  # fmt: skip
        parts = [row[f"{part}_energy_J"] or 0.0 for part in ("mac", "register", "network")]
        assert row["array_energy_J"] == pytest.approx(sum(parts), rel=1e-9, abs=0)
        assert row["network_energy_J"] is None
    assert "array energy without network " in cli(*words).stdout
    assert cli(*words, "--csv", tmp_path / "a.csv").exit_code == 0
    with (tmp_path / "a.csv").open() as file:
        assert [int(row["cycles"]) for row in csv.DictReader(file)] == [row["cycles"] for row in rows]


def test_the_array_is_watched_in_80_columns_edge_by_edge(
    cli: Cli, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("array", "--rows", "4", "--cols", "16", "--watch", "5", "16", "4")
    text = cli(*words).stdout
    assert max(map(len, text.splitlines())) <= 80
    edges = re.split(r"\n(?=edge )", text)[1:]
    one = cli(*words, "--edge", "7").stdout
    assert one.endswith(edges[6].rstrip("\n") + "\n\n") or edges[6].strip() in one
    assert one.count("\nedge ") == 1
    (line,) = refused(*words, "--edge", "9999")
    assert line.startswith("error: --edge 9999; expected 1 to ")
    (line,) = refused("array", "--edge", "3", "5", "4", "4")
    assert "--edge without --watch" in line


def test_quantize_takes_shapes_and_counts_external_data(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.chdir(tmp_path)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(np.ones((64, 64), np.float32), "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = cli("quantize", "m.onnx", "--shape", "x=3,64", "--out", "q.onnx")
    before = (tmp_path / "m.onnx").stat().st_size + (tmp_path / "w.bin").stat().st_size
    assert f"{before:,} B -> " in result.stdout
    shape = onnx.load("q.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [3, 64]
