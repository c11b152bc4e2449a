"""``accelsim report``: pages of saved runs, made of their files alone; every kind of folder that is none."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import accelsim
from accelsim.report.page import saved
from tests.helpers.pictures import unpainted

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs."""
    base = tmp_path_factory.mktemp("runs")
    with unpainted():
        for name, more in (("plain", []), ("slow", ["clock=50 MHz"])):
            accelsim.run("mlp?hidden=16", "edu-4x4", values="off", set=more).report(base / name)
    return base


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A run that a test may damage."""
    shutil.copytree(made / "plain", tmp_path / "run")
    return tmp_path / "run"


def change(folder: Path, **more: Any) -> None:
    file = folder / "page.json.gz"
    data = json.loads(gzip.decompress(file.read_bytes())) | more
    file.write_bytes(gzip.compress(json.dumps(data).encode()))


def test_the_page_of_a_run_is_made_again_to_the_last_byte(cli: Cli, folder: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    done = cli("report", str(folder))
    assert done.exit_code == 0 and done.stdout == f"Written: {folder / 'report.html'}\n"
    assert (folder / "report.html").read_bytes() == before


def test_a_page_elsewhere_links_the_files_of_its_run(cli: Cli, folder: Path) -> None:
    target = folder.parent / "pages" / "one.html"
    target.parent.mkdir()
    assert cli("report", str(folder), "--out", str(target)).exit_code == 0
    assert 'href="../run/layers.csv"' in target.read_text()


def test_several_runs_are_compared(cli: Cli, made: Path, tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    assert cli("report", str(made / "plain"), str(made / "slow"), "--out", str(target)).exit_code == 0
    text = target.read_text()
    assert "2 runs side by side" in text and "clock=50 MHz against defaults" in text
    assert text.count('<article class="run"') == 2 and "Energy by category" in text
    again = tmp_path / "again.html"
    cli("report", str(made / "plain"), str(made / "slow"), "--out", str(again))
    assert again.read_bytes() == target.read_bytes()


def refused(done: Result) -> str:
    assert done.exit_code == 2 and "Traceback" not in done.output
    return done.stderr


def test_a_folder_that_is_no_run_is_refused_with_the_nearest(cli: Cli, folder: Path) -> None:
    told = refused(cli("report", str(folder.parent / "runn")))
    assert "has no readable summary.json" in told and f"did you mean '{folder}'?" in told
    told = refused(cli("report", str(folder / "report.html")))
    assert "is a file" in told and f"did you mean '{folder}'?" in told


def test_a_run_of_an_earlier_version_is_refused_with_how_to_make_it_again(cli: Cli, folder: Path) -> None:
    change(folder, version=0)
    told = refused(cli("report", str(folder)))
    assert "version 0" in told and f"accelsim rerun {folder} --out DIR" in told
    (folder / "page.json.gz").unlink()
    told = refused(cli("report", str(folder)))
    assert "an earlier version wrote this run" in told and "accelsim rerun" in told


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "its end is missing"),
        (b"no gzip", "is damaged"),
        (gzip.compress(b"{")[:-4], "is damaged"),
        (gzip.compress(b'{"format": '), "is damaged"),
        (gzip.compress(b"\xff\xfe"), "is damaged"),
        (gzip.compress(b"[" * 100_000), "is damaged"),
        (gzip.compress(b'{"a": NaN}'), "NaN is no JSON"),
        (gzip.compress(b"[]"), "is no accelsim page"),
        (gzip.compress(b'{"format": "accelsim page", "version": "1"}'), "is no accelsim page"),
        (gzip.compress(b'{"format": "accelsim page", "version": 2}'), "is damaged"),
    ],
    ids=[
        "empty", "no gzip", "cut off", "half of a key", "no text", "nested", "NaN", "a list", "version as a text",
        "nothing in it",
    ],
)  # fmt: skip
def test_damaged_data_are_refused(cli: Cli, folder: Path, content: bytes, what: str) -> None:
    (folder / "page.json.gz").write_bytes(content)
    told = refused(cli("report", str(folder)))
    assert what in told and str(folder / "page.json.gz") in told


@pytest.mark.parametrize("key", ["title", "sentences", "layers", "pictures", "first", "last", "plots"])
def test_every_part_that_is_read_must_be_of_its_type(cli: Cli, folder: Path, key: str) -> None:
    change(folder, **{key: 17})
    assert f"is damaged: {key}" in refused(cli("report", str(folder)))


def test_columns_of_other_lengths_are_refused(cli: Cli, folder: Path) -> None:
    layers = json.loads(gzip.decompress((folder / "page.json.gz").read_bytes()))["layers"]
    layers["names"].pop()
    change(folder, layers=layers)
    assert "not of one length" in refused(cli("report", str(folder)))


def test_data_that_unpack_to_too_much_are_refused(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MOST_B", 10_000)
    (folder / "page.json.gz").write_bytes(gzip.compress(b" " * 100_000))
    assert "unpacks to more than 10,000 B" in refused(cli("report", str(folder)))


def test_a_folder_twice_and_all_that_is_wrong_at_once(cli: Cli, folder: Path) -> None:
    told = refused(cli("report", str(folder), f"{folder.parent}/./run", str(folder.parent / "nothing")))
    assert "is given twice" in told and "nothing: has no readable summary.json" in told


def test_the_page_must_be_html_and_no_input(cli: Cli, folder: Path) -> None:
    assert "ends in '.txt'" in refused(cli("report", str(folder), "--out", "page.txt"))
    assert "ends in '.gz'" in refused(cli("report", str(folder), "--out", str(folder / "page.json.gz")))
