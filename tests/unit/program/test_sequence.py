"""Programs one after the other on one device, with messages between devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.errors import UsageError
from accelsim.machine.check import check
from accelsim.machine.simulate import simulate
from accelsim.machine.simulation import Simulation
from accelsim.program.sequence import Letter, SequencePart, in_sequence
from tests.unit.machine.test_devices import first, link, second

ONE, LINK = first(), link()
CHIP = ONE.chip


def test_programs_in_sequence_take_the_sum_of_their_times() -> None:
    other = second(CHIP.name)
    run = simulate(in_sequence("a", CHIP, [SequencePart(ONE), SequencePart(other), SequencePart(ONE)], [], {}))
    assert run.time_fs == 2 * simulate(ONE).time_fs + simulate(other).time_fs
    check(run, thorough=True)


@pytest.mark.parametrize("copies", [False, True])
def test_a_part_begins_when_what_it_receives_is_there(copies: bool) -> None:
    sender = in_sequence(
        "a", CHIP, [SequencePart(ONE, (), (Letter("b", "x", 100),))], [], {"b": (LINK,)}, copies, piece_B=40
    )
    parts = [SequencePart(ONE), SequencePart(ONE, (("a", "x"),))]
    receiver = in_sequence("b", CHIP, parts, [Letter("a", "x", 100)], {}, copies, piece_B=40)
    simulation = Simulation({"wire": LINK}, {("a", "b"): ["wire"]})
    simulation.add("a", sender)
    simulation.add("b", receiver)
    runs = simulation.run()
    sizes = [c.work.nbytes for c in sender.commands if c.kind == "Send"]  # type: ignore[union-attr]
    assert sizes == ([40, 40, 20] if copies else [100])
    arrived = max(piece.end for piece in runs["b"].slices if piece.engine.startswith("nic"))
    late = runs["b"].time_fs - arrived - simulate(ONE).time_fs
    assert 0 <= late <= 10**7  # up to the next edge of a clock of 100 MHz
    assert sum(row.count for row in runs["a"].ledger if row.component == "b.link") == 100


def test_a_message_that_nobody_sends_is_told() -> None:
    alone = in_sequence("b", CHIP, [SequencePart(ONE, (("a", "x"),))], [Letter("a", "x", 8)], {})
    simulation = Simulation({"wire": LINK}, {("a", "b"): ["wire"]})
    simulation.add("a", in_sequence("a", CHIP, [SequencePart(ONE)], [], {}))
    simulation.add("b", alone)
    with pytest.raises(UsageError, match="receive x from a waits for ever"):
        simulation.run()


def test_a_later_part_refers_to_regions_of_its_own() -> None:
    """Also where the values of its commands come from."""
    effect = ONE.commands[0].effect._replace(operands=(("x", 0), ("y", 1)))
    part = replace(ONE, commands=[replace(ONE.commands[0], effect=effect), *ONE.commands[1:]])
    commands, more = in_sequence("a", CHIP, [SequencePart(part), SequencePart(part)], [], {}).commands, len(ONE.regions)
    found = [commands[at].effect.operands for at in (0, len(part.commands))]
    assert found == [effect.operands, (("x", more), ("y", 1 + more))]
