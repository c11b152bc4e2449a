"""Links and networks: nothing is faster than its parts, nothing is lost, more traffic is never faster by formula."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.host_link import split_fs
from accelsim.network.link import FS_PER_S, lane, transfer
from accelsim.network.noc.routes import bound, channel_load, estimate, zero_load_mean
from accelsim.network.noc.simulate import simulate
from accelsim.network.noc.sweep import TRAFFIC
from accelsim.network.noc.sweep import named as pattern
from accelsim.network.noc.topology import named
from accelsim.network.shared import Fabric, max_min_fair
from accelsim.spec.link import LANES, PAYLOADS_B, Link, Pcie
from accelsim.spec.network import Router

QUICK = settings(max_examples=60)
CHANNELS = ("a", "b", "c")

pcies = st.builds(
    Pcie, generation=st.integers(1, 7), lanes=st.sampled_from(LANES),
    max_payload=st.sampled_from([f"{size} B" for size in PAYLOADS_B]),
    max_read_request=st.sampled_from([f"{size} B" for size in PAYLOADS_B]),
    split_completions=st.booleans(), ecrc=st.booleans(), tags=st.none() | st.integers(1, 1024),
    round_trip=st.sampled_from([None, "300 ns", "2 us"]),
)  # fmt: skip


def link_of(block: Pcie) -> Link:
    return Link.model_validate(
        {
            "kind": "pcie",
            "latency": "1 us",
            "energy": "1 pJ/B",
            "pcie": block.model_dump(mode="json", exclude_none=True),
        }
    )


@QUICK
@given(pcies, st.integers(1, 1 << 24), st.integers(1, 1 << 16), st.booleans())
def test_no_transfer_beats_the_stated_rate(block: Pcie, nbytes: int, more: int, write: bool) -> None:
    """Payload within the bandwidth of the spec, bytes on the wire within the wire; more bytes take no less time."""
    link = link_of(block)
    time = transfer(link, nbytes, write)
    assert nbytes * FS_PER_S <= Fraction(link.bandwidth) * (time.occupancy_fs + 1)
    assert time.wire_B * FS_PER_S <= block.raw_Bps * (time.occupancy_fs + 1)
    longer = transfer(link, nbytes + more, write)
    assert longer.occupancy_fs >= time.occupancy_fs and longer.wire_B >= time.wire_B + more
    assert lane(link, write).wire_B(nbytes) == time.wire_B


@QUICK
@given(pcies, st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_cutting_a_transfer_saves_nothing(block: Pcie, one: int, other: int) -> None:
    link = link_of(block)
    assert (
        transfer(link, one, True).wire_B + transfer(link, other, True).wire_B
        >= transfer(link, one + other, True).wire_B
    )


flows = st.lists(
    st.tuples(
        st.sets(st.sampled_from(CHANNELS), min_size=1).map(lambda names: tuple(sorted(names))),
        st.integers(1, 10**6), st.integers(0, 10**9),
    ),
    min_size=1, max_size=8,
)  # fmt: skip
capacities = st.fixed_dictionaries({name: st.integers(10**6, 10**10) for name in CHANNELS})


@QUICK
@given(capacities, flows)
def test_rates_are_fair_and_within_the_capacity(rates_Bps: dict[str, int], moves: list[tuple]) -> None:
    """Every path is held back by a channel that is full (up to rounding) and on which nobody has more."""
    paths = [path for path, _, _ in moves]
    rates = max_min_fair(rates_Bps, paths)
    used = {name: sum(rate for rate, path in zip(rates, paths, strict=True) if name in path) for name in CHANNELS}
    assert all(used[name] <= rates_Bps[name] for name in CHANNELS)
    for rate, path in zip(rates, paths, strict=True):
        assert any(
            used[name] > rates_Bps[name] - 2 * len(paths)
            and rate >= max(other for other, way in zip(rates, paths, strict=True) if name in way) - 1
            for name in path
        )


@QUICK
@given(capacities, flows)
def test_shared_channels_carry_every_byte_once_and_no_more_than_they_can(
    rates_Bps: dict[str, int], moves: list[tuple]
) -> None:
    env = simpy.Environment()
    fabric = Fabric(env, rates_Bps, record=True)
    ends: dict[int, int] = {}

    def send(path: tuple[str, ...], size: int, start: int) -> simpy.events.ProcessGenerator:
        yield env.timeout(start)
        served = yield fabric.transfer(path, size)
        ends[served.transfer] = (served.end, size, path, start)  # type: ignore[assignment]

    for move in moves:
        env.process(send(*move))
    env.run()
    assert len(ends) == len(moves) and fabric.pieces is not None
    moved: dict[int, int] = defaultdict(int)
    by_time: dict[tuple[str, int, int], int] = defaultdict(int)
    for piece in fabric.pieces:
        moved[piece.transfer] += piece.moved
        for name in ends[piece.transfer][2]:  # type: ignore[index]
            by_time[name, piece.start, piece.end] += piece.moved
    for number, (end, size, path, start) in ends.items():  # type: ignore[misc]
        assert moved[number] == size * FS_PER_S
        assert end - start >= size * FS_PER_S // min(rates_Bps[name] for name in path)
    assert all(total <= rates_Bps[name] * (end - start) for (name, start, end), total in by_time.items())


networks = st.sampled_from(
    [("bus", (6,)), ("crossbar", (9,)), ("ring", (6,)), ("mesh", (3, 3)), ("torus", (4, 4)), ("tree", (2, 3)),
     ("fat-tree", (2, 3)), ("mesh", (5, 2))]
)  # fmt: skip


@settings(max_examples=30)
@given(networks, st.sampled_from(sorted(TRAFFIC)), st.sampled_from([1, 2, 4]), st.floats(0.05, 1.0), st.integers(0, 99))
def test_no_channel_carries_more_than_a_flit_per_clock(
    which: tuple, name: str, flits: int, load: float, seed: int
) -> None:
    network = named(which[0], *which[1])
    if name == "transpose" and network.grid[0] != network.grid[1]:
        return
    traffic, router, clocks = pattern(name, network), Router(), 200
    found = simulate(network, router, traffic, load, flits, clocks, seed)
    assert found.channel_load.max() <= 1 + flits / (0.75 * clocks)
    assert found.accepted.max() <= 1 + flits / (0.75 * clocks)
    if found.latency < float("inf") and found.packets:
        assert found.least >= 2 + 5 + flits - 1


@QUICK
@given(networks, st.integers(0, 2**32 - 1), st.floats(0.05, 0.9), st.sampled_from([1, 4]))
def test_the_formula_rises_with_load_up_to_the_bound(which: tuple, seed: int, share: float, flits: int) -> None:
    network = named(which[0], *which[1])
    traffic = np.random.default_rng(seed).dirichlet(np.ones(network.nodes), network.nodes)
    limit = bound(network, traffic)
    assert channel_load(network, traffic * limit).max() == pytest.approx(1)
    low, high = (estimate(network, Router(), traffic, each * share * limit, flits) for each in (0.5, 1.0))
    assert zero_load_mean(network, Router(), traffic, flits) <= low <= high < float("inf")
    assert estimate(network, Router(), traffic, limit * 1.001, flits) == float("inf")


@pytest.mark.parametrize("model", ["cnn", "gemm?M=64,N=300,K=300"])
@pytest.mark.parametrize("batch", [1, 3])
def test_parts_of_the_time_add_up(model: str, batch: int) -> None:
    import accelsim

    run = accelsim.run(model, on="tpu-v1", values="off", batch=batch if model == "cnn" else None)
    assert sum(split_fs(run).values()) == run.time_fs
