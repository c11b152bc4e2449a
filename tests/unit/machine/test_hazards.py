"""Hazards found for all reads at once are those that the agenda finds one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import HazardError
from accelsim.machine.contents import BEGIN, DONE, A, Agenda, Contents, Entry, W
from accelsim.machine.hazards import sound
from accelsim.machine.values.effects import Off
from accelsim.program.commands import Command, Effect, Use
from accelsim.program.program import Program
from accelsim.program.work import Cycles
from accelsim.time import NEVER
from tests.helpers.hand_programs import HOME, program, region

REGIONS = [HOME, region(1), region(2), region(3)._replace(overlaps=(1, 2))]
ROLES = st.sampled_from(["whole", "begin", "part", "end"])


def uses(roles: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[Use, ...]]:
    return st.lists(st.builds(Use, st.integers(0, 3), st.integers(0, 2), roles), max_size=2).map(tuple)


@st.composite
def played(draw: st.DrawFn) -> tuple[Program, list[Entry]]:
    """A program without sense, and moments of its commands at times close to each other."""
    commands, whole = list[Command](), program([], REGIONS)
    contents, entries = Contents(whole, Off()), list[Entry]()
    for number in range(draw(st.integers(1, 4))):
        reads, writes = draw(uses(st.sampled_from(["w", "a", "src"]))), draw(uses(ROLES))
        commands.append(
            Command(number, "Vector", "vector", 0, "v", Cycles(1), Effect("none"), reads=reads, writes=writes)
        )
        begin, end = draw(st.integers(0, 6)), draw(st.integers(0, 6))
        entries.append((begin, BEGIN, commands[-1], -1, contents))
        entries += [(draw(st.integers(begin, 7)), moment, commands[-1], begin, contents) for moment in (W, A)]
        entries.append((max(begin, end), DONE, commands[-1], draw(st.sampled_from([-1, begin])), contents))
    for preset in whole.presets:
        contents.preset(preset)
    whole.commands = commands
    return whole, draw(st.permutations(entries))


@given(played())
def test_a_run_is_sound_where_the_agenda_finds_no_hazard(case: tuple[Program, list[Entry]]) -> None:
    whole, entries = case
    agenda = Agenda()
    agenda.entries = entries
    try:
        agenda.play()
    except HazardError:
        assert not sound(whole, entries)
    else:
        assert sound(whole, entries)


def test_only_the_agenda_tells_where_a_moment_comes_twice_or_beyond_all_times() -> None:
    whole = program([], REGIONS)
    command = Command(0, "Vector", "vector", 0, "v", Cycles(1), Effect("none"))
    whole.commands = [command]
    contents = Contents(whole, Off())
    assert sound(whole, [(1, DONE, command, -1, contents)])
    assert not sound(whole, [(1, DONE, command, -1, contents)] * 2)
    assert not sound(whole, [(4 * NEVER, DONE, command, -1, contents)])
