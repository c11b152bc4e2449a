"""The pattern model: clocks against the golden runs of DRAMsim3 and Ramulator 2.1, policies, state, errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.dram.device import Device
from accelsim.dram.pattern import Pattern
from accelsim.dram.records import FRONT
from accelsim.dram.traces import made
from accelsim.errors import UsageError
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from tests.validation.dram_replay import Golden, device_of, golden_rows

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

TRACES = ("seq_read", "seq_write", "stream3", "rand_read", "conflict")
BOUND = {"stream3": 0.08}
"""Others: 0.05."""


def golden() -> list[Any]:
    rows = [row for row in golden_rows() if row.compared and row.trace in TRACES]
    return [pytest.param(row, id=f"{row.simulator}-{row.config}-{row.trace}") for row in rows]


@pytest.mark.parametrize("row", golden())
def test_clocks_are_near_those_of_the_golden_runs(row: Golden) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`): this would take minutes")
    dev = device_of(row.simulator, row.config)
    trace = made(row.trace, row.access_B, row.row_lsb)
    served = Pattern(dev).serve(trace.addresses, trace.writes)
    assert abs(served.end / row.clocks - 1) <= BOUND.get(row.trace, 0.05)
    assert served.counts["rd"] + served.counts["wr"] == trace.addresses.size


def memory(name: str = "ddr4-3200", **controller: Any) -> Device:
    return device(load_dram(name), name, **controller)


def test_one_read_takes_the_unloaded_latency() -> None:
    dev = memory(refresh="none")
    served = Pattern(dev).serve(np.array([0]))
    assert served.end == Bank(dev).serve(np.array([0]), False).end == dev.unloaded_read + FRONT
    assert served.counts["misses"] == served.counts["act"] == 1


def test_closed_page_is_ten_times_slower_where_the_column_is_lowest() -> None:
    addresses = made("seq_read", 64).addresses[:65536]
    policies = (memory(mapping="row-bank-column", page_policy=policy) for policy in ("open", "closed"))
    fast, slow = (Pattern(dev).serve(addresses) for dev in policies)
    assert 8 < slow.elapsed / fast.elapsed < 12
    assert slow.counts["misses"] == slow.counts["act"] == slow.counts["pre"] == addresses.size


def test_bank_groups_at_the_bottom_stream_at_nearly_the_peak() -> None:
    addresses = made("seq_read", 64).addresses
    dev = memory(mapping="bank-group-lowest")
    peak = addresses.size * dev.burst
    assert 1 <= Pattern(dev).serve(addresses).elapsed / peak < 1.06
    assert Pattern(memory(mapping="row-bank-column")).serve(addresses).elapsed / peak > 1.4


def test_a_window_of_one_serves_a_ping_pong_row_by_row_and_a_wider_one_gathers_it() -> None:
    dev = memory(mapping="row-bank-column", refresh="none", page_policy="open")
    row = dev.geometry.row_B * dev.geometry.banks_per_rank * dev.geometry.ranks
    addresses = (np.arange(4096) % 2) * row + (np.arange(4096) // 2 % 128) * 64
    narrow, wide = (
        Pattern(replace(dev, controller=replace(dev.controller, window=window))).serve(addresses) for window in (1, 32)
    )
    assert narrow.counts["conflicts"] == 4095
    assert wide.counts["act"] <= 4096 / 32 * 2
    assert narrow.elapsed > 5 * wide.elapsed


def test_the_cap_closes_a_row_only_while_another_is_wanted() -> None:
    dev = memory(mapping="row-bank-column", refresh="none", page_policy="open")
    row = dev.geometry.row_B * dev.geometry.banks_per_rank * dev.geometry.ranks
    ping_pong = (np.arange(4096) % 2) * row + (np.arange(4096) // 2 % 128) * 64
    acts = {}
    for policy in ("open", "capped"):
        chosen = replace(dev, controller=replace(dev.controller, page_policy=policy, cap=4))
        acts[policy] = [Pattern(chosen).serve(each).counts["act"] for each in (ping_pong, np.arange(4096) * 64)]
    assert acts["capped"][0] == pytest.approx(4096 / 4, rel=0.15)
    assert acts["open"][0] < acts["capped"][0] / 3
    assert acts["capped"][1] == acts["open"][1]


def test_a_timeout_turns_conflicts_into_misses() -> None:
    dev = memory(mapping="row-bank-column", refresh="none", page_policy="timeout", timeout=100)
    rows = np.arange(40) * dev.geometry.row_B * dev.geometry.banks_per_rank * dev.geometry.ranks
    found = {}
    for pause in (10, 1000):
        pattern, end, found[pause] = Pattern(dev), 0, dict.fromkeys(("misses", "conflicts", "pre"), 0)
        for row in rows:
            served = pattern.serve(np.array([row]), at=end + pause)
            end = served.end
            found[pause] = {name: count + served.counts[name] for name, count in found[pause].items()}
    assert found[10] == {"misses": 1, "conflicts": 39, "pre": 39}
    assert found[1000] == {"misses": 40, "conflicts": 0, "pre": 39}


def test_refresh_takes_its_share_of_the_time_and_closes_rows() -> None:
    addresses = made("seq_read", 64).addresses
    none, every = (Pattern(memory(refresh=kind)).serve(addresses) for kind in ("none", "all_bank"))
    timing = memory().timing
    assert every.elapsed / none.elapsed == pytest.approx(1 / (1 - timing["tRFC"] / timing["tREFI"]), rel=0.05)
    ranks = memory().geometry.ranks
    assert every.counts["ref"] == every.end // timing["tREFI"] * ranks
    assert none.counts["ref"] == 0
    assert every.counts["misses"] > none.counts["misses"]


def test_refresh_bank_by_bank_costs_less() -> None:
    addresses = made("seq_read", 32).addresses
    one, all_ = (Pattern(memory("hbm2-2000", refresh=kind)).serve(addresses) for kind in ("per_bank", "all_bank"))
    assert one.end < all_.end
    assert one.counts["refpb"] > 0 == one.counts["ref"]


def test_an_open_row_is_remembered_from_call_to_call() -> None:
    pattern = Pattern(memory(refresh="none"))
    first = pattern.serve(np.arange(8) * 64)
    again = pattern.serve(np.arange(8) * 64, at=first.end + 100)
    assert (first.counts["misses"], again.counts["misses"], again.counts["hits"]) == (1, 0, 8)
    assert again.begin == first.end + 100 and again.elapsed < first.elapsed


@pytest.mark.parametrize(
    ("name", "bound"),
    [("ddr3-2133", 2e-3), ("ddr4-2400", 0.03), ("ddr5-4800", 2e-3), ("lpddr5-6400", 2e-3), ("gddr6-14000", 2e-3),
     ("hbm2-2000", 2e-3), ("hbm3-6400", 2e-3)],
)  # fmt: skip
@pytest.mark.parametrize("writes", [False, True])
def test_tiles_are_as_long_as_with_every_command(name: str, bound: float, writes: bool) -> None:
    """On DDR4-2400 rows of two bank groups overlap, and which one goes first at tCCD_L = 1.5 tCCD_S matters."""
    dev = memory(name, refresh="none")
    pattern, bank = Pattern(dev), Bank(dev)
    tile = np.arange(1024) * dev.geometry.access_B
    ends = [0, 0]
    for number in range(6):
        addresses, write = tile + number * tile.size * dev.geometry.access_B, writes ^ (number % 3 == 0)
        ends = [model.serve(addresses, write, ends[1]).end for model in (pattern, bank)]
    assert ends[0] == pytest.approx(ends[1], rel=bound)


def test_recorded_times_of_a_sampled_batch_are_a_line_that_ends_at_the_end() -> None:
    served = Pattern(memory()).serve(np.arange(300_000) * 64, True, at=50, record=True)
    assert served.done is not None and served.arrived is not None
    assert served.done[-1] == served.end and (np.diff(served.done) >= 0).all()
    assert served.arrived[0] == 50 and (np.diff(served.arrived, 2) <= 1).all() and served.commands is None
    assert served.bus_clocks == 300_000 * memory().burst
    assert 0 < served.open_clocks <= served.elapsed * memory().geometry.ranks


def test_nothing_takes_no_time() -> None:
    served = Pattern(memory()).serve(np.array([], np.int64), at=7)
    assert (served.begin, served.end, sum(served.counts.values())) == (7, 7, 0)


def test_what_is_no_stream_is_refused_with_all_its_problems() -> None:
    with pytest.raises(UsageError, match="address -64") as caught:
        Pattern(memory()).serve(np.array([0, -64]), np.zeros(3, bool))
    assert len(caught.value.problems) == 2
