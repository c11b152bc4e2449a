"""The gate's own tests: which tests run in which tier, what a run must not cost, what it must not skip."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gate import evidence, plugin
from tests.gate.budget import allowed_skips, overruns, summary, unknown_skips, used
from tests.gate.costs import Costs, Kind, directory, function, module
from tests.gate.laws import Regressions
from tests.gate.loop import PARTS, spin
from tests.gate.meter import Spent
from tests.gate.tiers import (
    CORE_TESTS,
    FAST,
    LIMITS,
    SHARDS,
    Case,
    expected,
    limit,
    measured,
    roles,
    shard_of,
    shards,
    turn,
)

CHEAP, DEAR, MANY, LAW = (
    "unit/test_a.py::cheap",
    "unit/test_b.py::dear",
    "unit/test_c.py::many",
    "laws/test_d.py::law",
)
MOST = LIMITS[0]
"""The limit of a function where all fit into the core."""
COSTS = Costs(
    {DEAR: 2.5 * MOST, MANY: 10 * MOST, LAW: 3 * MOST},
    {"unit/test_a.py": 1.0, "unit/test_b.py": 2.5 * MOST, "unit/test_c.py": 10 * MOST, "laws/test_d.py": 3 * MOST},
    {MANY: Kind(100), LAW: Kind(1, "law")},
)
CASES = [
    Case(f"tests/{CHEAP}"),
    Case(f"tests/{DEAR}"),
    *(Case(f"tests/{MANY}[{at}]") for at in range(100)),
    Case(f"tests/{LAW}", law=True),
]  # fmt: skip


def chosen(tier: str, now: int = 0, cases: list[Case] = CASES, costs: Costs = COSTS) -> Counter[tuple[str, str]]:
    return Counter((function(case), role) for case, role in roles(cases, costs, tier, now).items())


def test_a_case_belongs_to_its_function_module_and_directory() -> None:
    for case in ("tests/laws/test_a.py::test_one[x@y::z]", "tests/laws/test_a.py::test_one@group"):
        assert function(case) == "laws/test_a.py::test_one"
        assert module(function(case)) == "laws/test_a.py"
    assert [directory(name) for name in ("laws/test_a.py", "unit/cli/a/test_b.py::c", "test_tiny.py")] == [
        "laws", "unit/cli", ".",
    ]  # fmt: skip


def test_the_core_has_what_is_cheap_some_cases_of_what_has_many_and_laws() -> None:
    assert chosen("core") == {(CHEAP, "core"): 1, (MANY, "core"): 10, (LAW, "core"): 1}


def test_the_limit_of_a_function_is_such_that_the_core_takes_what_it_may() -> None:
    assert limit(COSTS) == MOST
    names = [f"unit/test_{at}.py::test" for at in range(1000)]
    costs = Costs(dict.fromkeys(names, 2.0), dict.fromkeys(map(module, names), 2.0), dict.fromkeys(names, Kind(100)))
    cases = [Case(f"tests/{name}[{at}]") for name in names for at in range(100)]
    assert 0.85 * CORE_TESTS < sum(expected(cases, roles(cases, costs, "core", 0), costs).values()) <= CORE_TESTS


def test_what_compiles_loops_is_evidence() -> None:
    cases = [Case(f"tests/{CHEAP}", late=True)]
    assert not chosen("core", cases=cases)
    assert sum((chosen(f"shard-{at}", cases=cases) for at in range(SHARDS)), Counter()) == {(CHEAP, "evidence"): 1}


def test_ten_commits_try_every_case_in_the_core() -> None:
    assert {case for now in range(SHARDS) for case in roles(CASES, COSTS, "core", now)} >= {
        case.nodeid for case in CASES if MANY in case.nodeid
    }


def test_a_mark_keeps_a_dear_test_in_the_core() -> None:
    assert chosen("core", cases=[Case(f"tests/{DEAR}", kept=True)]) == {(DEAR, "core"): 1}


def test_ten_shards_run_all_that_is_dear_once_and_in_full() -> None:
    sums: Counter[tuple[str, str]] = Counter()
    for shard in range(SHARDS):
        sums += chosen(f"shard-{shard}")
    assert sums == {(DEAR, "evidence"): 1, (MANY, "evidence"): 100, (LAW, "evidence"): 1}


def test_the_gate_is_the_core_and_the_shard_of_the_commit_which_is_whole() -> None:
    for now in range(SHARDS):
        core, shard, both = (roles(CASES, COSTS, tier, now) for tier in ("core", f"shard-{now}", "gate"))
        assert both.keys() == core.keys() | shard.keys()
        assert {case for case, role in both.items() if role == "evidence"} == shard.keys()


def test_shards_cost_about_the_same_and_hold_whole_modules() -> None:
    functions = {f"unit/test_{at}.py::test_{part}": MOST + 1 + at % 7 for at in range(80) for part in "ab"}
    costs = Costs(functions, {})
    place = shards(costs)
    loads = Counter[int]()
    for name, cost in functions.items():
        loads[shard_of(f"tests/{name}[x]", place, costs)] += cost  # type: ignore[assignment]
    assert len(loads) == SHARDS and max(loads.values()) - min(loads.values()) < 20
    assert len({shard_of(f"tests/unit/test_new.py::{name}", place, costs) for name in "abcdef"}) == 1


def test_cases_of_a_very_dear_function_go_to_different_shards() -> None:
    costs = Costs({DEAR: 100.0}, {})
    found = Counter(shard_of(f"tests/{DEAR}[{at}]", shards(costs), costs) for at in range(200))
    assert len(found) == SHARDS and max(found.values()) < 40


def test_fast_is_the_cheapest_of_the_core() -> None:
    functions = {f"unit/test_{at}.py::test": 1 + at / 100 for at in range(100)}
    costs = Costs(functions, {module(name): cost for name, cost in functions.items()})
    cases = [Case(f"tests/{name}") for name in functions]
    names = {function(case) for case in roles(cases, costs, "fast", 0)}
    assert 0.8 * FAST < sum(functions[name] for name in names) <= FAST
    assert max(functions[name] for name in names) < min(cost for name, cost in functions.items() if name not in names)


def test_modules_with_a_test_too_dear_for_the_core_are_not_in_fast() -> None:
    names = "unit/test_a.py::cheap", "unit/test_a.py::dear", "unit/test_b.py::cheap"
    costs = Costs(dict(zip(names, (0.2, 2 * MOST, 0.2), strict=True)), {})
    found = roles([Case(f"tests/{name}") for name in names], costs, "fast", 0)
    assert set(found) == {"tests/unit/test_b.py::cheap"}


def test_the_list_is_written_again_for_modules_that_ran_and_forgets_what_is_gone(tmp_path: Path) -> None:
    old = Costs({"unit/test_gate.py::gone": 9, "unit/test_none.py::test": 9}, {"unit/test_units.py": 1})
    measured = {"unit/test_gate.py::dear": 2.0, "unit/test_gate.py::cheap": 0.01}
    old.updated(measured, {"unit/test_gate.py::dear": Kind(3, "law")}).write(tmp_path / "costs.txt")
    found = Costs.read(tmp_path / "costs.txt")
    assert found.functions == {"unit/test_gate.py::dear": 2.0}
    assert found.kinds == {"unit/test_gate.py::dear": Kind(3, "law")}
    assert found.modules == {"unit/test_gate.py": 2.01, "unit/test_units.py": 1.0}


def test_a_function_is_measured_where_all_its_cases_ran_as_evidence_has_them(tmp_path: Path) -> None:
    kinds = {CHEAP: (1, ""), DEAR: (1, ""), MANY: (4, ""), LAW: (1, "law")}
    core = {CHEAP: (0.5, 1), DEAR: (1.0, 1), MANY: (1.0, 1), LAW: (0.2, 1)}
    runs = [
        {"costs": {"core": core}, "kinds": kinds},
        {"costs": {"evidence": {MANY: (20.0, 2), LAW: (4.0, 1)}}, "kinds": kinds},
        {"costs": {"evidence": {MANY: (22.0, 2)}}, "kinds": kinds},
    ]
    found, known = measured(runs, COSTS)
    assert found == {CHEAP: 0.5, MANY: 42.0, LAW: 4.0}
    assert known[MANY] == Kind(4) and known[LAW] == Kind(1, "law")
    assert measured(runs[:2], COSTS)[0] == {CHEAP: 0.5, LAW: 4.0}
    units = {f"unit/test_units.py::{name}": cost for name, cost in (("kept", 9.0), ("gone", 9.0))}
    new = {"unit/test_units.py::new": 1.0}
    merged = Costs(units).updated(new, dict.fromkeys(("unit/test_units.py::kept", *new), Kind()))
    assert merged.functions == {"unit/test_units.py::kept": 9.0, **new}
    assert merged.modules == {"unit/test_units.py": 10.0}


def test_the_loop_is_a_second_or_so() -> None:
    assert 0.1 < PARTS * spin() < 10


def spent(**tests_s: dict[str, float]) -> Spent:
    """A run on a machine on which the loop takes two seconds, with 20 s of start."""
    parts = [2 / PARTS] * 3
    total_s = sum(sum(each.values()) for each in tests_s.values()) + 20 + sum(parts)
    return Spent(tests_s, {}, total_s, parts, {role: dict.fromkeys(each, 1) for role, each in tests_s.items()})


def test_costs_are_in_loops_and_add_up_over_processes() -> None:
    run = spent(core={CHEAP: 4.0}, evidence={DEAR: 10.0})
    run.add(vars(spent(core={CHEAP: 2.0})))
    assert run.loops("core") == {CHEAP: pytest.approx(3.0)}
    assert run.told()["costs"]["core"] == {CHEAP: (pytest.approx(3.0), 2)}
    assert used(run) == {"core": pytest.approx(3.0 + 20), "evidence": pytest.approx(5.0)}


def test_a_budget_that_is_exceeded_names_what_grew() -> None:
    run = spent(core={CHEAP: 40.0, MANY: 20.0}, evidence={DEAR: 10.0})
    should = {"unit/test_a.py": 1.0, "unit/test_c.py": 9.5}
    assert list(overruns(run, should, {"core": 41, "evidence": 6})) == []
    assert list(overruns(run, should, {"core": 39, "evidence": 4})) == [
        "core: 40 calibration loops, more than the 39 allowed",
        "evidence: 5 calibration loops, more than the 4 allowed",
        "  tests/unit/test_a.py grew from 1.0 to 20.0",
    ]


def test_what_a_module_should_cost_is_that_of_the_cases_that_run() -> None:
    found = expected(CASES, roles(CASES, COSTS, "core", 0), COSTS)
    assert found == {
        "unit/test_a.py": 1.0, "unit/test_c.py": pytest.approx(MOST), "laws/test_d.py": pytest.approx(0.6 * MOST)
    }  # fmt: skip


def test_the_summary_has_directories_modules_skips_and_budget() -> None:
    run = spent(core={CHEAP: 4.0}, evidence={DEAR: 10.0})
    text = "\n".join(summary(run, {"no Chromium": 3}, {"core": 30, "evidence": 6}, 7))
    for part in (
        "34 CPU s, of these 20",
        "unit 14 s",
        "unit/test_b.py 10 s",
        "3 skipped: no Chromium",
        "core 12 of 30",
        "shard 7",
    ):
        assert part in text, part


def test_only_listed_reasons_may_skip(tmp_path: Path) -> None:
    (tmp_path / "skips.txt").write_text("^no Chromium  # a browser is not part of the set-up\n", encoding="utf-8")
    allowed = allowed_skips(tmp_path / "skips.txt")
    assert unknown_skips({"no Chromium on the PATH": 2}, allowed) == []
    assert "no torch" in unknown_skips({"no torch": 2, "no Chromium": 1}, allowed)[0]


def test_an_example_that_failed_is_kept_whatever_hypothesis_thinks_of_it_later(tmp_path: Path) -> None:
    kept = Regressions(tmp_path / "regressions")
    kept.save(b"tests/test_a.py::test[x]", b"\x01\x02")
    kept.save(b"tests/test_a.py::test[x]", b"\x01")
    kept.save(b"tests/test_a.py::test[x].pareto", b"\x03")
    kept.move(b"tests/test_a.py::test[x]", b"tests/test_a.py::test[x].secondary", b"\x01\x02")
    kept.delete(b"tests/test_a.py::test[x]", b"\x01")
    assert list(Regressions(tmp_path / "regressions").fetch(b"tests/test_a.py::test[x]")) == [b"\x01"]
    assert len(list((tmp_path / "regressions").iterdir())) == 1


def test_the_seed_is_told_to_every_process(request: pytest.FixtureRequest) -> None:
    from hypothesis import core

    assert str(core.global_force_seed) == str(request.config.getoption("--hypothesis-seed"))


def test_the_shard_of_a_commit_is_one_of_ten() -> None:
    assert turn() in range(SHARDS)


def test_evidence_that_was_stopped_goes_on_with_what_did_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "STATE", tmp_path / "state.json")
    monkeypatch.setattr(evidence, "PAGE", tmp_path / "evidence.md")
    good, bad = (
        evidence.Done(True, "3 passed", 4, "2026-01-01 10:00", "sources", "abc"),
        evidence.Done(False, "1 failed", 4, "2026-01-01 10:01", "sources", "abc"),
    )
    assert evidence.load() == {}
    evidence.save({"tests, shard 0": good, "tests, shard 1": bad, "a step of another day": good})
    assert evidence.load() == {"tests, shard 0": good, "tests, shard 1": bad}
    assert [evidence.holds(row, "sources") for row in (good, bad, None)] == [True, False, False]
    assert not evidence.holds(good, "other sources")
    text = (tmp_path / "evidence.md").read_text(encoding="utf-8")
    assert "| tests, shard 1 | **failed** | 1 failed | 4 | abc | 2026-01-01 10:01 |" in text


def test_planted_faults_add_up_over_parts_by_package() -> None:
    output = "survived: x\nengines    3 of   4 killed, 75%\nall        3 of   4 killed, 75% (3 s)\n"
    step = next(step for step in evidence.steps() if step.name == "planted faults, part 0")
    said = step.read(output, {})
    assert said == "engines 3 of 4, all 3 of 4 killed"
    parts = {f"{evidence.PLANTED} {at}": evidence.Done(True, said, 4, "") for at in range(2)}
    parts["which test reaches which line"] = evidence.Done(True, "core 257 of 600", 4, "")
    assert evidence.faults(parts) == {"engines": (6, 8), "all": (6, 8)}
    assert "| engines | 6 | 8 | 75% |" in evidence.page(parts)


def test_costs_are_written_once_all_tests_ran_with_the_same_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "costs.txt"
    old = Costs({"unit/test_units.py::dear": 50.0})
    monkeypatch.setattr(Costs, "read", classmethod(lambda cls: old))
    monkeypatch.setattr(
        Costs, "write", lambda self: path.write_text(repr(sorted(self.modules.items())), encoding="utf-8")
    )
    costs = {"core": {"test_tiny.py::test": (0.5, 1)}, "evidence": {"unit/test_units.py::dear": (0.2, 1)}}
    kinds = {"test_tiny.py::test": (1, ""), "unit/test_units.py::dear": (1, "")}
    told = {"costs": costs, "kinds": kinds}
    ran = {
        step.name: evidence.Done(True, "", 4, "", "now", "abc", told if step.name == "tests, core" else {"costs": {}, "kinds": {}})
        for step in evidence.steps()
        if step.name.startswith("tests")
    }  # fmt: skip
    evidence.save_costs({name: row for name, row in ran.items() if name != "tests, shard 9"}, "now")
    evidence.save_costs(ran, "then")
    assert not path.exists()
    evidence.save_costs(ran, "now")
    assert path.read_text(encoding="utf-8") == repr([("test_tiny.py", 0.5), ("unit/test_units.py", 50.0)])


def test_a_step_says_what_its_command_printed_and_whether_it_failed(capfd: pytest.CaptureFixture[str]) -> None:
    step = evidence.Step("a", ("tests.fuzz", "bad_cases"), lambda output, _: output.strip().splitlines()[-1])
    done = step.run()
    assert done.passed and done.said == "0 seeds drawn, failures in: none"
    assert done.said in capfd.readouterr().out


def test_evidence_has_every_shard_fault_and_seed_once() -> None:
    found = [" ".join(step.command) for step in evidence.steps()]
    for at in range(SHARDS):
        assert sum(f"--tier shard-{at} " in command for command in found) == 1
        assert sum(command.startswith("tests.mutants") and command.endswith(f" --part {at}") for command in found) == 1
    assert sum("--cov-fail-under=95" in command for command in found) == 1


def item(module: str, name: str, group: str = "") -> Any:
    """Stands for a test that pytest collected."""
    nodeid = f"tests/{module}::{name}"
    mark = SimpleNamespace(args=(group or module,))
    return SimpleNamespace(nodeid=nodeid, path=Path(module), get_closest_marker=lambda name: mark)


ITEMS = [item(f"unit/test_{at}.py", f"test_{part}") for at in range(6) for part in "abc"]


def test_an_order_by_seed_keeps_modules_together_and_differs_by_seed() -> None:
    orders = []
    for seed in ("1", "1", "2"):
        items = list(ITEMS)
        plugin.shuffle(items, seed)
        assert sorted(each.nodeid for each in items) == [each.nodeid for each in ITEMS]
        assert len([key for key, _ in groupby(items, lambda each: each.path)]) == 6
        orders.append([each.nodeid for each in items])
    assert orders[0] == orders[1] != orders[2]


def test_the_dearest_group_comes_first_so_that_no_process_is_left_with_it() -> None:
    items, seconds = list(ITEMS), {"unit/test_4.py": 3.0, "unit/test_2.py": 1.0}
    plugin.dearest_first(items, lambda nodeid: seconds.get(module(nodeid), 0.0))
    assert [path.name for path, _ in groupby(items, lambda each: each.path)][:2] == ["test_4.py", "test_2.py"]
