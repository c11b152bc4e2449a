"""Results of saved studies: run through a store, or as they were kept beside the reports."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

from accelsim.account.host_link import linked
from accelsim.errors import Problem, UsageError
from accelsim.explore.sweep.point import DONE
from accelsim.explore.sweep.space import Sweep, axes_of
from accelsim.explore.sweep.store import Member, Store
from accelsim.explore.sweep.study import check_size, read_sweep, run_sweep
from accelsim.explore.sweep.work import Progress
from accelsim.spec.link import link_name
from accelsim.spec.yaml.chips import load_chip

HERE = Path(__file__).parent


class Result(NamedTuple):
    """Figures of a point. ``seconds``: of its batch, or of a whole training; ``low_s`` and ``high_s``: ends of the 90 %
    interval, None without one. ``link_s``: part of the critical path in transfers from and to the host."""

    model: str
    on: str
    plan: str
    dtype: str
    batch: int
    seconds: float
    low_s: float | None
    high_s: float | None
    joules: float
    link_s: float

    @property
    def per_s(self) -> float:
        """Samples per second, one batch after the other."""
        return self.batch / self.seconds


def sweep_of(name: str) -> Sweep:
    """Return the sweep of a saved study."""
    return read_sweep(HERE / f"{name}.yaml")


def check(name: str, sweep: Sweep, needs: Sequence[str]) -> None:
    """Raise UsageError, before any run, for a sweep that is too large or lacks options that its study compares."""
    check_size(sweep, name)
    given = {part for axis in axes_of(sweep) for part in axis.names} | sweep.options.keys()
    UsageError.raise_for(
        Problem(f"a sweep without {each!r}", name, f"{each!r} among its options or axes")
        for each in needs
        if each not in given
    )


def run(name: str, sweep: Sweep, store: Path, workers: int, told: Progress) -> list[Result]:
    """Run the points that a store lacks, and return what all of them gave; points without figures are left out.

    Raises UsageError where no point has figures.
    """
    with closing(Store(store)) as kept:
        run_sweep(sweep, kept, name, workers, told=told)
        members = list(kept.members(name))
    if found := list(results(iter(members))):
        return found
    errors = [each.outcome.error.splitlines()[0] for each in members if each.outcome and each.outcome.error]
    raise UsageError(f"no point gave figures; the first: {(errors or ['none was run'])[0]}", name)


def results(members: Iterator[Member]) -> Iterator[Result]:
    """Yield the results of the points of a study that have figures."""
    for member in members:
        if member.outcome is not None and member.outcome.status == DONE:
            yield _result(member)


def _result(member: Member) -> Result:
    assert member.outcome is not None
    facts, point = member.outcome.facts, member.point
    path = facts.get("critical_path_s")
    behind = _behind(point.on) if isinstance(path, dict) else ()
    time = "training" if facts.get("training_s") else "latency"
    low_s, high_s = (_end(facts[f"{time}_{end}_s"]) for end in ("low", "high"))
    return Result(
        point.model,
        point.on,
        str(facts.get("plan", "")),
        str(facts["dtype"]),
        int(_number(facts["batch"])),
        _number(facts[f"{time}_s"]),
        low_s,
        high_s,
        _number(facts["training_J" if time == "training" else "energy_J"]),
        sum(seconds for text, seconds in path.items() if text.startswith(behind)) if isinstance(path, dict) else 0.0,
    )


def _end(value: object) -> float | None:
    return None if value is None else _number(value)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


@cache
def _behind(on: str) -> tuple[str, ...]:
    """Beginnings of the parts of a critical path that are transfers from and to the host."""
    chip = load_chip(on)
    return tuple(each for name in linked(chip) for each in (name, link_name(chip.memories[name].link)))


@cache
def folder() -> Path:
    """Return where the results of saved studies are kept: in the wheel, or beside the sources."""
    wheel = HERE.parents[1] / "_studies"
    return wheel if wheel.is_dir() else HERE.parents[2] / "reports" / "studies"


def kept(name: str) -> list[Result]:
    """Return the results of a study as they were kept. Raises UsageError where there are none."""
    file = folder() / f"{name}.csv"
    if not file.is_file():
        raise UsageError("no kept results", name, "--store FILE.db, which runs the study")
    with file.open(encoding="utf-8", newline="") as stream:
        return [_read(row) for row in csv.DictReader(stream)]


def _read(row: dict[str, str]) -> Result:
    low_s, high_s = (float(row[key]) if row[key] else None for key in ("low_s", "high_s"))
    model, on, plan, dtype = (row[key] for key in ("model", "on", "plan", "dtype"))
    seconds, joules, link_s = (float(row[key]) for key in ("seconds", "joules", "link_s"))
    return Result(model, on, plan, dtype, int(row["batch"]), seconds, low_s, high_s, joules, link_s)


def best(found: Sequence[Result]) -> Result:
    """Return the result with most samples per second."""
    return max(found, key=lambda each: each.per_s)
