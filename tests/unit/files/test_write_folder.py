"""Files of a directory: all or none, nothing else in it is touched, and a kill leaves every file whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from accelsim import files
from accelsim.errors import UsageError

NAMES = ("b.txt", "a.csv", "plots/x.svg")


def makers(content: str) -> dict[str, files.Make]:
    return {name: files.text(f"{content} {name}") for name in NAMES}


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def of(content: str) -> dict[str, str]:
    return {name: f"{content} {name}" for name in NAMES}


def test_a_new_directory_and_a_second_writing(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    assert files.write_folder(out, makers("old")) == [out / name for name in NAMES]
    assert contents(tmp_path) == {f"deep/out/{name}": text for name, text in of("old").items()}
    (out / "plots" / "mine.svg").write_text("mine")
    (out / "notes").mkdir()
    files.write_folder(out, makers("new"))
    assert contents(tmp_path / "deep" / "out") == of("new") | {"plots/mine.svg": "mine"}
    assert (out / "notes").is_dir()


@pytest.mark.parametrize("existing", [False, True])
def test_when_one_file_cannot_be_made_nothing_changes(tmp_path: Path, existing: bool) -> None:
    out = tmp_path / "out"
    if existing:
        files.write_folder(out, makers("old"))
    before = contents(tmp_path)

    def full(file: IO[bytes]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="out: cannot be written: No space left"):
        files.write_folder(out, makers("new") | {"last": full})
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"] * existing


def test_a_link_to_a_directory_stays_and_links_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere").write_text("old")
    (tmp_path / "real" / "b.txt").symlink_to("../elsewhere")
    (tmp_path / "out").symlink_to("real")
    (tmp_path / "new").symlink_to("not/yet")
    files.write_folder(tmp_path / "out", makers("new"))
    files.write_folder(tmp_path / "new", makers("new"))
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "b.txt").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "new b.txt"
    assert contents(tmp_path / "not" / "yet") == of("new")


def test_what_is_in_the_way_is_told_before_anything_is_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / "a.csv")
    (out / "b.txt").symlink_to("nothing")
    (out / "plots").write_text("a file")
    os.mkfifo(out / "pipe of the user")
    (out / "link of the user").symlink_to("nothing")
    with pytest.raises(UsageError) as caught:
        files.check_folder(out, NAMES)
    assert [(problem.where.removeprefix(str(out)), problem.what) for problem in caught.value.problems] == [
        ("/b.txt", "is a link to nothing"), ("/a.csv", "is a pipe"), ("/plots", "is a file"),
    ]  # fmt: skip
    (out / "a.csv").unlink()
    (out / "b.txt").unlink()
    (out / "plots").unlink()
    files.write_folder(out, makers("new"))
    assert (out / "link of the user").is_symlink()


def test_a_directory_that_cannot_be_moved_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with one that is a mount point: it can neither be renamed nor be replaced."""
    out = tmp_path / "out"
    out.mkdir()
    inode = out.stat().st_ino
    files.write_folder(out, makers("new"))
    assert out.stat().st_ino == inode
    assert contents(out) == of("new")


KILLED = """
import os, signal, sys
from pathlib import Path
from accelsim import files
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
count, calls = int(sys.argv[2]), 0
def killing(name):
    plain = getattr(Path, name)
    def moved(self, other):
        global calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), getattr(signal, sys.argv[3]))
        return plain(self, other)
    setattr(Path, name, moved)
killing("rename"), killing("replace")
files.write_folder(sys.argv[1], {name: files.text("new " + name) for name in ("b.txt", "a.csv", "plots/x.svg")})
"""


@pytest.mark.parametrize("move", [1, 3])
def test_a_kill_between_two_moves_leaves_whole_files_and_the_next_writing_removes_what_was_left(
    tmp_path: Path, move: int
) -> None:
    out = tmp_path / "out"
    files.write_folder(out, makers("old"))
    (out / "plots" / "mine.svg").write_text("mine")
    done = subprocess.run([sys.executable, "-c", KILLED, out, str(move), "SIGKILL"])
    assert done.returncode == -signal.SIGKILL
    found = contents(out)
    new = [name for name in NAMES if found[name] == f"new {name}"]
    assert [found[name] for name in NAMES] == [f"{'new' if name in new else 'old'} {name}" for name in NAMES]
    assert len(new) == move - 1 and len(found) == 1 + len(NAMES) + len(NAMES) - len(new)
    files.write_folder(out, makers("newer"))
    assert contents(out) == of("newer") | {"plots/mine.svg": "mine"}


@pytest.mark.parametrize("move", [1, 3])
def test_an_interrupt_between_two_moves_leaves_the_new_files(tmp_path: Path, move: int) -> None:
    out = tmp_path / "out"
    files.write_folder(out, makers("old"))
    done = subprocess.run([sys.executable, "-c", KILLED, out, str(move), "SIGINT"], stderr=subprocess.DEVNULL)
    assert done.returncode != 0
    assert contents(out) == of("new")


@pytest.mark.parametrize("move", [1, 3])
def test_a_kill_while_a_new_directory_is_filled_leaves_what_the_next_run_may_replace(tmp_path: Path, move: int) -> None:
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, out, str(move), "SIGKILL"])
    assert done.returncode == -signal.SIGKILL
    found = {name: text for name, text in contents(out).items() if not name.startswith(".")}
    assert len(found) == move - 1 and found.items() <= of("new").items() and files.is_empty(out)
    files.write_folder(out, makers("new"))
    assert contents(tmp_path) == {f"out/{name}": text for name, text in of("new").items()}
    assert not files.is_empty(out)


def test_two_processes_into_one_directory_leave_the_files_of_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = "import sys; from accelsim import files\nfor turn in range(8): files.write_folder(sys.argv[1], {f'{n}.txt': files.text(sys.argv[2]) for n in range(8)})"
    racing = [subprocess.Popen([sys.executable, "-c", code, out, who]) for who in ("one", "two")]
    assert [each.wait() for each in racing] == [0, 0]
    assert len(set(contents(out).values())) == 1
    assert len(list(out.iterdir())) == 8
