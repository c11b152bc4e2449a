"""Transfers that share links: fair rates and exact times."""

from __future__ import annotations

import pytest
import simpy

from accelsim.errors import UsageError
from accelsim.network.shared import Fabric, max_min_fair


def test_max_min_fairness_by_hand() -> None:
    """The textbook case: who crosses two channels gets the share of the narrower, the others what is left."""
    rates = max_min_fair({"a": 10, "b": 4}, [("a", "b"), ("b",), ("a",)])
    assert rates == [2, 2, 8]
    assert max_min_fair({"a": 10}, [("a",)] * 3) == [3, 3, 3]


def test_two_transfers_take_turns_and_one_goes_on_alone() -> None:
    env = simpy.Environment()
    fabric = Fabric(env, {"up": 10**9})
    long, short = fabric.transfer(["up"], 3000), fabric.transfer(["up"], 1000)
    env.run()
    assert short.value.end == 2 * 10**9  # half of 1 GB/s each
    assert long.value.end == 4 * 10**9  # 1000 B in the first 2 us, then 2000 B at 1 GB/s


def test_who_comes_later_slows_the_first_down() -> None:
    env = simpy.Environment()
    fabric = Fabric(env, {"up": 10**9}, record=True)
    first = fabric.transfer(["up"], 2000)

    def later() -> simpy.events.ProcessGenerator:
        yield env.timeout(10**9)
        served = yield fabric.transfer(["up"], 1000)
        assert (served.start, served.end) == (10**9, 3 * 10**9)

    env.process(later())
    env.run()
    assert first.value.end == 3 * 10**9
    assert fabric.pieces is not None
    assert [piece.moved for piece in fabric.pieces if piece.transfer == 0] == [1000 * 10**15, 1000 * 10**15]


def test_wrong_names_are_told() -> None:
    env = simpy.Environment()
    with pytest.raises(UsageError, match="did you mean 'up'"):
        Fabric(env, {"up": 1e9}).transfer(["upp"], 1)
    with pytest.raises(UsageError, match="0 B"):
        Fabric(env, {"up": 1e9}).transfer(["up"], 0)
