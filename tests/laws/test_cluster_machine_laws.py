"""Laws of the two levels of time: a step that is played pass by pass, and the same as one machine, tile by tile."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelsim.cluster.network.topology import Topology, Wire
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.asked import work_of
from accelsim.cluster.step.costs import Costs
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.step import train_step
from accelsim.machine.run import Run
from tests.helpers.one_machine import one_machine
from tests.unit.cluster.step.test_one_machine import CLOCKED, HAND_OVER, OPTIONS, PERIOD

FLUSHING = sorted(name for name, entry in SCHEDULES.items() if entry.synchronous)
NETWORK = work_of("mlp?inputs=8,hidden=4,classes=4,layers=4")
PAIRS = tuple(combinations(range(4), 2))


def fleet(latencies_clocks: tuple[int, ...], rates: tuple[int, ...], later_fs: int = 0) -> Fleet:
    """Four devices with wires of their own between each two, alike both ways; bytes per clock are 1 / rate."""
    wires = tuple(
        Wire(*ends, clocks * PERIOD + later_fs, Fraction(10**8, rate), 0.0, "wire")
        for (a, b), clocks, rate in zip(PAIRS, latencies_clocks, rates, strict=True)
        for ends in ((a, b), (b, a))
    )
    topology = Topology("test", 4, tuple(f"device {rank}" for rank in range(4)), wires, (0,) * 4)
    made = Fleet("test", "test", topology, (CLOCKED,) * 4, (1.0,) * 4)
    vars(made)["_costs"] = {id(CLOCKED): COSTS}
    return made


COSTS = Costs(CLOCKED)


@st.composite
def pipelines(draw: st.DrawFn) -> Plan:
    """Pipelines of any schedule that flushes, and what it asks of microbatches."""
    schedule = draw(st.sampled_from(FLUSHING))
    chunks = 2 if SCHEDULES[schedule].chunked else 1
    pp = draw(st.integers(2, 4 // chunks))
    microbatches = draw(st.sampled_from([m for m in (1, 2, 4) if not SCHEDULES[schedule].check(pp, m, chunks)]))
    return Plan(pp=pp, chunks=chunks, microbatches=microbatches, schedule=schedule)


def queued(run: Run) -> bool:
    """Return whether a message waited for the one before it, behind which its hand-over hides."""
    ends, commands = {piece.command: piece.end for piece in run.slices}, run.program.commands
    return any(
        piece.start > HAND_OVER + max(ends[wait.command] for wait in commands[piece.command].waits)
        for piece in run.slices
        if commands[piece.command].kind == "Send"
    )


WIRES = (st.tuples(*(st.integers(0, 150) for _ in PAIRS)), st.tuples(*(st.sampled_from([1, 2, 8]) for _ in PAIRS)))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines(), st.integers(1, 2), *WIRES)
def test_a_pipeline_takes_the_same_time_at_both_levels(
    plan: Plan, samples: int, latencies: tuple[int, ...], rates: tuple[int, ...]
) -> None:
    """To the femtosecond where each message has the hand-over before it as part of its latency (unless one waits for
    another at its sender, which hides that), and within one hand-over for each message where not. Programs begin and end at edges here, and each way between two devices has its wire,
    which is that of the way back: a pass backwards is played with the transfers of the way forwards."""
    batch = samples * plan.microbatches
    devices, later = (fleet(latencies, rates, fs).first(plan.pp) for fs in (0, HAND_OVER))
    found = one_machine(NETWORK, devices, plan, batch, OPTIONS, copies=False)
    most_fs = train_step(NETWORK, later, plan, batch, OPTIONS).time_fs
    assert found.played_fs <= found.time_fs <= most_fs <= found.played_fs + HAND_OVER * found.messages
    assert found.time_fs == most_fs or any(queued(run) for run in found.runs)
    assert found.time_fs % PERIOD == 0
