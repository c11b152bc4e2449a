"""One file: whole or not at all, links followed, devices and pipes written to, nothing left beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from accelsim import files
from accelsim.errors import UsageError
from accelsim.files import writing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"

    def broken(file: IO[bytes]) -> None:
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.write_file(target, broken)
    assert names(tmp_path) == []
    assert files.write_file(target, files.text(["one\n", "two\n"])) == target
    with pytest.raises(RuntimeError):
        files.write_file(target, broken)
    assert target.read_bytes() == b"one\ntwo\n"
    assert names(tmp_path) == ["a.txt"]


def test_makers_of_tables(tmp_path: Path) -> None:
    files.write_file(tmp_path / "t.csv", files.table(["a", "b"], [[1, 'x,"y'], ["ä", None]]))
    assert (tmp_path / "t.csv").read_text("utf-8") == 'a,b\n1,"x,""y"\nä,\n'
    files.write_file(tmp_path / "r.csv", files.records([{"a": 1}, {"a": 2.5, "b": None}, {"b": 3}]))
    assert (tmp_path / "r.csv").read_text() == "a,b\n1,\n2.5,\n,3\n"


def test_the_mode_of_the_predecessor_stays_and_a_new_file_has_that_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        new = files.write_file(tmp_path / "new", files.text("x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    new.chmod(0o604)
    files.write_file(new, files.text("y"))
    assert (stat.S_IMODE(new.stat().st_mode), new.read_text()) == (0o604, "y")


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_text("old")
    (tmp_path / "link").symlink_to("deep/real")
    (tmp_path / "again").symlink_to("link")
    (tmp_path / "dangling").symlink_to("deep/new")
    files.write_file(tmp_path / "again", files.text("new"))
    files.write_file(tmp_path / "dangling", files.text("made"))
    assert (tmp_path / "deep" / "real").read_text() == "new"
    assert (tmp_path / "deep" / "new").read_text() == "made"
    assert all((tmp_path / name).is_symlink() for name in ("link", "again", "dangling"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="loop: cannot be written: Too many levels"):
        files.write_file(tmp_path / "loop", files.text("x"))
    (tmp_path / "nowhere").symlink_to("no/such/place")
    with pytest.raises(UsageError, match="nowhere: its directory does not exist"):
        files.write_file(tmp_path / "nowhere", files.text("x"))


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_devices_are_written_to_and_stay_devices(device: str) -> None:
    target = Path(device)
    if device == "/dev/full":
        with pytest.raises(UsageError, match="/dev/full: cannot be written: No space left"):
            files.write_file(target, files.text("x"))
    else:
        files.write_file(target, files.text("x"))
    assert stat.S_ISCHR(target.stat().st_mode)


def test_a_pipe_is_written_to_or_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="nobody reads from this pipe"):
        files.write_file(pipe, files.text("x"))
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    while True:  # the reader has it open a moment later
        try:
            files.write_file(pipe, files.text("y" * 200_000))
            break
        except UsageError:
            continue
    reader.join()
    assert found == [b"y" * 200_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


WRITER = "import sys; from accelsim import files; print('first', flush=True); files.write_file(sys.argv[1], files.text('second\\n'))"


def test_stdout_is_written_to_wherever_it_goes(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER + "; print('third')"]
    piped = subprocess.run([*words, "/dev/stdout"], capture_output=True, check=True, text=True)
    assert piped.stdout == "first\nsecond\nthird\n"
    for target in ("/dev/stdout", str(tmp_path / "out")):
        with (tmp_path / "out").open("wb") as out:
            subprocess.run([*words, target], stdout=out, check=True)
        assert (tmp_path / "out").read_text() == "first\nsecond\nthird\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (".", "is a directory; expected a file"), ("no/file", "its directory does not exist"),
        ("taken/file", "its directory does not exist"), ("x" * 300, "cannot be written: File name too long"),
        ("nul\0byte", "cannot be written: embedded null byte"), ("socket", "is a socket; expected a file"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_file_is_refused_before_and_while_writing(tmp_path: Path, name: str, told: str) -> None:
    import socket

    (tmp_path / "taken").write_text("precious")
    with socket.socket(socket.AF_UNIX) as served:
        here = Path.cwd()
        os.chdir(tmp_path)
        served.bind("socket")
        os.chdir(here)
    for refuse in (files.check_file, lambda path: files.write_file(path, files.text("x"))):
        with pytest.raises(UsageError, match=told):
            refuse(tmp_path / name)
    assert names(tmp_path) == ["socket", "taken"]


def test_block_devices_are_refused(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(240, 9))
    except OSError:
        pytest.skip("no right to make a device")
    with pytest.raises(UsageError, match="is a block device"):
        files.check_file(tmp_path / "disk")


def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a file that is mounted into a container."""
    target = tmp_path / "mounted"
    target.write_text("a longer text than the new one")

    def busy(self: Path, other: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    files.write_file(target, files.text("new"))
    assert target.read_text() == "new"
    assert names(tmp_path) == ["mounted"]
    with pytest.raises(UsageError, match="Device or resource busy"):
        files.write_file(tmp_path / "other", files.text("new"))
    assert names(tmp_path) == ["mounted"]


def test_checking_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    before = (tmp_path / "old").stat()
    files.check_file(tmp_path / "old")
    files.check_file(tmp_path / "new")
    files.check_folder(tmp_path / "deep" / "folder", ["a"])
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").stat() == before


def test_a_leftover_of_a_killed_process_goes_and_files_of_others_stay(tmp_path: Path) -> None:
    left = writing.beside(tmp_path / "a")
    left.write_text("left by a kill, longer than the new file")
    (tmp_path / ".accelsim-notes").write_text("a user's own file")
    files.write_file(tmp_path / "a", files.text("x"))
    assert (tmp_path / "a").read_text() == "x"
    assert names(tmp_path) == [".accelsim-notes", "a"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_at_the_temporary_name_is_never_written_to(tmp_path: Path, kind: str) -> None:
    (tmp_path / "precious").write_text("kept")
    left = writing.beside(tmp_path / "a")
    if kind == "link":
        left.symlink_to("precious")
    elif kind == "pipe":
        os.mkfifo(left)
    else:
        left.mkdir()
        (left / "a").symlink_to(tmp_path / "precious")
    files.write_file(tmp_path / "a", files.text("x"))
    assert (tmp_path / "precious").read_text() == "kept" and names(tmp_path) == ["a", "precious"]
    assert not (tmp_path / "a").is_symlink()


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    made, waited = threading.Event(), threading.Event()

    def slow(file: IO[bytes]) -> None:
        file.write(b"first, ")
        made.set()
        waited.wait(0.2)
        file.write(b"whole")

    first = threading.Thread(target=files.write_file, args=(tmp_path / "a", slow))
    first.start()
    made.wait()
    files.write_file(
        tmp_path / "a", lambda file: (waited.set(), file.write((tmp_path / "a").read_bytes() + b"; second"))
    )
    first.join()
    assert (tmp_path / "a").read_text() == "first, whole; second" and names(tmp_path) == ["a"]


@pytest.mark.parametrize(("owner", "name"), [(fcntl, "flock"), (Path, "mkdir"), (Path, "touch")])
def test_an_interrupt_amid_the_beginning_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    plain, calls = getattr(owner, name), []

    def interrupted(*args: object, **named: object) -> object:
        done = plain(*args, **named)
        calls.append(done)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_file(tmp_path / "a", files.text("x"))
    assert calls and names(tmp_path) == []


def test_rows_are_in_the_file_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "rows.csv"
    target.write_text("old")
    files.forget()
    with files.write_rows(target, ["a", "b"]) as add:
        assert target.read_text() == "a,b\n" and files.written() == [target]
        add([1, 'x,"y'])
        assert target.read_text() == 'a,b\n1,"x,""y"\n'
    with pytest.raises(UsageError, match="/dev/full: cannot be written: No space left"):  # noqa: SIM117
        with files.write_rows("/dev/full", ["a"]):
            pass
    with files.write_rows("/dev/stdout", ["a"]) as add:
        add(["b"])
    assert capfd.readouterr().out == "a\nb\n"
    with pytest.raises(UsageError, match="is a directory"), files.write_rows(tmp_path, ["a"]):
        pass


def test_what_was_written_is_known_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.forget()
    files.write_file(tmp_path / "a", files.text("x"))
    assert files.written() == [tmp_path / "a"]

    def interrupted(self: Path, other: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_file(tmp_path / "b", files.text("x"))
    assert files.written() == [tmp_path / "a"]
    assert names(tmp_path) == ["a"]
    files.forget()
    assert files.written() == []
