"""Asks a student's file, which runs in a process of its own; whatever goes wrong there becomes one ``Wrong``."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from accelsim.errors import nearest
from accelsim.files.writing import scratch_folder
from accelsim.lessons.base import Wrong
from accelsim.lessons.sandbox.child import MOST_B, MOST_NAMES, decode, encode
from accelsim.lessons.sandbox.process import FILE_B, MEMORY_B, has_bwrap, kill, start

SECONDS = 20.0
"""Time that all answers of a student's file may take together."""
START_S = 60.0
"""Time that its process may take to start."""
SHOWN_B = 2000
"""Bytes of what it printed that are kept."""
SLOW = "an answer in time: the loop that does not end, or the work that grows too fast, is in this function"
MEMORY = f"arrays that fit into {MEMORY_B >> 20} MiB"


class NotStarted(RuntimeError):
    """The process of a student's file did not start; no fault of the student."""


class Student:
    """A student's file in its process; a context. ``file``: its name; ``left``: seconds that it may still use."""

    def __init__(self, file: str, source: str, seconds: float = SECONDS, isolated: bool = False) -> None:
        self.file, self.source, self.left, self.isolated = file, source, seconds, isolated
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=2)
        self._printed, self._ended_already = b"", False

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

    def __call__(self, name: str, *args: Any) -> Any:
        """Return what a function of the file returns for these arguments. Raises Wrong."""
        self._write({"name": name, "args": list(args)})
        return self._answer(name)

    def value(self, name: str) -> Any:
        """Return what the file says of a name. Raises Wrong."""
        self._write({"name": name})
        return self._answer(name)

    def _wait_for_start(self) -> None:
        seconds, self.left = self.left, START_S
        try:
            started = self._next("starting") == {"ok": None}
        except Wrong:
            started = False
        if not started:
            self._end()
            said = self.printed.strip().splitlines()
            raise NotStarted(said[-1] if said else "its process did not start")
        self.left = seconds

    @property
    def printed(self) -> str:
        """The beginning of what it printed; complete when its process has ended."""
        return self._printed.decode("utf-8", "replace")

    def _write(self, question: Any) -> None:
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

    def _answer(self, name: str) -> Any:
        answer = self._next(name)
        try:
            ((kind, value),) = answer.items()
            if kind == "ok":
                return value
            wrong = _WRONG[kind](self.file, name, value)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            raise self._ended(name) from None
        raise wrong

    def _ended(self, name: str) -> Wrong:
        """Return why there is no answer, as far as the exit code of the process tells."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.3)
        code = self._process.returncode
        self._end()
        number = 0 if code is None else -code if code < 0 else code - 128
        if number in (9, 24):
            return Wrong(f"{self.file}, {name}", "an answer", "none in time", SLOW)
        what = (
            f"its process ended{f' by signal {number}' if number > 0 else ''}"
            if code is not None
            else "no answer"
        )
        rule = (
            f"a lesson's code returns, and does not end Python; {MEMORY}, files of up to {FILE_B >> 20} MiB"
        )
        return Wrong(f"{self.file}, {name}", "an answer", what, rule)

    def _end(self) -> None:
        """End the process, and what reads from it."""
        if self._ended_already:
            return
        self._ended_already = True
        kill(self._process)
        for thread in self._threads:
            for _ in range(20):
                with suppress(queue.Empty):
                    self._lines.get_nowait()
                thread.join(0.05)
                if not thread.is_alive():
                    break
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                if pipe is not None and not any(thread.is_alive() for thread in self._threads):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            while line := self._process.stdout.readline(MOST_B + 2):
                self._lines.put(line)
        self._lines.put(b"")

    def _drain(self) -> None:
        """Keep the beginning of what is printed, and read the rest, so that printing never waits."""
        assert self._process.stderr is not None
        with suppress(OSError, ValueError):
            while chunk := os.read(self._process.stderr.fileno(), 1 << 16):
                self._printed += chunk[: SHOWN_B - len(self._printed)]


def why_not_isolated() -> str:
    """Return why no file can be isolated on this machine, in words; '' where it can."""
    if not has_bwrap():
        return "bwrap is not installed"
    try:
        with Student("probe.py", "", isolated=True):
            return ""
    except (NotStarted, Wrong, OSError) as error:
        return f"bwrap does not work here ({error})"


def _raised(file: str, name: str, value: Any) -> Wrong:
    """Return that it raised, or cannot be read: the line that did."""
    line, source, text = int(value["line"]), str(value["source"]).strip(), str(value["text"])
    where = f"{file}:{line}" if line else f"{file}, {name}"
    if text.startswith("MemoryError"):
        return Wrong(where, MEMORY, text, "what is too large to keep is computed piece by piece")
    return Wrong(
        where, "no error", f"{text}{f' in: {source}' if source else ''}", f"{name} has to run to its end"
    )


def _missing(file: str, name: str, value: Any) -> Wrong:
    """Return that there is no such name."""
    near = nearest(name, [str(each)[:100] for each in value[:MOST_NAMES]])
    got = f"no {name}" + (f", but {near}" if near else "")
    return Wrong(file, f"a definition of {name}", got, "names of the start file stay as they are")


def _no_function(file: str, name: str, value: Any) -> Wrong:
    """Return that the name is no function."""
    return Wrong(f"{file}, {name}", "a function", f"{name} is of type {value}", "keep 'def' in front of it")


def _unsendable(file: str, name: str, value: Any) -> Wrong:
    """Return that the value is of a type or size that no lesson asks for."""
    return Wrong(
        f"{file}, {name}", "numbers, texts, lists, tuples, dicts or arrays", str(value), "return such a value"
    )


_WRONG = {"error": _raised, "missing": _missing, "no function": _no_function, "unsendable": _unsendable}
