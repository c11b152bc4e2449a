"""Transfers that share links: fair rates and exact times."""

from __future__ import annotations

import pytest
import simpy

from accelsim.errors import UsageError
from accelsim.network.link import transfer
from accelsim.network.shared import Fabric, SharedPort, max_min_fair
from accelsim.spec.yaml.parts import load_link

GEN4, GEN3X8 = load_link("pcie-gen4-x16"), load_link("pcie-gen3-x8")


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


def test_alone_a_port_is_the_link() -> None:
    env = simpy.Environment()
    port = SharedPort(env, GEN4, {"one": GEN4})
    done = port.transfer("one", 123_457, write=True)
    env.run()
    alone = transfer(GEN4, 123_457, write=True)
    assert abs(done.value.end - (alone.occupancy_fs + 2 * alone.latency_fs)) <= 2


def test_devices_behind_one_port() -> None:
    """Two fast devices share the port; a slow one is bound by its own link; writes go the other way."""
    env = simpy.Environment()
    port = SharedPort(env, GEN4, {"a": GEN4, "b": GEN4, "slow": GEN3X8})
    size = 1 << 22
    a, b = port.transfer("a", size, False), port.transfer("b", size, False)
    slow, back = port.transfer("slow", size, False), port.transfer("slow", size, True)
    env.run()
    assert a.value.end == b.value.end
    latency = 2 * transfer(GEN4, 1, False).latency_fs
    own = transfer(GEN3X8, size, False).occupancy_fs
    assert slow.value.end == pytest.approx(own + latency, rel=1e-3)
    assert back.value.end == pytest.approx(transfer(GEN3X8, size, True).occupancy_fs + latency, rel=1e-3)
    share = (transfer(GEN4, size, False).occupancy_fs * 2) / (a.value.end - latency)
    assert 0.7 < share < 0.8  # the slow device takes a quarter of the port


def test_half_duplex_shares_both_directions() -> None:
    half = GEN4.model_copy(update={"duplex": "half"})
    times = {}
    for name, link in (("full", GEN4), ("half", half)):
        env = simpy.Environment()
        port = SharedPort(env, link, {"one": link})
        read, write = port.transfer("one", 1 << 24, False), port.transfer("one", 1 << 24, True)
        env.run()
        times[name] = max(read.value.end, write.value.end)
    assert times["half"] == pytest.approx(2 * times["full"], rel=0.02)


def test_wrong_names_are_told() -> None:
    env = simpy.Environment()
    with pytest.raises(UsageError, match="did you mean 'up'"):
        Fabric(env, {"up": 1e9}).transfer(["upp"], 1)
    with pytest.raises(UsageError, match="0 B"):
        Fabric(env, {"up": 1e9}).transfer(["up"], 0)
    port = SharedPort(env, GEN4, {"gpu0": GEN4})
    with pytest.raises(UsageError, match="no device 'gpu1'"):
        port.transfer("gpu1", 1, False)
    with pytest.raises(UsageError, match="upstream"):
        SharedPort(env, GEN4, {"upstream": GEN4})
