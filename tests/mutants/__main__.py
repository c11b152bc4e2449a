"""``python -m tests.mutants [PACKAGE ...]``: plant faults, run the tests that reach them, print what these find.

The sample is drawn by a seed, as many from each package. A mutant is killed when a test fails or hangs; one that survives is
printed with its line, before and after: either a test is missing, or the change makes no difference. Each mutant runs
in a process of its own into which the changed module is loaded; no file is touched.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.faults import Fault, count, fault
from tests.mutants.reached import ROOT, Reached, measure

PACKAGES = ("engines", "program", "machine", "account")
TESTS = (
    "tests/test_tiny.py", "tests/unit/engines", "tests/unit/machine", "tests/unit/account", "tests/unit/compiler",
    "tests/unit/validate", "tests/unit/dram", "tests/laws", "tests/unit/explore", "tests/unit/report", "tests/unit/cli",
    "tests/anchors", "tests/unit/spec", "tests/unit/mapping", "tests/unit/program", "tests/unit/kernels",
    "tests/unit/request", "tests/unit/cluster/step",
)  # fmt: skip
"""What is measured by default: the tests of these packages, and those of what stands on them."""
START_S = 20
"""CPU seconds that a process may take besides its tests: imports, collecting."""
PATIENCE = 5
"""A test that takes so many times its time hangs."""
SURVIVED = 0
OPTIONS = (
    "-x",
    "-q",
    "--tier",
    "picked",
    "-p",
    "no:cacheprovider",
    "--tb=no",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
"""Of pytest; what it would rewrite is loaded before it starts, and holds no assertion of ours."""
PARTS = 10
CONTROLS = 3
"""Sets of tests that are run on the sound program first: where these fail, nothing that follows means anything."""


@dataclass(frozen=True)
class Mutant:
    """One fault of a sample and the tests that must find it."""

    file: str
    number: int
    fault: Fault
    tests: tuple[str, ...]
    seconds: float

    @property
    def package(self) -> str:
        """The package of accelsim that it is in."""
        return Path(self.file).parts[1]

    def __str__(self) -> str:
        where = f"{self.file}:{self.fault.lines.start} ({self.fault.kind}, {self.number})"
        return f"{where}\n    - {self.fault.before}\n    + {self.fault.after}"


def sample(package: str, size: int, seed: int, reached: Reached, budget_s: float) -> Iterator[Mutant]:
    """Faults of a package: each possible one as likely as any other, none twice."""
    files = sorted((ROOT / "accelsim" / package).rglob("*.py"))
    places = [(path, at) for path in files for at in range(count(path.read_text(encoding="utf-8")))]
    for path, at in random.Random(f"{package} {seed}").sample(places, min(size, len(places))):
        yield mutant(str(path.relative_to(ROOT)), at, reached, budget_s)


def mutant(file: str, number: int, reached: Reached, budget_s: float) -> Mutant:
    """The fault of that number of a file, with its tests."""
    made = fault((ROOT / file).read_text(encoding="utf-8"), number)
    tests = tuple(reached.tests(file, made.lines, budget_s))
    return Mutant(file, number, made, tests, sum(reached.seconds[test] for test in tests))


def plant(file: str, made: Fault) -> None:
    """From here on, this process loads the changed module in place of the file."""
    loader: Any = importlib.machinery.SourceFileLoader
    get_code, path = loader.get_code, str(ROOT / file)

    def changed(self: Any, name: str) -> Any:
        return compile(made.tree, path, "exec") if self.path == path else get_code(self, name)

    loader.get_code = changed


def start(mutant: Mutant, planted: bool = True) -> int:
    """Fork a process that runs the tests of a mutant, or those of the sound program; its exit code is 0 if all pass."""
    process = os.fork()
    if process:
        return process
    limit = int(START_S + PATIENCE * mutant.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    code = 1
    try:
        if planted:
            plant(mutant.file, mutant.fault)
        code = int(pytest.main([*OPTIONS, *mutant.tests]))
    finally:
        os._exit(code)


def verdicts(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant with whether it was killed, as they are done; one that no test reaches survives."""
    waiting, running = list(mutants), dict[int, Mutant]()
    while waiting or running:
        while waiting and len(running) < jobs:
            if waiting[0].tests:
                running[start(waiting[0])] = waiting[0]
            else:
                yield waiting[0], False
            waiting.pop(0)
        if running:
            process, status = os.wait()
            yield running.pop(process), os.waitstatus_to_exitcode(status) != SURVIVED


def control(mutants: Sequence[Mutant]) -> None:
    """SystemExit where tests fail without a fault."""
    for each in [one for one in mutants if one.tests][:CONTROLS]:
        _, status = os.waitpid(start(each, planted=False), 0)
        if os.waitstatus_to_exitcode(status) != SURVIVED:
            raise SystemExit(f"tests of {each.file} fail without any fault: {' '.join(each.tests)}")


def warm() -> None:
    """Load what every test process needs and no fault is planted in, so that it is loaded once."""
    import hypothesis
    import matplotlib.figure
    import numba
    import onnx
    import onnxruntime
    import pydantic

    assert all((hypothesis, matplotlib, numba, onnx, onnxruntime, pydantic))


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("packages", nargs="*", help=f"of accelsim; default: {' '.join(PACKAGES)}")
    parser.add_argument("--count", type=int, default=40, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0, help="another one draws another sample")
    parser.add_argument("--budget", type=float, default=30.0, help="CPU seconds of tests for each mutant")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument(
        "--part", type=int, help=f"only every {PARTS}th of the sample, from this one on, 0 to {PARTS - 1}"
    )
    parser.add_argument("--only", nargs="*", metavar="FILE:NUMBER", help="these mutants again, as printed of survivors")
    parser.add_argument(
        "--map", type=Path, default=ROOT / ".mutants.json", help="where it is kept which test reaches what"
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure that anew (by default only where there is no file)"
    )
    parser.add_argument("--only-measure", action="store_true", help="measure that anew and plant nothing")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="what is measured")
    return parser.parse_args()


def main() -> None:
    """Measure if need be, plant, print survivors as they are found, and the score of each package."""
    asked = arguments()
    packages = asked.packages or PACKAGES
    os.environ["HYPOTHESIS_PROFILE"] = "unshrunk"
    if asked.measure or asked.only_measure or not asked.map.exists():
        measure(PACKAGES, asked.tests).save(asked.map)
        if asked.only_measure:
            return
        os.execv(
            sys.executable,
            [sys.executable, "-m", "tests.mutants", *(word for word in sys.argv[1:] if word != "--measure")],
        )
    reached, began = Reached.load(asked.map), time.monotonic()
    if asked.only:
        given = [word.rpartition(":") for word in asked.only]
        drawn = [mutant(file, int(number), reached, asked.budget) for file, _, number in given]
    else:
        drawn = [
            each for package in packages for each in sample(package, asked.count, asked.seed, reached, asked.budget)
        ]
    drawn = drawn if asked.part is None else drawn[asked.part :: PARTS]
    warm()
    control(drawn)
    found: Counter[str] = Counter()
    for each, killed in verdicts(drawn, asked.jobs):
        found[each.package] += killed
        if not killed:
            print(f"survived: {each}", flush=True)
    for package in dict.fromkeys(each.package for each in drawn):
        total = sum(each.package == package for each in drawn)
        print(f"{package:8} {found[package]:3} of {total:3} killed, {found[package] / total:.0%}")
    print(
        f"all      {found.total():3} of {len(drawn):3} killed, {found.total() / len(drawn):.0%} ({time.monotonic() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()
