"""Runs the cases of a fuzzer in a process of its own, with limits of time and memory, and tells what failed.

The process is started anew when a case ends it or does not end. A case passes when it returns, and when it raises an
``AccelsimError`` whose problems all say something; anything else fails: another exception, no memory left, no end.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .registry import FUZZERS, Fuzzer

ROOT = Path(__file__).parents[2]
GRACE_S = 5
"""What a case may take beyond its limit before its process is ended: code that hears no signal."""
START_S = 900
"""What a process may take until its first case is done, on top of the limit: imports."""


class OutOfTime(BaseException):
    """The time of a case is over; no ``except Exception`` holds it back."""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed. ``kind``: 'passed', 'refused' (an error of ours) or 'failed'; ``place`` is where."""

    seed: int
    kind: str
    place: str = ""
    text: str = ""
    seconds: float = 0.0


@dataclass
class Tally:
    """Outcomes of many seeds."""

    name: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> list[Outcome]:
        """The seeds that fail."""
        return [each for each in self.outcomes if each.kind == "failed"]

    def count(self, kind: str) -> int:
        """Return how many outcomes are of that kind."""
        return sum(each.kind == kind for each in self.outcomes)

    def report(self) -> str:
        """Counts, then each place that fails with one traceback and how to repeat it."""
        slowest = max(self.outcomes, key=lambda each: each.seconds, default=Outcome(0, "passed"))
        lines = [
            f"{self.name}: {len(self.outcomes)} seeds: {self.count('passed')} passed, {self.count('refused')} refused "
            f"with an error, {len(self.failed)} failed; the slowest took {slowest.seconds:.1f} s (seed {slowest.seed})"
        ]
        groups: dict[str, list[Outcome]] = defaultdict(list)
        for each in self.failed:
            groups[each.place].append(each)
        for place, group in sorted(groups.items(), key=lambda item: -len(item[1])):
            seeds = ", ".join(str(each.seed) for each in group[:8])
            lines += [f"\n{len(group)} x {place}: seeds {seeds}", group[0].text.rstrip(),
                      f"repeat: python -m tests.fuzz {self.name} --seeds {group[0].seed}"]  # fmt: skip
        return "\n".join(lines)


def draw(name: str, seeds: Iterable[int]) -> Tally:
    """Run these seeds of a fuzzer, one after the other, in one process."""
    return Tally(name, list(_outcomes(name, FUZZERS[name], list(seeds))))


def _outcomes(name: str, fuzzer: Fuzzer, seeds: list[int]) -> Iterator[Outcome]:
    worker: _Worker | None = None
    try:
        for seed in seeds:
            worker = worker or _Worker(name)
            outcome = worker.run(seed, fuzzer.limit_s)
            if not worker.alive:
                worker.end()
                worker = None
            yield outcome
    finally:
        if worker:
            worker.end()


class _Worker:
    """A process that takes seeds, one a line, and answers each with an outcome."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.fuzz", name, "--worker"]
        env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **env}, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._patience_s = START_S
        self.alive = True

    def run(self, seed: int, limit_s: int) -> Outcome:
        """The outcome of one seed; the process is no longer alive when the case ended it."""
        assert self._process.stdin and self._process.stdout
        begin = time.monotonic()
        self._process.stdin.write(f"{seed}\n")
        wait_s, self._patience_s = limit_s + GRACE_S + self._patience_s, 0
        ready, _, _ = select.select([self._process.stdout], [], [], wait_s)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return Outcome(**json.loads(line))
        self.alive = False
        spent_s = time.monotonic() - begin
        if not ready:
            return Outcome(seed, "failed", "no end", f"killed after {spent_s:.0f} s", spent_s)
        return Outcome(seed, "failed", "process died", f"exit code {self._process.wait()}", spent_s)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()


def serve(name: str) -> None:
    """The loop of a worker: seeds from stdin, outcomes to what was stdout, nothing else there."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    fuzzer = FUZZERS[name]
    case = fuzzer.ready()
    resource.setrlimit(resource.RLIMIT_AS, (fuzzer.limit_B, fuzzer.limit_B))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _out_of_time)
    warnings.simplefilter("error")
    for line in sys.stdin:
        answers.write(json.dumps(asdict(_outcome(case, int(line), fuzzer.limit_s))) + "\n")


def _out_of_time(*_: Any) -> None:
    raise OutOfTime


def _outcome(case: Any, seed: int, limit_s: int) -> Outcome:
    from accelsim.errors import AccelsimError

    begin = time.monotonic()
    kind, place, text = "passed", "", ""
    signal.alarm(limit_s)
    try:
        case(seed)
    except AccelsimError as error:
        told = error.problems and all(problem.what.strip() for problem in error.problems)
        kind, place = ("refused", "") if told else ("failed", "an error without a word")
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kind, place, text = "failed", _place(error), "".join(traceback.format_exception(error))[-6000:]
    finally:
        signal.alarm(0)
    return Outcome(seed, kind, place, text, time.monotonic() - begin)


def _place(error: BaseException) -> str:
    """The exception and the innermost line of accelsim on its way."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}accelsim{os.sep}" in frame.filename] or frames[-1:]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} at {where}"
