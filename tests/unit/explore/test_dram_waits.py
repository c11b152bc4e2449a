"""What the data bus waited for: the parts add up, and each rule is found where it is the only one that can bind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accelsim.dram.device import Command, Device
from accelsim.dram.served import COUNTS, Served
from accelsim.dram.traces import NAMED
from accelsim.explore.dram_replay import replay
from accelsim.explore.dram_waits import REASONS, Waits, waits
from accelsim.report.dram import limit_sentences
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor

ACCESSES = 3_000
DDR4 = anchor("ramulator2-ddr4-3200")


def told(name: str, trace: str, *overrides: str, **controller: Any) -> Waits:
    found = replay(name, trace, limit=ACCESSES, overrides=overrides, **controller).waits
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["ddr3-1600", "ddr4-3200", "gddr6-14000", "hbm2-2000", "hbm3-6400"])
@pytest.mark.parametrize("trace", NAMED)
def test_data_and_waits_are_all_of_the_time(name: str, trace: str) -> None:
    found = replay(name, trace, limit=ACCESSES)
    assert found.waits is not None
    clocks, g = found.waits.clocks, found.device.geometry
    assert set(clocks) == set(REASONS) and min(clocks.values()) >= 0
    assert sum(clocks.values()) == found.waits.total == found.served.elapsed * g.channels
    assert clocks["data"] == found.bursts * found.device.burst


@pytest.mark.parametrize("trace", ["rand_mix", "seq_read", "conflict", "tile3"])
def test_the_sentence_claims_most_of_the_rest_and_nothing_else_only_where_it_is_so(trace: str) -> None:
    """Of the mix and the tiles several reasons share the rest of the time, a stream is held up by refresh alone."""
    found = replay("ddr4-2400", trace, limit=4096)
    assert found.waits is not None
    idle = {reason: found.waits.share(reason) for reason in REASONS if reason != "data"}
    text = " ".join(limit_sentences(found))
    most = max(idle.values()) > sum(idle.values()) / 2
    assert ("Most of the rest" in text, "The largest part of the rest" in text) == (most, not most)
    assert most == (trace in ("seq_read", "conflict"))
    if "Nothing else is in the way" in text:
        assert sum(idle.values()) - idle["refresh"] < 0.02


@pytest.mark.parametrize("policy", ["closed", "capped", "timeout"])
def test_they_add_up_with_every_page_policy(policy: str) -> None:
    found = told(DDR4, "tile3", page_policy=policy)
    assert sum(found.clocks.values()) == found.total


@pytest.mark.parametrize(
    ("name", "trace", "controller", "reason", "least"),
    [
        (DDR4, "seq_read", {"mapping": "rochrababgco", "refresh": "none"}, "group", 0.3),
        (DDR4, "conflict", {"refresh": "none"}, "bank", 0.94),
        (DDR4, "rand_read", {"refresh": "none"}, "tFAW", 0.45),
        (DDR4, "chase", {"refresh": "none"}, "request", 0.8),
        ("gddr6-14000", "rand_read", {"refresh": "none"}, "t32AW", 0.4),
        ("hbm2-2000", "tile3", {}, "uneven", 0.9),
        ("ddr3-1600", "seq_read", {}, "refresh", 0.02),
    ],
)
def test_the_worst_reason(name: str, trace: str, controller: dict[str, str], reason: str, least: float) -> None:
    found = told(name, trace, **controller)
    assert found.worst == reason
    assert found.share(reason) >= least


def test_no_refresh_no_wait_for_it() -> None:
    assert told(DDR4, "rand_mix").clocks["refresh"] > 0
    assert told(DDR4, "rand_mix", refresh="none").clocks["refresh"] == 0


def test_one_rank_never_waits_for_another() -> None:
    assert told("ddr4-3200", "rand_read").clocks["rank"] > 0
    assert told("ddr4-3200", "rand_read", "organisation.ranks=1").clocks["rank"] == 0


def by_hand(*rows: tuple[int, Command, int], end: int) -> Waits:
    """Waits of commands on a one-rank DDR4-3200; rows are (clock, command, bank)."""
    made = device(load_dram(DDR4))
    commands = np.array([(clock, command, bank, 0) for clock, command, bank in rows], np.int64)
    return waits(Served(0, end, dict.fromkeys(COUNTS, 0), 0, 0, commands=commands), made)


def timing() -> Device:
    return device(load_dram(DDR4))


def test_gaps_by_hand() -> None:
    """ACT at 0, RD when it may (tRCD), again after tCCD_L, then a write as early as the bus allows."""
    t = timing().timing
    first = t["tRCDRD"]
    second, turn = first + t["tCCD_L"], first + t["tCCD_L"] + t["tRTW"]
    end = turn + t["CWL"] + t["BL"]
    found = by_hand(
        (0, Command.ACT, 0), (first, Command.RD, 0), (second, Command.RD, 0), (turn, Command.WR, 0), end=end
    )  # fmt: skip
    expected = {
        "data": 3 * t["BL"],
        "request": first + t["CL"],
        "group": t["tCCD_L"] - t["BL"],
        "turn": t["tRTW"] + t["CWL"] - t["CL"] - t["BL"],
    }
    assert found.clocks == dict.fromkeys(REASONS, 0) | expected
    assert sum(expected.values()) == end


def test_fifth_activation_by_hand() -> None:
    """Four banks of four groups tRRD apart; the fifth ACT waits for tFAW, and its burst for that ACT."""
    t = timing().timing
    acts = [(i * t["tRRD_S"], Command.ACT, 4 * i) for i in range(4)]
    reads = [(at + t["tRCDRD"], Command.RD, bank) for at, _, bank in acts]
    fifth = (t["tFAW"], Command.ACT, 1)
    last = (t["tFAW"] + t["tRCDRD"], Command.RD, 1)
    rows = sorted([*acts, *reads, fifth, last])
    found = by_hand(*rows, end=last[0] + t["CL"] + t["BL"])
    assert found.clocks["tFAW"] == last[0] - reads[-1][0] - t["BL"] > 0
    assert found.clocks["data"] == 5 * t["BL"]


def test_commands_are_needed() -> None:
    made = timing()
    with pytest.raises(ValueError, match="not recorded"):
        waits(Served(0, 1, dict.fromkeys(COUNTS, 0), 0, 0), replace(made))
