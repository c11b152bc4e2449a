"""Memory models: bursts from addresses, times through the link, statistics, rows, energy, errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from math import fsum
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import energy_table, prices_of, total_J
from accelsim.account.latency import summary
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import UsageError
from accelsim.files import write_file
from accelsim.machine import memory_models
from accelsim.machine.addressed import bursts, refreshes
from accelsim.machine.check import check
from accelsim.machine.memory_models import MODELS, Level
from accelsim.machine.run import LawError, Run
from accelsim.machine.save_accesses import accesses_file
from accelsim.machine.simulate import simulate
from accelsim.program.actions import REF, REFPB
from accelsim.program.addresses import Runs
from accelsim.program.commands import Wait
from accelsim.program.work import Transfer
from accelsim.request import Request
from accelsim.request.job import prepare
from accelsim.spec.chip import Chip
from accelsim.spec.dram import Dram
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.fake_dram import LATENCY, FakeDram, device
from tests.helpers.hand_programs import HOME, chip, load, program, region, store, vector

CLOCK = 2 * 10**6
"""Clock of the toy DRAM, fs; the chip of the hand-written programs has one of 10 ns."""

Follow = Callable[..., Run]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeDram]:
    """'bank' is the fake DRAM on every memory; the fakes that were made."""
    found: list[FakeDram] = []

    def make(device: Any) -> FakeDram:
        found.append(FakeDram(device))
        return found[-1]

    monkeypatch.setitem(MODELS, "bank", Level("a fake", make))
    monkeypatch.setattr(memory_models, "device_of", lambda attached: device())
    monkeypatch.setattr(memory_models, "check_dram", lambda chip, name: None)
    return found


def dims() -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    return st.lists(st.tuples(st.integers(0, 300), st.integers(1, 4)), max_size=3).map(tuple)


@given(st.lists(st.builds(Runs, st.integers(0, 500), st.integers(1, 70), dims()), max_size=3))
def test_bursts_are_what_the_bytes_touch_in_their_order(runs: list[Runs]) -> None:
    """Byte by byte: every byte in a burst, none twice in a row, and as many bursts as bytes need."""
    expected: list[int] = []
    for run in runs:
        end, last = None, None
        for index in product(*(range(count) for _, count in run.dims)):
            at = run.base + sum(i * stride for i, (stride, _) in zip(index, run.dims, strict=True))
            touched = sorted({byte // 16 for byte in range(at, at + run.length_B)})
            if end is not None and at >= end and touched[0] == last:
                touched = touched[1:]
            expected += [16 * burst for burst in touched]
            end, last = at + run.length_B, (at + run.length_B - 1) // 16
    found = bursts(runs, 16, 1 << 30)
    assert found.tolist() == expected and found.dtype == np.int64
    assert 16 * len(found) >= sum(run.nbytes for run in runs)


def test_bursts_wrap_round_at_the_end_of_the_memory() -> None:
    assert bursts([Runs(90, 40)], 16, 112).tolist() == [80, 96, 0, 16]
    assert bursts([], 16, 112).tolist() == []


def moves(nbytes: int = 64) -> Any:
    """Load, compute, store; the load is accepted at edge 1 of the chip."""
    done = (Wait(0, "done", "full"),)
    commands = [
        load(0, 1, nbytes), vector(1, 1, 2, 5, done), store(2, 2, 3, nbytes, (Wait(1, "done", "full"),)),
    ]  # fmt: skip
    size = max(64, nbytes)
    home = HOME._replace(size_B=size)
    regions = [home, region(1, size_B=size), region(2, offset=size, size_B=size), region(3, "dram", -1, size)]
    return program(commands, regions)


def test_ideal_memories_take_no_time() -> None:
    run = simulate(moves(), memory_model="ideal")
    assert [(piece.end - piece.start) // 10**7 for piece in run.slices] == [0, 5, 0]
    assert run.memory_model == "ideal" and not run.dram
    slow = simulate(moves())
    assert run.time_fs < slow.time_fs and run.ledger == slow.ledger
    check(run, thorough=True)


def test_a_tile_is_one_call_with_its_addresses_and_its_clock(made: list[FakeDram]) -> None:
    """64 B are 4 bursts of 2 clocks. Data begin with the first burst and end with the last, in whole clocks."""
    run = simulate(moves(), memory_model="bank")
    (dram,) = made
    assert dram.calls[0] == ([0, 16, 32, 48], False, 5)
    first, _, last = run.slices
    assert (first.start, first.data, first.end) == (10**7, (5 + LATENCY) * CLOCK, (5 + LATENCY + 8) * CLOCK)
    begin = -(-last.start // CLOCK)
    assert dram.calls[1] == ([4096, 4112, 4128, 4144], True, begin)
    assert (last.data, last.end) == ((begin + LATENCY) * CLOCK, (begin + LATENCY + 8) * CLOCK)
    check(run, thorough=True)


def test_the_state_of_a_memory_stays_from_tile_to_tile(made: list[FakeDram]) -> None:
    """Two loads at successive edges: the second is accepted while the first is under way, and served behind it."""
    regions = [HOME, region(1), region(2, offset=64)]
    run = simulate(program([load(0, 1, 64), load(1, 2, 64)], regions), memory_model="bank")
    assert len(made) == 1 and [call[2] for call in made[0].calls] == [5, 10]
    assert run.slices[1].data == run.slices[0].end


def test_rows_that_stay_open_count_each_clock_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of the second load end with those of the first, which had a bank open all the time."""
    counts = dict.fromkeys(COUNTS, 0) | {"act": 1, "rd": 4, "misses": 1, "hits": 3}
    batches = [Served(begin, 30, dict(counts), 30 - begin, 8, first=12) for begin in (5, 10)]
    monkeypatch.setitem(
        MODELS, "bank", Level("a fake", lambda device: Mock(spec=["serve"], serve=lambda *_: batches.pop(0)))
    )
    monkeypatch.setattr(memory_models, "device_of", lambda attached: device())
    monkeypatch.setattr(memory_models, "check_dram", lambda chip, name: None)
    regions = [HOME, region(1), region(2, offset=64)]
    run = simulate(program([load(0, 1, 64), load(1, 2, 64)], regions), memory_model="bank")
    assert run.dram["dram"].served.open_clocks == 30 - 5


@pytest.mark.parametrize(("kind", "timing", "command", "each"), [
    ("all_bank", {"tREFI": 100}, REF, 10), ("per_bank", {"tREFI": 100, "tREFIpb": 30}, REFPB, 33),
    ("per_bank", {"tREFI": 100}, REFPB, 40), ("none", {"tREFI": 100}, REF, 0), ("all_bank", {}, REF, 0),
])  # fmt: skip
def test_every_rank_is_refreshed_once_in_an_interval(
    kind: str, timing: dict[str, int], command: str, each: int
) -> None:
    """1,000 clocks of 2 ranks of 3 channels; by bank where no interval is given, a quarter of it for 4 banks."""
    toy = device()
    refreshed = replace(
        toy, geometry=replace(toy.geometry, ranks=2, channels=3), timing=timing,
        controller=replace(toy.controller, refresh=kind),
    )  # fmt: skip
    assert refreshes(refreshed, 1000) == (command, each * 6)


def test_what_depends_on_banks_or_contents_is_simulated_as_a_whole(made: list[FakeDram]) -> None:
    program = compile(load_model("mlp?layers=20"), load_chip("haswell-e5-2699v3"), Options(values="off"))
    feeds = {name: np.zeros(program.graph.tensors[name].shape, np.int8) for name in program.graph.inputs}
    assert simulate(program).replay is not None
    assert simulate(program, memory_model="bank").replay is None
    assert simulate(program, feeds, "fast").replay is None


def with_link(duplex: str, rate: float = 1e9) -> Chip:
    base = chip()
    link = load_chip("tpu-v1").memories["pcie_memory"].link
    assert link is not None
    link = link.model_copy(update={"bandwidth": rate, "latency": 1e-6, "duplex": duplex, "pcie": None})
    return base.model_copy(update={"memories": {"dram": base.memories["dram"].model_copy(update={"link": link})}})


@pytest.mark.parametrize("rate", [1e9, 100e9])
def test_data_pass_the_slower_of_memory_and_link(made: list[FakeDram], rate: float) -> None:
    """64 B take 64 ns through a link of 1 GB/s and 16 ns through the memory; the latency of 1 us comes on top."""
    regions = [HOME, region(1), region(2, offset=64)]
    run = simulate(program([load(0, 1, 64), load(1, 2, 64)], regions, with_link("full", rate)), memory_model="bank")
    ns, one, two = 10**6, *run.slices
    first, took = (5 + LATENCY) * CLOCK, 64 * ns if rate == 1e9 else 16 * ns
    assert (one.data, one.end) == (first + 1000 * ns, first + took + 1000 * ns)
    assert (two.data, two.end) == (one.end, one.end + took)


def test_behind_a_link_both_directions_are_one_queue(made: list[FakeDram]) -> None:
    """There is one controller: requests of one instant go in the order of the port's rule, one per edge."""
    commands = [store(0, 1, 2), load(1, 3)]
    presets = program(commands, [HOME, region(1), region(2, "dram", -1), region(3, offset=64)], with_link("full"))
    presets.presets[1] = ("x", 0)
    commands[0].reads = (commands[0].reads[0]._replace(version=0),)
    run = simulate(presets, memory_model="bank")
    assert [piece.start for piece in run.slices] == [2 * 10**7, 10**7]
    assert [call[1] for call in made[0].calls] == [False, True]


def test_statistics_and_rows_add_up(made: list[FakeDram]) -> None:
    """20 B are two bursts: 12 B more than asked for. Commands belong to who caused them, refresh to nobody."""
    run = simulate(moves(20), memory_model="bank")
    stats = run.dram["dram"]
    assert (stats.requested_B, stats.moved_B, stats.overfetch_B) == (40, 64, 24)
    assert stats.hit_rate == 0.5 and stats.model == "bank"
    assert stats.bus_utilisation == 8 / stats.served.elapsed
    assert stats.served.elapsed * CLOCK >= run.time_fs > (stats.served.elapsed - 1) * CLOCK
    rows = {(row.action, row.op, row.tensor): row.count for row in run.ledger if row.component == "dram"}
    assert rows == {
        ("read", 0, "x"): 20, ("write", 0, "x"): 20, ("act", 0, "x"): 2, ("rd", 0, "x"): 2, ("wr", 0, "x"): 2,
        ("io.read", 0, "x"): 2, ("io.write", 0, "x"): 2, ("ref", -1, ""): 2,
    }  # fmt: skip


def test_a_memory_is_charged_by_command_and_its_bytes_are_not(made: list[FakeDram]) -> None:
    run = simulate(moves(20), memory_model="bank")
    rows, stats = energy_table(run), run.dram["dram"]
    mine = {row.action: row.energy_J for row in rows if row.component == "dram"}
    assert mine == pytest.approx(
        {
            "read": 0.0,
            "write": 0.0,
            "act": 16e-9,
            "rd": 2e-9,
            "wr": 4e-9,
            "ref": 128e-9,
            "io.read": 6e-9,
            "io.write": 8e-9,
        }
    )
    static = {row.action: (row.count, row.energy_J, row.op) for row in rows if row.component == "static"}
    open_fs = stats.served.open_clocks * CLOCK
    closed_fs = stats.served.elapsed * CLOCK - open_fs
    assert static["open.dram"] == (open_fs, pytest.approx(0.5 * open_fs * 1e-15, rel=1e-9, abs=0), -1)
    assert static["closed.dram"] == (closed_fs, pytest.approx(0.25 * closed_fs * 1e-15, rel=1e-9, abs=0), -1)
    assert "idle.dram" not in static
    assert stats.energy is not None
    dram_J = fsum([*mine.values(), static["open.dram"][1], static["closed.dram"][1]])
    assert dram_J == pytest.approx(stats.energy.die_J + stats.energy.io_J, rel=1e-9, abs=0)
    assert fsum(by_category(run.chip, rows).values()) == pytest.approx(total_J(rows), rel=1e-9, abs=0)
    assert prices_of(run)["dram", "rd"] == 1e-9
    found = summary(run)["dram"]["dram"]
    assert found["energy_J"] + found["io_J"] == pytest.approx(dram_J, rel=1e-9, abs=0) and found["overfetch_B"] == 24
    assert json.loads(json.dumps(found)) == found


def test_without_currents_bytes_are_charged(made: list[FakeDram], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_models, "device_of", lambda attached: device(energy=False))
    run = simulate(moves(), memory_model="bank")
    plain = simulate(moves())
    mine, theirs = (
        {row.action: row.energy_J for row in energy_table(each) if row.component == "dram"} for each in (run, plain)
    )
    assert {action: joules for action, joules in mine.items() if joules} == theirs
    assert run.dram["dram"].energy is None and "energy_J" not in run.dram["dram"].as_dict()


TAMPERED: dict[str, tuple[Callable[[Run], Any], str]] = {
    "fewer bursts than bytes": (lambda run: run.dram["dram"].served.counts.update(rd=1), "1 rd of 16 B for 64 B"),
    "more data than time": (
        lambda run: setattr(run.dram["dram"].served, "bus_clocks", 10**6), "1000000 clocks of data",
    ),
    "commands that nobody paid for": (lambda run: run.dram["dram"].served.counts.update(act=7), "issued {'act': 7}"),
    "a burst that found no row": (lambda run: run.dram["dram"].served.counts.update(hits=0), "are not 8 bursts"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERED)
def test_what_cannot_be_breaks_a_law(made: list[FakeDram], what: str) -> None:
    run = simulate(moves(), memory_model="bank")
    tamper, text = TAMPERED[what]
    tamper(run)
    with pytest.raises(LawError, match=text):
        check(run)


def test_faster_than_all_buses_breaks_a_law(made: list[FakeDram]) -> None:
    run = simulate(moves(), memory_model="bank")
    first = run.slices[0]
    run.slices[0] = first._replace(data=first.start, end=first.start + 7 * CLOCK)
    with pytest.raises(LawError, match="need 8 clocks"):
        check(run)


def test_an_unknown_model_and_every_memory_without_a_dram_are_told_before_anything_runs() -> None:
    with pytest.raises(UsageError, match=r"unknown memory model 'bandwith'.*did you mean 'bandwidth'"):
        simulate(moves(), memory_model="bandwith")
    bare = load_chip("tpu-v1")
    memories = {
        name: attached.model_copy(update={"memory": attached.memory.model_copy(update={"dram": None})})
        for name, attached in bare.memories.items()
    }
    with pytest.raises(UsageError) as caught:
        prepare(Request("mlp0", bare.model_copy(update={"memories": memories}), values="of", memory_model="bank"))
    told = str(caught.value)
    assert "'of'" in told
    for name in bare.memories:
        assert f"memory '{name}'" in told and f"memories.{name}.memory" in told


def test_the_bursts_of_a_run_can_be_saved(made: list[FakeDram], tmp_path: Path) -> None:
    run = simulate(moves(20), memory_model="bank", record=True)
    path = write_file(tmp_path / "trace.npz", accesses_file(run, tmp_path / "trace.npz"))
    assert [each.name for each in tmp_path.iterdir()] == ["trace.npz"]
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    second = made[0].calls[1][2]
    assert arrays["dram.at"].tolist() == [5, 5, second, second]
    assert arrays["dram.address"].tolist() == [0, 16, 4096, 4112]
    assert arrays["dram.write"].tolist() == [False, False, True, True]
    assert arrays["dram.op"].tolist() == [0] * 4
    assert [arrays[f"dram.{name}"].dtype for name in ("at", "address", "write", "op")] == [
        np.int64, np.int64, np.bool_, np.int32,
    ]  # fmt: skip
    meta = json.loads(str(arrays["meta"]))
    assert Dram.model_validate(meta.pop("dram")["dram"]) == run.chip.memories["dram"].memory.dram
    assert meta == {
        "chip": "edu-4x4", "model": "by hand", "memory_model": "bank", "memory": {"dram": ""}, "clock_fs": {"dram": CLOCK},
    }  # fmt: skip
    with pytest.raises(UsageError, match="kept no bursts"):
        accesses_file(simulate(moves(), memory_model="bank"), path)
    with pytest.raises(UsageError, match="its directory does not exist"):
        write_file(tmp_path / "nowhere" / "trace.npz", accesses_file(run, tmp_path))


@pytest.mark.parametrize(("model", "on"), [("squeezenet", "edu-mixed"), ("mlp0", "tpu-v1")])
def test_a_network_asks_for_the_same_bytes_under_every_model(made: list[FakeDram], model: str, on: str) -> None:
    """Traffic is that of the program; what the DRAM is given are bursts of it, in order of acceptance."""
    import accelsim

    runs = {name: accelsim.run(model, on, values="off", memory_model=name) for name in ("ideal", "bandwidth", "bank")}
    traffic = {name: summary(run)["traffic"] for name, run in runs.items()}
    assert traffic["ideal"] == traffic["bandwidth"] == traffic["bank"]
    assert runs["ideal"].time_fs < runs["bandwidth"].time_fs
    run = runs["bank"]
    check(run, thorough=True)
    asked = Counter[str]()
    for command in run.program.commands:
        if isinstance(command.work, Transfer):
            asked[command.work.memory] += command.work.nbytes
    for name, stats in run.dram.items():
        assert stats.requested_B == asked[name] and stats.overfetch_B >= 0
    assert all(one[2] <= other[2] for fake in made for one, other in pairwise(fake.calls))
