"""Laps of tile loops that are left out: which, how many, and that nothing is lost of the whole program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.program.commands import Action, Command, Cycles, Effect, Program, Tile, Use, Wait
from accelsim.program.mapping import Mapping
from accelsim.program.repeated import Chains, Repeat, Span
from accelsim.program.rolled import Cuts, Unrolled, all_loops, place_of, written_out
from accelsim.program.tiles import Exec, Lap, laps, whole
from accelsim.program.writing.laps import FOLLOWS, LONGEST, RECURS, Laps
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.limits import limited
from accelsim.workload.ops.base import Gemm
from accelsim.workload.sources.load import load_model

MODEL, CHIP = "gpt?layers=1,hidden=128,seq=128,heads=4", "edu-tensor-core"
SMALL = ["act_sram.capacity=64 KiB", "accumulators.capacity=1 KiB"]


def _program(model: str = MODEL, chip: str = CHIP, sets: list[str] = SMALL, repeat: bool = True) -> Program:
    with limited(ignore_capacity=True):
        return compile(load_model(model), load_chip(chip, sets), Options(values="off", repeat=repeat))


def test_numbers_of_cuts() -> None:
    cuts = Cuts([Span(end=4, size=2, times=3), Span(end=9, size=1, times=2)])
    assert cuts.left_out == 8 and [cuts.long(number) for number in (3, 4, 8, 9)] == [3, 10, 14, 17]
    found = [cuts.find(whole) for whole in (3, 4, 5, 9, 10, 14, 15, 16, 17)]
    assert found == [
        (3, 0, 0), (2, 0, 1), (3, 0, 1), (3, 0, 3), (4, 1, 0), (8, 1, 0), (8, 1, 1), (8, 1, 2), (9, 2, 0),
    ]  # fmt: skip
    whole = Unrolled("abcdefghijk", cuts, lambda item, cut, copy: f"{item}{cut}{copy}")
    assert (
        len(whole) == 19
        and whole[-1] == "k20"
        and whole[4:7] == ["c01", "d01", "c02"]
        and list(whole) == whole
    )
    with pytest.raises(IndexError):
        whole[19]


def test_laps_that_are_alike() -> None:
    """Columns are, but for the last tile, which is smaller; the reduction is not, for it opens and closes sums."""
    gemm = Gemm(a="a", b="b", groups=1, M=8, N=70, K=64)
    found = list(laps(whole(gemm), Mapping("nmk", tm=8, tn=4, tk=16)))
    assert [lap.like for lap in found] == [*range(17, 0, -1), 1]
    assert next(step.tile for step in found[1].passes) == Tile(0, 1, 0, 8, 4, 8, 0, 16)
    assert all(lap.like == 1 for lap in laps(whole(gemm), Mapping("mkn", tm=8, tn=4, tk=16)))


def test_the_rolled_program_is_the_whole_one_but_for_laps() -> None:
    program, whole = _program(), _program(repeat=False)
    rolled = program.rolled
    assert rolled is not None and whole.rolled is None and len(rolled.commands) < len(whole.commands)
    assert list(program.commands) == whole.commands and program.needs == whole.needs
    for loop in rolled.loops:
        assert loop.tail >= RECURS.behind and (loop.span.end - loop.first) // loop.span.size >= RECURS.before
    middle = len(whole.commands) // 2
    assert program.commands[middle] == whole.commands[middle]


def test_some_loops_can_be_written_out() -> None:
    """What is left of the rolled program still gives the whole one; with copies of blocks too."""
    program = _program("gpt?layers=7,hidden=128,seq=128,heads=4")
    rolled, whole = program.rolled, list(program.commands)
    assert rolled is not None and rolled.repeat is not None
    assert len(all_loops(rolled)) == len(rolled.loops) + rolled.repeat.times * len(
        rolled.repeat.loops_of(rolled)
    )
    places = sorted({place_of(rolled.repeat, loop.span.end) for loop in rolled.loops})
    part = written_out(rolled, set(places[::2]))
    assert 0 < len(part.loops) < len(rolled.loops) and len(part.commands) > len(rolled.commands)
    rest = written_out(part, {place_of(part.repeat, loop.span.end) for loop in part.loops})
    assert not rest.loops and list(rest.commands) == whole


@pytest.mark.parametrize(
    "chip, sets, values",
    [
        (CHIP, [*SMALL, "clock=700 MHz"], "off"),  # 1,428,571.4 fs
        (CHIP, [*SMALL, "cores=2"], "off"),
        (CHIP, SMALL, "exact"),
    ],
)  # fmt: skip
def test_what_is_not_rolled(chip: str, sets: list[str], values: str) -> None:
    with limited(ignore_capacity=True):
        graph, on = load_model("gpt?layers=1,hidden=64,seq=128,heads=4,vocab=64"), load_chip(chip, sets)
        assert compile(graph, on, Options(values=values)).rolled is None


def test_loops_that_transfers_bind_are_not_rolled() -> None:
    model, slow = (
        "gpt?layers=1,hidden=256,seq=256,heads=4",
        "memories.dram.memory.bandwidth=12.3457 MB/s",
    )
    assert _program(model, "edu-4x4").rolled is not None
    assert _program(model, "edu-4x4", [*SMALL, slow]).rolled is None
    with mock.patch(
        "accelsim.engines.systolic.lower.ON_THE_CHIP", mock.MagicMock(__contains__=lambda *_: True)
    ):
        assert _program(model, "edu-4x4", [*SMALL, slow]).rolled is not None


def test_weights_that_several_loops_load_are_there_once() -> None:
    """Each block of rows loads all tiles of the weights, which are padded to whole tiles of the array."""
    sets = [
        "matrix.rows=16",
        "matrix.cols=16",
        "weight_fifo.slot_capacity=256 B",
        "weight_fifo.capacity=1 KiB",
        "peak={}",
    ]
    pinned = {"y": {"order": "mnk", "tm": 8, "tn": 16, "tk": 16}}
    rolled, whole = (
        compile(load_model("gemm?M=24,N=632,K=60"), load_chip("tpu-v1", sets),
                Options(values="off", repeat=repeat, pinned=pinned))
        for repeat in (True, False)
    )  # fmt: skip
    assert rolled.rolled is not None and len(rolled.rolled.loops) == 3
    assert rolled.needs == whole.needs and whole.needs["ddr3"].weights_B == 40 * 4 * 256


@pytest.mark.parametrize(
    ("model", "chip", "fewer"),
    [
        ("mlp?hidden=64,layers={}", "haswell-e5-2699v3", 20),
        ("gpt?layers={},hidden=64,seq=8,heads=4", "haswell-e5-2699v3", 12),
    ],
)
def test_without_its_copies_a_program_is_that_of_fewer_blocks(model: str, chip: str, fewer: int) -> None:
    """But for the names of layers behind the copies, and for results that copies leave."""
    program = _program(model.format(fewer), chip, [])
    repeat = program.repeat
    assert repeat is not None and repeat.times > 1
    short = repeat.short(program)
    plain = _program(model.format(fewer - repeat.times * repeat.blocks), chip, [], repeat=False)
    parts = ("id", "kind", "engine", "op", "work", "reads", "writes")
    for one, other in zip(short.commands, plain.commands, strict=True):
        assert [getattr(one, part) for part in parts] == [getattr(other, part) for part in parts]
        assert set(one.waits) == set(other.waits) and one.effect.tile == other.effect.tile
    for here, there in zip(short.regions, plain.regions, strict=True):
        assert here._replace(name="") == there._replace(name="")
    assert short.presets == plain.presets
    assert len(short.steps) == len(plain.steps)


def test_where_a_loop_lies_in_the_unit_that_is_written_last() -> None:
    """Units of 5 commands, from 11 and from 16 on; three copies, up to 36."""
    span = Span(21, 5, 3)
    repeat = Repeat(2, 3, 1, span, span, span, Chains({}), frozenset(), {})
    ends = {11: 11, 12: 17, 14: 19, 16: 21, 17: 17, 21: 21, 22: 17, 36: 21, 37: 37}
    assert {end: place_of(repeat, end) for end in ends} == ends
    assert place_of(None, 13) == 13


class Written:
    """Laps of one command each, into slots that have their turn one after the other."""

    def __init__(self, slots: int, paced: bool = False, spoil: Callable[[Command], Command] = lambda c: c):
        self.slots, self.spoil, self.written = slots, spoil, 0
        self.builder: Any = SimpleNamespace(rolls=True, paced=paced, commands=[], loops=[])

    def of(self, count: int) -> int:
        """Return how many of so many alike laps are written."""
        places = (Exec(Tile(0, 1, at, at + 1, 0, 1, 0, 1), True, True) for at in range(count))
        alike = (Lap(iter([place]), count - at) for at, place in enumerate(places))
        turns = lambda: len(self.builder.commands) % self.slots  # noqa: E731
        for place in Laps(self.builder, turns, self, regular=True).passes(alike):
            number = self.written
            use = Use(number % self.slots, number // self.slots, "whole")
            command = Command(
                number, "Vector", "v", 0, "lap", Cycles(1), Effect("none", place.tile), writes=(use,)
            )
            self.builder.commands.append(self.spoil(command))
            self.written += 1
        return len(self.builder.commands)


@pytest.mark.parametrize("slots", [1, 2, LONGEST])
@pytest.mark.parametrize("paced", [False, True])
def test_as_many_laps_are_written_as_a_cut_needs(slots: int, paced: bool) -> None:
    """Whole units before it, and behind it whole ones and what is left over."""
    least = FOLLOWS if paced else RECURS
    before, behind = max(least.before, least.many // slots), max(least.behind, least.few // slots)
    for more in range(slots):
        units = before + before + behind
        count = units * slots + more
        assert Written(slots, paced).of(count) == count - before * slots
        assert Written(slots, paced).of(count - more - 1) == count - more - 1


def test_slots_of_too_many_laps_are_not_waited_for() -> None:
    assert Written(LONGEST + 1, paced=True).of(100) == 100


SPOILS: dict[str, Callable[[Command], Command]] = {
    "engine": lambda c: replace(c, engine=f"v{c.id}"),
    "step": lambda c: replace(c, op=c.id),
    "label": lambda c: replace(c, label=f"lap {c.id}"),
    "work": lambda c: replace(c, work=Cycles(c.id)),
    "actions": lambda c: replace(c, actions=(Action("v", "mac", "", c.id),)),  # type: ignore[arg-type]
    "effect": lambda c: replace(c, effect=c.effect._replace(tensor=f"t{c.id}")),
    "tile": lambda c: replace(c, effect=c.effect._replace(tile=None)) if c.id.bit_count() % 2 else c,
    "no tile": lambda c: replace(c, effect=c.effect._replace(tile=None)),
    "reads": lambda c: replace(c, reads=(Use(c.id, 1, "src"),)),
    "writes": lambda c: replace(c, writes=(Use(c.id, 1, "whole"),)),
    "roles": lambda c: replace(c, writes=(c.writes[0]._replace(role=f"r{c.id}"),)),
    "versions": lambda c: replace(c, writes=(c.writes[0]._replace(version=c.id**2),)),
    "waits": lambda c: replace(c, waits=(Wait(c.id // 2, "done", "full"),)),
    "reasons": lambda c: replace(c, waits=(Wait(c.id - 1, "done", f"w{c.id}"),)),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_laps_that_differ_in_more_than_their_place_are_all_written(
    spoil: Callable[[Command], Command],
) -> None:
    assert Written(1, spoil=spoil).of(260) == 260
