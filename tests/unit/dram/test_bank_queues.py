"""The scheduler 'queues' on cases small enough to count by hand: a window before queues of banks that take turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.dram.device import Command, Device
from accelsim.dram.served import Served
from tests.helpers.bank_cases import (
    CCD_L,
    CL,
    CWL,
    FRONT,
    RAS,
    RCD,
    READ,
    REFI,
    RFC,
    RP,
    RTP,
    arrived,
    done,
    go,
    issued,
)
from tests.helpers.bank_cases import made as plain

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

KERNELS = ("python", "")
CAPPED = {"page_policy": "capped", "cap": 2}


def made(**controller: Any) -> Device:
    return plain(**{"scheduler": "queues", **controller})


def order(found: Served) -> list[int]:
    return np.argsort(done(found)).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kernel", KERNELS)
def test_unloaded(kernel: str) -> None:
    """A request moves in the clock in which it comes, and has its first command in the next."""
    assert done(go(made(), "r0", kernel=kernel)) == [READ] == [FRONT + made().unloaded_read]
    chase = go(made(), "r0", "r0", outstanding=1, kernel=kernel)
    assert arrived(chase) == [0, READ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_command_in_a_clock(kernel: str) -> None:
    """tCCD_L is even and the ACT of the other group could go with a RD: the bank whose turn it is goes first."""
    found = go(made(), "r0", "r0 g1 b1", at=0, kernel=kernel)
    assert found.commands is not None
    clocks = found.commands[:, 0].tolist()
    assert len(set(clocks)) == len(clocks) == 4


def test_banks_take_turns_whatever_is_older() -> None:
    """Both rows are open and both RD ready at once: behind bank 1 it is the turn of bank 2, though bank 0 is older."""
    dram, bursts = made(), ("r0", "r0 b1", "r0 g1")
    model = Bank(dram, injection=8)
    go(dram, *bursts, model=model)
    last = go(dram, "r0 b1", at=200, model=model)
    assert len(done(last)) == 1
    found = go(dram, "r0", "r0 g1", at=300, model=model)
    assert order(found) == [0, 1]  # bank 0 has moved into its queue a clock before
    waiting = go(dram, "r0 b1", "r0", "r0 g1", at=400, model=model)
    assert order(waiting) == [0, 2, 1]


def test_queue_of_a_bank_is_full() -> None:
    """Two in the queue, two in the window: the fifth request comes when the first has left."""
    found = go(made(window=2, depth=2), *["r0"] * 5)
    assert arrived(found) == [0, 1, 2, 3, FRONT + RCD + 1]
    assert arrived(go(made(window=2, depth=8), *["r0"] * 5)) == [0, 1, 2, 3, 4]


def test_a_request_behind_those_that_find_no_room_moves() -> None:
    found = go(made(window=4, depth=1), "r0", "r1", "r2", "r0 g1", injection=4)
    assert order(found)[:2] == [0, 3]


def test_a_row_gives_way_after_its_hits() -> None:
    """The oldest of the queue wants another row: after ``cap`` accesses it gets it, although hits wait.

    Two banks of a group take turns, so that tRTP passes between two hits of one.
    """
    bursts = ("r0", "r1", *["r0", "r0 b1"] * 7)
    kept, capped = (go(made(window=16, **policy), *bursts, injection=16) for policy in ({}, CAPPED))
    assert kept.counts["conflicts"] == 1 and order(kept)[-1] == 1
    assert capped.counts["conflicts"] == 2  # r0 is opened again
    assert done(capped)[1] < max(done(capped)[2::2])


def test_only_what_is_in_the_queue_of_the_bank_is_a_hit() -> None:
    """The third request finds its bank's queue full, and its row closed when it comes in."""
    bursts = ("r0", "r1", "r2", "r0")
    assert order(go(made(depth=8), *bursts, injection=4)) == [0, 3, 1, 2]
    assert order(go(made(depth=1), *bursts, injection=4)) == [0, 1, 2, 3]


def test_writes_wait_until_the_window_is_full_or_nothing_else_is_there() -> None:
    """Window 4: drained when 4 wait, or when more than 1 does and the queues are empty, or at the end."""
    dram = made(window=4, high=1.0, low=0.25)
    assert order(go(dram, "w0", "r0 g1", injection=2)) == [1, 0]
    full = go(dram, *["w0"] * 4, *["r1"] * 3, injection=7)
    assert order(full)[:4] == [0, 1, 2, 3]
    few = go(dram, *["w0"] * 3, *["r1"] * 3, injection=6)
    assert order(few)[:1] == [0]  # more than one waits and nothing is in the queues: they go at once
    one = go(dram, "w0", *["r1"] * 3, injection=6)
    assert order(one) == [1, 2, 3, 0]


def test_reads_and_writes_compete_when_they_have_moved() -> None:
    """A RD of the other rank may follow a WR sooner than another WR: the drain is interrupted."""
    base = made(ranks=2, window=4, high=1.0, low=0.25)
    model = Bank(base, injection=8)
    go(base, "r0 k0", "r0 k1", model=model)
    found = go(base, *["w0 k0"] * 4, "r0 k1", "r0 k1", at=500, model=model)
    drained = plain(ranks=2, window=4)
    model = Bank(drained, injection=8)
    go(drained, "r0 k0", "r0 k1", model=model)
    apart = go(drained, *["w0 k0"] * 4, "r0 k1", "r0 k1", at=500, model=model)
    assert turns(apart) == 1 < turns(found)


def turns(found: Served) -> int:
    """Return how often the bus changes its direction."""
    assert found.commands is not None
    kinds = [kind for _, kind, _, _ in found.commands.tolist() if kind in (Command.RD, Command.WR)]
    return sum(before != after for before, after in pairwise(kinds))


@pytest.mark.parametrize("waits", [False, True])
def test_a_refresh_takes_the_row_away_or_waits_for_its_request(waits: bool) -> None:
    begin = REFI - 10
    found = go(made(refresh="all_bank", refresh_waits=waits), "r0", at=begin)
    pre = begin + FRONT + RAS
    again = pre + RP + RFC
    assert issued(found, Command.ACT) == ([begin + FRONT] if waits else [begin + FRONT, again])
    assert issued(found, Command.RD) == [begin + FRONT + RCD if waits else again + RCD]
    if not waits:
        assert issued(found, Command.PRE) == [pre]
        assert issued(found, Command.REF) == [pre + RP]


def test_a_refresh_closes_one_bank_after_the_other() -> None:
    """PRE of a bank in each clock, then REF, tRP after the last."""
    dram = made(refresh="all_bank")
    model = Bank(dram, injection=8)
    go(dram, "r0", "r0 b1", "r0 g1", "r0 g1 b1", model=model)
    found = go(dram, *[f"r0 g{i % 2}" for i in range(60)], at=REFI - 100, model=model)
    closed = issued(found, Command.PRE)[:4]
    assert closed[:2] == [REFI, REFI + 1]
    assert issued(found, Command.REF) == [closed[-1] + RP]


def test_ranks_are_refreshed_in_turn_from_the_first_part_of_the_interval_on() -> None:
    dram = made(ranks=2, refresh="staggered")
    found = go(dram, *[f"r0 k{i % 2}" for i in range(4000)])
    assert found.commands is not None
    refreshed = found.commands[found.commands[:, 1] == Command.REF]
    assert refreshed[:, 2].tolist() == [4 * (turn % 2) for turn in range(len(refreshed))]
    late = refreshed[:, 0] - (1 + np.arange(len(refreshed))) * REFI // 2
    assert len(late) > 1 and (late >= 0).all() and (late <= RAS + RP).all()


def test_writes_of_another_channel_do_not_stay_behind() -> None:
    """The last request goes to the other channel; the few writes of the first are still served."""
    dram = made(channels=2, window=8)
    found = go(dram, "w0", "r0 c1", injection=2)
    assert done(found)[0] == FRONT + RCD + CWL + 4
    assert go(dram, "w0", outstanding=1).counts["wr"] == 1


def test_reads_of_an_open_row_follow_each_other() -> None:
    found = go(made(), *["r0"] * 4)
    assert np.diff(done(found)).tolist() == [CCD_L] * 3
    assert issued(found, Command.RD)[0] == FRONT + RCD
    assert found.counts["hits"] == 3
    conflict = go(made(), "r0", "r1")
    assert issued(conflict, Command.PRE) == [max(FRONT + RAS, FRONT + RCD + RTP)]
    assert done(conflict)[1] == FRONT + RAS + RP + RCD + CL + 4
    assert (conflict.counts["misses"], conflict.counts["conflicts"]) == (1, 1)
