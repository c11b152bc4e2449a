"""Asks a student's file, which runs in a process of its own, and turns whatever goes wrong there into one ``Wrong``."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import accelsim
from accelsim.errors import nearest
from accelsim.files.scratch import Scratch
from accelsim.lessons.base import Wrong
from accelsim.lessons.sandbox.child import PRINTED
from accelsim.lessons.sandbox.codec import decode, encode
from accelsim.lessons.sandbox.guard import FILE_B, MEMORY_B

SECONDS = 20.0
"""Time that all answers of a student's file may take together."""
MOST_LINE_B = 64 << 20
"""Length of an answer."""
SHOWN = 2000
"""Characters of what it printed that are kept."""
SLOW = "an answer in time: the loop that does not end, or the work that grows too fast, is in this function"
MEMORY = f"arrays that fit into {MEMORY_B >> 20} MiB"


class Student:
    """A file in its sandbox: a copy in a folder that is removed at the end. Use as a context."""

    def __init__(self, file: Path, seconds: float = SECONDS) -> None:
        self.file, self.left = file, seconds
        self._scratch = Scratch(file)
        self._folder = self._scratch.folder
        self._lines: queue.Queue[bytes] = queue.Queue()
        command = [
            sys.executable,
            "-m",
            "accelsim.lessons.sandbox.child",
            str(self._folder),
            file.name,
            str(seconds),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=_environment(self._folder), cwd=self._folder, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Student:
        try:
            self._answer("reading the file")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._scratch.remove()

    def __call__(self, name: str, *args: Any) -> Any:
        """What a function of the file returns for these arguments. Raises Wrong."""
        return self._asked(name, {"name": name, "args": list(args)})

    def value(self, name: str) -> Any:
        """What the file says of a name. Raises Wrong."""
        return self._asked(name, {"name": name})

    @property
    def printed(self) -> str:
        """The beginning of what it printed so far."""
        try:
            with (self._folder / PRINTED).open("rb") as file:
                return file.read(SHOWN).decode("utf-8", "replace")
        except OSError:
            return ""

    def _asked(self, name: str, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(encode(question).encode("ascii") + b"\n")
            self._process.stdin.flush()
        return self._answer(name)

    def _answer(self, name: str) -> Any:
        begun = time.monotonic()
        try:
            line = self._lines.get(timeout=max(0.0, self.left))
        except queue.Empty:
            raise Wrong(f"{self.file.name}, {name}", "an answer", "none in time", SLOW) from None
        self.left -= time.monotonic() - begun
        try:
            answer = decode(line.decode("ascii"))
            ((kind, value),) = ((key, value) for key, value in answer.items() if key != "kind")
        except (ValueError, AttributeError, UnicodeDecodeError):
            raise self._ended(name) from None
        if kind == "ok":
            return value
        raise _WRONG[kind](self.file.name, name, value, answer)

    def _ended(self, name: str) -> Wrong:
        """The process is gone: why, as far as its exit code tells."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        number = -(self._process.returncode or 0)
        if number in (9, 24):
            return Wrong(f"{self.file.name}, {name}", "an answer", "none in time", SLOW)
        what = f"its process ended{f' by signal {number}' if number > 0 else ''}"
        rule = (
            f"a lesson's code returns, and does not end Python; {MEMORY}, files of up to {FILE_B >> 20} MiB"
        )
        return Wrong(f"{self.file.name}, {name}", "an answer", what, rule)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._process.stdout.readline(MOST_LINE_B):
                self._lines.put(line)
        self._lines.put(b"")


def _environment(folder: Path) -> dict[str, str]:
    """What its process needs to find Python and this package, one thread, no home of the user."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    package = str(Path(accelsim.__file__).parents[1])
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **kept, **one, "PYTHONPATH": package, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder), "TMPDIR": str(folder), "MPLCONFIGDIR": str(folder),
    }  # fmt: skip


def _raised(file: str, name: str, value: Any, answer: Any) -> Wrong:
    """It raised, or cannot be read: the line that did."""
    line, source, text = value["line"], value["source"].strip(), value["text"]
    where = f"{file}:{line}" if line else f"{file}, {name}"
    if text.startswith("MemoryError"):
        return Wrong(where, MEMORY, text, "what is too large to keep is computed piece by piece")
    if text.startswith("Refused"):
        return Wrong(
            where, "code that computes and returns", text, "a lesson's code writes into its own folder only"
        )
    return Wrong(
        where, "no error", f"{text}{f' in: {source}' if source else ''}", f"{name} has to run to its end"
    )


def _missing(file: str, name: str, value: Any, answer: Any) -> Wrong:
    """There is no such name, or it is no function."""
    if "kind" in answer:
        return Wrong(
            f"{file}, {name}",
            "a function",
            f"{name} is of type {answer['kind']}",
            "keep 'def' in front of it",
        )
    near = nearest(name, value)
    got = f"no {name}" + (f", but {near}" if near else "")
    return Wrong(f"{file}", f"a definition of {name}", got, "names of the start file stay as they are")


def _unsendable(file: str, name: str, value: Any, answer: Any) -> Wrong:
    """It is of a type that no lesson asks for."""
    return Wrong(
        f"{file}, {name}", "numbers, texts, lists, tuples, dicts or arrays", str(value), "return such a value"
    )


_WRONG = {"error": _raised, "missing": _missing, "unsendable": _unsendable}
