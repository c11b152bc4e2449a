"""``accelsim formats`` and ``accelsim formats show``, on the module's own commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelsim.cli import Commands
from accelsim.cli.formats import formats
from accelsim.errors import AccelsimError
from accelsim.formats.table import FORMATS

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def call(*words: str) -> Result:
        return CliRunner(env={"COLUMNS": "100"}).invoke(formats, words, catch_exceptions=True)

    return call


def test_table_fits_and_names_every_format(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines[2 : 2 + len(FORMATS)]] == list(FORMATS)
    assert "fp8_e4m3fn       8      4+3         448" in result.stdout
    assert "65504" in result.stdout
    assert "saturate" in result.stdout
    chips = dict(line.split(None, 1) for line in lines if line.startswith("tpu-v1"))
    assert "int8" in chips["tpu-v1"].split(", ")


def test_json_of_the_table(run: Run) -> None:
    rows = json.loads(run("--json").stdout)
    assert [row["format"] for row in rows] == list(FORMATS)
    int8 = next(row for row in rows if row["format"] == "int8")
    assert "tpu-v1" in int8["chips"]
    assert (int8["max"], int8["bytes"]) == (127, 1)
    assert all(row["source"] and row["title"] for row in rows)


def test_broken_chips_are_named_not_fatal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "bad.yaml").write_text("kind: nonsense\n", encoding="utf-8")
    monkeypatch.setenv("ACCELSIM_HWSPECS", str(tmp_path))
    result = run()
    assert result.exit_code == 0
    assert "left out: bad" in result.stderr


def test_show(run: Run) -> None:
    text = run("show", "fp8_e4m3fn", "0.3").stdout
    for part in ("0x2A", "0 0101 010", "0.28125", "0.34375", "4.17 %", "at most 6.25 %"):
        assert part in text
    assert "at most 12.5 %" in run("show", "fp8", "0.3", "--rounding", "rz").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fp8", "-1000"), "overflow saturate"), (("fp8", "-1000", "--overflow", "nan"), "NaN"),
        (("fp16", "1e9"), "infinity"), (("fp16", "2^-24"), "subnormal"), (("int1", "-.5"), "sign"),
        (("fp16", "0x1.8p1"), "1 + 512/1024 = 1.5"), (("fp8", "-inf"), "-448"), (("fp4", "nan"), "zero"),
        (("e8m0", "3", "--rounding", "rz"), "2^1"), (("fp8_e5m2b20", "1"), "bias 20"),
    ],
)  # fmt: skip
def test_values_that_are_read(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run("show", *words)
    assert result.exit_code == 0, result.output
    assert said in result.stdout


def test_json_of_a_value_has_no_nan(run: Run) -> None:
    result = run("show", "fp16", "inf", "--json")
    what = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(name))
    assert (what["rounded"], what["kind"], what["below"]) == ("inf", "infinity", 65504)


def test_plot(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "fp8.png"
    result = run("show", "fp8", "0.3", "--plot", str(target))
    assert result.exit_code == 0
    assert target.read_bytes().startswith(b"\x89PNG")
    assert str(target) in result.stdout
    result = run("show", "fp8", "0.3", "--json", "--plot", str(tmp_path / "fp8.svg"))
    assert json.loads(result.stdout)["code"] == 0x2A


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fp9", "1"), "not a number format"), (("fp8", "abc"), "'abc' is no number"), (("fp8", "-2^0.5"), "is no number"),
        (("fp8", "9^999"), "is no number"), (("fp8", "1", "--rounding", "up"), "no rounding 'up'"),
        (("fp8", "1", "--overflow", "inf"), "saturate or nan"), (("mxfp4", "1"), "fp4_e2m1fn"),
        (("fp8", "1", "--plot", "x.pdf"), ".png or .svg"), (("fp8", "1", "--plot", "no/where/x.png"), "does not exist"),
    ],
)  # fmt: skip
def test_bad_input(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run("show", *words)
    assert isinstance(result.exception, AccelsimError)
    assert said in str(result.exception)
    assert result.stdout == ""


def test_bad_input_ends_with_code_2_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.cli.COMMANDS", {"formats": ("accelsim.cli.formats", "number formats")})
    result = CliRunner().invoke(Commands("accelsim"), ["formats", "show", "fp9", "1"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: 'fp9' is not a number format")
