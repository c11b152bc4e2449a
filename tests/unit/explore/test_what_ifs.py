"""What-ifs: every figure that is printed is that of its own run, and no change is praised that does not help."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import accelsim
from accelsim.account.latency import layers, summary
from accelsim.cli import main
from accelsim.errors import HazardError, UsageError
from accelsim.explore.levers import LEVERS, Lever, Scene, levers
from accelsim.explore.what_ifs import BUDGET, LEAST, NAMED, SEARCH, WORTH, WhatIf, best, what_ifs
from accelsim.machine.run import Run
from accelsim.report.text import si, signed
from accelsim.report.words import helps, nothing_helps, option_texts, sentences
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import list_chips, load_chip, override, resolved
from accelsim.spec.yaml.overrides import find

pytestmark = pytest.mark.shipped_search


class Case(NamedTuple):
    """A model on a chip, overrides of the chip, other options, and how many changes to try."""

    model: str
    on: str
    overrides: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    most: int = 12

    def run(self, *more: str, **options: str) -> Run:
        asked: dict[str, Any] = {**dict(self.options), **options}
        return accelsim.run(self.model, self.on, values="off", set=[*self.overrides, *more], **asked)


OS_DECODE = ("matrix.rows=32", "matrix.cols=32", "matrix.dataflow=os")
CASES = (
    Case("alexnet", "tpu-v1", most=5),
    Case("mlp0", "tpu-v1"),
    Case("gpt-decode", "neuroncore-v2", most=6),
    Case("gpt-decode?layers=1,hidden=256,heads=4", "systolic-generic", OS_DECODE),
    Case("cnn", "edu-4x4"),
    Case("mlp", "edu-4x4", ("act_sram.ports=1",), (("edges", "outside"),)),
    Case("cnn", "edu-mixed", (), (("memory_model", "bank"),)),
    Case("cnn", "edu-tensor-core"),
    Case("mlp", "haswell-e5-2699v3"),
)


@cache
def tried(case: Case) -> tuple[Run, list[WhatIf]]:
    run = case.run()
    return run, what_ifs(run, most=case.most)


def facts(case: Case) -> tuple[Run, dict[str, Any]]:
    run, found = tried(case)
    return run, summary(run) | {"what_ifs": [what.as_dict() for what in found]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model} on {case.on}")
def test_every_printed_figure_is_that_of_its_own_run(case: Case) -> None:
    run, told = facts(case)
    sentence = sentences(run, layers(run), told)[-1]
    assert told["what_ifs"]
    for what in helps(told["what_ifs"]):
        options = dict(option.removeprefix("--").split(" ") for option in what["options"])
        own = case.run(*what["set"], **options)
        assert what["latency_s"] == own.seconds
        assert what["saved"] == 1 - own.time_fs / run.time_fs >= WORTH
        assert si(own.seconds, "s") in sentence
        assert signed(own.time_fs / run.time_fs - 1) in sentence
    if not helps(told["what_ifs"]):
        assert sentence == nothing_helps(told["what_ifs"])


def test_twice_the_bandwidth_of_ddr3_is_what_the_override_gives() -> None:
    """AlexNet on a TPU v1: 1.99 -> 1.08 ms."""
    run, found = tried(CASES[0])
    first = found[0]
    assert first.change == "twice the bandwidth of ddr3"
    assert first.sets == ("memories.ddr3.memory.bandwidth=68 GB/s",)
    assert first.time_fs == CASES[0].run(*first.sets).time_fs
    assert signed(-first.saved) == "-45.6%"
    assert (si(run.seconds, "s"), si(first.latency_s, "s")) == ("1.99 ms", "1.08 ms")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model} on {case.on}")
def test_the_best_come_first_and_slower_ones_are_never_praised(case: Case) -> None:
    _, found = tried(case)
    times = [what.time_fs for what in found]
    assert times == sorted(times)
    assert len({what.change for what in found}) == len(found)
    assert all(what.saved >= WORTH for what in best(found)) and len(best(found)) <= NAMED
    records = [what.as_dict() for what in found]
    assert [what["change"] for what in helps(records)] == [what.change for what in best(found)]


def test_some_changes_make_a_run_longer() -> None:
    assert any(what.saved < 0 for case in CASES for what in tried(case)[1])


def test_the_honest_zero() -> None:
    slower = [{"change": "half the rows of the array", "saved": -0.2}, {"change": "x", "saved": 0.009}]
    assert helps(slower) == []
    assert nothing_helps(slower) == "None of the 2 changes tried shortens the run by 1.0% or more."
    assert "none was simulated" in nothing_helps([])


def test_no_more_work_than_the_budget_but_the_least() -> None:
    run = CASES[4].run()
    work = len(run.program.commands) + SEARCH * len(run.program.steps)
    assert work * 12 < BUDGET
    assert len(what_ifs(run, budget=0)) <= LEAST
    assert len(what_ifs(run, most=1)) <= LEAST


def test_a_run_without_a_request_has_nothing_to_repeat() -> None:
    run = CASES[4].run()
    run.job = None
    with pytest.raises(UsageError, match=r"a run that accelsim\.run returned"):
        what_ifs(run)


@pytest.mark.parametrize("on", ["edu-4x4", "tpu-v1"])  # the second one states its power, which follows sizes
def test_a_chip_that_was_loaded_before_gives_the_same(on: str) -> None:
    case = Case("mlp", on, options=(("edges", "outside"),))
    run = accelsim.run(case.model, load_chip(case.on), values="off", edges="outside")
    found = what_ifs(run)
    assert found == tried(case)[1]
    assert any("capacity" in text for what in found for text in what.sets)


def test_conversions_outside_of_the_run_are_advised_where_they_cost() -> None:
    """The default leaves them on the host, without anybody having asked for that."""
    run = accelsim.run("mlp", "tpu-v1", values="off")
    (what,) = (what for what in what_ifs(run) if "--edges outside" in what.options)
    assert what.time_fs == accelsim.run("mlp", "tpu-v1", values="off", edges="outside").time_fs < run.time_fs
    assert Scene(accelsim.run("mlp", "tpu-v1", values="off", edges="outside")).conversions == 0


IMPOSSIBLE = Lever("more rows than there can be", ("matrix.rows=1000000",), 0.9)


def test_a_change_that_is_impossible_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CASES[4].run()
    first = levers(run)[0]
    monkeypatch.setattr("accelsim.explore.what_ifs.levers", lambda run, least: [IMPOSSIBLE] * 4 + [first])
    assert [what.change for what in what_ifs(run, most=3)] == [first.change]
    monkeypatch.setattr("accelsim.explore.what_ifs.levers", lambda run, least: [IMPOSSIBLE] * 4)
    assert what_ifs(run) == []
    assert nothing_helps([]).startswith("No possible change")


def test_a_bug_is_no_impossible_change(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CASES[4].run()

    def broken(job: object) -> Run:
        raise HazardError("load", "x", "nobody")

    monkeypatch.setattr("accelsim.explore.what_ifs.execute", broken)
    with pytest.raises(HazardError):
        what_ifs(run)


@pytest.mark.parametrize("name", [chip.name for chip in list_chips()])
def test_overrides_of_a_loaded_chip_are_those_of_its_file(name: str) -> None:
    chip = load_chip(name)
    assert override(chip, []) == chip
    assert override(chip, ["clock=200 MHz"]).clock == load_chip(name, ["clock=200 MHz"]).clock


def test_every_kind_of_lever_is_one_that_the_spec_takes() -> None:
    """All levers of all cases, whatever their share: a field that does not exist would never be found out."""
    for case in CASES:
        run = case.run()
        for make in LEVERS:
            for lever in make(Scene(run)):
                for text in lever.sets:
                    _, _, problem = find(resolved(run.chip), Chip, text.partition("=")[0])
                    assert problem is None, text


def test_what_is_not_on_the_path_is_not_tried() -> None:
    run = CASES[0].run()
    told = {lever.change for lever in levers(run)}
    assert "twice the bandwidth of pcie_memory" not in told
    assert "half the latency of ddr3" not in told


def test_the_command_prints_the_best_and_how_to_repeat_them() -> None:
    arguments = ["run", "mlp0", "--on", "tpu-v1", "--values", "off"]
    shown = CliRunner().invoke(main, arguments).output
    _, found = tried(CASES[1])
    for what in best(found):
        record = what.as_dict()
        line = next(line for line in shown.splitlines() if what.change in line)
        assert signed(-what.saved) in line and si(what.latency_s, "s") in line
        assert all(option in shown for option in option_texts(record))
    without = CliRunner().invoke(main, [*arguments, "--no-advice"]).output
    assert "What would help" not in without


def test_json_has_all_that_was_tried() -> None:
    arguments = ["run", "mlp0", "--on", "tpu-v1", "--values", "off", "--json"]
    told = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert told["what_ifs"] == [what.as_dict() for what in tried(CASES[1])[1]]
    assert list(told["what_ifs"][0]) == ["change", "set", "options", "latency_s", "saved"]
    assert json.loads(CliRunner().invoke(main, [*arguments, "--no-advice"]).stdout)["what_ifs"] is None


@pytest.mark.parametrize(("on", "level"), [("edu-cache", "l2"), ("edu-three-levels", "global_sram")])
def test_a_larger_level_is_a_change(on: str, level: str) -> None:
    """For as much as the run waits for the memory behind it."""
    run = accelsim.run("gpt?seq=32,layers=2", on, values="off")
    (lever,) = (each for each in levers(run, 0.0) if each.change == f"twice the capacity of {level}")
    assert lever.share == Scene(run).on("dram", "transfer") > 0
    before, after = run.chip, override(run.chip, lever.sets)
    assert after.memories[level].memory.capacity == 2 * before.memories[level].memory.capacity
