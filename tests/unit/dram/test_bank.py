"""The bank model on cases small enough to count the clocks by hand; what they are counted with is in ``bank_cases``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from accelsim.dram import bank
from accelsim.dram.bank import Bank, engine, serve
from accelsim.dram.device import Command
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import list_drams, load_dram
from tests.helpers import protocol
from tests.helpers.bank_cases import (
    BL,
    CCD_L,
    CCD_S,
    CL,
    CWL,
    FRONT,
    RAS,
    RC,
    RCD,
    READ,
    REFI,
    RFC,
    RP,
    RRD_L,
    RRD_S,
    RTP,
    WR,
    arrived,
    done,
    go,
    issued,
    made,
)  # fmt: skip


def test_timing_is_what_the_cases_are_counted_with() -> None:
    t = made().timing
    counted = {
        "tRCDRD": RCD, "tRCDWR": RCD, "CL": CL, "CWL": CWL, "tRP": RP, "tRAS": RAS, "tRC": RC, "tRTP": RTP, "tWR": WR,
        "tCCD_S": CCD_S, "tCCD_L": CCD_L, "tRRD_S": RRD_S, "tRRD_L": RRD_L, "BL": BL, "tREFI": REFI, "tRFC": RFC,
    }  # fmt: skip
    assert counted.items() <= t.items()


def test_unloaded() -> None:
    assert done(go(made(), "r0")) == [READ] == [FRONT + made().unloaded_read]
    assert done(go(made(), "w0")) == [FRONT + RCD + CWL + BL]
    assert done(go(made(), "r0", at=1000)) == [1000 + READ]


@pytest.mark.parametrize("name", list_drams())
def test_unloaded_read_of_every_memory(name: str) -> None:
    dram = device(load_dram(name))
    assert serve(dram, np.zeros(1, np.int64), False).end == FRONT + dram.unloaded_read


def test_chase_waits_for_the_data() -> None:
    found = go(made(), "r0", "r0", "r0", outstanding=1)
    assert arrived(found) == [0, READ, READ + FRONT + CL + BL]
    assert done(found)[-1] == READ + 2 * (FRONT + CL + BL)


@pytest.mark.parametrize(
    ("bursts", "gap"),
    [
        (("r0", "r0"), CCD_L),
        (("r0", "r0 b1"), RRD_L),  # ACT to ACT of a group, longer than RD to RD
        (("r0", "r0 g1"), RRD_S),
        (("r0", "r1"), RC),
        (("r0", "w0"), CL + BL + 2 - CWL + CWL - CL),  # tRTW, and the delays of the data
        (("r0 k0", "r0 k1"), BL + 1),  # tRTRS
    ],
)
def test_gap_between_the_data_of_two_accesses(bursts: tuple[str, ...], gap: int) -> None:
    first, second = done(go(made(ranks=2), *bursts))
    assert second - first == gap


def test_reads_after_writes_wait_for_the_cells() -> None:
    """WR to RD: CWL + BL + tWTR, in DDR4-2400 3 clocks between groups and 9 in one."""
    dram = made(window=1)
    for bursts, wait in ((("w0", "r0"), 9), (("w0", "r0 g1"), 3)):
        found = go(dram, *bursts)
        wr, rd = issued(found, Command.WR)[0], issued(found, Command.RD)[0]
        if wr < rd:
            assert rd - wr >= CWL + BL + wait
        else:
            assert wr - rd >= CL + BL + 2 - CWL


def test_conflicts_take_a_row_cycle_each() -> None:
    n = 200
    found = go(made(window=8), *[f"r{i % 16}" for i in range(n)])
    assert done(found) == [READ + i * RC for i in range(n)]
    assert found.counts == {
        "act": n, "pre": n - 1, "rd": n, "wr": 0, "ref": 0, "refpb": 0, "hits": 0, "misses": 1, "conflicts": n - 1,
    }  # fmt: skip
    writes = go(made(window=8), *[f"w{i % 16}" for i in range(20)])
    cycle = RCD + CWL + BL + WR + RP
    assert np.diff(done(writes)).tolist() == [cycle] * 19


def test_conflicts_with_refresh() -> None:
    """tREFI holds (tREFI - tRFC) / tRC accesses."""
    found = go(made(refresh="all_bank", window=8), *[f"r{i % 16}" for i in range(4000)], commands=False)
    assert found.end == pytest.approx(4000 * RC * REFI / (REFI - RFC), rel=0.01)
    assert found.counts["ref"] == found.end // REFI


def test_four_activations_in_a_window() -> None:
    dram = made(groups=4)
    found = go(replace(dram, windows=((4, 100),)), *[f"r0 g{i % 4} b{i // 4}" for i in range(8)])
    acts = issued(found, Command.ACT)
    assert acts == [1, 5, 9, 13, 101, 105, 109, 113]


def test_hits_go_first_and_the_oldest_of_equals() -> None:
    found = go(made(), "r0", "r1", "r0", "r0")
    assert np.argsort(done(found)).tolist() == [0, 2, 3, 1]
    assert found.counts["hits"] == 2
    in_order = go(made(window=1), "r0", "r1", "r0", "r0")
    assert np.argsort(done(in_order)).tolist() == [0, 1, 2, 3]
    assert in_order.counts["hits"] == 1


def test_closed_page_closes_behind_each_access() -> None:
    found = go(made(page_policy="closed"), "r0", "r0", "r0")
    assert found.counts["misses"] == found.counts["act"] == found.counts["pre"] == 3
    assert issued(found, Command.ACT) == [1, 1 + RC, 1 + 2 * RC]
    assert issued(found, Command.PRE) == [1 + RAS, 1 + RC + RAS, 1 + 2 * RC + RAS]


def test_capped_page_lets_another_row_in() -> None:
    bursts = ("r0", "r0", "r1", "r0", "r0", "r0")
    capped = go(made(page_policy="capped", cap=2), *bursts)
    assert np.argsort(done(capped)).tolist() == [0, 1, 2, 3, 4, 5]
    assert capped.counts["conflicts"] == 2
    opened = go(made(), *bursts)
    assert np.argsort(done(opened)).tolist() == [0, 1, 3, 4, 5, 2]
    alone = go(made(page_policy="capped", cap=2), *["r0"] * 6)
    assert alone.counts["hits"] == 5


@pytest.mark.parametrize(("timeout", "closed"), [(100, 1 + RCD + 100), (5, 1 + RAS)])
def test_timeout_closes_an_idle_row(timeout: int, closed: int) -> None:
    """So long after the last access, but not before the row may be closed."""
    dram = made(page_policy="timeout", timeout=timeout)
    model = Bank(dram)
    go(dram, "r0", model=model)
    found = go(dram, "r1", at=500, model=model)
    assert issued(found, Command.PRE) == [closed]
    assert done(found) == [500 + READ]
    assert (found.counts["misses"], found.counts["conflicts"]) == (1, 0)


def test_timeout_leaves_a_row_in_use() -> None:
    dram = made(page_policy="timeout", timeout=100)
    model = Bank(dram)
    go(dram, "r0", model=model)
    found = go(dram, "r1", at=90, model=model)
    assert found.counts["conflicts"] == 1
    assert done(found) == [90 + FRONT + RP + RCD + CL + BL]


def test_writes_are_drained_between_watermarks() -> None:
    """Window 10: from 8 waiting writes down to 2."""
    dram = made(window=10)
    found = go(dram, *["w0"] * 8, "r0", injection=20)
    assert np.argsort(done(found)).tolist() == [0, 1, 2, 3, 4, 5, 8, 6, 7]
    few = go(dram, *["w0"] * 7, "r0", injection=20)
    assert np.argsort(done(few)).tolist() == [7, 0, 1, 2, 3, 4, 5, 6]


def test_a_full_queue_blocks_all_channels() -> None:
    dram = made(channels=2, window=1)
    found = go(dram, "r0", "r0", "r0 c1")
    assert arrived(found) == [0, FRONT + RCD + 1, FRONT + RCD + 1]
    wide = go(made(channels=2, window=2), "r0", "r0", "r0 c1")
    assert arrived(wide) == [0, 0, 1]
    assert done(wide)[2] == 1 + READ


def test_channels_that_share_a_queue() -> None:
    apart = go(made(channels=2, window=1), "r0", "r0 c1")
    shared = go(made(channels=2, window=1, shared=2), "r0", "r0 c1")
    assert arrived(apart) == [0, 0]
    assert arrived(shared) == [0, FRONT + RCD + 1]
    assert done(shared) == [READ, FRONT + RCD + 1 + READ]


def test_next_request_takes_the_place_of_an_access() -> None:
    found = go(made(window=1, handover=0), "r0", "r0", "r0")
    assert arrived(found) == [0, FRONT + RCD, FRONT + RCD + CCD_L]
    assert arrived(go(made(window=1), "r0", "r0", "r0")) == [0, FRONT + RCD + 1, FRONT + RCD + CCD_L + 1]


def test_commands_take_turns_on_the_bus() -> None:
    """The RD of the first would go with the ACT of the fifth: tRCD = 17 = tFAW + 1."""
    bursts = [f"r0 g{i}" for i in range(5)]
    free, taken = (
        go(replace(made(groups=8, act_clocks=clocks), windows=((4, 17),)), *bursts, injection=8) for clocks in (0, 1)
    )
    assert issued(free, Command.ACT) == [1, 5, 9, 13, 18]
    assert issued(free, Command.RD)[0] == 18
    assert issued(taken, Command.ACT) == [1, 5, 9, 13, 19]
    assert issued(taken, Command.RD)[0] == 18


def test_an_activation_holds_the_bus() -> None:
    """Its clock is the last of them. Two channels that share a queue share the bus."""
    for clocks in (1, 2, 5):
        found = go(made(channels=2, shared=2, act_clocks=clocks), "r0", "r0 c1", injection=2)
        assert issued(found, Command.ACT) == [clocks, 2 * clocks]
    apart = go(made(channels=2, act_clocks=5), "r0", "r0 c1", injection=2)
    assert issued(apart, Command.ACT) == [5, 5]


def test_rows_and_columns_have_buses_of_their_own() -> None:
    """In HBM an ACT may go with a RD, in DDR it goes a clock later."""
    for standard, same in (("hbm2", True), ("ddr4", False)):
        dram = replace(made(channels=2, shared=2, act_clocks=1), standard=standard)
        model = Bank(dram, injection=2)
        go(dram, "r0", model=model)
        found = go(dram, "r0", "r0 c1", model=model, at=100)
        assert (issued(found, Command.ACT) == issued(found, Command.RD)[:1]) is same


def test_what_the_bus_remembers_is_enough() -> None:
    """Writes that have waited for long behind reads find clocks that nobody holds."""
    bursts = ["w0 g1", *(f"r{i % 3} g0 b{i % 2}" for i in range(600)), *["w1 g1"] * 9]
    go(made(window=8, act_clocks=2), *bursts)


def test_refresh_waits_for_the_open_row_or_takes_it_away() -> None:
    begin = REFI - 10
    waits = go(made(refresh="all_bank"), "r0", at=begin)
    assert done(waits) == [begin + READ]
    taken = go(made(refresh="all_bank", refresh_waits=False), "r0", at=begin)
    pre = begin + FRONT + RAS
    assert issued(taken, Command.PRE) == [pre]
    assert issued(taken, Command.REF) == [pre + RP]
    assert issued(taken, Command.ACT) == [begin + FRONT, pre + RP + RFC]
    assert done(taken) == [pre + RP + RFC + RCD + CL + BL]


def test_refresh_holds_up_a_request() -> None:
    for waits in (True, False):
        found = go(made(refresh="all_bank", refresh_waits=waits), "r0", at=REFI + 100)
        assert issued(found, Command.REF) == [REFI]
        assert done(found) == [REFI + RFC + RCD + CL + BL]


def test_staggered_ranks_take_turns() -> None:
    bursts = [f"r0 k{i % 2}" for i in range(6000)]
    for refresh, apart in (("all_bank", 0), ("staggered", REFI // 2)):
        found = go(made(ranks=2, refresh=refresh, window=1), *bursts)
        assert found.commands is not None
        log = [row for row in protocol.rows(found.commands) if row.command is Command.REF]
        firsts = [next(row.clock for row in log if row.bank == first) for first in (0, 4)]
        assert firsts[1] - firsts[0] == pytest.approx(apart, abs=100)


def test_clocks_with_a_bank_open() -> None:
    """From the first ACT to the last PRE, without the clocks between in which all are closed."""
    assert go(made(), "r0").open_clocks == READ - 1
    conflict = go(made(), "r0", "r1")
    assert conflict.open_clocks == conflict.elapsed - 1 - RP
    closed = made(page_policy="closed")
    assert go(closed, "r0").open_clocks == READ - 1  # data end before the row is closed
    assert go(closed, "r0", "r0").open_clocks == RAS + READ - 1
    both = go(closed, "r0", "r0 g1")
    assert both.open_clocks == both.end - 1
    other = go(closed, "r0", "r0 g1", "r0")
    assert other.open_clocks == (RAS + RRD_S) + (other.end - (1 + RC))
    assert go(made(ranks=2), "r0 k0", "r0 k1").open_clocks == 2 * (READ + BL + 1) - 1 - 2


def test_clocks_with_a_bank_open_in_idle_time() -> None:
    """The refresh that comes first closes the row; the idle time is no part of the second call."""
    dram = made(refresh="all_bank")
    model = Bank(dram)
    first = go(dram, "r0", model=model)
    assert first.open_clocks == READ - 1
    second = go(dram, "r0", at=5 * REFI + 1000, model=model)
    assert second.open_clocks == READ - 1
    assert second.counts["misses"] == 1
    assert model.open_clocks(second.end) == pytest.approx(REFI + READ, abs=2)


def test_a_row_stays_open_from_call_to_call() -> None:
    dram = made()
    model = Bank(dram)
    go(dram, "r0", model=model)
    found = go(dram, "r0", at=1000, model=model)
    assert found.counts["hits"] == 1
    assert found.elapsed == FRONT + CL + BL
    assert found.open_clocks == found.elapsed


def test_nothing_to_serve() -> None:
    found = Bank(made()).serve(np.zeros(0, np.int64), False, at=7)
    assert (found.begin, found.end, found.bus_clocks, found.elapsed) == (7, 7, 0, 0)
    assert not any(found.counts.values())


def test_only_what_is_asked_for_is_kept() -> None:
    bare = go(made(), "r0", record=False, commands=False)
    assert (bare.arrived, bare.done, bare.commands) == (None, None, None)
    assert bare.end == READ


def test_a_log_longer_than_its_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    bursts = [f"r{i * 7 % 16} g{i % 2}" for i in range(400)]
    whole = go(made(), *bursts)
    monkeypatch.setattr(bank, "LOG_ROWS", 64)
    pieces = go(made(), *bursts)
    assert np.array_equal(whole.commands, pieces.commands)  # type: ignore[arg-type]
    assert pieces.end == whole.end


def test_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELSIM_KERNEL", "python")
    assert engine() == "python"
    assert done(go(made(), "r0")) == [READ]
    monkeypatch.delenv("ACCELSIM_KERNEL")
    monkeypatch.setattr(bank.importlib.util, "find_spec", lambda name: None)
    assert engine() == "python"
    monkeypatch.setattr(bank.importlib.util, "find_spec", lambda name: object())
    for works, name in ((True, "numba"), (False, "python")):
        monkeypatch.setattr(bank, "_compiles", lambda works=works: works)
        assert engine() == name


def test_python_loop_and_imports_do_without_numba() -> None:
    """In a fresh process, as another test may have imported it."""
    code = (
        "import sys, numpy, accelsim, accelsim.dram.bank as bank\n"
        "from accelsim.spec.dram_device import device\n"
        "from accelsim.spec.yaml.parts import load_dram\n"
        "found = bank.serve(device(load_dram('ddr4-2400')), numpy.arange(64) * 64, False, kernel='python')\n"
        "print(found.end, 'numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(READ + 63 * CCD_L), "False"]
