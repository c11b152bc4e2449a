"""Asks a student's file, which runs in a process of its own; whatever goes wrong there becomes one ``Wrong``."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from accelsim.files.targets import scratch_folder
from accelsim.lessons.base import Wrong, clean
from accelsim.lessons.sandbox.child import MEMORY, MOST_B, decode, encode
from accelsim.lessons.sandbox.process import FILE_B, kill, start

SECONDS = 20.0
"""Time that all answers of a student's file may take together."""
START_S = 60.0
"""Time that its process may take to start."""
SHOWN_B = 2000
"""Bytes of what it printed that are kept."""
SLOW = "an answer in time: the loop that does not end, or the work that grows too fast, is in this function"


class NotStarted(RuntimeError):
    """The process of a student's file did not start; no fault of the student."""


class Student:
    """A student's file in its process; a context. ``file``: its name; ``left``: seconds that it may still use."""

    def __init__(self, file: str, source: str, seconds: float = SECONDS, isolated: bool = False) -> None:
        self.file, self.source, self.left, self.isolated = file, source, seconds, isolated
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=3)
        self._printed = b""

    def __enter__(self) -> Student:
        with ExitStack() as stack:
            folder = Path("/" if self.isolated else stack.enter_context(scratch_folder()))
            self._process = start(self.left, self.isolated, folder)
            stack.callback(self._end)
            self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._drain)]
            for thread in self._threads:
                thread.start()
            self._wait_for_start()
            self._write((self.file, self.source))
            self._answer("reading the file")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, name: str, *args: object) -> object:
        """Return what a function of the file returns for these arguments. Raises Wrong."""
        self._write({"name": name, "args": list(args)})
        return self._answer(name)

    def value(self, name: str) -> object:
        """Return what the file says of a name. Raises Wrong."""
        self._write({"name": name})
        return self._answer(name)

    def _wait_for_start(self) -> None:
        seconds, self.left = self.left, START_S
        try:
            self._answer("starting")
        except Wrong:
            self._end()
            said = self.printed.strip().splitlines()
            raise NotStarted(said[-1] if said else "its process did not start") from None
        self.left = seconds

    @property
    def printed(self) -> str:
        """The beginning of what it printed; complete when its process has ended."""
        return self._printed.decode("utf-8", "replace")

    def _write(self, question: object) -> None:
        """Send a question; a process that does not read it is ended when its time is over."""
        assert self._process.stdin is not None
        timer = threading.Timer(max(0.0, self.left), self._process.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(encode(question).encode("ascii") + b"\n")
                self._process.stdin.flush()
        finally:
            timer.cancel()

    def _next(self, name: str) -> Any:
        """Return the next line that the process sent, as a value; None for what is no value or no line at all."""
        begun = time.monotonic()
        try:
            line = self._lines.get(timeout=max(0.0, self.left))
            return decode(line)
        except queue.Empty:
            raise Wrong(f"{self.file}, {name}", "an answer", "none in time", SLOW) from None
        except ValueError:
            return None
        finally:
            self.left -= time.monotonic() - begun

    def _answer(self, name: str) -> object:
        answer = self._next(name)
        try:
            ((kind, value),) = answer.items()
            if kind == "ok":
                return value
            where, expected, got, rule = (clean(str(each)) for each in answer["wrong"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._ended(name) from None
        raise Wrong(self.file + where, expected, got, rule)

    def _ended(self, name: str) -> Wrong:
        """Return why there is no answer, as far as the exit code of the process tells."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.3)
        code = self._process.returncode
        self._end()
        number = 0 if code is None else -code if code < 0 else code - 128
        if number in (9, 24):
            return Wrong(f"{self.file}, {name}", "an answer", "none in time", SLOW)
        what = f"its process ended{f' by signal {number}' if number > 0 else ''}"
        rule = f"a lesson's code returns, and does not end Python; {MEMORY}, files of up to {FILE_B >> 20} MiB"
        return Wrong(f"{self.file}, {name}", "an answer", "no answer" if code is None else what, rule)

    def _end(self) -> None:
        """End the process, and what reads from it."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            kill(self._process)
            with suppress(OSError):
                self._process.stdin.close()
            for thread in self._threads:
                thread.join(1)  # a process that left the group may hold its pipe

    def _read(self) -> None:
        """Keep the lines that it sends; who sends more than one for a question is read no further."""
        assert self._process.stdout is not None
        with self._process.stdout as lines, suppress(OSError, ValueError, queue.Full):
            while line := lines.readline(MOST_B + 2):
                self._lines.put_nowait(line)
            self._lines.put_nowait(b"")

    def _drain(self) -> None:
        """Keep the beginning of what is printed, and read the rest, so that printing never waits."""
        assert self._process.stderr is not None
        with self._process.stderr as printed, suppress(OSError, ValueError):
            while chunk := os.read(printed.fileno(), 1 << 16):
                self._printed += chunk[: SHOWN_B - len(self._printed)]


def why_not_isolated() -> str:
    """Return why no file can be isolated on this machine, in words; '' where it can."""
    if not shutil.which("bwrap"):
        return "bwrap is not installed"
    try:
        with Student("probe.py", "", isolated=True):
            return ""
    except (NotStarted, Wrong, OSError) as error:
        return f"bwrap does not work here ({error})"
