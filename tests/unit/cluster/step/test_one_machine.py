"""A training step as one machine, tile by tile, beside the one that is played by durations of its programs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.cluster.network.topology import Topology, Wire
from accelsim.cluster.plan.plan import parse_plan
from accelsim.cluster.step import one_machine as module
from accelsim.cluster.step.asked import work_of
from accelsim.cluster.step.costs import Costs
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.one_machine import OneMachine, ring
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.step import train_step
from accelsim.errors import UsageError
from accelsim.machine.check import check
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.time import Clock, transfer_fs
from tests.helpers.one_machine import one_machine

CLOCKED = load_chip("edu-4x4", ["cores.core.engines.vector.functions.Sign=1"])
"""All that the network needs runs on engines with a clock; plain edu-4x4 leaves the sign of its gradients to the host."""
PERIOD = Clock(CLOCKED.clock).at(1)
HAND_OVER = PERIOD * CLOCKED.token_delay
HOP = 500_000_000
WORK = work_of("mlp?inputs=12,hidden=8,classes=4")
OPTIONS = Options(overlap=False, ignore_capacity=True)


def fleet(devices: int, later_fs: int = 0, chip: Chip = CLOCKED) -> Fleet:
    """Devices at one switch, with wires of a byte per clock; ``later_fs`` more latency from device to device."""
    ends = [(a, b) for device in range(devices) for a, b in ((device, devices), (devices, device))]
    wires = tuple(Wire(a, b, HOP + later_fs // 2, Fraction(10**8), 0.0, "wire") for a, b in ends)
    labels = tuple(f"vertex{number}" for number in range(devices + 1))
    topology = Topology("test", devices, labels, wires, (0,) * devices)
    return Fleet("test", "test", topology, (chip,) * devices, (1.0,) * devices)


def machine(text: str, batch: int, copies: bool = False, chip: Chip = CLOCKED) -> OneMachine:
    plan = parse_plan(text)
    return one_machine(WORK, fleet(plan.devices, chip=chip), plan, batch, OPTIONS, copies)


def played_fs(text: str, batch: int, later_fs: int = 0, chip: Chip = CLOCKED) -> int:
    plan = parse_plan(text)
    return train_step(WORK, fleet(plan.devices, later_fs, chip), plan, batch, OPTIONS).time_fs


IDLE = [
    ("dp=1,microbatches=3", 3), ("pp=2,microbatches=3", 3),
    ("pp=3,microbatches=2,schedule=gpipe", 2),
    ("pp=2,microbatches=2,schedule=zb-h1", 2), ("pp=2,microbatches=2,recompute=full", 2), ("dp=2", 2), ("dp=3", 3),
]  # fmt: skip
"""Plans whose messages never meet on a wire, with batches."""


@pytest.mark.parametrize(("text", "batch"), IDLE)
def test_both_levels_give_the_same_time_where_messages_do_not_meet(text: str, batch: int) -> None:
    """To the femtosecond, once the hand-over before each message is part of the latency of both."""
    found = machine(text, batch)
    if text != "dp=3":  # parts of a ring of three are no whole bytes
        assert found.time_fs == played_fs(text, batch, HAND_OVER)
    assert 0 <= found.time_fs - played_fs(text, batch) <= (HAND_OVER + PERIOD) * found.messages
    assert found.played_fs == played_fs(text, batch)


def test_a_host_that_begins_a_program_adds_a_hand_over_and_no_more() -> None:
    """It has no clock: alone it begins at once, behind another program when it is told that this is done."""
    chip = load_chip("edu-4x4")
    text, batch = "pp=2,microbatches=3", 3
    found = machine(text, batch, chip=chip)
    passes = sum(command.kind == "Host" for run in found.runs for command in run.program.commands)
    assert 0 < found.time_fs - played_fs(text, batch, HAND_OVER, chip) <= HAND_OVER * passes


def copying_fs(found: OneMachine) -> int:
    """From the request of each copy to its last byte, behind all that the port had to do by then; as much again that
    others wait for its bytes; and hand-overs before and behind it."""
    memory, total = CLOCKED.memories["dram"].memory, 0
    for run in found.runs:
        for piece in run.slices:
            work = run.program.commands[piece.command].work
            if piece.engine.startswith("nic") and isinstance(work, Transfer):
                own = transfer_fs(work.nbytes, memory.beats_B, memory.bandwidth)
                total += piece.end - piece.start + own + 2 * (HAND_OVER + PERIOD)
    return total


@pytest.mark.parametrize(("text", "batch"), [IDLE[1], IDLE[5]])
def test_copies_of_messages_add_what_they_take_and_wait_for_at_the_ports_at_most(text: str, batch: int) -> None:
    bare, whole = machine(text, batch), machine(text, batch, copies=True)
    assert 0 < whole.time_fs - bare.time_fs <= copying_fs(whole)
    assert whole.messages == bare.messages and whole.commands == bare.commands + 2 * bare.messages


def test_messages_that_meet_on_a_wire_share_it() -> None:
    """Gradients of the last stage leave beside the last message of its pipeline; the step that is played does not see
    that."""
    found = machine("dp=2,pp=2,microbatches=2", 4)
    assert found.time_fs > played_fs("dp=2,pp=2,microbatches=2", 4, HAND_OVER)


@pytest.mark.parametrize(
    "name", ["mlp?inputs=12,hidden=8,classes=4", "gpt?layers=2,hidden=8,heads=2,kv_heads=2,ffn=8,vocab=16,seq=4"]
)
def test_what_one_fleet_costs_is_not_taken_for_that_of_another_in_its_place_in_memory(name: str) -> None:
    """Fleets of a fast and of a slow chip take turns; each is gone when the next is made."""
    work, plan = work_of(name), parse_plan("microbatches=1")
    slow = CLOCKED.model_copy(update={"clock": CLOCKED.clock / 2})
    found = [[work.piece(0, plan, 1, Costs(chip)).costs.forward.time_fs for chip in (CLOCKED, slow)] for _ in range(4)]
    assert found == [found[0]] * 4 and found[0][0] < found[0][1]


@pytest.mark.parametrize("copies", [False, True])
def test_the_run_of_every_device_obeys_all_laws(copies: bool) -> None:
    for run in machine("pp=2,microbatches=2", 2, copies).runs:
        check(run, thorough=True)


CLOCK_FS = 10**7
"""Of the chip, at 100 MHz: a program begins at an edge."""


def test_a_decoder_runs_as_its_costs_say() -> None:
    """One device: blocks, embedding and output projection one after the other, as often as the costs count them."""
    work = work_of("gpt?layers=2,hidden=8,heads=2,kv_heads=2,ffn=8,vocab=16,seq=4")
    plan = parse_plan("microbatches=1")
    found = one_machine(work, fleet(1), plan, 1, OPTIONS)
    (run,) = found.runs
    assert found.time_fs == pytest.approx(found.played_fs, abs=CLOCK_FS)
    assert 2 * sum(step.macs for step in run.program.steps) == work.sample_flops()
    again = one_machine(work, fleet(1), replace(plan, recompute="selective"), 1, OPTIONS)
    assert again.time_fs == pytest.approx(again.played_fs, abs=CLOCK_FS) and again.time_fs > found.time_fs


def test_a_ring_moves_every_byte_once_in_each_round() -> None:
    parts = [ring([4, 2, 7], rank, 100, "g") for rank in (4, 2, 7)]
    for turn in range(4):
        assert sum(letter.nbytes for part in parts for letter in part[turn].sends) == 100
    assert all(not part[4].sends and part[4].receives for part in parts)
    assert ring([4], 4, 100, "g") == [] and ring([4, 2], 4, 0, "g") == []


def test_what_one_machine_does_not_do_is_told_at_once() -> None:
    plan = parse_plan("dp=2,tp=2,pp=5,zero=1,period=2,microbatches=1")
    slow = replace(fleet(20), speeds=(0.5,) * 20)
    with pytest.raises(UsageError) as told:
        one_machine(WORK, slow, plan, 2, OPTIONS)
    text = str(told.value)
    for part in (
        "20 devices as one machine",
        "tp=2 as",
        "zero=1 as",
        "period=2 as",
        "slower than their chips",
        "at most",
    ):
        assert part in text


def test_programs_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COMMANDS", 10)
    with pytest.raises(UsageError, match=r"commands in all.*at most 10"):
        machine("dp=1,microbatches=1", 1)
