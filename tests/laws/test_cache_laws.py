"""Laws of caches: lines against a plain LRU of dictionaries, closed forms of streams, runs on random chips."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.account.latency import layers, summary, traffic_by_level, traffic_by_memory
from accelsim.engines.device import Asked, Served
from accelsim.explore.against_reference import check_run
from accelsim.machine.cached import Cached, Front, Lines, Pieces, pieces
from accelsim.machine.check import check
from accelsim.machine.memory_models import MODELS
from accelsim.machine.rates import Bandwidth, lane_of
from accelsim.machine.simulate import simulate
from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from tests.helpers.law_cases import Case, changed, chips, fitted, formats, graphs, options, pins, products
from tests.helpers.pruned import pruned

QUICK = settings(max_examples=25)
LINE_B = 64


def stored(lines: Iterable[int]) -> Pieces:
    """All bytes of some lines."""
    numbers = list(lines)
    return Pieces(numbers, [LINE_B] * len(numbers))


class Access(NamedTuple):
    """Accesses of one transfer: lines, direction, which lines are written whole, who stores."""

    lines: list[int]
    write: bool
    whole: list[bool]
    owner: int


@dataclass
class Plain:
    """A cache of dictionaries, line by line: number -> who stored it, None for what the memory has too."""

    sets: int
    ways: int
    write_back: bool
    held: dict[int, OrderedDict[int, int | None]] = field(default_factory=dict)

    def access(self, asked: Access) -> tuple[list[bool], list[int], list[int], list[int]]:
        """Return what hit, what was fetched, what was written back, and whose it was."""
        hits, fetched, back, owners = list[bool](), list[int](), list[int](), list[int]()
        for line, whole in zip(asked.lines, asked.whole, strict=True):
            held = self.held.setdefault(line % self.sets, OrderedDict())
            hits.append(line in held)
            if not hits[-1] and asked.write and not self.write_back:
                continue
            if not hits[-1]:
                if not asked.write or not whole:
                    fetched.append(line)
                if len(held) == self.ways:
                    gone, owner = held.popitem(last=False)
                    if owner is not None:
                        back.append(gone)
                        owners.append(owner)
                held[line] = None
            held.move_to_end(line)
            if asked.write and self.write_back:
                held[line] = asked.owner
        return hits, fetched, back, owners

    @property
    def dirty(self) -> int:
        """Lines that the memory does not have."""
        return sum(owner is not None for held in self.held.values() for owner in held.values())


@st.composite
def traces(draw: Any) -> tuple[tuple[int, int, bool], list[Access]]:
    """A small cache, and transfers over a few more lines than it holds: streams, strides, anything."""
    sets, ways = draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.integers(1, 4))
    last = draw(st.sampled_from([sets * ways, 2 * sets * ways + 1, 40]))
    one = st.one_of(
        st.builds(lambda first, n: list(range(first, first + n)), st.integers(0, last), st.integers(0, 20)),
        st.builds(lambda first, n, by: list(range(first, first + by * n, by)),
                  st.integers(0, last), st.integers(0, 12), st.sampled_from([2, sets, sets + 1])),
        st.lists(st.integers(0, last), max_size=15),
    )  # fmt: skip
    found = []
    for owner, lines in enumerate(draw(st.lists(one, min_size=1, max_size=8))):
        whole = draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
        found.append(Access(lines, draw(st.booleans()), whole, owner))
    return (sets, ways, draw(st.booleans())), found


@settings(max_examples=500)
@given(traces())
def test_lines_are_those_of_a_plain_lru(trace: tuple[tuple[int, int, bool], list[Access]]) -> None:
    """Hits, lines fetched and written back, in their order, and what is dirty in the end."""
    size, accesses = trace
    ours, plain = Lines(*size), Plain(*size)
    for asked in accesses:
        touched = Pieces(asked.lines, [LINE_B if whole else 1 for whole in asked.whole])
        assert ours.access(touched, LINE_B, asked.write, asked.owner) == plain.access(asked)
        assert ours.dirty == plain.dirty


@given(
    st.lists(
        st.builds(
            Runs, st.integers(0, 300), st.integers(1, 70),
            st.lists(st.tuples(st.integers(1, 90), st.integers(1, 4)), max_size=2).map(tuple),
        ),
        max_size=3,
    ),
    st.sampled_from([1, 8, 32, 50]),
)  # fmt: skip
def test_pieces_are_those_of_the_bytes_one_by_one(runs: list[Runs], line_B: int) -> None:
    """The lines of all bytes in their order, those behind each other as one; every byte is in one of them."""
    lines = 16
    every: list[list[int]] = []
    for run in runs:
        starts = [run.base]
        for stride, count in run.dims:
            starts = [start + at * stride for start in starts for at in range(count)]
        for byte in (start + at for start in starts for at in range(run.length_B)):
            if every and every[-1][0] == byte // line_B:
                every[-1][1] += 1
            else:
                every.append([byte // line_B, 1])
    found = pieces(runs, line_B, lines)
    assert found.lines == [line % lines for line, _ in every]
    assert found.nbytes == [nbytes for _, nbytes in every]


@pytest.mark.parametrize(("sets", "ways"), [(1, 4), (16, 1), (8, 4), (64, 8)])
@pytest.mark.parametrize("more", [0, 1, 7])
def test_streams(sets: int, ways: int, more: int) -> None:
    """Closed forms of a stream that is read over and over: all of it hits the second time where it fits; where one line
    more than fits goes to a set, nothing of that set ever does."""
    size = sets * ways
    stream, cache = stored(range(size + more)), Lines(sets, ways)
    assert not any(cache.access(stream, LINE_B, write=False).hit)
    for _ in range(3):
        assert sum(cache.access(stream, LINE_B, write=False).hit) == size - min(more, sets) * ways


def test_whole_lines_that_are_stored_twice_are_written_back_once() -> None:
    """What is stored and stays costs the memory nothing; what leaves costs it once."""
    cache = Lines(4, 2)
    for _ in range(2):
        found = cache.access(stored(range(8)), LINE_B, write=True)
        assert not found.fetched and not found.written_back
    assert cache.dirty == 8
    found = cache.access(stored(range(8, 16)), LINE_B, write=False)
    assert sorted(found.written_back) == list(range(8)) and cache.dirty == 0


def with_cache(chip: Chip, size: tuple[int, int, int], policy: str, latency: float, pace: float) -> Chip:
    """The chip with a cache (bytes of a line, sets, ways) before each memory without a full-duplex link."""
    found = dict(chip.memories)
    entry = load_chip("edu-cache").memories["l2"]
    assert entry.cache is not None
    for name, behind in chip.memories.items():
        if not behind.full_duplex:
            line, sets, ways = size
            memory = entry.memory.model_copy(update={
                "capacity": line * sets * ways, "bandwidth": pace * behind.rate_Bps, "latency": latency / chip.clock,
            })  # fmt: skip
            spec = entry.cache.model_copy(update={"line": line, "ways": ways, "policy": policy})
            found[f"{name}_cache"] = entry.model_copy(update={"memory": memory, "fed_by": name, "cache": spec})
    return changed(chip, "", memories=found)


@st.composite
def cached(draw: Any) -> tuple[Case, Case]:
    """A random graph on a random chip with caches, and on the chip without."""
    plain, graph = draw(chips(tight=draw(st.booleans()))), draw(graphs())
    line, sets, ways = (draw(st.sampled_from(sizes)) for sizes in ([1, 16, 64, 100], [1, 3, 8, 64], [1, 2, 8]))
    latency, pace = draw(st.sampled_from([0.0, 1.0, 7.5])), draw(st.sampled_from([1.0, 2.5]))
    policy = draw(st.sampled_from(["write_back", "write_through"]))
    chip = with_cache(plain, (line, sets, ways), policy, latency, pace)
    mapping = {name: draw(pins()) for name in products(graph)} if draw(st.booleans()) else {}
    dtype, asked = draw(st.sampled_from(formats(chip))), draw(options(graph, chip))
    first, second = (fitted(graph.copy(), each, dtype, mapping, **asked) for each in (chip, plain))
    return first, second


@QUICK
@given(cached())
def test_a_run_with_a_cache(drawn: tuple[Case, Case]) -> None:
    """All laws of a run hold, values are those of the reference and change nothing; the program knows of no cache."""
    case, plain = drawn
    assert _asked(case) == _asked(plain)
    run = case.run("exact", keep=True)
    verdict = check_run(run, pruned(case))
    assert verdict.holds, verdict.wrong
    off = case.run()
    assert (off.slices, off.ledger, off.engines, off.caches) == (run.slices, run.ledger, run.engines, run.caches)


def _asked(case: Case) -> list[Any]:
    """Commands without what they cost."""
    return [(each.engine, each.work, each.waits, each.reads, each.writes) for each in case.program.commands]


@QUICK
@given(cached(), st.sampled_from(["ideal", "bandwidth"]))
def test_what_a_cache_counts(drawn: tuple[Case, Case], model: str) -> None:
    """Whatever time does. Layers add up to the whole; the memory gives what is fetched, and takes what is written back or
    passes."""
    run = simulate(drawn[0].program, memory_model=model)
    check(run, thorough=True)
    levels, memories, rows = traffic_by_level(run), traffic_by_memory(run), layers(run)
    for name, stats in run.caches.items():
        put_B = stats.written_back_B + stats.through_B
        assert memories[stats.memory] == {"read_B": stats.fetched_B, "write_B": put_B}
        assert sum(row.level_B.get(name, (0, 0))[0] for row in rows) == levels[name]["read_B"]
        assert sum(row.traffic_B.get(stats.memory, (0, 0))[0] for row in rows) == stats.fetched_B


@pytest.mark.parametrize("model", [name for name, level in MODELS.items() if level.dram is not None])
def test_a_cache_before_a_dram_that_is_followed(model: str) -> None:
    """The DRAM gets whole lines; fewer bursts than without a cache where the cache holds everything."""
    sets = ["memories.l2.memory.capacity=1 MiB"]
    run = accelsim.run("cnn", "edu-cache", values="off", memory_model=model, set=sets)
    check(run, thorough=True)
    plain = accelsim.run("cnn", "edu-4x4", values="off", memory_model=model, set=["act_sram.capacity=2 KiB"])
    stats, dram = run.caches["l2"], run.dram["dram"]
    assert dram.requested_B == stats.fetched_B + stats.written_back_B
    assert stats.written_back_B == 0 < stats.dirty_B
    assert dram.bursts < plain.dram["dram"].bursts


def test_a_cache_that_holds_everything() -> None:
    """By its closed form: a line is fetched once, if it is not stored whole before anybody reads it; none goes back."""
    run = accelsim.run("cnn", "edu-cache", values="off", set=["memories.l2.memory.capacity=1 MiB"])
    stats, addresses, seen, fetched = run.caches["l2"], AddressMap(run.program), set[int](), 0
    for piece in sorted(run.slices, key=lambda each: each.start):
        command = run.program.commands[piece.command]
        if isinstance(command.work, Transfer):
            touched = pieces(addresses.runs(command), stats.line_B, 1 << 40)
            for line, nbytes in zip(*touched, strict=True):
                fetched += line not in seen and not (command.work.write and nbytes == stats.line_B)
                seen.add(line)
    assert (stats.fetched_B, stats.written_back_B) == (fetched * stats.line_B, 0)
    assert stats.misses == len(seen)
    small = accelsim.run("cnn", "edu-cache", values="off", set=["memories.l2.memory.capacity=1 KiB"])
    assert small.caches["l2"].fetched_B > stats.fetched_B and small.time_fs > run.time_fs
    assert summary(run)["levels"]["l2"]["misses"] == stats.misses


def test_times_by_hand() -> None:
    """A transfer of 320 B in 12 lines, three times, through a cache of 20 ns and 1.6 GB/s before 100 ns and 400 MB/s."""
    tiles = {"conv2": {"tn": 8, "tk": 40}}
    program = accelsim.run("cnn", "edu-cache", values="off", mapping=tiles).program
    addresses = AddressMap(program)
    load = next(each for each in program.commands if each.label == "load conv2.weight")
    assert isinstance(load.work, Transfer) and load.work.nbytes == 320
    assert len(pieces(addresses.runs(load), 64, 1 << 40).lines) == 12
    front, behind = (lane_of(program.chip.memories[name]) for name in ("l2", "dram"))
    cache = Cached("l2", Front(front), Bandwidth(behind), program)
    asked, ns = Asked(320, False, load.id), 10**6
    # looked up after 20, first data of the memory 100 later, 768 B of it in 1,920; 320 B of the cache in 200
    assert cache.serve(asked, 0) == Served(0, 120 * ns, 2040 * ns)
    assert cache.serve(asked, 200 * ns) == Served(200 * ns, 2040 * ns, 2240 * ns, by_cache=True)  # after the first
    assert cache.serve(asked, 4000 * ns) == Served(4000 * ns, 4020 * ns, 4220 * ns, by_cache=True)
    assert (cache.stats.hits, cache.stats.misses, cache.stats.fetched_B) == (24, 12, 768)


def test_a_port_that_is_shared_turns_by_rank() -> None:
    """Of a load and a store that ask at one edge the one goes first that the memory prefers."""
    ends = {
        first: accelsim.run("cnn", "edu-cache", values="off", set=[f"memories.dram.arbitration={first}"]).slices
        for first in ("loads_first", "stores_first")
    }
    assert ends["loads_first"] != ends["stores_first"]
