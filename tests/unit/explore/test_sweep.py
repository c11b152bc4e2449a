"""Sweeps: points and their keys, the store that survives everything, workers, fronts and effects."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import accelsim
from accelsim.account.area import chip_cost_USD, die_m2
from accelsim.cli import main
from accelsim.errors import AccelsimError, SpecError, UsageError
from accelsim.explore.sweep import designs, kinds, point, work
from accelsim.explore.sweep import store as stores
from accelsim.explore.sweep.fronts import effects, knee, on_front
from accelsim.explore.sweep.point import DONE, Known, Outcome, Point, key_of, mechanism, outcome, quick_key
from accelsim.explore.sweep.space import Draw, Sweep, points_of, size_of
from accelsim.explore.sweep.store import FORM, Store
from accelsim.explore.sweep.study import Study, check_size, read_study, read_sweep, run_sweep
from accelsim.report import sweep as report
from accelsim.report import sweep_effects
from accelsim.request.job import execute
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.instances import load_providers, rented
from accelsim.spec.yaml.load import load_chip

pytestmark = pytest.mark.shipped_search  # other processes, which know nothing of quick ones, find the same
GEMM = "gemm?M=8,N=12,K=16"
SMALL = Sweep(
    model=GEMM,
    on="edu-4x4",
    axes={
        "matrix.rows,matrix.cols": [2, 4],
        "memories.dram.memory.bandwidth": ["1 GB/s", "4 GB/s"],
        "matrix.dataflow": ["ws", "os"],
    },
)


def outcomes(store: Store, name: str = "small") -> list[tuple[str, Outcome]]:
    found = []
    for member in store.members(name):
        assert member.outcome is not None
        found.append((member.point.text, member.outcome))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store") / "whole.db")
    assert run_sweep(SMALL, store, "small") == 8
    return store


def test_figures_are_those_of_single_runs(whole: Store) -> None:
    for text, found in outcomes(whole):
        asked = Point.read(text).request
        run = accelsim.run(str(asked.model), str(asked.on), values=asked.values, set=asked.set)
        summary = run.summary()
        assert found.status == DONE
        assert found.facts["latency_s"] == summary["latency_s"]
        assert found.facts["energy_J"] == pytest.approx(summary["energy_J"], rel=1e-12)
        assert found.facts["throughput_per_s"] == summary["throughput_per_s"]


def test_no_point_runs_twice(whole: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "outcome", lambda _: pytest.fail("a point was run again"))
    assert run_sweep(SMALL, whole, "small") == 0


def test_a_key_is_of_all_that_a_run_reads() -> None:
    def key(*overrides: str, **options: object) -> str:
        each = Point.of(GEMM, "edu-4x4", {"values": "off", **({"set": overrides} if overrides else {}), **options})
        return key_of(each)

    assert key("clock=1 GHz") == key("clock=1000 MHz") == key("clock=2 GHz", "clock=1 GHz")
    assert len({key(), key("clock=123 MHz"), key("energy.register=1 pJ/B"), key(batch=2), key(dataflow="os")}) == 5


def test_points_of_one_key_share_their_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "s.db")
    twice = Sweep(model=GEMM, on="edu-4x4", axes={"clock": ["1 GHz", "1000 MHz"]})
    ran: list[bool] = []
    monkeypatch.setattr(kinds, "execute", lambda job: ran.append(True) or execute(job))
    for clock in ("1 GHz", "1000 MHz"):
        run_sweep(twice.model_copy(update={"axes": {"clock": [clock]}}), store, clock)
    run_sweep(twice, store, "twice")
    assert ran == [True]
    (_, one), (_, other) = outcomes(store, "twice")
    assert one == other and len(list(sqlite3.connect(tmp_path / "s.db").execute("SELECT * FROM outcome"))) == 1


def test_failed_points_keep_their_error(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    sweep = Sweep(
        model=["resnet50", GEMM, "no-such-model"], on="edu-4x4", axes={"dtype": ["int8", "fp8_e5m2"]},
        options={"limit_commands": 1000},
    )  # fmt: skip
    run_sweep(Sweep(model=GEMM, on="edu-4x4", axes={"batch": ["x", 1.5]}), store, "no numbers")
    assert {found.status for _, found in outcomes(store, "no numbers")} == {"refused"}
    run_sweep(sweep, store, "bad")
    states = [found.status for _, found in outcomes(store, "bad")]
    assert states[:2] == ["too large", "refused"] and states[2] == DONE and set(states[3:]) == {"refused"}
    assert all(found.error for _, found in outcomes(store, "bad") if found.status != DONE)


def energy_fields(chip: Chip) -> dict[str, str]:
    """Path of each energy figure of a chip -> its unit."""
    found = {f"energy.{column}.{name}": "J" for column in ("mac", "vector") for name in getattr(chip.energy, column)}
    found |= {f"energy.{name}": "J/B" for name in ("register", "network")}
    found |= {f"energy.sram.{at}.{way}": "J/B" for at in range(len(chip.energy.sram)) for way in ("read", "write")}
    for name, each in chip.memories.items():
        found |= {f"memories.{name}.memory.{way}_energy": "J/B" for way in ("read", "write")}
        found |= {f"memories.{name}.memory.static_power": "W"}
        found |= {f"memories.{name}.link.energy": "J/B"} if each.link else {}
    if chip.host:
        found |= {"host.energy_per_op": "J", "host.idle_power": "W"}
    return found | ({"power.idle": "W"} if chip.power else {})


@pytest.mark.parametrize("on", ["edu-4x4", "edu-two-kinds", "edu-mixed", "tpu-v1", "t4"])
def test_other_energies_need_no_other_run(on: str, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng()
    known, options = Known(), {"values": "off", "edges": "host"}
    outcome(Point.of(GEMM, on, options), known)
    monkeypatch.setattr(kinds, "execute", lambda job: pytest.fail("it was run again"))
    fields = energy_fields(load_chip(on))
    for _ in range(5 if full else 1):
        scale = {"J": 1e-12, "J/B": 1e-12, "W": 1.0}
        changes = [f"{path}={scale[unit] * random.uniform(0.01, 3):.4g} {unit}" for path, unit in fields.items()]
        found = outcome(Point.of(GEMM, on, options | {"set": changes}), known)
        summary = accelsim.run(GEMM, on, values="off", edges="host", set=changes).summary()
        for key, value in {"energy_J": "energy_J", "latency_s": "latency_s", "power_W": "power_average_W"}.items():
            assert found.facts[key] == pytest.approx(summary[value], rel=1e-12), (found, changes)


def test_an_axis_of_energies_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    monkeypatch.setattr(kinds, "execute", lambda job: ran.append(True) or execute(job))
    axes = {"clock": ["1 GHz", "2 GHz"], "energy.register": ["1 pJ/B", "2 pJ/B", "3 pJ/B"]}
    sweep = Sweep(model=GEMM, on="edu-4x4", axes=axes)
    store = Store(tmp_path / "s.db")
    run_sweep(sweep, store, "energies")
    run_sweep(sweep.model_copy(update={"axes": axes | {"energy.register": ["4 pJ/B"]}}), store, "more")
    assert ran == [True, True]
    for study, count in (("energies", 6), ("more", 2)):
        found = outcomes(store, study)
        assert len(found) == count
        for text, each in found:
            asked = Point.read(text).request
            result = accelsim.run(GEMM, "edu-4x4", values="off", set=asked.set)
            assert each.facts["energy_J"] == pytest.approx(result.energy_J, rel=1e-12)
    assert len({each.facts["energy_J"] for _, each in outcomes(store, "energies")}) == 3


@pytest.mark.parametrize("buffer", ["act_sram", "weight_sram", "accumulators"])
def test_unused_capacity_needs_no_other_run(buffer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    monkeypatch.setattr(kinds, "execute", lambda job: ran.append(True) or execute(job))
    known, sizes = Known(), ["512 B", "1 KiB", "4 KiB", "1 MiB", "2 MiB", "4 MiB"]
    found = []
    for size in sizes:
        changes = [f"core.{buffer}.capacity={size}"]
        found.append(outcome(Point.of(GEMM, "edu-4x4", {"values": "off", "set": changes}), known))
        alone = outcome(Point.of(GEMM, "edu-4x4", {"values": "off", "set": changes}))
        assert (found[-1].facts, found[-1].key, found[-1].base) == (alone.facts, alone.key, alone.base)
    assert len(sizes) < len(ran) < 2 * len(sizes) - 1  # those alone, and some others
    assert len({each.facts["area_m2"] for each in found}) == len(sizes)


def test_chips_have_the_area_and_cost_of_their_design(whole: Store) -> None:
    study = read_study(whole, objectives=["area", "chip cost"])
    for member, area, cost in zip(study.members, study.values("area"), study.values("chip cost"), strict=True):
        chip = load_chip("edu-4x4", member.point.request.set)
        assert area == die_m2(chip) and cost == chip_cost_USD(area, 45)
    assert len(set(study.values("area"))) == 2 and {
        study.axes["matrix.rows,matrix.cols"][at] for at in study.front
    } == {"2"}


OWN_PRICES = """
name: aws
title: ours
source: our contract
as_of: 2026-10
sources: {contract: {text: our contract, confidence: high}}
instances:
  g4dn.xlarge:
    chip: t4
    count: 1
    prices: [{price: 0.25 USD/h, term: reserved-3y, as_of: 2026-10-01, source: contract}]
"""


def test_costs_follow_from_prices_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "s.db")
    run_sweep(Sweep(model=GEMM, on=["aws:g4dn.xlarge", "edu-4x4"], objectives=["cost"]), store, "costs")
    assert not any("USD" in key for _, found in outcomes(store, "costs") for key in found.facts)
    (tmp_path / "own.yaml").write_text(OWN_PRICES)
    providers = load_providers()
    offer = rented("aws:g4dn.xlarge", providers)
    assert offer is not None and offer[1].price.term == "on-demand"
    for own, hour_USD in ((None, offer[1].price.hour_USD), (tmp_path / "own.yaml", 0.25)):
        study = read_study(store, prices=own)
        seconds = study.values("latency")[0]
        batch = study.members[0].outcome.facts["batch"]  # type: ignore[union-attr]
        assert study.values("cost")[0] == pytest.approx(hour_USD / 3600 * seconds / batch * 1000, rel=1e-12)
        assert study.values("hour").tolist()[0] == hour_USD and np.isnan(study.values("cost")[1])
        assert study.front == [0]
        told = report.sweep(study, 0, False).facts["sentences"]
        assert "No price for edu-4x4: 1 point has no cost." in told
        assert not read_study(store, limits={"cost": study.values("cost")[0] * 0.99}, prices=own).front


KILLED = """
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any
from accelsim.explore.sweep.store import Store
from accelsim.explore.sweep.study import run_sweep
from tests.unit.explore.test_sweep import SMALL
run_sweep(SMALL, Store(Path(sys.argv[1])), "small")
"""


def test_a_killed_sweep_goes_on_where_it_was(whole: Store, tmp_path: Path, full: bool) -> None:
    path, root = tmp_path / "killed.db", Path(__file__).parents[3]
    random = np.random.default_rng()
    for _ in range(20 if full else 3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=root)
        for _ in range(200):
            if path.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        time.sleep(float(random.uniform(0, 0.3)))
        process.send_signal(signal.SIGKILL)
        process.wait()
    store = Store(path)
    run_sweep(SMALL, store, "small")
    assert outcomes(store) == outcomes(whole)


def test_two_writers_share_a_store(whole: Store, tmp_path: Path) -> None:
    path, root = tmp_path / "shared.db", Path(__file__).parents[3]
    both = [subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=root) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert outcomes(Store(path)) == outcomes(whole)


def test_workers_give_the_same(whole: Store, tmp_path: Path) -> None:
    store = Store(tmp_path / "pool.db")
    assert run_sweep(SMALL, store, "small", workers=2) == 8
    assert outcomes(store) == outcomes(whole)


def dies_on_os(asked: Point) -> Outcome:
    """A worker that is killed by each second point."""
    if "dataflow=os" in asked.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(asked)


def test_a_point_that_kills_its_workers_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_work", dies_on_os)
    monkeypatch.setattr(work, "AHEAD", 1)
    store = Store(tmp_path / "dead.db")
    run_sweep(SMALL, store, "small", workers=2)
    for text, found in outcomes(store):
        assert found.status == (work.DIED if "dataflow=os" in text else DONE)


def test_another_version_computes_anew(whole: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point, "mechanism", lambda: "another")
    asked = next(points_of(SMALL))
    assert quick_key(asked) not in whole.known([quick_key(asked)])


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 30, b""])
def test_what_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.db"
    if content:
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(UsageError, match="store"):
        Store(path)
    with pytest.raises(UsageError, match="no such file"):
        Store(tmp_path / "none.db", new=False)
    assert not (tmp_path / "none.db").exists()
    for wrong, what in (
        ("none/some.db", "directory does not exist"),
        (".", "is a directory"),
        ("x" * 300, "cannot be made|too long"),
    ):
        with pytest.raises(UsageError, match=what):
            Store(tmp_path / wrong)
    assert [each.name for each in tmp_path.iterdir()] == ["some.db"]


def test_an_empty_file_is_no_store_and_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "FILLING_S", 0.0)
    (tmp_path / "s.db").touch()
    for new in (True, False):
        with pytest.raises(UsageError, match=r"s.db: no store, but an empty file; expected .* the name of a new file"):
            Store(tmp_path / "s.db", new)
    assert not (tmp_path / "s.db").stat().st_size
    Store(tmp_path / "new.db").close()
    assert Store(tmp_path / "new.db", new=False).studies() == {}


WRONG = {
    "axes: {'clock,clock': [1 GHz]}": "'clock' is on two axes",
    "axes: {clock: [1 GHz, 1 GHz]}": "axis 'clock' has 1 GHz twice",
    "options: {batch: 2}\naxes: {batch: [1, 2]}": "'batch' is an option and an axis",
    "objectives: []": "no objective; expected one or more of latency",
    "objectives: [energy, energy]": "'energy' is there twice",
    "options: {load: 'poison:8/s'}": "options: load: no process of arrivals 'poison'.*did you mean 'poisson'",
    "options: {load: 'poisson:8/s', router: random}": "options: router: unknown router 'random'",
    "on: [edu-4x4, 'aws:g4dn.xlarg']": "no instance 'aws:g4dn.xlarg'.*did you mean 'aws:g4dn.xlarge'",
}
"""Lines of a sweep file -> what is said of them."""


@pytest.mark.parametrize("lines", WRONG)
def test_what_contradicts_itself_is_refused_before_any_run(tmp_path: Path, lines: str) -> None:
    on = "" if lines.startswith("on:") else "on: edu-4x4\n"
    (tmp_path / "s.yaml").write_text(f"model: {GEMM}\n{on}{lines}\n")
    with pytest.raises(UsageError, match=WRONG[lines]):
        read_sweep(tmp_path / "s.yaml")
    text = f"model: cn\n{on}{lines}\nlimits: {{latency: 1}}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_sweep(tmp_path / "s.yaml")
    assert len(caught.value.problems) == 3  # all at once


@pytest.mark.parametrize(
    ("sweep", "limits", "said"),
    [
        (Sweep(model=GEMM, on="edu-4x4", axes={"matrix.rowz": [1, 2]}), {}, "no point gave figures"),
        (Sweep(model=GEMM, on="edu-4x4", objectives=["latency", "ttft"]), {}, "no point has latency and ttft"),
        (Sweep(model=GEMM, on="edu-4x4"), {"latency": 1e-15}, "no point keeps the limits"),
    ],
)
def test_a_sweep_without_front_fails(tmp_path: Path, sweep: Sweep, limits: dict[str, float], said: str) -> None:
    with closing(Store(tmp_path / "s.db")) as found:
        run_sweep(sweep, found, "s")
        made = report.sweep(read_study(found, limits=limits), 1, False)
    assert isinstance(made.fails, UsageError) and said in str(made.fails) and made.shown
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]  # one file that can be sent


def test_the_store_of_a_sweep_is_no_other_output(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"model: {GEMM}\non: edu-4x4\n")
    for output in ("--csv", "--plot", "--page"):
        found = CliRunner().invoke(main, ["sweep", str(tmp_path / "s.yaml"), output, str(tmp_path / "s.db")])
        assert found.exit_code == 2 and f"{output} is the store of the results" in found.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["s.yaml"]


def test_no_more_workers_start_than_there_are_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, count: int, *_: object) -> None:
            made.append(True)
            super().__init__(count)

    monkeypatch.setattr(work, "ProcessPoolExecutor", Pool)
    with closing(Store(tmp_path / "s.db")) as found:
        assert run_sweep(SMALL.model_copy(update={"axes": {"batch": [1, 2]}}), found, "two", workers=1000) == 2
    assert made == [True, True]


def test_a_store_that_another_process_just_makes_is_waited_for(tmp_path: Path) -> None:
    Store(tmp_path / "whole.db").close()
    (tmp_path / "s.db").touch()
    thread = Thread(
        target=lambda: (time.sleep(0.1), (tmp_path / "s.db").write_bytes((tmp_path / "whole.db").read_bytes()))
    )
    thread.start()
    assert Store(tmp_path / "s.db").studies() == {}
    thread.join()


@pytest.mark.parametrize("step", [1, -1])
def test_a_store_of_another_version_is_refused(tmp_path: Path, step: int) -> None:
    Store(tmp_path / "s.db").close()
    with sqlite3.connect(tmp_path / "s.db") as other:
        other.execute(f"PRAGMA user_version={FORM + step}")
    for new in (True, False):
        with pytest.raises(
            UsageError, match=f"a{' later' if step > 0 else 'n earlier'} version .*expected version {FORM}"
        ):
            Store(tmp_path / "s.db", new)


def test_a_study_of_another_version_is_refused(tmp_path: Path) -> None:
    found = Store(tmp_path / "s.db")
    found.begin("later", SMALL.model_dump_json().replace('"draw":null', '"draw":{"by":"halton"},"more":1'))
    with pytest.raises(UsageError, match=r"'later' is of another version of accelsim; unknown: draw.by, more;"):
        read_study(found)


def test_a_broken_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    found = Store(path)
    run_sweep(SMALL.model_copy(update={"axes": {}}), found, "one")
    found.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))
    for use in (lambda each: read_study(each), lambda each: run_sweep(SMALL, each, "one")):
        with pytest.raises(UsageError, match=r"s.db: cannot be used: .*malformed"):
            use(Store(path))


def test_a_store_in_a_folder_that_cannot_be_written_is_read(
    whole: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole.db").write_bytes(whole._db.serialize())
    monkeypatch.setattr(stores.os, "access", lambda path, mode: False)
    assert outcomes(Store(tmp_path / "whole.db", new=False)) == outcomes(whole)
    assert [each.name for each in tmp_path.iterdir()] == ["whole.db"]


def test_draws_are_those_of_their_seed_and_no_point_comes_twice() -> None:
    for by in ("random", "latin"):
        drawn = SMALL.model_copy(update={"draw": Draw(points=6, by=by, seed=3)})
        points = list(points_of(drawn))
        assert points == list(points_of(drawn)) and len(set(points)) == len(points) == size_of(drawn) == 6
        assert set(points) < set(points_of(SMALL))
    every = SMALL.model_copy(update={"draw": Draw(points=100)})
    assert set(points_of(every)) == set(points_of(SMALL)) and size_of(every) == 8


def test_a_latin_hypercube_takes_each_value_equally_often() -> None:
    wide = Sweep(model=GEMM, on="edu-4x4", axes={"clock": [f"{n} MHz" for n in range(1, 51)], "matrix.rows": list(range(1, 51))},
                 draw=Draw(points=50, by="latin"))  # fmt: skip
    values = [each.options for each in points_of(wide)]
    for number in range(1, 51):
        assert sum(f"clock={number} MHz" in text for text in values) >= 1


def test_unknown_models_and_chips_are_refused_before_any_run(tmp_path: Path) -> None:
    file = tmp_path / "names.yaml"
    file.write_text("model: [cnnn, mlp]\non: [edu-4x5, t4]\naxes: {clock: [1 GHz]}\n", encoding="utf-8")
    with pytest.raises(AccelsimError) as caught:
        read_sweep(file)
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 2 and "'cnnn'" in told[0] and "did you mean 'edu-4x4'?" in told[1]


def test_bad_files_are_told_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text("model: cnn\non: edu-4x4\naxess: {}\ndraw: {points: 0}\n")
    with pytest.raises(SpecError) as error:
        read_sweep(file)
    texts = [str(problem) for problem in error.value.problems]
    assert len(texts) == 2 and "sweep.yaml:3:1" in texts[0] and "axes" in texts[0] and "sweep.yaml:4" in texts[1]
    with pytest.raises(UsageError, match="two axes"):
        size_of(Sweep(model="cnn", on="edu-4x4", axes={"clock": ["1 GHz"], "clock,matrix.rows": ["2 GHz"]}))
    with pytest.raises(UsageError, match="batch"):
        size_of(Sweep(model="cnn", on="edu-4x4", axes={"batchs": [1, 2]}))


def test_a_file_has_numbers_and_limits(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    text = "model: gemm?M=4,N=4,K=4\non: edu-4x4\noptions: {seed: 3}\naxes: {batch: [1, 2], emulate: [true]}\n"
    file.write_text(text + "limits: {latency: 1 ps}\nobjectives: [latency]\n")
    store = Store(tmp_path / "s.db")
    run_sweep(read_sweep(file), store, "sweep")
    study = read_study(store)
    assert study.limits == {"latency": pytest.approx(1e-12)} and not study.front
    options = [Point.read(text).request for text, _ in outcomes(store, "sweep")]
    assert [(each.batch, each.seed, each.emulate) for each in options] == [(1, 3, True), (2, 3, True)]
    for wrong, near in (("latency]", "latensy]"), ("1 ps", "1 kg"), ("latency:", "latenzy:")):
        file.write_text((text + "limits: {latency: 1 ps}\nobjectives: [latency]\n").replace(wrong, near))
        with pytest.raises(UsageError, match=r"latency|kg"):
            read_sweep(file)


def test_the_picture_names_what_it_shows(whole: Store, tmp_path: Path) -> None:
    for objectives, limits, words in (
        (["latency", "energy"], {"latency": 1.0}, ["small: energy over latency of 8 points", "limit of latency"]),
        (["throughput", "energy", "area"], {}, ["front in throughput, energy and area", "more is better", "'knee'"]),
    ):
        made = report.sweep(read_study(whole, "small", objectives, limits), 0, False)
        picture = made.picture("front")
        assert all(word in repr(picture) for word in [*words, "colour: what a point mostly waits for"])
        picture.save(tmp_path / "x.svg")  # with units that no spec has
        assert "knee" not in [mark.label for mark in picture.panels[0].marks if mark.kind != "note"]


def test_large_throughputs_are_the_best_of_an_axis(whole: Store) -> None:
    fast, many = (read_study(whole, "small", [name]).effects[name] for name in ("latency", "throughput"))
    assert [(each.axis, each.best, each.worst) for each in fast] == [
        (each.axis, each.best, each.worst) for each in many
    ]


def test_a_study_tells_what_differs(whole: Store) -> None:
    study = read_study(whole, "small")
    assert list(study.axes) == ["matrix.rows,matrix.cols", "memories.dram.memory.bandwidth", "matrix.dataflow"]
    assert study.front and study.within.all()
    fast = read_study(whole, "small", ["latency"])
    assert study.values("latency")[fast.front[0]] == study.values("latency").min()
    none = read_study(whole, "small", limits={"latency": 1e-12})
    assert none.front == [] and not none.within.any()
    with pytest.raises(UsageError, match="latency"):
        read_study(whole, "small", ["latencyy"])
    with pytest.raises(UsageError, match="small"):
        read_study(whole, "smal")


VALUES = arrays(
    np.float64, st.tuples(st.integers(1, 25), st.integers(1, 4)), elements=st.sampled_from([1.0, 2.0, 3.0, 5.0, np.nan])
)


@given(VALUES)
@settings(max_examples=300)
def test_the_front_is_that_of_all_pairs(values: np.ndarray) -> None:  # type: ignore[type-arg]
    rows = [tuple(row) for row in values]
    expected = [
        not any(np.isnan(row))
        and not any(all(b <= a for a, b in zip(row, other, strict=True)) and other != row for other in rows)
        for row in rows
    ]
    assert on_front(values).tolist() == expected


def test_the_knee_is_the_corner_of_the_front() -> None:
    assert knee(np.array([[1.0, 100.0], [1.2, 10.0], [2.0, 2.0], [10.0, 1.8], [100.0, 1.0]])) == 2


def test_effects_are_ratios_of_geometric_means() -> None:
    columns = {"size": ["1", "1", "2", "2"], "kind": ["a", "b", "a", "b"]}
    found = effects(columns, np.array([1.0, 4.0, 8.0, 32.0]))
    assert [(each.axis, each.best, each.worst) for each in found] == [("size", "1", "2"), ("kind", "a", "b")]
    assert [each.ratio for each in found] == pytest.approx([8.0, 4.0])
    assert effects(columns, np.array([1.0, np.nan, 8.0, np.nan]))[0].ratio == pytest.approx(8.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """A Dask scheduler and two workers on the loopback."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


def test_dask_gives_the_same_though_a_worker_dies(whole: Store, tmp_path: Path, cluster: Any) -> None:
    store = Store(tmp_path / "dask.db")
    assert run_sweep(SMALL, store, "small", dask=cluster.scheduler_address) == 8
    assert outcomes(store) == outcomes(whole)
    again = Store(tmp_path / "again.db")
    thread = Thread(
        target=lambda: run_sweep(SMALL, Store(tmp_path / "again.db"), "small", dask=cluster.scheduler_address)
    )
    thread.start()
    time.sleep(0.3)
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
    thread.join()
    assert outcomes(again) == outcomes(whole)


def test_workers_of_dask_know_the_store(whole: Store, tmp_path: Path, cluster: Any) -> None:
    store = Store(tmp_path / "s.db")
    clocks = [Sweep(model=GEMM, on="edu-4x4", axes={"clock": [text]}) for text in ("1 GHz", "1000 MHz")]
    for sweep in clocks:
        assert run_sweep(sweep, store, "small", dask=cluster.scheduler_address) == 1
    with store._db as db:
        assert db.execute("SELECT count(*) FROM outcome").fetchone() == (1,)
    found = work._client(cluster.scheduler_address, store.results(mechanism()))
    with found:
        (asked,) = points_of(clocks[0])
        assert found.submit(work._work, asked, key="again").result().facts == {}  # its key is known


def test_nobody_at_the_address_of_dask_is_told(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with pytest.raises(UsageError, match="--dask"):
        run_sweep(SMALL, Store(tmp_path / "s.db"), "small", dask="tcp://127.0.0.1:9")


WIDE = Sweep(
    model=GEMM,
    on="edu-4x4",
    axes={
        "matrix.rows": [1, 2, 4, 8],
        "matrix.cols": [1, 2, 4, 8],
        "matrix.dataflow": ["ws", "os"],
        "memories.dram.memory.bandwidth": ["1 GB/s", "2 GB/s", "4 GB/s"],
    },
    objectives=["latency", "area"],
)


def drawn(by: str, points: int | None = None, seed: int = 0) -> Sweep:
    return WIDE.model_copy(update={"draw": Draw(by=by, points=points, seed=seed)})


def shown(study: Study) -> str:
    """What --sensitivity adds, as text."""
    return str(sweep_effects.effects_shown(study, study.effects, sweep_effects.sensitivity_rows(study)))


def test_one_at_a_time_changes_one_axis_of_the_base(tmp_path: Path) -> None:
    sweep, store = drawn("one-at-a-time"), Store(tmp_path / "s.db")
    assert size_of(sweep) == 1 + 3 + 3 + 1 + 2 == len(set(points_of(sweep)))
    run_sweep(sweep, store, "around")
    study = read_study(store)
    for axis, values in study.axes.items():
        own = [
            at
            for at in range(10)
            if all(column[at] == column[0] for name, column in study.axes.items() if name != axis)
        ]
        latency = study.values("latency")[own]
        found = next(each for each in study.effects["latency"] if each.axis == axis)
        assert found.ratio == pytest.approx(latency.max() / latency.min(), rel=1e-12)
        assert values[own[int(latency.argmin())]] == found.best and len(own) == len(set(values))
    assert "around the first point" in shown(study)


def test_points_must_be_stated() -> None:
    with pytest.raises(UsageError, match="how many points"):
        size_of(drawn("latin"))


def test_trajectories_of_morris(tmp_path: Path) -> None:
    pytest.importorskip("SALib", reason="SALib (extra 'sweep') is not installed")
    sweep, store = drawn("morris", 6, 2), Store(tmp_path / "s.db")
    assert list(points_of(sweep)) == list(points_of(sweep)) and size_of(sweep) == 30
    run_sweep(sweep, store, "morris")
    study = read_study(store)
    values = np.log(study.values("area"))
    effects_of, without = study.sensitivities("area")
    assert without == 0 and effects_of["matrix.dataflow"]["mu_star"] == 0 < effects_of["matrix.rows"]["mu_star"]
    for axis in ("matrix.rows", "matrix.cols"):
        column = study.axes[axis]
        steps = [
            abs(values[at + 1] - values[at]) / (2 / 3)
            for at in range(29)
            if at % 5 < 4 and column[at] != column[at + 1]
        ]
        assert len(steps) == 6 and effects_of[axis]["mu_star"] == pytest.approx(np.mean(steps), rel=1e-9)
    told = report.sweep(study, 0, True)
    assert "mu*" in shown(study) and told.picture("effects")


def test_indices_of_sobol(tmp_path: Path) -> None:
    pytest.importorskip("SALib", reason="SALib (extra 'sweep') is not installed")
    asked = designs.Asked([1, 512, 512, 512], 1024, 1, "middle")
    x, y, _ = np.array(list(designs.DESIGNS["sobol"].rows(asked)))[:, 1:].T / 512  # type: ignore[misc]
    found, without = designs.sensitivities("sobol", asked, np.exp(2 * x + y + 4 * (x - 0.5) * (y - 0.5)))
    variance = {1: 4 / 12, 2: 1 / 12, 3: 0.0, 0: 16 / 144}  # of x alone, y alone, z, x with y
    for axis in (1, 2, 3):
        both = variance[0] if axis < 3 else 0.0
        first, total = (each / sum(variance.values()) for each in (variance[axis], variance[axis] + both))
        assert found[axis]["first"] == pytest.approx(first, abs=0.07) and abs(found[axis]["total"] - total) < 0.04
        assert found[axis]["first_plus_minus"] < 0.15
    assert list(found) == [1, 2, 3] and without == 0
    assert designs.sensitivities("sobol", asked, np.ones(1024 * 5))[0][1] == dict.fromkeys(found[1], 0.0)
    sweep, store = drawn("sobol", 4, 2), Store(tmp_path / "s.db")
    assert list(points_of(sweep)) == list(points_of(sweep)) and size_of(sweep) == 4 * (4 + 2)
    run_sweep(sweep, store, "sobol")
    told = report.sweep(read_study(store), 0, True)
    assert "total order" in shown(read_study(store)) and told.picture("effects").figure()
    with pytest.raises(UsageError, match="power of two"):
        size_of(drawn("sobol", 6))


def test_a_study_by_morris_is_read_without_salib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "s.db")
    monkeypatch.setattr(designs, "find_spec", lambda name: None)
    store.begin("morris", drawn("morris", 2).model_dump_json())
    assert "need SALib" in shown(read_study(store))
    for by, package in (("morris", "SALib"), ("sobol", "SALib"), ("tpe", "optuna")):
        with pytest.raises(UsageError, match=package):
            size_of(drawn(by, 4))


@pytest.mark.parametrize("by", ["tpe", "nsga2"])
def test_a_search_goes_on_where_it_was(by: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna (extra 'sweep') is not installed")
    whole, other = Store(tmp_path / "whole.db"), Store(tmp_path / "other.db")
    ran = run_sweep(drawn(by, 28, 5), whole, "small")
    run_sweep(drawn(by, 11, 5), other, "small")
    before = outcomes(other)
    rest = run_sweep(drawn(by, 28, 5), other, "small", workers=2)
    assert outcomes(other) == outcomes(whole) and before == outcomes(whole)[:11] and 0 < rest < ran <= 28
    assert run_sweep(drawn(by, 28, 5), other, "small") == 0
    assert outcomes(whole) != (run_sweep(drawn(by, 28, 6), other, "small"), outcomes(other))[1]


def test_a_search_learns_and_bears_failures(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna (extra 'sweep') is not installed")
    sweep = drawn("tpe", 32, 1).model_copy(update={"objectives": ["latency"], "limits": {"area": "1000 mm²"}})
    wrong = sweep.model_copy(update={"axes": {**sweep.axes, "matrix.rows": [0, 1, 2, 4, 8]}})
    store = Store(tmp_path / "s.db")
    run_sweep(wrong, store, "small")
    study = read_study(store)
    states = {each.outcome.status for each in study.members if each.outcome}
    assert states == {DONE, "refused"}
    latency = study.values("latency")
    assert np.nanmedian(latency[16:]) < np.nanmedian(latency[:16]) and study.front


def test_python_runs_and_reads_sweeps(tmp_path: Path) -> None:
    content = {"model": GEMM, "on": "edu-4x4", "axes": {"matrix.rows": [2, 4], "batch": [1, 2]}}
    found = accelsim.sweep(content, tmp_path / "s.db", limits={"latency": "1 s"})
    direct = accelsim.run(GEMM, "edu-4x4", values="off", set=["matrix.rows=2"], batch=2).summary()
    own = next(row for row in found.records if (row["matrix.rows"], row["batch"]) == ("2", 2))
    assert own["latency_s"] == direct["latency_s"] and len(found.records) == 4
    assert found.front == [row for row in found.records if row["front"]] != [] and found.to_dict()["points"] == 4
    again = accelsim.sweep(tmp_path / "s.db")
    assert again.records == found.records and again.to_dict()["ran"] == 0
    assert [row["latency_s"] for row in accelsim.sweep(content).records] == [row["latency_s"] for row in found.records]
    with pytest.raises(SpecError, match="axes"):
        accelsim.sweep({"model": GEMM, "on": "edu-4x4", "axess": {}})
    with pytest.raises(UsageError, match="no value"):
        accelsim.sweep({"model": GEMM, "on": "edu-4x4", "axes": {"batch": []}})


def test_a_huge_space_is_told_first() -> None:
    axes = {"matrix.rows": list(range(1, 1001)), "matrix.cols": list(range(1, 1001)), "batch": list(range(1, 1001))}
    huge = Sweep(model=GEMM, on="edu-4x4", axes=axes)
    with pytest.raises(
        UsageError, match=r"1,000,000,000 points take about [\d,.]+ days .* measured on the first.*--yes"
    ):
        check_size(huge, "file")
    with pytest.raises(UsageError, match="at most 10,000,000"):
        check_size(huge, "file", yes=True)
    check_size(huge.model_copy(update={"axes": axes | {"matrix.rows": [1], "batch": [1]}}), "file")
