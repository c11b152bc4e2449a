"""Pytest plugin of the gate: selects the tests of a tier, measures them, prints what they cost and holds the budget."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gate.budget import CORE_LOOPS, SHARD_LOOPS, allowed_skips, overruns, summary, unknown_skips
from tests.gate.costs import Costs, function
from tests.gate.laws import choose_seed, draw_few, is_law, name_examples
from tests.gate.meter import ROLE, Meter, Spent
from tests.gate.tiers import CORE, FULL, SHARDS, SHARE, TIERS, Case, expected, kinds, measured, roles, shard_in, turn
from tests.helpers import doc_cache

LIMITS = {
    "gate": {CORE: CORE_LOOPS, FULL: SHARD_LOOPS},
    "core": {CORE: CORE_LOOPS},
    **{f"shard-{at}": {FULL: SHARD_LOOPS} for at in range(SHARDS)},
}


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the gate to pytest."""
    parser.addoption("--tier", choices=TIERS, default="all", help="run the tests of a tier (tests/gate/tiers.py)")
    parser.addoption("--costs", action="store_true", help="write to tests/costs.txt what ran in full")
    parser.addoption("--result", type=Path, help="write counts of outcomes and costs to a JSON file")
    parser.addoption("--shuffle", action="store_true", help="run modules, and tests of a module, in an order by seed")


UNLISTED = 0.02
"""About what a function costs that is too cheap for the list."""
COMPILED = "compiled"
"""Group of tests that compile loops first, which takes a minute; all others have the same loops in plain Python."""


class Gate:
    """The part of the plugin that every process has; ``Summary`` is that of the one that prints."""

    def __init__(self, config: pytest.Config) -> None:
        self.tier, self.costs = config.getoption("--tier"), Costs.read()
        self.roles: dict[str, str] = {}
        self.expected: dict[str, float] = {}
        self.kinds: dict[str, tuple[int, str]] = {}
        self.skipped = Counter[str]()  # whole modules, while they are collected
        self.meter = Meter(self.kinds)
        config.pluginmanager.register(self.meter, "gate-meter")
        self.worker = hasattr(config, "workerinput")
        self.turn: int = config.workerinput["turn"] if self.worker else turn()  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["turn"] = self.turn

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        cases = [_case(item) for item in items]
        self.roles.update(roles(cases, self.costs, self.tier, self.turn))
        self.expected = expected(cases, self.roles, self.costs)
        self.kinds.update(kinds(cases))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.roles])
        items[:] = [item for item in items if item.nodeid in self.roles]
        for item in items:
            item.stash[ROLE] = self.roles[item.nodeid]
            if is_law(item) and item.stash[ROLE] == CORE:
                draw_few(item)
        if config.getoption("--shuffle"):
            shuffle(items, str(config.getoption("--hypothesis-seed")))
        elif config.getoption("--dist", "no") == "loadgroup" and self.tier != "all":
            dearest_first(items, self._cost)

    def _cost(self, nodeid: str) -> float:
        """Cost of a case by the list, in its role."""
        name = function(nodeid)
        cases, kind = self.kinds[name]
        share = SHARE if kind == "law" and self.roles[nodeid] == CORE else 1.0
        return share * self.costs.functions.get(name, UNLISTED) / cases

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped[_reason(report)] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        if is_law(item):
            name_examples(item)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.worker:
            session.config.workeroutput["gate"] = self.meter.spent() | {
                "expected": self.expected,
                "skipped": dict(self.skipped),
            }  # type: ignore[attr-defined]


class Summary:
    """The part of the plugin in the process that prints: sums over workers, skips, budget."""

    def __init__(self, config: pytest.Config, gate: Gate) -> None:
        self.config, self.gate, self.seed = config, gate, choose_seed(config)
        self.spent, self.skipped, self.problems = Spent(), Counter[str](), list[str]()
        self.outcomes = Counter[str]()

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("gate")
        if told is not None:
            self.spent.add(told)
            self.gate.expected, self.gate.skipped = told["expected"], Counter(told["skipped"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.when == "call":
            self.outcomes[report.outcome] += 1
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped[_reason(report)] += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.skipped += self.gate.skipped
        self.spent.add(self.gate.meter.spent(alone=bool(self.spent.parts_s)))
        tier = self.gate.tier
        if self.config.getoption("--costs"):
            self._keep(exitstatus)
        if tier not in ("all", "picked"):
            self.problems += unknown_skips(self.skipped, allowed_skips())
            self.problems += overruns(self.spent, self.gate.expected, LIMITS.get(tier, {}))
        if self.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.config.getoption("--result"):
            told = {"passed": self.outcomes["passed"], "failed": self.outcomes["failed"], "skipped": self.skipped.total(),
                    "cpu_s": round(self.spent.total_s), "seed": self.seed, **self.spent.told()}  # fmt: skip
            self.config.getoption("--result").write_text(json.dumps(told), encoding="utf-8")

    def _keep(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            costs = self.gate.costs
            costs.updated(*measured([self.spent.told()], costs)).write()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.gate.tier == "all" and not self.config.getoption("--costs"):
            return
        limits = LIMITS.get(self.gate.tier, {})
        terminalreporter.write_line(f"random tests drew with --hypothesis-seed={self.seed}")
        stale = sum(page.stale for page in doc_cache.read().values())
        terminalreporter.write_line(f"{stale} pages were last run with other sources; each runs in its shard")
        for line in summary(self.spent, self.skipped, limits, shard_in(self.gate.tier, self.gate.turn)):
            terminalreporter.write_line(line)
        for line in self.problems:
            terminalreporter.write_line(line, red=True)


def register(config: pytest.Config) -> None:
    """Register both parts of the plugin."""
    gate = Gate(config)
    config.pluginmanager.register(gate, "gate")
    if not gate.worker:
        config.pluginmanager.register(Summary(config, gate), "gate-summary")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def in_full(item: pytest.Item) -> bool:
    """Return whether a case runs as evidence."""
    return item.stash[ROLE] == FULL


def _case(item: pytest.Item) -> Case:
    return Case(item.nodeid, is_law(item), item.get_closest_marker("gate") is not None, _group(item) == COMPILED)


def dearest_first(items: list[pytest.Item], cost: Callable[[str], float]) -> None:
    """Sort by the cost of what one process does as a whole, so that no process is left with something long."""
    weights = defaultdict[str, float](float)
    for item in items:
        weights[_group(item)] += cost(item.nodeid)
    items.sort(key=lambda item: (-weights[_group(item)], _group(item)))


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Put groups, modules of a group and tests of a module in an order that only the seed decides."""

    def place(name: str) -> str:
        return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()

    items.sort(key=lambda item: (place(_group(item)), place(str(item.path)), place(item.nodeid)))


def _group(item: pytest.Item) -> str:
    """The name of what one process of pytest-xdist does as a whole."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None and mark.args else item.nodeid
