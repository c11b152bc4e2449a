"""``make evidence``: everything that is slow and rarely breaks, step by step; a run that was stopped goes on where it was.

What passed is kept in ``.evidence.json`` for the sources as they are, and written as a table to ``reports/evidence.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.gate.costs import TESTS
from tests.gate.tiers import SHARDS, turn

ROOT = TESTS.parent
STATE = ROOT / ".evidence.json"
PAGE = ROOT / "reports" / "evidence.md"
PYTEST = ("pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider")
LEAST_COVERED, LEAST_KILLED = 95, 0.85
"""Per cent of lines, and share of planted faults."""
FUZZ_PARTS = 40
"""A step draws so small a part of the seeds of ``make fuzz``, others with every commit."""


@dataclass(frozen=True)
class Done:
    """What became of a step: whether it passed, what it said, its CPU seconds, when it ended."""

    passed: bool
    said: str
    cpu_s: int
    at: str


@dataclass(frozen=True)
class Step:
    """A part of the evidence: a command of ``python -m``, and how to read what it says from output and result file."""

    name: str
    command: tuple[str, ...]
    read: Callable[[str, Path], str]

    def run(self) -> Done:
        """Run the command, with its output on the screen."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            words = [word.replace("RESULT", str(result)) for word in self.command]
            command = [sys.executable, "-m", *words]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
                lines = [line for line in process.stdout or () if sys.stdout.write(line)]
            passed = process.returncode == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            said = self.read("".join(lines), result)
        return Done(passed, said, round(cpu_s), datetime.now(UTC).strftime("%Y-%m-%d %H:%M"))


def steps() -> Iterator[Step]:
    """Yield all steps in order: ten shards of tests, ten of fuzzing, outside truth, coverage, ten of planted faults."""
    for at in range(SHARDS):
        tests = (*PYTEST, "--tier", f"shard-{at}", "--shuffle", "--result", "RESULT")
        yield Step(f"tests, shard {at}", tests, _counts)
    for at in range(SHARDS):
        part = str(at + SHARDS * turn())
        yield Step(
            f"fuzz, part {at}", ("tests.fuzz", "all", "--part", part, "--parts", str(FUZZ_PARTS)), _last_line
        )
    yield Step("checks against the outside", ("accelsim", "validate"), _last_line)
    covered = (*PYTEST, "--tier", "core", "--cov", "--cov-report=term:skip-covered")
    yield Step("line coverage by the gate", (*covered, f"--cov-fail-under={LEAST_COVERED}"), _coverage)
    yield Step(
        "planted faults, which test reaches which line", ("tests.mutants", "--only-measure"), _last_line
    )
    for at in range(SHARDS):
        yield Step(f"planted faults, part {at}", ("tests.mutants", "--part", str(at)), _last_line)


def _counts(_: str, result: Path) -> str:
    if not result.exists():
        return "did not end"
    told = json.loads(result.read_text(encoding="utf-8"))
    return f"{told['passed']} passed, {told['failed']} failed, {told['skipped']} skipped; seed {told['seed']}"


def _last_line(output: str, _: Path) -> str:
    return output.strip().splitlines()[-1] if output.strip() else "nothing printed"


def _coverage(output: str, _: Path) -> str:
    found = re.search(r"^TOTAL.*?([\d.]+)%", output, flags=re.M)
    return f"{found[1]} % of lines" if found else "not measured"


def sources() -> str:
    """Return a hash of every file of the repository that git knows or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    made, files = hashlib.sha256(), sorted({name for name in listed if name and (ROOT / name).is_file()})
    for name in files:
        if ROOT / name != PAGE:
            made.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return made.hexdigest()[:16]


def load(now: str) -> dict[str, Done]:
    """Return the steps that passed for these sources."""
    if not STATE.exists():
        return {}
    kept = json.loads(STATE.read_text(encoding="utf-8"))
    found = {name: Done(**row) for name, row in kept["steps"].items()} if kept["sources"] == now else {}
    return {name: row for name, row in found.items() if row.passed}


def save(now: str, done: dict[str, Done]) -> None:
    """Keep what was done, and write the table."""
    rows = {name: asdict(row) for name, row in done.items()}
    STATE.write_text(json.dumps({"sources": now, "steps": rows}), encoding="utf-8")
    PAGE.write_text(page(done), encoding="utf-8")


def page(done: dict[str, Done]) -> str:
    """Return the table of ``reports/evidence.md``."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    lines = [
        "# Evidence", "",
        f"What `make evidence` found at commit {commit}. CPU seconds are those of the machine that ran it.", "",
        "| step | | said | CPU s | ended (UTC) |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in done.items():
        lines.append(
            f"| {name} | {'passed' if row.passed else '**failed**'} | {row.said.replace('|', '')} | {row.cpu_s} | {row.at} |"
        )
    killed, planted = faults(done)
    if planted:
        lines += [
            "",
            f"Planted faults: {killed} of {planted} killed, {killed / planted:.0%}; wanted {LEAST_KILLED:.0%}.",
        ]
    return "\n".join(lines) + "\n"


def faults(done: dict[str, Done]) -> tuple[int, int]:
    """Return how many planted faults the tests found, and how many were planted, over all parts."""
    found = [re.search(r"(\d+) of +(\d+) killed", row.said) for row in done.values()]
    pairs = [(int(each[1]), int(each[2])) for each in found if each is not None]
    return sum(killed for killed, _ in pairs), sum(planted for _, planted in pairs)


def main() -> int:
    """Run what is left; return 1 if a step failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gate.evidence", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", default="", help="only steps whose names contain this")
    parser.add_argument("--again", action="store_true", help="run steps again that passed")
    asked = parser.parse_args()
    now = sources()
    done, began = ({} if asked.again else load(now)), time.monotonic()
    for step in steps():
        if asked.only in step.name and step.name not in done:
            print(f"== {step.name} ({time.monotonic() - began:.0f} s so far)", flush=True)
            done[step.name] = step.run()
            save(now, done)
    killed, planted = faults(done)
    return int(not all(row.passed for row in done.values()) or killed < LEAST_KILLED * planted)


if __name__ == "__main__":
    sys.exit(main())
