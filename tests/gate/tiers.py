"""Which tests run in which tier.

* ``core``: every test that is cheap, a few cases of each function whose cases are many, laws with few draws.
* ``shard-N``: a tenth of the evidence: dear tests with all their cases, laws with all their draws, outside truth.
* ``gate``: the core, and the shard of this commit. ``fast``: the cheapest of the core. ``all``: everything, in full.
* ``picked``: everything that is named on the command line, as the core has it.
"""

from __future__ import annotations

import subprocess
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.gate.costs import TESTS, Costs, Kind, directory, function, module

SHARDS = 10
CORE_TESTS = 420.0
"""Calibration loops of all tests of the core by the list of costs: the limit of one function (``limit``) follows."""
LIMITS = [round(10 * 0.97**step, 3) for step in range(160)]
"""Limits that are tried, the highest first: the cost from which on a function is too dear for the core."""
FAST = 35.0
"""Calibration loops of all functions of the tier ``fast``."""
SHARE = 0.2
"""Part of a law's draws that the core makes."""
SPREAD = 30.0
"""Calibration loops of a function from which on its cases go to different shards."""
TOGETHER = ("laws/test_dram_laws.py",)
"""Modules of laws that one shard holds as a whole: their loops are compiled, once for all of them."""
EVIDENCE = frozenset({"anchors"})
"""Parts of the tests that are evidence as a whole."""
CORE, FULL = "core", "evidence"


@dataclass(frozen=True)
class Case:
    """One case of a test: its id, whether it draws examples, whether it stays in the core however dear it is (``kept``),
    whether it is evidence however cheap it is (``late``)."""

    nodeid: str
    law: bool = False
    kept: bool = False
    late: bool = False


def turn() -> int:
    """Return the shard of this commit: the number of commits modulo ten; 0 where there is no history."""
    told = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=TESTS, capture_output=True, text=True, check=False
    )
    return int(told.stdout or 0) % SHARDS


TIERS = ("all", "core", "fast", "gate", "picked", *(f"shard-{at}" for at in range(SHARDS)))


def limit(costs: Costs) -> float:
    """Return the calibration loops that one function may take in the core, so that all take ``CORE_TESTS``."""
    rest = sum(
        max(0.0, cost - listed) for name, (cost, listed) in _listed(costs).items() if directory(name) not in EVIDENCE
    )
    rows = [
        (_in_core(cost, name, costs), kind.cases)
        for name, cost in costs.functions.items()
        if directory(name) not in EVIDENCE and (kind := costs.kinds.get(name, Kind())).what != "late"
    ]
    fits = (most for most in LIMITS if rest + sum(_up_to(most, *row) for row in rows) <= CORE_TESTS)
    return next(fits, LIMITS[-1])


def _up_to(most: float, cost: float, cases: int) -> float:
    """Cost of as many cases of a function as a limit lets into the core."""
    return cost if cost <= most else int(most * cases / cost) * cost / cases


def roles(cases: Sequence[Case], costs: Costs, tier: str, now: int) -> dict[str, str]:
    """Return the role of each case that runs in a tier: ``core`` or ``evidence``."""
    if tier == "all":
        return {case.nodeid: FULL for case in cases}
    if tier == "picked":
        return {case.nodeid: CORE for case in cases}
    found = dict.fromkeys(_core(cases, costs, now), CORE)
    if tier == "fast":
        return _cheapest(found, cases, costs)
    if tier == "core":
        return found
    shard = shard_in(tier, now)
    place, most = shards(costs), limit(costs)
    full = {
        case.nodeid: FULL for case in cases if dear(case, costs, most) and shard_of(case.nodeid, place, costs) == shard
    }
    return found | full if tier == "gate" else full


def shard_in(tier: str, now: int) -> int:
    """Return the shard that a tier is, or else that of this commit."""
    return int(tier.removeprefix("shard-")) if tier.startswith("shard-") else now


def dear(case: Case, costs: Costs, most: float) -> bool:
    """Return whether a case belongs to the evidence: dear, a law, or of a part that is evidence as a whole."""
    name = function(case.nodeid)
    return case.law or case.late or directory(name) in EVIDENCE or costs.functions.get(name, 0.0) > most


def shards(costs: Costs) -> dict[str, int]:
    """Return the shard of each listed module (of ``laws``: of each function), packed so that all cost about the same."""
    weights, most = defaultdict[str, float](float), limit(costs)
    for name, cost in (costs.functions | costs.modules).items():
        if directory(name) in EVIDENCE:
            weights[module(name)] += cost if "::" not in name else 0.0
        elif "::" in name and not _spreads(name, costs) and (cost > most or costs.kinds.get(name, Kind()).what):
            weights[_unit(name)] += cost
    loads, found = [0.0] * SHARDS, {}
    for unit in sorted(weights, key=lambda name: (-weights[name], name)):
        found[unit] = min(range(SHARDS), key=lambda at: (loads[at], at))
        loads[found[unit]] += weights[unit]
    return found


def shard_of(nodeid: str, place: Mapping[str, int], costs: Costs) -> int:
    """Return the shard of a case; what is not packed goes where a hash of its name says."""
    name = function(nodeid)
    unit = nodeid if _spreads(name, costs) else _unit(name)
    return place.get(unit, zlib.crc32(unit.encode()) % SHARDS)


def expected(cases: Iterable[Case], chosen: Mapping[str, str], costs: Costs) -> dict[str, float]:
    """Return what each module of the core should cost, in calibration loops, by the committed list."""
    all_cases, found = list(cases), defaultdict[str, float](float)
    counts = _counts(all_cases)
    rest = {name: cost - listed for name, (cost, listed) in _listed(costs).items()}
    for case in all_cases:
        name = function(case.nodeid)
        if chosen.get(case.nodeid) == CORE:
            found[module(name)] += _cost(case, counts[name], costs)
            found[module(name)] += max(0.0, rest.pop(module(name), 0.0))
    return dict(found)


def kinds(cases: Iterable[Case]) -> dict[str, tuple[int, str]]:
    """Return the number of cases and the kind of each function."""
    all_cases = list(cases)
    counts = _counts(all_cases)
    named = {function(case.nodeid): "late" if case.late else "law" if case.law else "" for case in all_cases}
    return {name: (counts[name], what) for name, what in named.items()}


def measured(runs: Iterable[Mapping[str, Any]], costs: Costs) -> tuple[dict[str, float], dict[str, Kind]]:
    """Return the costs of functions whose cases all ran, as evidence has them, in these runs together; all kinds.

    A run is ``costs``: role -> function -> calibration loops and cases that ran; ``kinds``: function -> cases and kind.
    """
    sums = {role: defaultdict[str, list[float]](lambda: [0.0, 0]) for role in (CORE, FULL)}
    known: dict[str, Kind] = {}
    for run in runs:
        known |= {name: Kind(*kind) for name, kind in run["kinds"].items()}
        for role, functions in run["costs"].items():
            for name, (loops, ran) in functions.items():
                sums[role][name] = [sums[role][name][0] + loops, sums[role][name][1] + ran]
    most, found = limit(costs), dict[str, float]()
    for role, functions in sums.items():
        for name, (loops, ran) in functions.items():
            less = role == CORE and (known[name].what == "law" or costs.functions.get(name, 0.0) > most)
            if ran == known[name].cases and not less:
                found[name] = loops
    return found, known


def _unit(name: str) -> str:
    """Return what one shard holds as a whole: a module, whose tests share what it remembers, or a law."""
    return name if directory(name) == "laws" and module(name) not in TOGETHER else module(name)


def _spreads(name: str, costs: Costs) -> bool:
    """Return whether cases of a function go to shards one by one."""
    return costs.functions.get(name, 0.0) > SPREAD and module(name) not in TOGETHER


def _listed(costs: Costs) -> dict[str, tuple[float, float]]:
    sums = defaultdict[str, float](float)
    for name, cost in costs.functions.items():
        sums[module(name)] += cost
    return {name: (cost, sums[name]) for name, cost in costs.modules.items()}


def _counts(cases: Iterable[Case]) -> dict[str, int]:
    counts = defaultdict[str, int](int)
    for case in cases:
        counts[function(case.nodeid)] += 1
    return counts


def _cost(case: Case, count: int, costs: Costs) -> float:
    """Cost of one case in the core."""
    return costs.functions.get(function(case.nodeid), 0.0) / count * (SHARE if case.law else 1.0)


def _in_core(cost: float, name: str, costs: Costs) -> float:
    """Cost of all cases of a function with as few draws as in the core."""
    return cost * (SHARE if costs.kinds.get(name, Kind()).what == "law" else 1.0)


def _core(cases: Sequence[Case], costs: Costs, now: int) -> list[str]:
    """Cases of the core; of a function that is too dear as many as fit, others with every commit."""
    groups, most = defaultdict[str, list[Case]](list), limit(costs)
    for case in cases:
        if case.kept or not (case.late or directory(case.nodeid) in EVIDENCE):
            groups[function(case.nodeid)].append(case)
    found = []
    for group in groups.values():
        each = _cost(group[0], len(group), costs)
        if group[0].kept or each * len(group) <= most:
            found += group
        else:
            fit, first = int(most / each), now * len(group) // SHARDS
            found += [group[(first + at) % len(group)] for at in range(fit)]
    return [case.nodeid for case in found]


def _cheapest(core: Mapping[str, str], cases: Sequence[Case], costs: Costs) -> dict[str, str]:
    """The cheapest functions of the core that fit into ``FAST``.

    None of a module that has a function too dear for the core: what that prepares is needed by others too, and whichever
    runs first pays for it.
    """
    counts, sums, most = _counts(cases), defaultdict[str, float](float), limit(costs)
    dear = {module(name) for name, cost in costs.functions.items() if _in_core(cost, name, costs) > most}
    for case in cases:
        if case.nodeid in core and module(case.nodeid) not in dear:
            sums[function(case.nodeid)] += _cost(case, counts[function(case.nodeid)], costs)
    rest = (max(0.0, cost - listed) for name, (cost, listed) in _listed(costs).items() if name not in dear)
    left, inside = FAST - sum(rest), set()
    for name in sorted(sums, key=lambda name: (sums[name], name)):
        left -= sums[name]
        if left >= 0 or not sums[name]:
            inside.add(name)
    return {nodeid: role for nodeid, role in core.items() if function(nodeid) in inside}
