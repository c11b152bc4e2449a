"""Changes that would make a run shorter: one change at a time, each compiled and simulated like a run of its own.

Nothing here is an estimate. Which changes are worth trying follows from the critical path (``levers``); what they give
is simulated, with the layers mapped anew, without values (which cost no simulated time). Some make a run longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelsim.errors import Infeasible, SpecError, TooLarge, UsageError
from accelsim.explore.levers import Lever, levers
from accelsim.machine.run import Run
from accelsim.request.job import Job, changed, execute
from accelsim.time import FS

MOST, LEAST = 12, 3
"""Changes that are tried at most, and at least however much work each of them is."""
BUDGET = 600_000
"""Work of all changes together: commands to simulate, and for each step the commands that its search is worth."""
SEARCH = 100
WORTH = 0.01
"""Shares of the run from which on a change is tried, and is named as one that helps."""
NAMED, MARGIN = 3, 2.0
"""Changes that are named, and how much more than its share of the path a change may give: the others are not tried
once so many give more.
"""
IMPOSSIBLE = (SpecError, UsageError, Infeasible, TooLarge)
"""Errors for a change that chip, model or limits do not allow; any other error is a bug."""


@dataclass(frozen=True)
class WhatIf:
    """A change and what it gave. ``saved``: of the run's time (negative: it is longer), as a fraction."""

    change: str
    sets: tuple[str, ...]
    options: tuple[str, ...]
    time_fs: int
    saved: float

    @property
    def latency_s(self) -> float:
        """Time of the changed run, s."""
        return self.time_fs * FS

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON: the change in words, overrides for --set, other options, s, saved share."""
        return {
            "change": self.change,
            "set": list(self.sets),
            "options": list(self.options),
            "latency_s": self.latency_s,
            "saved": self.saved,
        }


def what_ifs(
    run: Run, told: Callable[[float], None] = lambda share: None, most: int = MOST, budget: int = BUDGET
) -> list[WhatIf]:
    """Every change that was simulated, the shortest run first; one that chip or model do not allow is left out, and the
    next one is tried instead.

    ``run``: what ``accelsim.run`` gave (another has no job to repeat: UsageError). ``told``: gets the share done.
    ``most`` changes are tried, fewer where they are more work than ``budget`` (see ``BUDGET``), but ``LEAST``; and none
    that has too little a share of the critical path to be among the best ``NAMED`` (see ``MARGIN``).
    """
    job = run.job
    if not isinstance(job, Job) or job.request is None:
        what = "what-ifs of a run that was not made from a request"
        raise UsageError(what, expected="a run that accelsim.run returned")
    worth, affordable = levers(run, WORTH), _affordable(run, most, budget)
    found: list[WhatIf] = []
    for lever in worth:
        told(len(found) / affordable)
        better = best(found)
        if len(found) == affordable or (len(better) == NAMED and MARGIN * lever.share < better[-1].saved):
            break
        time_fs = _time_fs(job, lever)
        if time_fs is not None:
            options = tuple(f"--{name} {value}" for name, value in lever.options.items())
            found.append(WhatIf(lever.change, lever.sets, options, time_fs, 1 - time_fs / run.time_fs))
            found.sort(key=lambda what: what.time_fs)
    return found


def best(found: Sequence[WhatIf], most: int = NAMED) -> list[WhatIf]:
    """Return the changes that shorten the run by ``WORTH`` or more, the best first."""
    return [what for what in found if what.saved >= WORTH][:most]


def _affordable(run: Run, most: int, budget: int) -> int:
    """Return how many changes are simulated at most; those that turn out to be impossible do not count."""
    work = len(run.program.commands) + SEARCH * len(run.program.steps)
    return max(LEAST, min(most, budget // max(1, work)))


def _time_fs(job: Job, lever: Lever) -> int | None:
    """Time of the job with the change; None where it is not possible: a law of the spec, a tile that does not fit."""
    try:
        return execute(changed(job, lever.sets, **lever.options)).time_fs
    except IMPOSSIBLE:
        return None
