"""Programs that contradict themselves are refused before they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import HazardError, InternalError
from accelsim.program.commands import Use, Wait
from accelsim.program.program import Program
from accelsim.program.verify import verify
from tests.helpers.pass_graphs import Graphs, chip


@pytest.fixture
def program() -> Program:
    g = Graphs()
    graph = g.finish(g.dense(g.input("x", (9, 8)), 6, "fc", relu=True))
    pinned = {"fc": {"tm": 4, "tk": 4, "a_resident": False}}
    return compile(graph, chip("edu-4x4"), Options(dtype="fp32", pinned=pinned))


def first(program: Program, kind: str) -> int:
    return next(command.id for command in program.commands if command.kind == kind)


def read_too_new(program: Program) -> None:
    index = first(program, "Vector")
    command = program.commands[index]
    late = [Use(use.region, use.version + 9, use.role) for use in command.reads]
    program.commands[index] = replace(command, reads=tuple(late))


def drop_the_writer(program: Program) -> None:
    index = first(program, "Load")
    program.commands[index] = replace(program.commands[index], writes=())


def wait_for_the_future(program: Program) -> None:
    index = first(program, "MatMul")
    command = program.commands[index]
    program.commands[index] = replace(command, waits=(*command.waits, Wait(index + 1, "done", "full")))


def wait_for_itself(program: Program) -> None:
    index = first(program, "MatMul")
    command = program.commands[index]
    program.commands[index] = replace(command, waits=(*command.waits, Wait(index, "done", "full")))


def test_what_the_compiler_writes_is_accepted(program: Program) -> None:
    verify(program)


@pytest.mark.parametrize("spoil", [read_too_new, drop_the_writer, wait_for_the_future, wait_for_itself])
def test_hazards_are_found_and_named(program: Program, spoil: Callable[[Program], None]) -> None:
    spoil(program)
    with pytest.raises(HazardError) as caught:
        verify(program)
    assert "(command " in caught.value.command


def test_a_region_beyond_its_buffer_is_refused(program: Program) -> None:
    index = next(region.id for region in program.regions if region.memory == "act_sram")
    program.regions[index] = program.regions[index]._replace(offset=(1 << 16) - 1)
    with pytest.raises(InternalError, match="ends beyond act_sram"):
        verify(program)
