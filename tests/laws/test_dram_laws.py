"""Laws of the DRAM bank model: the rules of the standard, conservation, refresh, and that all its paths agree."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.dram.bank import Bank, serve
from accelsim.dram.device import Device
from accelsim.dram.mapping import decoder
from accelsim.dram.served import Served
from accelsim.dram.standards import STANDARDS
from accelsim.types import Array
from tests.helpers import protocol
from tests.helpers.dram_cases import MEMORIES, Case, cases, changed, devices, memory, often_refreshed, refreshes, small

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

BOTH = importlib.util.find_spec("numba") is not None
REASON = "numba is not installed (extra `fast`), so there is only one inner loop"
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
BANKS = ((1, 1), (1, 2), (1, 4), (2, 4), (4, 4), (4, 8))
"""(Bank groups, banks of a group)."""
LATE = {"timeout": 0.3}
"""Page policies whose rows are found to be closed only later: what that may add to the clocks with open banks."""
TOLERANCE = 1.01
READS = 20_000


def served(case: Case, kernel: str = "", **keep: bool) -> Iterator[tuple[Served, int]]:
    """Each call of a case, with the clock at which it began."""
    model, at = Bank(case.device, kernel=kernel, **case.how), 0
    for call in case.calls:
        at += call.gap
        found = model.serve(call.addresses, call.writes, at, **keep)
        yield found, at
        at = found.end


def random_reads(device: Device, count: int = READS) -> Array:
    g = device.geometry
    return np.random.default_rng(1).integers(0, g.capacity_B // g.access_B, count) * g.access_B


@settings(max_examples=60)
@given(cases(longest=100))
def test_every_command_is_allowed_and_every_burst_is_served_once(case: Case) -> None:
    log: list[protocol.Row] = []
    for (found, _), call in zip(served(case, commands=True), case.calls, strict=True):
        assert found.commands is not None
        here = protocol.rows(found.commands)
        log += here
        assert protocol.served(here) == protocol.places(case.device, call.addresses, call.writes)
        issued = Counter(row.command.name.lower() for row in here)
        assert {name: issued[name] for name in ("act", "pre", "rd", "wr")}.items() <= found.counts.items()
    log.sort(key=lambda row: row.clock)
    assert protocol.violations(case.device, log) == []


@settings(max_examples=100)
@given(cases())
def test_bytes_and_clocks_are_bounded(case: Case) -> None:
    t, g, burst = case.device.timing, case.device.geometry, case.device.burst
    for (found, at), call in zip(served(case, record=True), case.calls, strict=True):
        n, counts = len(call.addresses), found.counts
        assert counts["rd"] == n - call.writes.sum()
        assert counts["wr"] == call.writes.sum()
        assert counts["hits"] + counts["misses"] + counts["conflicts"] == n
        assert counts["act"] >= counts["misses"] + counts["conflicts"]
        assert found.begin == at
        assert found.bus_clocks == n * burst <= found.elapsed * g.channels
        arrived, done = found.arrived, found.done
        assert arrived is not None
        assert done is not None
        assert (np.diff(arrived) >= 0).all()
        assert arrived.min() == at
        assert done.max() == found.end
        assert done.min() == found.first
        assert (done - arrived >= np.where(call.writes, t["CWL"], t["CL"]) + burst).all()
        channels = decoder(case.device.controller.mapping, g).decode(call.addresses).channel
        for channel in range(g.channels):
            assert (np.diff(np.sort(done[channels == channel])) >= burst).all()


@settings(max_examples=100)
@given(cases())
def test_clocks_with_open_banks(case: Case) -> None:
    """Against the sum of the log, which is exact; rows are not closed in the order in which they were opened."""
    log: list[protocol.Row] = []
    ranks = case.device.geometry.channels * case.device.geometry.ranks
    share = LATE.get(case.device.controller.page_policy, 0.02)
    for found, at in served(case, commands=True):
        assert found.commands is not None
        log = sorted(log + protocol.rows(found.commands), key=lambda row: row.clock)
        assert 0 <= found.open_clocks <= found.elapsed * ranks
        exact = protocol.open_clocks(case.device, log, at, found.end)
        cycles = ranks + found.counts["ref"] + found.counts["refpb"]  # a row cycle may be on the wrong side of each
        assert abs(found.open_clocks - exact) <= share * exact + cycles * case.device.timing["tRC"]


@pytest.mark.skipif(not BOTH, reason=REASON)
@settings(max_examples=60)
@given(cases(parts=4, longest=120))
def test_compiled_and_python_loops_agree(case: Case) -> None:
    keep = {"record": True, "commands": True}
    same(served(case, "numba", **keep), served(case, "python", **keep))


@settings(max_examples=60)
@given(cases(parts=12))
def test_stretches_served_at_once_are_as_one_by_one(case: Case) -> None:
    """Without a log, stretches in an open row are served at once."""
    same(served(case, record=True), served(case, record=True, commands=True))


def same(some: Iterator[tuple[Served, int]], others: Iterator[tuple[Served, int]]) -> None:
    for (one, _), (other, _) in zip(some, others, strict=True):
        assert one.counts == other.counts
        assert (one.end, one.first, one.open_clocks) == (other.end, other.first, other.open_clocks)
        for kept in ("arrived", "done", "commands"):
            mine, its = getattr(one, kept), getattr(other, kept)
            assert mine is None or its is None or np.array_equal(mine, its)


@settings(max_examples=30)
@given(cases())
def test_the_same_again_gives_the_same(case: Case) -> None:
    same(served(case, record=True), served(case, record=True))


@settings(max_examples=60)
@given(cases(parts=4), st.data())
def test_a_stream_in_pieces_loses_nothing(case: Case, data: st.DataObject) -> None:
    call, model, at = case.calls[0], Bank(case.device, **case.how), 0
    n = len(call.addresses)
    cuts = sorted(data.draw(st.sets(st.integers(0, n), max_size=4)) | {0, n})
    total: Counter[str] = Counter()
    for first, past in pairwise(cuts):
        found = model.serve(call.addresses[first:past], call.writes[first:past], at)
        at = found.end
        total.update(found.counts)
    assert total["rd"] + total["wr"] == n
    assert total["hits"] + total["misses"] + total["conflicts"] == n
    alone = serve(case.device, call.addresses, call.writes, **case.how)
    assert at >= alone.bus_clocks // case.device.geometry.channels


@pytest.mark.parametrize("often", [False, True])
@pytest.mark.parametrize("name", MEMORIES)
def test_refresh_keeps_its_interval(name: str, often: bool) -> None:
    """Per rank one every tREFI, within one, with idle time between calls, wherever the accesses go."""
    base = small(memory(name), ranks=2, channels=2, rows=64)
    base = often_refreshed(base) if often else base
    for kind in refreshes(base):
        device = changed(base, refresh=kind, mapping="chrarobabgco")
        every = interval(device)
        for addresses in (random_reads(device, 500), np.arange(500) * device.geometry.access_B):
            model, at, count = Bank(device), 0, 0
            for gap in (0, 0, 10, int(0.7 * every), int(3.4 * every), 0, int(17.8 * every), 5):
                found = model.serve(addresses, False, at + gap)
                at, count = found.end, count + found.counts["ref"] + found.counts["refpb"]
            ranks = device.geometry.ranks * device.geometry.channels
            assert abs(count - ranks * at / every) <= ranks if kind != "none" else count == 0


def interval(device: Device) -> int:
    """Clocks between two refresh commands of a rank."""
    t = device.timing
    if device.controller.refresh != "per_bank":
        return t["tREFI"]
    return t["tREFIpb"] or t["tREFI"] // device.geometry.banks_per_rank


def no_loss(ends: list[int]) -> None:
    assert all(after <= before * TOLERANCE for before, after in pairwise(ends)), ends


@pytest.mark.parametrize("name", MEMORIES)
def test_more_window_loses_nothing_on_random_reads(name: str) -> None:
    base = small(memory(name), channels=1)
    reads = random_reads(base)
    no_loss([serve(changed(base, window=window), reads, False).end for window in WINDOWS])


@pytest.mark.parametrize("window", [1, 32])
@pytest.mark.parametrize("name", MEMORIES)
def test_more_banks_lose_nothing_on_random_reads(name: str, window: int) -> None:
    base = changed(memory(name), window=window)
    grouped = STANDARDS[base.standard].groups
    sizes = BANKS if grouped else tuple((1, groups * banks) for groups, banks in BANKS)
    made = [small(base, channels=1, groups=groups, banks=banks, rows=4096) for groups, banks in sizes]
    no_loss([serve(device, random_reads(device), False).end for device in made])


@settings(max_examples=60)
@given(devices(), st.integers(1, 400))
def test_no_stream_is_faster_than_its_bus(device: Device, count: int) -> None:
    addresses = np.arange(count) * device.geometry.access_B
    found = serve(device, addresses, False)
    seconds = found.elapsed * device.clock_fs * 1e-15
    assert count * device.geometry.access_B / seconds <= device.peak_Bps


@pytest.mark.parametrize("name", MEMORIES)
def test_without_refresh_nothing_is_slower(name: str) -> None:
    base = small(memory(name), channels=1)
    reads = random_reads(base, 4000)
    none = serve(changed(base, refresh="none"), reads, False)
    assert none.counts["ref"] + none.counts["refpb"] == 0
    timed: Callable[[str], int] = lambda kind: serve(changed(base, refresh=kind), reads, False).end  # noqa: E731
    assert all(none.end <= timed(kind) * TOLERANCE for kind in refreshes(base))
    assert serve(replace(base, windows=()), reads, False).end <= timed("all_bank") * TOLERANCE
