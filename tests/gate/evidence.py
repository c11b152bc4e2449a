"""``make evidence``: everything that is slow and rarely breaks, step by step; a run that was stopped goes on where it was.

What became of each step is kept in ``.evidence.json``, with a hash of the sources and the commit, and written as a table to
``reports/evidence.md``. A step that passed with the sources as they are is not run again. When all tests ran with the
same sources, what they cost is written to ``tests/costs.txt``.
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
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gate.costs import LIST, TESTS, Costs
from tests.gate.tiers import SHARDS, limit, measured, turn

ROOT = TESTS.parent
STATE = ROOT / ".evidence.json"
PAGE = ROOT / "reports" / "evidence.md"
PYTEST = ("pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider")
LEAST_COVERED, LEAST_KILLED = 95, 0.85
"""Per cent of lines, and share of planted faults."""
FUZZ_PARTS = 40
"""A step draws so small a part of the seeds of ``make fuzz``, others with every commit."""
SAMPLE = "1"
"""Seed of the planted faults. Those of seed 0 are the ones that missing tests were written for."""
PLANTED = "planted faults, part"
MADE = (PAGE, LIST)
"""Files that steps write: they are no sources."""


@dataclass(frozen=True)
class Done:
    """What became of a step: whether it passed, what it said, its CPU seconds, when it ended; of which sources and commit.

    ``told``: what a run of tests wrote to its result file.
    """

    passed: bool
    said: str
    cpu_s: int
    at: str
    sources: str = ""
    commit: str = ""
    told: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A part of the evidence: a command of ``python -m``, and how to read what it says from its output and result."""

    name: str
    command: tuple[str, ...]
    read: Callable[[str, dict[str, Any]], str]

    def run(self, now: str = "") -> Done:
        """Run the command, with its output on the screen. ``now``: the hash of the sources."""
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
            told = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        ended = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        return Done(passed, self.read("".join(lines), told), round(cpu_s), ended, now, commit(), told)


def steps() -> Iterator[Step]:
    """Yield all steps in order: core and ten shards of tests, ten of fuzzing, outside truth, coverage, ten of planted faults."""
    for tier in ("core", *(f"shard-{at}" for at in range(SHARDS))):
        tests = (*PYTEST, "--tier", tier, "--shuffle", "--result", "RESULT")
        yield Step(f"tests, {tier.replace('-', ' ')}", tests, _counts)
    for at in range(SHARDS):
        part = str(at + SHARDS * turn())
        yield Step(f"fuzz, part {at}", ("tests.fuzz", "all", "--part", part, "--parts", str(FUZZ_PARTS)), _last_line)
    yield Step("checks against the outside", ("accelsim", "validate"), _last_line)
    covered = (*PYTEST, "--tier", "core", "--cov", "--cov-report=term:skip-covered")
    yield Step("line coverage by the gate", (*covered, f"--cov-fail-under={LEAST_COVERED}"), _coverage)
    yield Step("planted faults, which test reaches which line", ("tests.mutants", "--only-measure"), _last_line)
    for at in range(SHARDS):
        planted = ("tests.mutants", "--seed", SAMPLE, "--part", str(at))
        yield Step(f"{PLANTED} {at}", planted, _killed)


def _counts(_: str, told: dict[str, Any]) -> str:
    if not told:
        return "did not end"
    return f"{told['passed']} passed, {told['failed']} failed, {told['skipped']} skipped; seed {told['seed']}"


def _last_line(output: str, _: dict[str, Any]) -> str:
    return output.strip().splitlines()[-1] if output.strip() else "nothing printed"


def _killed(output: str, _: dict[str, Any]) -> str:
    rows = re.findall(r"^(\w+) +(\d+) of +(\d+) killed", output, flags=re.M)
    return ", ".join(f"{name} {killed} of {planted}" for name, killed, planted in rows) + " killed"


def _coverage(output: str, _: dict[str, Any]) -> str:
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
        if ROOT / name not in MADE:
            made.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return made.hexdigest()[:16]


def commit() -> str:
    """Return the short name of the commit that is checked out."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def load() -> dict[str, Done]:
    """Return what became of the steps when they last ran, whatever the sources were."""
    kept = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    return {step.name: Done(**kept[step.name]) for step in steps() if step.name in kept}


def holds(row: Done | None, now: str) -> bool:
    """Return whether a step passed with these sources."""
    return row is not None and row.passed and row.sources == now


def save(done: dict[str, Done]) -> None:
    """Keep what was done, and write the table."""
    STATE.write_text(json.dumps({name: asdict(row) for name, row in done.items()}), encoding="utf-8")
    PAGE.write_text(page(done), encoding="utf-8")


def save_costs(done: dict[str, Done], now: str) -> None:
    """Write the list of costs where all tests ran with these sources.

    Tests of a module share what it remembers, and the first pays. A test that was too dear for the core and looks cheap among
    the others of its shard keeps its cost, or it would come and go with each evidence; ``pytest --costs`` changes it.
    """
    tests = [step.name for step in steps() if step.read is _counts]
    if all(holds(done.get(name), now) for name in tests):
        costs = Costs.read()
        found, kinds = measured([done[name].told for name in tests], costs)
        most = limit(costs)
        dear = {name: cost for name, cost in costs.functions.items() if cost > most > found.get(name, most)}
        costs.updated(found | dear, kinds).write()


def page(done: dict[str, Done]) -> str:
    """Return the table of ``reports/evidence.md``, steps in order, and the shares of planted faults that were killed."""
    lines = [
        "# Evidence", "",
        "What `make evidence` found. CPU seconds are those of the machine that ran it.", "",
        "| step | | said | CPU s | commit | ended (UTC) |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in done.items():
        passed = "passed" if row.passed else "**failed**"
        lines.append(f"| {name} | {passed} | {row.said.replace('|', '')} | {row.cpu_s} | {row.commit} | {row.at} |")
    killed = faults(done)
    if killed:
        lines += ["", f"Planted faults, of which {LEAST_KILLED:.0%} must be killed:", ""]
        lines += ["| package | killed | planted | share |", "|---|---|---|---|"]
        lines += [f"| {name} | {found} | {of} | {found / of:.0%} |" for name, (found, of) in killed.items()]
    return "\n".join(lines) + "\n"


def faults(done: dict[str, Done]) -> dict[str, tuple[int, int]]:
    """Return how many planted faults the tests killed of how many, by package and of ``all``."""
    sums: dict[str, tuple[int, int]] = {}
    for told in (row.said for step, row in done.items() if step.startswith(PLANTED)):
        for name, killed, planted in re.findall(r"(\w+) (\d+) of (\d+)", told):
            before = sums.get(name, (0, 0))
            sums[name] = before[0] + int(killed), before[1] + int(planted)
    return sums


def main() -> int:
    """Run what is left; return 1 if a step failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.evidence", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="only steps whose names contain this")
    parser.add_argument("--again", action="store_true", help="run steps again that passed")
    asked = parser.parse_args()
    now = sources()
    done, began = load(), time.monotonic()
    for step in steps():
        if asked.only in step.name and (asked.again or not holds(done.get(step.name), now)):
            print(f"== {step.name} ({time.monotonic() - began:.0f} s so far)", flush=True)
            done[step.name] = step.run(now)
            save({each.name: done[each.name] for each in steps() if each.name in done})
    save_costs(done, now)
    killed, planted = faults(done).get("all", (0, 0))
    return int(not all(row.passed for row in done.values()) or killed < LEAST_KILLED * planted)


if __name__ == "__main__":
    sys.exit(main())
