"""The check of random mixes on one and two ranks: what its file holds, what it claims, that a claim can break."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from accelsim.dram.device import SCHEDULERS
from tests.validation import dram_ranks
from tests.validation.base import CHECKS
from tests.validation.dram_ranks import Found, mix, replay, rows, statements, with_scheduler
from tests.validation.dram_replay import DRAMSIM3, SPECS, device_of

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

NUMBA = importlib.util.find_spec("numba") is not None


def test_rows_are_mixes_on_golden_configurations() -> None:
    assert len(rows()) == 36
    assert all((DRAMSIM3, row.config) in SPECS for row in rows())
    for row in rows():
        one = device_of(DRAMSIM3, row.config)
        assert (one.controller.scheduler, one.geometry.ranks) == ("queues", row.ranks)
    assert {row.ranks for row in rows()} == {1, 2}


def test_a_mix_has_each_place_once_and_its_share_of_writes() -> None:
    addresses, writes, _ = mix(33, 64)
    assert len(set(addresses.tolist())) == len(writes) == 65_536
    assert addresses.max() < 256 << 20 and not (addresses % 64).any()
    assert writes.mean() == pytest.approx(0.33, abs=0.01)
    assert np.array_equal(mix(80, 64).addresses, addresses)


def test_other_schedulers_have_as_large_a_window() -> None:
    one = device_of(DRAMSIM3, "DDR4_8Gb_x8_3200")
    for name in SCHEDULERS:
        other = with_scheduler(one, name)
        assert other.controller.scheduler == name
        assert other.timing == one.timing
        assert other.controller.window == (32 if name == "queues" else 40)


@pytest.mark.skipif(not NUMBA, reason="65,536 accesses take a minute without numba (extra `fast`)")
@pytest.mark.parametrize("config", ["DDR3_8Gb_x8_1600", "DDR4_8Gb_x8_3200", "DDR4_3200_aligned"])
def test_queues_meet_the_claims(config: str) -> None:
    found = tuple(replay(row) for row in rows() if row.config == config and row.share in (20, 80))
    assert [str(claim) for claim in statements(found) if not claim.holds] == []


@pytest.mark.skipif(not NUMBA, reason="65,536 accesses take a minute without numba (extra `fast`)")
def test_on_two_ranks_another_scheduler_does_not() -> None:
    row = next(row for row in rows() if row.config == "DDR3_8Gb_x8_1600" and row.share == 20)
    assert replay(row, "bursts").error < -0.03
    assert replay(row, "commands").error < -0.03


def test_each_claim_can_break_alone() -> None:
    fine = tuple(Found(row, 0.0, 0.0) for row in rows())
    assert all(claim.holds for claim in statements(fine))
    slow = (*fine[1:], Found(rows()[0], 0.0021, 0.0))
    busy = (*fine[1:], Found(rows()[0], 0.0, -0.0021))
    for found in (slow, busy):
        assert [claim.holds for claim in statements(found)].count(False) == 1


def test_check_tells_of_the_other_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    off = {"queues": 0.0005, "bursts": -0.04, "commands": 0.06}
    monkeypatch.setattr(
        dram_ranks, "replays", lambda name="queues": tuple(Found(row, off[name], 0.0) for row in rows())
    )
    found = CHECKS["dram-ranks"]()
    assert (found.rows, found.equal) == (73, 73)
    assert "scheduler 'bursts' on two ranks, 24 mixes: sizes 4.0%" in found.details[1]
    assert "from +6.0% to +6.0%" in found.details[2]
    monkeypatch.setattr(dram_ranks, "replays", lambda name="queues": ())
    none = CHECKS["dram-ranks"]()
    assert none.rows == none.equal == 0
    assert "numba" in none.details[0]
