"""Programs that repeat themselves: numbers, names, what is told, and when the whole is simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.account.latency import summary
from accelsim.compiler.lower.blocks import alike_blocks
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import TooLarge
from accelsim.machine.simulate import simulate
from accelsim.machine.simulation import Simulation
from accelsim.program.commands import Wait
from accelsim.program.messages import barrier
from accelsim.program.program import Program
from accelsim.program.repeated import Chains, Commands, Repeat, Span
from accelsim.program.shortened import without_copies
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from tests.helpers.hand_programs import HOME, vector
from tests.helpers.hand_programs import program as program_by_hand
from tests.helpers.long_graphs import residuals


def test_numbers_of_copies() -> None:
    span = Span(end=10, size=4, times=3)
    assert list(span.unit) == [6, 7, 8, 9] and span.behind == 22
    assert [span.copy_of(number) for number in (9, 10, 13, 14, 21, 22)] == [
        (9, 0), (6, 1), (9, 1), (6, 2), (9, 3), (22, 0),
    ]  # fmt: skip
    assert span.short(22) == 10 and span.long(10) == 22 and span.long(9) == 9


def test_what_waits_for_copies_waits_for_what_is_written() -> None:
    """Of the last copies for the units written last, of all that are older for the first of these."""
    span, fixed = Span(end=10, size=4, times=5), Span(1, 0, 5)
    repeat = Repeat(2, 5, 1, span, fixed, fixed, Chains({}), frozenset(), {})
    awaited = {2: 2, 9: 9, 11: 3, 19: 3, 23: 3, 27: 7, 30: 10}
    behind = [vector(30, 0, 0), vector(31, 0, 0, 5, tuple(Wait(each, "done", "full") for each in awaited))]
    whole = program_by_hand([], [HOME])
    whole.commands = Commands([vector(number, 0, 0) for number in range(10)], behind, repeat)
    whole.repeat = repeat
    short = without_copies(whole)
    assert [command.id for command in short.commands] == [*range(12)]
    assert [wait.command for wait in short.commands[11].waits] == list(dict.fromkeys(awaited.values()))
    for number, place in awaited.items():
        behind[1].waits = (Wait(number, "done", "full"),)
        (wait,) = without_copies(replace(whole)).commands[11].waits
        assert wait.command == place


@pytest.mark.parametrize(
    ("model", "chip", "fewer"),
    [
        ("mlp?hidden=64,layers={}", "haswell-e5-2699v3", 20),
        ("gpt?layers={},hidden=64,seq=8,heads=4", "haswell-e5-2699v3", 12),
    ],
)
def test_without_its_copies_a_program_is_that_of_fewer_blocks(model: str, chip: str, fewer: int) -> None:
    """But for the names of layers behind the copies, and for results that copies leave."""

    def written(blocks: int, repeat: bool) -> Program:
        options = Options(values="off", repeat=repeat)
        return compile(load_model(model.format(blocks)), load_chip(chip), options)

    program = written(fewer, True)
    repeat = program.repeat
    assert repeat is not None and repeat.times > 1
    short = without_copies(program)
    plain = written(fewer - repeat.times * repeat.blocks, False)
    parts = ("id", "kind", "engine", "op", "work", "reads", "writes")
    for one, other in zip(short.commands, plain.commands, strict=True):
        assert [getattr(one, part) for part in parts] == [getattr(other, part) for part in parts]
        assert set(one.waits) == set(other.waits) and one.effect.tile == other.effect.tile
    for here, there in zip(short.regions, plain.regions, strict=True):
        assert here._replace(name="") == there._replace(name="")
    assert short.presets == plain.presets
    assert len(short.steps) == len(plain.steps)


def test_names_move_on() -> None:
    names = Chains({"x": "a0", "a0": "a1", "a1": "a2", "mask": "mask"})
    assert names.image("x", 2) == "a1" and names.image("mask", 5) == "mask"
    assert names.text("load a0", 1) == "load a1" and names.follows("x", "a2", 3)
    with pytest.raises(KeyError, match="a1 has no image 2 blocks on"):
        names.image("a1", 2)


def test_blocks_are_found() -> None:
    blocks = alike_blocks(residuals(30), {})
    assert blocks is not None and (blocks.first, blocks.size, blocks.number) == (2, 3, 9)  # x is an input, t9 leaves
    assert blocks.names.image("w1", 8) == "w9" and blocks.names.image("t3", 1) == "t4"
    assert alike_blocks(residuals(12), {}) is None  # too few
    pinned = alike_blocks(residuals(30), {"m4": {"tm": 1}})
    assert pinned is not None and (pinned.first, pinned.number) == (13, 5)  # behind the one that is not alike


def test_what_is_told() -> None:
    program = compile(load_model("mlp?layers=20"), load_chip("haswell-e5-2699v3"), Options(values="off"))
    run = simulate(program)
    assert isinstance(program.commands, Commands) and program.repeat is not None and run.replay is not None
    told, copies = summary(run), program.repeat.times * program.repeat.commands.size
    assert told["commands"] == len(run.slices) == len(list(program.commands))
    assert told["commands_replayed"] == program.commands.copies == copies
    assert told["notes"][-1].startswith(f"replay: {copies} of {told['commands']} commands")
    assert run.slices[-1] == list(run.slices)[-1] and run.slices[2:4] == list(run.slices)[2:4]
    assert program.commands[-1].id == len(program.commands) - 1
    with pytest.raises(IndexError):
        run.slices[len(run.slices)]


def test_one_unit_of_the_recurring_state_is_enough() -> None:
    """Copies follow the first block behind which the state recurs, where the one before it did the same."""
    program = compile(load_model("gpt2?layers=7,seq=64"), load_chip("h100-sxm"), Options(values="off"))
    assert program.repeat is not None and program.repeat.times == 3
    assert simulate(program).replay is not None


def test_only_what_is_written_counts_as_built() -> None:
    """A limit on commands is one on what takes room; of the copies none does until somebody asks for it."""
    sets = ["act_sram.capacity=32 KiB", "accumulators.capacity=2 KiB"]
    graph, chip = load_model("mlp?hidden=512,layers=21"), load_chip("edu-mixed", sets)
    program = compile(graph, chip, Options(values="off"))
    assert isinstance(program.commands, Commands)
    most = len(program.commands) - program.commands.copies
    with limited(commands=most):
        assert len(compile(graph, chip, Options(values="off")).commands) > most
    with limited(commands=most), pytest.raises(TooLarge):
        compile(graph, chip, Options(values="off", repeat=False))


LOOPS = "gpt?layers=7,hidden=128,seq=64,heads=4"
SMALL = ["act_sram.capacity=16 KiB", "accumulators.capacity=1 KiB"]


def test_programs_that_are_changed_have_all_their_commands() -> None:
    """A barrier behind a program with blocks that are copies."""
    program = compile(load_model(LOOPS), load_chip("edu-4x4", SMALL), Options(values="off"))
    longer = barrier({"one": program}, "all")["one"]
    assert program.repeat is not None and longer.repeat is None
    assert list(longer.commands[:-1]) == list(program.commands)
    simulation = Simulation()
    simulation.add("one", longer)
    simulation.add("other", program)
    runs = simulation.run()
    assert all(run.program.repeat is None for run in runs.values())
    assert runs["one"].slices[:-1] == runs["other"].slices == list(simulate(program).slices)
