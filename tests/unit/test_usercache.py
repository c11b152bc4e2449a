"""Results in the user's cache: used while nothing that they depend on changes, and never in the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim import usercache
from accelsim.spec.yaml import where

Ask = Callable[[], object]


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, which is not there yet."""
    monkeypatch.delenv("ACCELSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "accelsim"


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    path = tmp_path / "source.yaml"
    path.write_text("a: 1\n")
    return path


@pytest.fixture(name="ask")
def _ask(source: Path) -> Ask:
    """Asks for the content of the source; the answer says how often it was computed."""
    times = []

    def make() -> list[object]:
        times.append(1)
        return [len(times), source.read_text(), (0.1, None)]

    return lambda: usercache.remembered("question", lambda: [source], make)


@pytest.mark.usefixtures("place")
def test_an_answer_is_computed_once_for_the_same_contents(ask: Ask, source: Path) -> None:
    assert ask() == ask() == [1, "a: 1\n", [0.1, None]]
    source.write_text("a: 2\n")
    assert ask() == ask() == [2, "a: 2\n", [0.1, None]]


def test_another_version_of_the_sources_asks_again(ask: Ask, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    monkeypatch.setattr(usercache, "_sources", lambda: "of tomorrow")
    assert ask() == [2, "a: 1\n", [0.1, None]]
    assert [path.name for path in place.iterdir()] == ["question.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"key": 1}', "\udcff", "[" * 100_000])
def test_a_broken_file_is_replaced(ask: Ask, place: Path, content: str) -> None:
    ask()
    (place / "question.json").write_bytes(content.encode(errors="surrogateescape"))
    assert ask() == [2, "a: 1\n", [0.1, None]]
    assert json.loads((place / "question.json").read_text())["result"] == [2, "a: 1\n", [0.1, None]]


def test_a_pipe_in_place_of_a_file_does_not_block(ask: Ask, place: Path) -> None:
    place.mkdir(parents=True)
    os.mkfifo(place / "question.json")
    assert ask() == [1, "a: 1\n", [0.1, None]]


def test_a_file_that_everybody_may_write_is_not_trusted(ask: Ask, place: Path) -> None:
    ask()
    (place / "question.json").chmod(0o666)
    assert ask() == [2, "a: 1\n", [0.1, None]]


def test_a_folder_that_cannot_be_is_no_error(ask: Ask, place: Path) -> None:
    place.parent.write_text("a file")
    assert [ask(), ask()] == [[1, "a: 1\n", [0.1, None]], [2, "a: 1\n", [0.1, None]]]


def test_off_means_off(ask: Ask, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELSIM_CACHE", "off")
    assert ask() != ask()
    assert not place.exists()


def test_a_list_follows_the_specs(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "chips").mkdir(parents=True)
    monkeypatch.setenv("ACCELSIM_HWSPECS", str(tmp_path / "mine"))
    monkeypatch.setattr(where, "READ", set())
    calls = []

    def ask(**rows: object) -> int:
        where.listing("chips", lambda: calls.append(1) or [rows])  # type: ignore[func-returns-value]
        return len(calls)

    assert [ask(problem=""), ask(problem="")] == [1, 1]
    (tmp_path / "mine" / "chips" / "new.yaml").write_text("name: new\n")
    assert [ask(problem="broken"), ask(problem="broken"), ask(), ask()] == [2, 3, 4, 4]


def test_a_list_of_specs_that_name_others_elsewhere_is_not_kept(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, "READ", {tmp_path / "elsewhere.yaml"})
    where.listing("chips", lambda: [{"name": "mine"}])
    assert not place.exists()


def test_a_table_keeps_the_newest_values_for_later_processes(place: Path) -> None:
    first, beside = usercache.Table("pairs", 3), usercache.Table("pairs", 3)
    for key in "abc":
        first.put(key, {"of": key})
    beside.put("d", 4)
    assert first.get("a") == {"of": "a"} and first.get("d") is None
    first.save()
    beside.save()
    later = usercache.Table("pairs", 3)
    assert [later.get(key) for key in "abcd"] == [None, {"of": "b"}, {"of": "c"}, 4]
    (place / "pairs.json").write_text("[]")
    assert usercache.Table("pairs", 3).get("b") is None
