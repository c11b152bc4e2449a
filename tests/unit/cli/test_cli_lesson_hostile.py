"""What a student's file may try: it gets a mark or a reason, its neighbours get theirs, nothing outside is changed."""

from __future__ import annotations

import csv
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template

import pytest
from click.testing import Result

from accelsim.lessons.registry import find
from accelsim.lessons.sandbox.student import why_not_isolated
from accelsim.lessons.work import filled, start

Cli = Callable[..., Result]
FIRST = find("1")
SECONDS = 3.0

ANSWERS = "\ndef counts(M, N, K):\n    {}\n"
HOSTILE = {
    # name: (what follows the solution of lesson 1, what 'where' or 'got' says; 'passed' where it does no harm)
    "huge number": ("MAC = 10**400", "a whole number of 1,329 bits"),
    "nan": ("MAC = float('nan')", "nan"),
    "infinity": ("def picojoules(M, N, K): return -1e999", "-inf"),
    "30 MB of text": ("MAC = 'x' * 30_000_000", "a text of 30,000,000 characters"),
    "list of 30 MB": ("MAC = [1.5] * 60_000", "more than 1 MiB"),
    "deep list": ("MAC = []\nfor _ in range(100_000): MAC = [MAC]", "too deep"),
    "own class": ("class X(float):\n    def __float__(self): raise SystemExit\nMAC = X(1)", "SystemExit"),
    "lone surrogate": ("MAC = '\\ud800'", r"\ud800"),
    "escape codes": ("MAC = '\\x1b[2J\\nstudent,passed'", r"\x1b[2J\nstudent,passed"),
    "formula": ("MAC = '=HYPERLINK(\"http://evil\")'", "=HYPERLINK"),
    "colliding keys": ("MAC = {k * (2**61 - 1): 0 for k in range(2_000)}", "{0: 0, 2305843009213693951: 0"),
    "many keys": ("MAC = {k: 0 for k in range(20_000)}", "a dict of 20,000 entries"),
    "recursion": (ANSWERS.format("return counts(M, N, K)"), "RecursionError"),
    "long recursion of syntax": ("MAC = " + "-" * 100_000 + "1", "Error"),
    "memory": (ANSWERS.format("return len(bytearray(8 << 30))"), "MemoryError"),
    "sleeper": (ANSWERS.format("import time\n    while True:\n        try: time.sleep(99)\n        except BaseException: pass"), "none in time"),
    "stopped": ("import os; os.kill(os.getpid(), 19)", "none in time"),
    "gone": ("import os; os._exit(0)", "its process ended"),
    "kill all": ("import os; os.kill(-1, 9)", ""),
    "exit": (ANSWERS.format("raise SystemExit('passed')"), "SystemExit: passed"),
    "closed pipes": ("import os\nfor n in range(64):\n    try: os.close(n)\n    except OSError: pass", "its process ended"),
    "garbage": ("import os\nfor n in range(64):\n    try: os.write(n, b'{\"passed\": true}\\n\\xff\\n')\n    except OSError: pass", "no answer"),
    "forged": ("import os\nfor n in range(3, 64):\n    try: os.write(n, b'{\"dict\":[[\"ok\",1e9]]}\\n' * 9)\n    except OSError: pass", ""),
    "flood": ("import os\ntry:\n    while True: os.write(4, b'{\"dict\":[[\"ok\",null]]}\\n' * 999)\nfinally: pass", ""),
    "line without end": ("import os\ntry:\n    while True: os.write(4, b'x' * 65536)\nfinally: pass", ""),
    "prints without end": (ANSWERS.format("print('x' * 10_000_000)\n    return 0, 0, 0"), "0"),
    "fork bomb": ("import os, time\nfor _ in range(500):\n    try:\n        if os.fork() == 0: time.sleep(99)\n    except OSError: break\nelse: MAC = 0", "passed"),
    "daemon": ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(99)\n    os._exit(0)", "passed"),
    "320 MiB": ("n = 0\ntry:\n    for n in range(20): open(str(n), 'wb').write(bytes(16 << 20))\nexcept OSError: pass\nif n > 4: MAC = n", "passed"),
    "one large file": ("try:\n    open('x', 'wb').write(bytes(17 << 20))\n    MAC = 0\nexcept OSError: pass", "passed"),
    "shared memory": ("try:\n    open('/dev/shm/x', 'wb').write(bytes(1 << 20))\n    MAC = 0\nexcept OSError: pass", "passed"),
    "FIFO": ("import os; os.mkfifo('printed.txt'); os.mkfifo('result.json')", "passed"),
    "dir_fd": ("import os; os.open('precious.txt', os.O_WRONLY | os.O_TRUNC, dir_fd=os.open('$folder', os.O_RDONLY))", "FileNotFoundError"),
    "remove": ("import shutil; shutil.rmtree('$folder')", "FileNotFoundError"),
    "neighbour": ("import pathlib; MAC = pathlib.Path('$neighbour').read_text()", "FileNotFoundError"),
    "chmod of libc": ("import ctypes\nif ctypes.CDLL(None).chmod('$target'.encode(), 0) == 0: MAC = 0", "passed"),
    "network": ("import socket; socket.create_connection(('127.0.0.1', $port), 1)", "ConnectionRefusedError"),
    "network of libc": ("import ctypes, struct\nlibc = ctypes.CDLL(None)\nlibc.connect(libc.socket(2, 1, 0), struct.pack('<H', 2) + struct.pack('>HI8x', $port, 0x7F000001), 16)", "passed"),
    "pidfd": ("import os, signal\nfor pid in (1, os.getppid(), $grader):\n    try: signal.pidfd_send_signal(os.pidfd_open(pid), 9)\n    except OSError: pass", "passed"),
    "limits": ("import resource\ntry:\n    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n    MAC = 0\nexcept (OSError, ValueError): pass", "passed"),
    "namespaces": ("import ctypes\nif ctypes.CDLL(None).unshare(0x10000000) == 0: MAC = 0", "passed"),
    "solution": ("import accelsim", "ModuleNotFoundError"),
    "patched": ("import json, builtins\njson.dumps = lambda *_, **__: '{{\"passed\": true}}'", "no answer"),
    "stdout": ("import sys; sys.stdout = sys.stderr = None", "passed"),
}  # fmt: skip
"""Names of hostile files."""


def _make(folder: Path, name: str, text: bytes) -> None:
    made = start(FIRST, folder / name, "Ada") / FIRST.file
    made.write_bytes(text)


def _odd_places(folder: Path, solution: bytes) -> dict[str, str]:
    """Things of another kind where a file should be -> what the row says."""

    def place(name: str) -> Path:
        (folder / name / FIRST.folder).mkdir(parents=True)
        return folder / name / FIRST.folder / FIRST.file

    os.mkfifo(place("a pipe"))
    place("a link").symlink_to(folder / "honest 0" / FIRST.folder / FIRST.file)
    place("a device").symlink_to("/dev/zero")
    place("a folder").mkdir()
    place("latin-1").write_bytes(b"# \xe9\n" + solution)
    place("NUL").write_bytes(solution + b"\0")
    place("large").write_bytes(solution + b"#" * 300_000)
    (folder / "linked").mkdir()
    (folder / "linked" / FIRST.folder).symlink_to(folder / "honest 0" / FIRST.folder)
    _make(folder, "=cmd|calc\nx", solution)
    link, irregular = ("could not be graded: {} is a link", "could not be graded: energy.py is not a regular file")
    return {
        "a pipe": irregular, "a link": link.format(FIRST.file), "a device": link.format(FIRST.file),
        "a folder": irregular, "latin-1": "can't decode", "NUL": "null bytes", "large": "more than 262,144 B",
        "linked": link.format(FIRST.folder), r"=cmd|calc\nx": "passed",
    }  # fmt: skip


@pytest.fixture
def isolation() -> None:
    """Skips where students' files cannot be isolated."""
    if why := why_not_isolated():
        pytest.skip(f"students' files cannot be isolated: {why}")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who must not be called."""
    with socket.create_server(("127.0.0.1", 0)) as served:
        served.setblocking(False)
        yield served


@pytest.mark.usefixtures("isolation")
def test_hostile_files_and_their_neighbours(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    monkeypatch.chdir(tmp_path)
    solution, begun = filled(FIRST, "solution.py.in", "Ada"), filled(FIRST, "start.py.in", "Ada")
    (tmp_path / "outside").mkdir()
    target = tmp_path / "outside" / "precious.txt"
    target.write_text("kept")
    names = {"folder": str(target.parent), "target": str(target), "port": listener.getsockname()[1],
             "grader": os.getpid(), "neighbour": str(tmp_path / "class" / "honest 0" / FIRST.folder / FIRST.file)}  # fmt: skip
    expected, homework = {}, tmp_path / "class"
    for number in range(24):
        _make(homework, f"honest {number}", (begun if number % 3 == 2 else solution).encode())
        expected[f"honest {number}"] = "None" if number % 3 == 2 else "passed"
    expected |= _odd_places(homework, solution.encode())
    for name, (text, said) in HOSTILE.items():
        _make(homework, name, f"{solution}\n{Template(text).substitute(names)}\n".encode())
        expected[name] = said
    before = _state(tmp_path)
    clock = time.monotonic()
    places = sorted(homework.iterdir())
    found = cli("lesson", "grade", *places, "--seconds", SECONDS, "--csv", "marks.csv")
    assert found.exit_code == 0, found.output
    assert time.monotonic() - clock < len(places) * (SECONDS + 4)
    with (tmp_path / "marks.csv").open(encoding="utf-8", newline="") as file:
        rows = {Path(row["folder"]).name: row for row in csv.DictReader(file)}
    assert rows.keys() == expected.keys()
    assert {name: row for name, row in rows.items() if not _as_expected(row, expected[name])} == {}
    assert all(max(map(len, row.values())) < 600 and "".join(row.values()).isprintable() for row in rows.values())
    assert rows["formula"]["got"].startswith("'=HYPERLINK")
    (tmp_path / "marks.csv").unlink()
    assert _state(tmp_path) == before
    with pytest.raises(BlockingIOError):
        listener.accept()
    while any(map(_is_student, Path("/proc").glob("[0-9]*"))):  # killed, and gone a moment later
        assert time.monotonic() - clock < len(places) * (SECONDS + 4)


def _state(folder: Path) -> dict[Path, tuple[int, ...]]:
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (one.st_mode, one.st_uid, one.st_size, one.st_mtime_ns) for path, one in found.items()}


def _as_expected(row: dict[str, str], said: str) -> bool:
    told = row["where"] + row["got"]
    return row["passed"] == str(said == "passed") and (said == "passed" or said in told)


def _is_student(process: Path) -> bool:
    """Return whether it is a process that this grader started for a student's file."""
    user = 64_000 + os.getpid() % 1000 if os.geteuid() == 0 else os.geteuid()
    try:
        return process.stat().st_uid == user and b"/lesson/child.py" in (process / "cmdline").read_bytes()
    except OSError:
        return False
