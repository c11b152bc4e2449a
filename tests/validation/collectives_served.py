"""Check ``collectives-served``: collectives of serving stacks on GPU servers, by the constants that ship.

Each row is what ``accelsim collective`` answers for it: a library of a cluster on one node, in a CUDA graph or called by
a host. Every third row of the tables had no part in any fit, and only these are compared. A row of the check is a set:
one kind of collective on one machine, or one machine with its intervals. Beside it stands the error by the constants of
another machine on the links of this one, with the interval for chips that were not measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.choice import Asked, Called, library_of, regime
from accelsim.cluster.fit import Measured, group_of
from accelsim.cluster.shapes.building import build
from accelsim.fit.validation import residuals
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.types import Floats
from tests.validation.base import Check, check
from tests.validation.collective_rows import FOLDER, rows
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder

LEVEL = 0.9
"""Share of rows that an interval is to hold."""
COVERED = (0.85, 0.95)
"""Share of rows that intervals of 90 % should hold; of few rows within ``SPREAD`` of it."""
ELSEWHERE = 0.8
"""Share of rows that the interval for chips that were not measured holds at least."""
SPREAD = 2.0
"""Standard deviations of a share of so many rows that are let pass."""
NOTHING = float("inf")
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


class Machine(NamedTuple):
    """A machine: its name in the tables, the cluster, and the constants of another one for it."""

    title: str
    system: str
    cluster: str
    other: str


MACHINES = (
    Machine("A100", "a100_sxm", "dgx-a100", "hopper"),
    Machine("H100", "h100_sxm", "dgx-h100", "a100"),
    Machine("H200", "h200_sxm", "dgx-h200", "a100"),
    Machine("B200", "b200_sxm", "dgx-b200", "hopper"),
)


class Case(NamedTuple):
    """A library as it is called, with the mean error that is claimed of each kind of its rows: on a machine, or
    ('') on all others. Nothing is claimed of a machine with ``NOTHING``."""

    table: str
    eager: bool
    claimed: dict[str, float]
    kinds: tuple[str, ...] = OPS
    software: str = ""

    @property
    def title(self) -> str:
        """In words."""
        return f"{'NCCL' if self.table == 'nccl' else 'vLLM'}{', eager' if self.eager else ''}"


CASES = (
    Case("nccl", False, {"": 0.09}),
    Case("vllm", False, {"": 0.09, "B200": 0.13}, ("all_reduce",), "vllm"),
    Case("vllm", True, {"": 0.12, "B200": NOTHING}, ("all_reduce",), "vllm"),
)


class Outcome(NamedTuple):
    """Rows that no fit has seen, with times by the constants that ship and by those of another machine, and whether
    they lie in the intervals of each."""

    machine: Machine
    case: Case
    rows: Measured
    shipped: Floats
    inside: Floats
    by_other: Floats
    inside_other: Floats


def outcome(machine: Machine, case: Case, data: Path) -> Outcome:
    """One library on one machine."""
    found = rows(data, case.table, (machine.system,), case.eager).part(False)
    kind = "vllm" if case.software else "nccl"
    where = f"libraries.{case.software}" if case.software else "collectives"
    other = (f"{where}=collectives/{kind}-{machine.other}", f"{where}.chips=[another]")
    return Outcome(machine, case, found, *_answers(machine, case, found), *_answers(machine, case, found, other))


def _answers(machine: Machine, case: Case, found: Measured, more: tuple[str, ...] = ()) -> tuple[Floats, Floats]:
    cluster = load_cluster(machine.cluster, more)
    topology, library = build(cluster), library_of(cluster, case.software)
    times, inside = [], []
    for sort, nbytes, measured in zip(found.sorts, found.nbytes.tolist(), found.seconds.tolist(), strict=True):
        called = Called(sort.dtype, sort.eager)
        one = Asked(topology, library, sort.kind, "", group_of(topology, sort), None, called).timed(nbytes)
        assert one.interval_s is not None
        times.append(one.seconds)
        inside.append(one.interval_s[0] <= measured <= one.interval_s[1])
    return np.array(times), np.array(inside, float)


def stated(found: Outcome) -> Iterator[tuple[str, bool | None]]:
    """Sets of rows in a sentence, and whether each is as claimed; None where nothing is claimed."""
    machine, case, real = found.machine, found.case, found.rows.seconds
    claimed = case.claimed.get(machine.title, case.claimed[""])
    bound = "nothing" if claimed == NOTHING else f"mean {claimed:.0%}"
    for kind in case.kinds:
        own = [row for row, sort in enumerate(found.rows.sorts) if sort.kind == kind]
        left, other = residuals(found.shipped[own], real[own]), residuals(found.by_other[own], real[own])
        yield (
            f"{case.title}, {machine.title}, {kind}: {left.rows} rows without part in a fit, mean {left.mean:.1%}, "
            f"median {left.median:.1%}, 90th percentile {left.p90:.1%} (claimed: {bound}); mean {other.mean:.1%} by "
            f"the constants of {machine.other}",
            None if claimed == NOTHING else left.mean <= claimed,
        )
    share, many = float(found.inside.mean()), len(real)
    spread = SPREAD * float(np.sqrt(LEVEL * (1 - LEVEL) / many))
    within = COVERED[0] - spread <= share <= COVERED[1] + spread
    elsewhere = float(found.inside_other.mean())
    needed = float(np.exp(np.quantile(np.abs(np.log(found.by_other / real)), LEVEL)))
    yield (
        f"{case.title}, {machine.title}, intervals: {share:.1%} of {many} rows inside; {elsewhere:.1%} by constants "
        f"of {machine.other} with the interval for chips that were not measured (nine of ten: / and x {needed:.2f})",
        None if claimed == NOTHING else within and elsewhere >= ELSEWHERE,
    )


@check("collectives-served")
def collectives_served() -> Check:
    """NCCL and vLLM on four kinds of servers, as they ship."""
    what = "collectives of NCCL and vLLM on GPU servers, by the constants that ship"
    data = folder()
    if data is None or not (data / FOLDER).is_dir():
        return Check("collectives-served", what, 0, 0, np.zeros(0), [ABSENT])
    found = [outcome(machine, case, data) for case in CASES for machine in MACHINES]
    all_told = [line for each in found for line in stated(each)]
    told = sorted(all_told, key=lambda line: line[1] is None)
    claimed = [good for _, good in told if good is not None]
    return Check(
        "collectives-served", what, len(claimed), sum(claimed),
        np.concatenate([each.shipped / each.rows.seconds - 1 for each in found]), [text for text, _ in told],
        "mean error and coverage as claimed", unclaimed=len(told) - len(claimed),
        compared=[_compared(each) for each in found],
    )  # fmt: skip


def _compared(each: Outcome) -> Compared:
    names = [regime(size) for size in each.rows.nbytes.tolist()]
    title = f"{each.case.title}, {each.machine.title}"
    return Compared(title, each.rows.seconds, each.shipped, np.array(names, dtype=object))
