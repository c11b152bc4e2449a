"""Where results go: an empty name, a file where a directory is wanted, the directory one is in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import Result

from accelsim.cli import COMMANDS
from accelsim.cli.common import FILE, OUT
from accelsim.cli.dram import replay_on

pytestmark = pytest.mark.usefixtures("unpainted")

Refused = Callable[..., list[str]]


def commands() -> Iterator[click.Command]:
    """Every command and those below it."""
    found: list[click.Command] = [
        getattr(import_module(module), name.replace("-", "_")) for name, (module, _) in COMMANDS.items()
    ]
    yield replay_on("ddr3-1600")
    for command in found:
        yield command
        yield from command.commands.values() if isinstance(command, click.Group) else ()


def test_no_option_takes_an_empty_name_of_a_file() -> None:
    options = [option for command in commands() for option in command.params if isinstance(option.type, click.Path)]
    assert len(options) > 20
    assert [option.name for option in options if option.type not in (FILE, OUT)] == []


FOLDERS = [
    ("sram", "--capacity", "1MiB"), ("energy", "table"), ("energy", "eyeriss"), ("link", "pcie-gen4-x16"),
    ("noc", "mesh-4x4", "--load", "0.1", "--clocks", "100"), ("dram", "ddr3-1600", "--limit", "10"),
    ("dram", "compare", "ddr3-1600", "--limit", "10"), ("dram", "lessons", "--limit", "10"),
    ("run", "cnn", "--on", "edu-4x4", "--values", "off"),
    ("accuracy", "digits-mlp", "--steps", "1", "--on", "edu-mixed", "--dtypes", "int8"),
]  # fmt: skip
"""Commands whose --out is a directory."""


@pytest.mark.parametrize("words", FOLDERS, ids=" ".join)
def test_a_directory_has_a_name_and_is_no_file(
    refused: Refused, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = refused(*words, "--out", "")
    assert line == "error: --out: an empty name; expected the name of a file or directory"
    (tmp_path / "taken").write_text("precious")
    (line,) = refused(*words, "--out", "taken")
    assert line.startswith("error: taken: is a file; expected a directory")
    (line,) = refused(*words, "--out", "taken/deep")
    assert line.startswith("error: taken/deep: cannot be written: taken: Not a directory")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "precious"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "cnn", "--on", "edu-4x4", "--save-mapping"), ("run", "cnn", "--on", "edu-4x4", "--save-trace"),
        ("train", "digits-mlp", "--out"), ("train", "digits-mlp", "--plot"), ("compare", "x", "--plot"),
        ("quantize", "digits-cnn", "--out"), ("batching", "cnn", "--on", "tpu-v1", "--plot"),
        ("formats", "show", "fp16", "1", "--plot"), ("array", "--shapes", "x.csv", "--csv"),
        ("validate", "rtl-machine", "--rows", "x.csv", "--csv"),
        ("export-trace", "seq_read", "--on", "ddr3-1600", "--format", "dramsim3", "--out"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_file_has_a_name(refused: Refused, words: tuple[str, ...]) -> None:
    assert refused(*words, "") == [f"error: {words[-1]}: an empty name; expected the name of a file or directory"]


def test_a_bad_directory_is_told_with_what_else_is_wrong(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words, other in (
        (("sram", "--capacity", "1", "--word", "0", "--out"), 2),
        (("noc", "mesh-9x9", "--out"), 1),
        (("link", "pcie-gen9", "--out"), 1),
    ):
        lines = refused(*words, tmp_path / "file")
        assert len(lines) == other + 1
        assert "is a file" in lines[-1]


def test_a_report_goes_into_the_directory_one_is_in_and_not_around_it(
    cli: Callable[..., Result], refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "around" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    (line,) = refused("run", "cnn", "--on", "edu-4x4", "--values", "off", "--out", "..")
    assert "holds no report" in line
    assert list(here.iterdir()) == []
    assert cli("run", "gemm?M=1,N=1,K=1", "--on", "edu-4x4", "--values", "off", "--out", ".").exit_code == 0
    assert (here / "summary.json").is_file()
    assert here.samefile(".")


def test_an_empty_model_is_named_as_such(refused: Refused) -> None:
    (line,) = refused("run", "", "--on", "edu-4x4")
    assert line.startswith("error: no model ''; expected a file, or a name such as ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "cnn", "--on", "edu-4x4", "--batch", "9" * 30), "batch 9{30}; expected 1 to 2,147,483,647"),
        (("run", "gemm?M=" + "9" * 30, "--on", "edu-4x4"), "M=9{30}; expected 1 to 2,147,483,647"),
        (("run", "cnn", "--on", "edu-4x4", "--percentile", "nan"), "'--percentile': nan is not a number"),
        (("accuracy", "digits-mlp", "--on", "", "--dtypes", "int8"), "--on: no chip; expected at least one"),
        (("export-trace", "", "--format", "dramsim3"), "no trace ''; expected a file, or one of seq_read"),
        (("noc", "mesh-4x4", "--load", "0.1", "--clocks", "9" * 30), "'--clocks': 9{30} is not in the range"),
    ],
)
def test_sizes_and_numbers_that_cannot_be(refused: Refused, words: tuple[str, ...], told: str) -> None:
    assert re.search(told, "\n".join(refused(*words)))


@pytest.mark.parametrize("words", [("compare", "NAME", "NAME"), ("rerun", "NAME"), ("run", "NAME", "--on", "tpu-v1"),
                                   ("run", "cnn", "--on", "NAME"), ("dram", "compare", "NAME")])  # fmt: skip
def test_a_name_too_long_for_a_file_is_the_name_of_none(
    refused: Refused, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Also where an existing file is to be replaced, which is compared with all inputs."""
    target = tmp_path / "table.csv"
    target.write_text("kept")
    option = [] if words[0] == "rerun" else ["--csv", target]
    refused(*("x" * 5000 if word == "NAME" else word for word in words), *option)
    assert target.read_text() == "kept"
