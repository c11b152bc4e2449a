"""Laws of a run at their limits: what just holds breaks none, one unit beyond it the law says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelsim.machine import check as laws
from accelsim.machine.dram_stats import CacheStats
from accelsim.machine.run import Busy, LawError, LedgerRow, Run, Segment
from accelsim.machine.simulate import simulate
from accelsim.program.actions import COMMANDS, PADDING, READ, SKIPPED, WRITE, ActionName, mac
from accelsim.program.commands import Use, Wait
from accelsim.program.program import Program
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import Gemm
from tests.helpers.fake_dram import device
from tests.helpers.hand_programs import HOME, load, program, region, store, vector

CLOCK = 10**7
"""Of edu-4x4, fs."""


def hand() -> Program:
    """A load of 16 B, five clocks of the vector unit, a store; a product of 4 x 4 x 4 to which the step belongs."""
    done = (Wait(0, "done", "full"),)
    commands = [load(0, 1), vector(1, 1, 2, 5, done), store(2, 2, 3, 16, (Wait(1, "done", "full"),))]
    made = program(commands, [HOME, region(1), region(2, offset=64), region(3, "dram", -1)])
    made.steps[0].gemm = Gemm(a="x", b="x", groups=1, M=4, N=4, K=4)
    return made


def ran(**fields: Any) -> Run:
    """The run by hand with other fields: what a simulator that is wrong would say."""
    run = simulate_once()
    return replace(run, slices=list(run.slices), **fields)


def simulate_once() -> Run:
    """Times in clocks: 1, 11, 15; 15, 15, 20; 21, 31, 35."""
    made = hand()
    made.steps[0].gemm = None
    run = simulate(made)
    run.program = hand()
    return run


def times(*changed: tuple[int, dict[str, int]], **fields: Any) -> Run:
    """The run with some times of commands set, fs."""
    run = ran(**fields)
    for command, moments in changed:
        run.slices[command] = run.slices[command]._replace(**moments)
    return run


def counted(*rows: tuple[ActionName, int], cores: int = 1, time_fs: int = 35 * CLOCK) -> Run:
    """The run with rows of the array beside those of the memory."""
    run = ran(time_fs=time_fs)
    run.program.cores = cores
    run.ledger = [*run.ledger, *(LedgerRow("matrix", action, 0, "w", count) for action, count in rows)]
    return run


def engine(busy: int, stalled: dict[str, int], idle: int) -> Run:
    """The run with one engine that spent its time so."""
    return ran(engines=[Busy("e", busy, stalled, idle)], time_fs=10)


def at_once(gap_fs: int, write: bool, duplex: bool = False, model: str = "bandwidth") -> Run:
    """A second transfer whose data begin so long behind the end of those of the load."""
    run = ran(memory_model=model)
    if duplex:
        link = load_chip("tpu-v1").memories["pcie_memory"].link
        dram = run.chip.memories["dram"].model_copy(update={"link": link})
        run.chip = run.chip.model_copy(update={"memories": {"dram": dram}})
    if not write:
        run.program.commands[2].work = run.program.commands[2].work._replace(write=False)  # type: ignore[union-attr]
    data = run.slices[0].end + gap_fs
    run.slices[2] = run.slices[2]._replace(start=data, data=data, end=data + 4 * CLOCK)
    return run


def moved(**read_or_written: int) -> Run:
    """The run whose ledger has other bytes of the memory."""
    run = ran()
    counts = {"read": 16, "write": 16, **read_or_written}
    run.ledger = [LedgerRow("dram", {"read": READ, "write": WRITE}[way], 0, "x", n) for way, n in counts.items()]
    return run


def weights(read_B: int, elements: int = 64, constant: bool = True, preset: str = "dram", **sizes: int) -> Run:
    """A product with int16 weights ``w`` of so many elements, of which so many bytes were read."""
    run = ran()
    gemm = Gemm(a="x", b="w", **{"groups": 1, "M": 4, "N": 4, "K": 4, **sizes})
    data = np.zeros(elements, np.int16) if constant else None
    tensor = Tensor("w", (elements,), "int16", data=data)
    run.program.graph = Graph("by hand", [], {**run.program.graph.tensors, "w": tensor}, ["x"], [])
    run.program.steps[0].gemm = gemm
    run.program.presets = {1: ("w", 0)} if preset == "act_sram" else {0: ("w", 0)}
    run.program.commands[0].work = run.program.commands[0].work._replace(nbytes=read_B)  # type: ignore[union-attr]
    run.ledger = [LedgerRow("dram", READ, 0, "w", read_B), LedgerRow("dram", WRITE, 0, "x", 16)]
    return run


def cached(time_fs: int = 35 * CLOCK, policy: str = "write_back", **figures: int) -> Run:
    """The run through the cache of edu-cache, which says that it did this."""
    base = load_chip("edu-cache", [f"memories.l2.cache.policy={policy}"])
    run = ran(chip=base, time_fs=time_fs)
    run.caches = {"l2": CacheStats("dram", 64, **figures)}
    return run


def through_cache(policy: str, **changed: int) -> Run:
    """Such a run of which all bytes are in the ledger, but for what is changed: ``component_action``."""
    passed = {"through_B": 16, "changed_B": 5} if policy == "write_through" else {"written_back_B": 64}
    run = cached(policy=policy, misses=2, fetched_B=128, **passed)
    counts = {"l2_read": 16, "l2_write": 133, "dram_read": 128, "dram_write": 16}
    if policy == "write_back":
        counts = {"l2_read": 80, "l2_write": 144, "dram_read": 128, "dram_write": 64}
    rows = [(*name.split("_"), count) for name, count in (counts | changed).items()]
    run.ledger = [LedgerRow(component, ActionName(action), 0, "x", count) for component, action, count in rows]
    return run


BANKS = replace(device(), geometry=replace(device().geometry, channels=2))
"""Two channels of 16 B per 2 clocks of 2 ns."""


def followed(
    bus: float = 1.0,
    open_clocks: int = 0,
    took_fs: int = 2 * BANKS.burst * BANKS.clock_fs,
    on: str = "edu-4x4",
    **counts: int,
) -> Run:
    """A load of 48 B, a store of 16 B, burst by burst: the load takes so long; what the DRAM and the ledger counted."""
    run = ran(chip=load_chip(on))
    work = run.program.commands[0].work
    run.program.commands[0].work = work._replace(nbytes=48)  # type: ignore[union-attr]
    start = run.slices[0].start
    run.slices[0] = run.slices[0]._replace(end=start + took_fs)
    known = {"rd": 3, "wr": 1, "act": 2, "ref": 0, "refpb": 0, "hits": 1, "misses": 2, "conflicts": 1}
    asked_B, ledger = counts.pop("requested_B", 64), dict(known)
    ledger["act"] += counts.pop("unpaid", 0)
    known |= counts
    served = SimpleNamespace(open_clocks=open_clocks, bus_clocks=0, elapsed=0, counts=known)
    stats = SimpleNamespace(
        bus_utilisation=bus, served=served, device=BANKS, requested_B=asked_B, bursts=known["rd"] + known["wr"]
    )
    run.dram = {"dram": stats}  # type: ignore[dict-item]
    run.ledger = [LedgerRow("dram", each, at, "x", 1) for each in COMMANDS for at in range(ledger[each])]
    return run


def shared(ends_fs: int, other_offset: int, size_B: int = 64) -> Run:
    """Two loads of which the second writes bytes at an offset while, or after, the first one's are read."""
    done = (Wait(0, "done", "full"),)
    commands = [load(0, 1), vector(1, 1, 2, 5, done), load(2, 3)]
    run = simulate(program(commands, [HOME, region(1), region(2, offset=256), region(3, offset=512, size_B=size_B)]))
    run.program.regions[3] = run.program.regions[3]._replace(offset=other_offset)
    run.slices[1] = run.slices[1]._replace(end=run.slices[2].data + ends_fs)
    return run


def into(nbytes: int, role: str = "whole", streams: bool = False) -> Run:
    """A load of so many bytes into a region of 16."""
    run = simulate(program([load(0, 1, 16)], [HOME, region(1, size_B=16)]))
    command = run.program.commands[0]
    command.work = command.work._replace(nbytes=nbytes)  # type: ignore[union-attr]
    command.writes = (Use(1, 1, role),)
    run.program.regions[1] = run.program.regions[1]._replace(streams=streams)
    return run


def path(*pieces: tuple[int, int]) -> Run:
    """A run of 10 fs with this critical path."""
    run = ran(time_fs=10)
    run.derived["critical_path"] = [Segment(start, end, 0, "hand_over", "dma_in") for start, end in pieces]
    return run


LIMITS: dict[str, tuple[Callable[[Run], Any], Callable[[], Run], Callable[[], Run], str]] = {
    "a command takes no time at all": (
        laws.every_command_runs_once, lambda: times((0, {"start": 0, "data": 0, "end": 0})),
        lambda: times((0, {"start": -1, "data": 0, "end": 0})), "start=-1",
    ),
    "data come when it starts": (
        laws.every_command_runs_once, lambda: times((1, {"data": 15 * CLOCK})),
        lambda: times((1, {"data": 15 * CLOCK - 1})), "vector 1",
    ),
    "it ends with its data": (
        laws.every_command_runs_once, lambda: times((2, {"data": 35 * CLOCK})),
        lambda: times((2, {"data": 35 * CLOCK + 1, "end": 35 * CLOCK})), "store 2",
    ),
    "the run ends with it": (
        laws.every_command_runs_once, lambda: ran(time_fs=35 * CLOCK), lambda: ran(time_fs=35 * CLOCK - 1), "of a run of",
    ),
    "times of an engine add up": (
        laws.engine_times_add_up, lambda: engine(3, {"x": 5, "y": 0}, 2), lambda: engine(3, {"x": 5, "y": 0}, 3), "Busy",
    ),
    "no time of an engine is negative": (
        laws.engine_times_add_up, lambda: engine(0, {}, 10), lambda: engine(3, {"x": -1}, 8), "Busy",
    ),
    "MACs are those of the product": (
        laws.macs_are_those_of_the_graph, lambda: counted((mac("int8"), 60), (SKIPPED, 4), (PADDING, 9)),
        lambda: counted((mac("int8"), 61), (SKIPPED, 4)), "65 MACs in the ledger, 64",
    ),
    "of all cores": (
        laws.macs_are_those_of_the_graph, lambda: counted((mac("int8"), 128), cores=2),
        lambda: counted((mac("int8"), 127), cores=2), "127 MACs in the ledger, 128",
    ),
    "no count is negative": (
        laws.macs_are_those_of_the_graph, lambda: counted((mac("int8"), 64), (PADDING, 0)),
        lambda: counted((mac("int8"), 64), (PADDING, -1)), "negative count",
    ),
    "16 PEs take a clock for 16 MACs": (
        laws.arrays_stay_below_their_peak, lambda: counted((mac("int8"), 64), time_fs=4 * CLOCK - 1),
        lambda: counted((mac("int8"), 64), time_fs=4 * CLOCK - 2), "matrix needs 40000000 fs",
    ),
    "whatever their format": (
        laws.arrays_stay_below_their_peak,
        lambda: counted((mac("int8"), 32), (mac("fp32"), 32), (PADDING, 64), (SKIPPED, 64), time_fs=4 * CLOCK),
        lambda: counted((mac("int8"), 32), (mac("fp32"), 33), time_fs=4 * CLOCK), "at its peak",
    ),
    "16 B pass a port of 4 B in 4 clocks": (
        laws.ports_stay_below_their_peak, ran, lambda: times((0, {"data": 11 * CLOCK + 1})), "16 B in 39999999 fs",
    ),
    "transfers follow each other": (
        laws.ports_stay_below_their_peak, lambda: at_once(0, write=True), lambda: at_once(-1, write=True), "at once",
    ),
    "directions share what is half duplex": (
        laws.ports_stay_below_their_peak, lambda: at_once(-1, write=True, duplex=True),
        lambda: at_once(-1, write=False, duplex=True), "two transfers at once through dram",
    ),
    "ideal memories take no time": (
        laws.ports_stay_below_their_peak, lambda: at_once(-1, write=True, model="ideal"),
        lambda: at_once(-1, write=True), "at once",
    ),
    "bytes in the ledger are those read": (
        laws.traffic_is_in_the_ledger, ran, lambda: moved(read=17), "the ledger has",
    ),
    "and those written": (laws.traffic_is_in_the_ledger, moved, lambda: moved(write=15), "the ledger has"),
    "all weights are read": (
        laws.traffic_is_in_the_ledger, lambda: weights(32, N=4, K=4), lambda: weights(31, N=4, K=4),
        "works on 16 elements of w, 31 B were read",
    ),
    "of no more weights than there are": (
        laws.traffic_is_in_the_ledger, lambda: weights(16, elements=8), lambda: weights(15, elements=8), "8 elements",
    ),
    "those of each group": (
        laws.traffic_is_in_the_ledger, lambda: weights(64, groups=2), lambda: weights(63, groups=2), "32 elements",
    ),
    "only constants must come": (
        laws.traffic_is_in_the_ledger, lambda: weights(16, constant=False), lambda: weights(16), "16 elements",
    ),
    "and only those that are not on the chip": (
        laws.traffic_is_in_the_ledger, lambda: weights(16, preset="act_sram"), lambda: weights(16), "16 elements",
    ),
    "a cache fetches what missed": (
        laws.caches_keep_to_the_memory_behind, lambda: cached(misses=2, fetched_B=128),
        lambda: cached(misses=2, fetched_B=129), "fetched_B=129",
    ),
    "and holds no more than it has room for": (
        laws.caches_keep_to_the_memory_behind, lambda: cached(dirty_B=16 * 1024),
        lambda: cached(dirty_B=16 * 1024 + 1), "dirty_B=16385",
    ),
    "stores pass whole": (
        laws.caches_keep_to_the_memory_behind, lambda: cached(policy="write_through", through_B=16),
        lambda: cached(policy="write_through", through_B=15), "15 of 16 B passed through",
    ),
    "or not at all": (
        laws.caches_keep_to_the_memory_behind, cached, lambda: cached(through_B=16), "16 of 16 B passed through",
    ),
    "the memory behind has its time": (
        laws.caches_keep_to_the_memory_behind, lambda: cached(16 * CLOCK - 1, misses=1, fetched_B=64),
        lambda: cached(16 * CLOCK - 2, misses=1, fetched_B=64), "64 B of dram in 159999998 fs",
    ),
    "also what passes through": (
        laws.caches_keep_to_the_memory_behind,
        lambda: cached(20 * CLOCK - 1, "write_through", misses=1, fetched_B=64, through_B=16),
        lambda: cached(20 * CLOCK - 2, "write_through", misses=1, fetched_B=64, through_B=16), "80 B of dram",
    ),
    **{
        f"{policy}: bytes of {way}": (
            laws.traffic_is_in_the_ledger, partial(through_cache, policy), partial(through_cache, policy, **{way: 15}),
            "the ledger has",
        )
        for policy in ("write_back", "write_through") for way in ("l2_read", "l2_write", "dram_read", "dram_write")
    },
    "data are on a bus all the time": (
        laws.drams_stay_below_their_peak, followed, lambda: followed(bus=1.01), "clocks of data in",
    ),
    "a row may never be open": (
        laws.drams_stay_below_their_peak, followed, lambda: followed(open_clocks=-1), "clocks of data in",
    ),
    "all channels send bursts at once": (
        laws.drams_stay_below_their_peak, followed, lambda: followed(took_fs=4 * BANKS.clock_fs - 1), "48 B of dram need 4 clocks",
    ),
    "but not through a cache": (
        laws.drams_stay_below_their_peak, lambda: followed(took_fs=1, on="edu-cache"), lambda: followed(took_fs=1), "need 4",
    ),
    "every byte that is read is in a burst": (
        laws.bursts_are_served_once, followed, lambda: followed(rd=2, wr=2), "2 rd of 16 B for 48 B",
    ),
    "and every one that is written": (
        laws.bursts_are_served_once, followed, lambda: followed(rd=4, wr=0), "0 wr of 16 B for 16 B",
    ),
    "bursts hit, miss or find another row": (
        laws.bursts_are_served_once, followed, lambda: followed(conflicts=0), "are not 4 bursts",
    ),
    "what was asked for was served": (
        laws.bursts_are_served_once, followed, lambda: followed(requested_B=63), "63 B served, 48 B read and 16 B",
    ),
    "commands are paid for": (
        laws.bursts_are_served_once, followed, lambda: followed(unpaid=1), "dram issued {'act': 2}",
    ),
    "what is never used takes no room": (
        laws.bytes_hold_one_thing_at_a_time, lambda: shared(CLOCK, 193), lambda: shared(2 * CLOCK, 193), "share bytes",
    ),
    "bytes are given away at the end": (
        laws.bytes_hold_one_thing_at_a_time, lambda: shared(0, 0), lambda: shared(1, 0), "r1 v1 and r3 v1 share bytes",
    ),
    "neighbours share none": (
        laws.bytes_hold_one_thing_at_a_time, lambda: shared(1, 64), lambda: shared(1, 63), "share bytes",
    ),
    "on either side": (
        laws.bytes_hold_one_thing_at_a_time, lambda: shared(2 * CLOCK, 192), lambda: shared(2 * CLOCK, 193), "r3 v1 and r2 v1",
    ),
    "a tile fills its region": (
        laws.bytes_hold_one_thing_at_a_time, lambda: into(16), lambda: into(17), "moves 17 B into 16 B of r1",
    ),
    "unless it streams": (
        laws.bytes_hold_one_thing_at_a_time, lambda: into(17, streams=True), lambda: into(17), "moves 17 B",
    ),
    "or is one of many pieces": (
        laws.bytes_hold_one_thing_at_a_time, lambda: into(17, "part"), lambda: into(17), "moves 17 B",
    ),
    "the path has no gap": (
        laws.the_critical_path_covers_the_run, lambda: path((0, 1), (1, 10)), lambda: path((0, 1), (2, 10)), "after 1 fs",
    ),
    "and nothing that takes no time": (
        laws.the_critical_path_covers_the_run, lambda: path((0, 10)), lambda: path((0, 10), (10, 10)), "after 10 fs",
    ),
    "it ends with the run": (
        laws.the_critical_path_covers_the_run, lambda: path((0, 10)), lambda: path((0, 9)), "it ends at 9 of 10 fs",
    ),
}  # fmt: skip
"""What holds -> its law, a run that just keeps it, one that just breaks it, words of what is said."""


@pytest.mark.parametrize("what", LIMITS)
def test_a_law_holds_up_to_its_limit(what: str) -> None:
    law, holds, breaks, text = LIMITS[what]
    assert list(law(holds())) == []
    told = "\n".join(law(breaks()))
    assert text in told


def test_commands_that_never_ran_are_named() -> None:
    run = ran()
    del run.slices[1:]
    (told,) = laws.every_command_runs_once(run)
    assert told == "1 of 3 commands completed; waiting for ever: vector 1 (1), store 2 (2)"
    run = ran()
    run.slices.append(run.slices[0])
    (told,) = laws.every_command_runs_once(run)
    assert told == "4 of 3 commands completed; waiting for ever: "


@pytest.mark.parametrize(("broken", "lines"), [(laws.SHOWN, laws.SHOWN), (laws.SHOWN + 2, laws.SHOWN + 1)])
def test_the_first_broken_laws_are_spelt_out(broken: int, lines: int) -> None:
    run = ran(engines=[Busy(f"e{at}", 1, {}, 0) for at in range(broken)])
    with pytest.raises(LawError) as caught:
        laws.check(run, laws=[laws.engine_times_add_up])
    told = str(caught.value).splitlines()
    assert len(told) == lines and told[0].startswith("engine times add up: Busy(engine='e0'")
    assert (told[-1] == "... and 2 more") == (lines > broken - 2 and broken > laws.SHOWN)


def test_attention_counts_what_its_step_says() -> None:
    """Two products in one kernel: its step has the figures of the first alone."""
    run = counted((mac("int8"), 48))
    step, second = run.program.steps[0], Node("v", "MatMul", ["s", "v"], ["y"])
    step.node, step.macs = Node("q", "MatMul", ["q", "k"], ["s"], epilogue=[second]), 48
    assert list(laws.macs_are_those_of_the_graph(run)) == []
    step.macs = 49
    assert list(laws.macs_are_those_of_the_graph(run)) == ["by hand: 48 MACs in the ledger, 49 in the graph"]
