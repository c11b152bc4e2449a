"""Checks against DRAM simulators: the specs are those of the golden runs, what is claimed of them, and the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelsim.dram.device import Device
from accelsim.dram.mapping import decoder
from accelsim.dram.served import COUNTS, Served
from accelsim.dram.traces import NAMED
from tests.validation import dram, dram_ranks, dram_replay, dram_report
from tests.validation.base import CHECKS
from tests.validation.dram import BARS, Bars, Statement, single, summary
from tests.validation.dram_mixes import Row
from tests.validation.dram_replay import DRAMSIM3, RAMULATOR2, SPECS, Golden, Replay, device_of, golden_rows

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

REPORTS = Path(__file__).parents[3] / "reports"


def first(simulator: str, config: str, trace: str) -> Golden:
    return next(row for row in golden_rows() if (row.simulator, row.config, row.trace) == (simulator, config, trace))


def replayed(row: Golden, error: float = 0.0, acts: float = 0.0, late: float = 0.0, pattern: float = 0.0) -> Replay:
    """A replay that is off by so much."""
    counts = dict.fromkeys(COUNTS, 0) | {"act": round(row.counts["act"] * (1 + acts))}
    total = row.cells["total_energy_pJ"]
    return Replay(
        golden=row,
        clocks=round(row.clocks * (1 + error)),
        counts=counts,
        latency=row.latency + late,
        joules=float(total) * 1e-12 if total else None,
        pattern_clocks=None if row.trace == "chase" else round(row.clocks * (1 + pattern)),
    )


def test_golden_file_has_every_run() -> None:
    rows = golden_rows()
    assert len(rows) == 143
    assert {(row.simulator, row.config) for row in rows} == set(SPECS)
    assert {row.trace for row in rows} == set(NAMED)
    assert sum(row.compared for row in rows) == 143 - 20 - 7


@pytest.mark.parametrize("key", SPECS, ids=lambda key: key[1])
def test_spec_is_that_of_the_golden_runs(key: tuple[str, str]) -> None:
    """Burst, channels, ranks, clock, and where the row begins: what the golden file says of its configurations."""
    one = device_of(*key)
    runs = [row for row in golden_rows() if (row.simulator, row.config) == key]
    cells = runs[0].cells
    assert one.geometry.access_B == int(cells["access_bytes"])
    assert one.geometry.channels % int(cells["channels"]) == 0
    assert one.clock_fs == pytest.approx(float(cells["tCK_ns"]) * 1e6, rel=2e-3)
    assert one.peak_Bps == pytest.approx(float(cells["peak_GBps"]) * 1e9, rel=3e-3)
    if cells["row_field_lsb_bit"]:
        assert decoder(one.controller.mapping, one.geometry).row_lsb == int(cells["row_field_lsb_bit"])
    if key[0] == DRAMSIM3:
        assert one.geometry.ranks == int(cells["ranks"])
        assert one.energy is not None


def test_checks_are_registered() -> None:
    assert CHECKS["dram-ramulator2"] is dram.against_ramulator2
    assert CHECKS["dram-dramsim3"] is dram.against_dramsim3
    assert CHECKS["dram-energy"] is dram.energies


def test_energies_are_those_of_dramsim3() -> None:
    check = dram.energies()
    assert check.rows == 73 * 6
    assert check.equal == check.rows, check.details
    assert 0 < check.max < 1e-7


@pytest.mark.parametrize("part", ["act_J", "read_J", "write_J", "refresh_J", "closed_W"])
def test_a_wrong_energy_is_found(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def off(simulator: str, config: str) -> Device:
        one = device_of(simulator, config)
        assert one.energy is not None
        return replace(one, energy=replace(one.energy, **{part: getattr(one.energy, part) * (1 + 1e-5)}))

    monkeypatch.setattr(dram, "device_of", off)
    assert dram.energies().equal < 73 * 6


def test_statement_says_whether_it_holds() -> None:
    assert str(Statement("clocks", -0.0123, 0.02)) == "clocks: -1.23 % (holds within 2 %)"
    assert str(Statement("latency", 1.6, 1.5, "clocks")) == "latency: 1.6 clocks (DOES NOT HOLD within 1.5 clocks)"


def test_summary_takes_the_size_of_errors() -> None:
    row = first(RAMULATOR2, "DDR3_aligned", "tile3")
    found = [replayed(row, error) for error in (-0.03, 0.0, 0.006)]
    median, mean, _ = summary(found, Bars(0.005, 0.012))
    assert (median.holds, mean.holds) == (False, True)
    assert median.error == pytest.approx(0.006, abs=1e-5)
    assert mean.error == pytest.approx(0.012, abs=1e-5)


WRONG: dict[str, tuple[str, dict[str, float]]] = {
    "latency": ("chase", {"late": 1.6}),
    "conflict": ("conflict", {"error": 0.0031}),
    "activations of a stream": ("seq_write", {"acts": 0.05}),
    "activations of conflicts": ("conflict", {"acts": -0.05}),
}


@pytest.mark.parametrize(("trace", "off"), WRONG.values(), ids=WRONG)
def test_each_claim_can_break_alone(trace: str, off: dict[str, float]) -> None:
    row = first(DRAMSIM3, "DDR3_aligned", trace)
    assert all(claim.holds for claim in single(replayed(row)))
    assert [claim.holds for claim in single(replayed(row, **off))].count(False) == 1


def test_nothing_is_claimed_alone_of_what_schedulers_decide() -> None:
    assert list(single(replayed(first(RAMULATOR2, "DDR3_aligned", "tile3"), 0.3, 0.5, 9, 0.5))) == []


@pytest.fixture
def perfect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replays that are all off by the same, without running a model."""

    def install(**off: float) -> None:
        def fake(simulator: str) -> tuple[Replay, ...]:
            return tuple(replayed(row, **off) for row in golden_rows() if row.simulator == simulator)

        for module in (dram, dram_replay, dram_report):
            monkeypatch.setattr(module, "replays", fake)
        mixed = tuple(dram_ranks.Found(row, off.get("error", 0.0), 0.0) for row in dram_ranks.rows())
        monkeypatch.setattr(dram_ranks, "replays", lambda scheduler: mixed)
        monkeypatch.setattr(dram_report, "table", lambda: (Row("ddr4-2400", 0.01, 0.02, 0.03),))

    return install


@pytest.mark.parametrize("name", ["dram-ramulator2", "dram-dramsim3"])
def test_check_holds_for_a_perfect_model_and_not_for_a_slow_one(name: str, perfect: Callable[..., None]) -> None:
    perfect()
    check = CHECKS[name]()
    assert check.equal == check.rows > 40
    assert check.max < 1e-4
    perfect(error=0.05)
    check = CHECKS[name]()
    assert check.equal < check.rows
    assert check.median == pytest.approx(0.05, abs=1e-4)
    assert "DOES NOT HOLD" in check.details[0]


def test_pattern_model_answers_for_the_largest_error_of_each_trace() -> None:
    configs = ("DDR3_aligned", "DDR4_3200_aligned", "HBM3_8ch")
    rows = [first(RAMULATOR2, config, "rand_read") for config in configs]
    off = [replayed(row, pattern=error) for row, error in zip(rows, (0.01, -0.06, -0.3), strict=True)]
    claims = list(summary(off, Bars(1, 1)))
    assert [claim.holds for claim in claims] == [True, True, False]
    assert claims[-1].error == pytest.approx(0.3, abs=1e-4)
    assert "pattern model, rand_read, largest of 3 runs" in claims[-1].what


def test_bounds_are_those_that_are_claimed() -> None:
    assert BARS == {RAMULATOR2: (0.002, 0.01), DRAMSIM3: (0.001, 0.01)}


def test_page_has_every_run_and_names_its_command(perfect: Callable[..., None]) -> None:
    perfect(error=0.02)
    page = dram_report.page({name: dram.statements(name) for name in dram_report.SIMULATORS})
    assert dram_report.COMMAND in page.split("\n\n")[1]
    for row in golden_rows():
        assert f"| {row.config} | `{row.trace}` | {row.clocks:,.0f} |" in page
    assert "| DDR4_3200_aligned | `tile3` | +29.3 % | +2.0 % | +2.0 % |" in page
    assert "DOES NOT HOLD" in page
    assert "| `ddr4-2400` | 1.00 % | 2.00 % | 3.00 % |" in page
    assert "| DDR3_8Gb_x8_1600 | 2 | 10 % | 323,033 | +2.0 % | +2.0 % | +2.0 % |" in page


def test_picture_has_a_dot_per_compared_run(perfect: Callable[..., None]) -> None:
    perfect(error=0.02, pattern=-0.04)
    drawn = dram_report.picture({name: dram_report.replays(name) for name in dram_report.SIMULATORS})
    for axes, height in zip(drawn.axes, (2.0, -4.0), strict=True):
        dots = np.concatenate([np.asarray(found.get_offsets()) for found in axes.collections])
        runs = [row for row in golden_rows() if row.compared and (height > 0 or row.trace != "chase")]
        assert len(dots) == len(runs)
        np.testing.assert_allclose(dots[:, 1], height, atol=0.02)


def test_small_errors_have_two_digits() -> None:
    assert [dram_report.signed(error) for error in (0.1234, -0.00123, None)] == ["+12.3 %", "-0.12 %", ""]


class Spy:
    """Both models at once: so many clocks, a latency of 9; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.pattern: tuple[Any, ...] = ()

    def serve(self, one: Device, addresses: Any, writes: Any, **options: Any) -> Served:
        self.asked = {"device": one, "addresses": addresses, **options}
        counts = dict.fromkeys(COUNTS, 0) | {"rd": len(addresses)}
        arrived = np.arange(len(addresses))
        return Served(0, 1000, counts, 0, 0, arrived, arrived + 9)

    def of(self, one: Device) -> Any:
        def serve(addresses: Any, writes: Any) -> Served:
            self.pattern = (one, addresses)
            return Served(0, 500, {}, 0, 0)

        return SimpleNamespace(serve=serve)


def test_replay_offers_the_golden_trace_as_the_golden_run_did(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy()
    monkeypatch.setattr(dram_replay.bank, "serve", spy.serve)
    monkeypatch.setattr(dram_replay, "Pattern", spy.of)
    found = dram_replay.replay(first(RAMULATOR2, "HBM2_2000_8Gb_8ch", "chase"))
    assert (found.clocks, found.pattern_clocks, found.latency, found.joules) == (1000, None, 9.0, None)
    assert (spy.asked["injection"], spy.asked["outstanding"], len(spy.asked["addresses"])) == (16, 1, 4096)
    row = first(DRAMSIM3, "DDR3_aligned", "conflict")
    found = dram_replay.replay(row)
    assert (spy.asked["injection"], spy.asked["outstanding"]) == (1, None)
    assert spy.pattern[0] is spy.asked["device"] is device_of(DRAMSIM3, "DDR3_aligned")
    assert spy.pattern[1][1] == 1 << 17
    assert found.joules is not None and found.joules > 0
    assert found.error == pytest.approx(1000 / row.clocks - 1)
    assert found.pattern_error == pytest.approx(500 / row.clocks - 1)


def test_only_short_traces_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dram_replay.bank, "engine", lambda: "python")
    monkeypatch.setattr(dram, "engine", lambda: "python")
    monkeypatch.setattr(dram_replay, "replay", replayed)
    dram_replay.replays.cache_clear()
    try:
        assert {each.golden.trace for each in dram_replay.replays(DRAMSIM3)} == {"chase", "conflict"}
        check = dram.against_dramsim3()
        assert check.equal == check.rows
        assert "only the short traces" in check.details[0]
    finally:
        dram_replay.replays.cache_clear()


@pytest.mark.parametrize("trace", ["chase", "conflict"])
@pytest.mark.parametrize("simulator", [RAMULATOR2, DRAMSIM3])
def test_models_meet_the_claims_on_short_traces(simulator: str, trace: str) -> None:
    found = dram_replay.replay(first(simulator, "DDR4_3200_aligned", trace))
    claims = list(single(found))
    assert claims
    assert [str(claim) for claim in claims if not claim.holds] == []


def test_committed_page_comes_from_the_command_and_every_claim_holds() -> None:
    page = (REPORTS / "dram.md").read_text(encoding="utf-8")
    assert dram_report.COMMAND in page.split("\n\n")[1]
    assert dram_report.PLOT in page
    assert (REPORTS / dram_report.PLOT).exists()
    assert "DOES NOT HOLD" not in page
    assert page.count("| `tile3` |") >= 20
