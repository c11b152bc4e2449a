"""Laws of the pattern model: its counts against a loop over bursts, and bounds that no model may break."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.dram.device import Device, Geometry
from accelsim.dram.mapping import decoder
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from accelsim.types import Array

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

MEMORIES = ("ddr3-1600", "ddr4-2400", "ddr4-3200", "hbm2-2000")
MAPPINGS = ("row-bank-column", "column-lowest", "bank-group-lowest", "bank-xor", "mop4", "MOP4CLXOR", "ChRaBaRoCo")


def memory(name: str, **controller: Any) -> Device:
    return device(load_dram(name), name, **controller)


def small(name: str, geometry: Geometry, **controller: Any) -> Device:
    """The timing of a memory on another geometry, so that few addresses meet everything."""
    base = memory(name)
    return replace(base, geometry=geometry, controller=replace(base.controller, **controller))


powers = [1, 2, 4]
geometries = st.builds(
    Geometry,
    channels=st.sampled_from(powers),
    ranks=st.sampled_from(powers[:2]),
    groups=st.sampled_from(powers),
    banks=st.sampled_from(powers[1:]),
    rows=st.sampled_from([4, 32]),
    columns=st.sampled_from([4, 16]),
    access_B=st.just(64),
)
stretches = st.tuples(st.integers(0, 2**16), st.integers(1, 60), st.sampled_from([1, 1, 2, 3, 16, 100]), st.booleans())


def stream(parts: list[tuple[int, int, int, bool]]) -> tuple[Array, Array]:
    """Stretches of (first burst, bursts, stride, written) as (addresses, writes)."""
    addresses = [(start + stride * np.arange(count)) * 64 for start, count, stride, _ in parts]
    writes = [np.full(count, written) for _, count, _, written in parts]
    return np.concatenate(addresses), np.concatenate(writes)


streams = st.lists(stretches, min_size=1, max_size=12).map(stream)


def by_hand(dev: Device, addresses: Array) -> dict[str, int]:
    """Hits, misses and conflicts, burst by burst."""
    place = decoder(dev.controller.mapping, dev.geometry).decode(addresses)
    banks: dict[tuple[int, ...], int] = {}
    counts = dict.fromkeys(("hits", "misses", "conflicts"), 0)
    for *bank, row in zip(place.channel, place.rank, place.group, place.bank, place.row, strict=True):
        found = banks.get(tuple(bank))
        counts["misses" if found is None else "hits" if found == row else "conflicts"] += 1
        banks[tuple(bank)] = row
    return counts


@given(geometries, st.sampled_from(MAPPINGS), streams, st.booleans(), st.lists(st.integers(1, 400), max_size=3))
@settings(max_examples=50)
def test_in_order_counts_are_those_of_a_loop_over_bursts_however_the_stream_is_cut(
    geometry: Geometry, mapping: str, given_stream: tuple[Array, Array], written: bool, cuts: list[int]
) -> None:
    dev = small("ddr4-2400", geometry, mapping=mapping, window=1, refresh="none", page_policy="open")
    addresses = given_stream[0]
    writes = np.full(addresses.size, written)  # reads and writes wait in queues of their own
    pattern = Pattern(dev)
    total = dict.fromkeys(("hits", "misses", "conflicts", "act", "pre", "rd", "wr"), 0)
    edges = [0, *sorted(min(cut, addresses.size) for cut in cuts), addresses.size]
    for begin, end in pairwise(edges):
        served = pattern.serve(addresses[begin:end], writes[begin:end])
        total = {name: total[name] + served.counts[name] for name in total}
    wanted = by_hand(dev, addresses)
    assert {name: total[name] for name in wanted} == wanted
    assert total["act"] == wanted["misses"] + wanted["conflicts"]
    assert total["pre"] == wanted["conflicts"]
    assert (total["wr"], total["rd"]) == (writes.sum(), (~writes).sum())


@given(
    geometries,
    st.sampled_from(MAPPINGS),
    st.lists(st.tuples(st.integers(0, 4096), st.integers(1, 300), st.booleans()), min_size=1, max_size=5),
)
@settings(max_examples=100)
def test_contiguous_tiles_find_the_rows_that_a_loop_over_bursts_finds(
    geometry: Geometry, mapping: str, tiles: list[tuple[int, int, bool]]
) -> None:
    dev = small("ddr4-2400", geometry, mapping=mapping, refresh="none", page_policy="open")
    tiles = [(start, min(count, geometry.columns * geometry.channels), write) for start, count, write in tiles]
    addresses = [(start + np.arange(count)) * 64 for start, count, _ in tiles]
    places = decoder(mapping, geometry).decode
    pattern, wanted = Pattern(dev), by_hand(dev, np.concatenate(addresses))
    total, end = dict.fromkeys(wanted, 0), 0
    for each, (_, _, write) in zip(addresses, tiles, strict=True):
        served = pattern.serve(each, write, end)
        end = served.end
        total = {name: total[name] + served.counts[name] for name in total}
    banks = [len({*zip(*place[:4], strict=True)}) for place in map(places, addresses)]
    rows = [len({*zip(*place[:5], strict=True)}) for place in map(places, addresses)]
    if banks == rows:  # no tile wants two rows of a bank, so there is nothing to reorder
        assert total == wanted
    assert sum(total.values()) == sum(wanted.values())


@given(st.sampled_from(MEMORIES), st.sampled_from(MAPPINGS[:5]), st.sampled_from(["open", "closed", "capped"]), streams)
@settings(max_examples=60)
def test_no_stream_is_faster_than_the_peak_and_each_burst_is_counted_once(
    name: str, mapping: str, policy: str, given_stream: tuple[Array, Array]
) -> None:
    dev = memory(name, mapping=mapping, page_policy=policy)
    addresses, writes = given_stream
    served = Pattern(dev).serve(addresses, writes)
    seconds = served.elapsed * dev.clock_fs * 1e-15
    assert seconds >= addresses.size * dev.geometry.access_B / dev.peak_Bps
    found = [served.counts[each] for each in ("hits", "misses", "conflicts")]
    assert sum(found) == addresses.size and min(found) >= 0
    assert served.counts["act"] >= sum(found[1:])  # rows may be opened for reads that then wait for a drain
    assert served.elapsed >= dev.timing["CWL" if writes[-1] else "CL"] + dev.burst


@given(
    st.sampled_from(MEMORIES),
    st.sampled_from(["seq", "random", "stride"]),
    st.integers(1, 30_000),
    st.integers(1, 9_000),
)
@settings(max_examples=40)
def test_more_data_never_takes_less_time(name: str, kind: str, count: int, more: int) -> None:
    dev = memory(name)
    bursts = np.arange(count + more)
    places = {"seq": bursts, "stride": bursts * 37, "random": np.random.default_rng(3).integers(0, 2**20, bursts.size)}
    addresses = places[kind] * dev.geometry.access_B
    short, long = (Pattern(dev).serve(addresses[:size]).end for size in (count, count + more))
    assert short <= long


@given(st.sampled_from(MEMORIES), streams, st.integers(0, 10**5))
@settings(max_examples=30)
def test_a_later_beginning_only_moves_the_first_batch(name: str, given_stream: tuple[Array, Array], slots: int) -> None:
    dev = memory(name, refresh="none")
    at = slots * dev.burst
    early, late = Pattern(dev).serve(*given_stream), Pattern(dev).serve(*given_stream, at=at)
    assert (late.begin, late.end - at, late.counts) == (at, early.end, early.counts)


@given(
    st.sampled_from([*MEMORIES, "gddr5", "hbm3-6400", "lpddr5-6400"]),
    st.sampled_from(MAPPINGS[:5]),
    st.sampled_from(["open", "closed", "capped", "timeout"]),
    st.sampled_from(["all_bank", "staggered", "per_bank", "none"]),
    st.sampled_from([1, 2, 8, 32]),
    st.lists(st.tuples(streams, st.integers(0, 3000)), min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_compiled_and_plain_python_give_the_same(
    name: str, mapping: str, policy: str, refresh: str, window: int, batches: list[tuple[Any, int]]
) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    assume(refresh != "per_bank" or name in ("hbm2-2000", "hbm3-6400", "lpddr5-6400"))
    dev = memory(name, mapping=mapping, page_policy=policy, refresh=refresh, window=window)
    models, at = [Pattern(dev, kernel) for kernel in ("numba", "python")], 0
    for given_stream, pause in batches:
        one, other = (model.serve(*given_stream, at=at) for model in models)
        assert (one.end, one.first, one.counts, one.open_clocks) == (
            other.end, other.first, other.counts, other.open_clocks
        )  # fmt: skip
        at = max(at, one.end - 500) + pause
