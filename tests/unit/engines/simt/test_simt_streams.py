"""Kernels of several streams in whole runs: what they compute, how long they take, what is said of it."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.account.active import _side_by_side as side_by_side
from accelsim.account.active import active
from accelsim.account.critical_path import KINDS, by_blame, by_step
from accelsim.account.energy import energy_table
from accelsim.engines.simt.drawn import busy
from accelsim.errors import SpecError, UsageError
from accelsim.machine.run import Run
from accelsim.program.actions import ACTIVE
from accelsim.program.roles import units
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder

CHIP = "a100-80-sxm"


def branches(count: int = 4, deep: int = 3) -> Graph:
    """Chains of products of one operand, joined in the end."""
    b = Builder("branches")
    x = b.op("Relu", [b.input("x", (32, 64))], "first")
    ends = []
    for branch in range(count):
        y = x
        for layer in range(deep):
            y = b.matmul(y, b.weight(f"w{branch}_{layer}", (64, 64)), f"y{branch}_{layer}")
        ends.append(y)
    return b.finish(b.op("Concat", ends, "joined", axis=1))


def ran(model: Any, streams: int | None, values: str = "off", **options: Any) -> Run:
    run: Run = accelsim.run(model, on=CHIP, dtype="fp16", values=values, streams=streams, **options)
    return run


def queues(run: Run) -> dict[str, str]:
    """Step -> the queue of its kernel."""
    steps = run.program.steps
    return {
        steps[command.op].name: command.engine for command in run.program.commands if command.engine.startswith("sm")
    }


@pytest.mark.parametrize("streams", [2, 3, 4, 7])
def test_values_are_those_of_one_stream(streams: int) -> None:
    alone, beside = (ran(branches(), each, "exact") for each in (1, streams))
    for name, value in alone.outputs.items():
        assert np.array_equal(value, beside.outputs[name])


@pytest.mark.parametrize("model", ["cnn", "mobilenet?resolution=32"])
def test_values_of_networks_are_those_of_one_stream(model: str) -> None:
    alone, beside = (ran(model, each, "fast") for each in (1, 4))
    for name, value in alone.outputs.items():
        assert np.array_equal(value, beside.outputs[name])


def test_branches_run_side_by_side() -> None:
    times = [ran(branches(), streams).time_fs for streams in (1, 2, 4, 8)]
    assert times[0] > times[1] > times[2] == times[3], "there are four branches"


def test_each_branch_stays_in_its_stream() -> None:
    found = queues(ran(branches(3), 4))
    for branch in range(3):
        assert len({found[f"y{branch}_{layer}"] for layer in range(3)}) == 1
    assert len({found[f"y{branch}_0"] for branch in range(3)}) == 3


@pytest.mark.parametrize("model", ["mlp", "cnn", branches(1, 5)])
def test_a_chain_takes_as_long_as_on_one_stream(model: Any) -> None:
    assert ran(model, 4).time_fs == ran(model, None).time_fs


def test_without_streams_nothing_changes() -> None:
    alone, asked = (ran(branches(), each) for each in (None, 1))
    assert alone.time_fs == asked.time_fs
    assert [command.engine for command in alone.program.commands] == [c.engine for c in asked.program.commands]
    assert not any(":" in engine for engine in alone.program.engines)


def test_the_critical_path_covers_the_run_and_says_what_kernels_wait_for() -> None:
    run = ran("gemm?M=2048,N=2048,K=2048,count=6", 3)
    path = run.critical_path
    assert path[0].start == 0 and path[-1].end == run.time_fs
    assert all(before.end == after.start for before, after in pairwise(path))
    assert any("other streams" in blame.text for blame in by_blame(run))


def test_the_same_is_computed_and_no_more_multiprocessors_are_busy_than_there_are() -> None:
    alone, beside = ran("gemm?M=512,N=512,K=512,count=9", 1), ran("gemm?M=512,N=512,K=512,count=9", 4)
    macs = [sum(row.count for row in run.ledger if row.action.kind == "mac") for run in (alone, beside)]
    assert macs[0] == macs[1]
    for run in (alone, beside):
        active = sum(row.count for row in energy_table(run) if row.action == ACTIVE)
        assert 0 < active <= run.time_fs


@pytest.mark.parametrize("streams", [1, 2])
def test_how_long_a_kernel_is_kept_at_work(streams: int) -> None:
    """Alone what the run waits for of it; in streams, where no other wants more than is left, from begin to end."""
    run = ran("gemm?M=128,N=128,K=512,count=2", streams)
    spec = next(iter(units(run.chip).values())).spec
    near = {name for name, attached in run.chip.memories.items() if attached.link is None}
    expected: dict[int, int] = {}
    for number, step in enumerate(run.program.steps):
        times = by_step(run)[number].items()
        fs = sum(fs for blame, fs in times if KINDS[blame.kind].computing or blame.resource in near)
        own = [piece for piece in run.slices if piece.op == number and piece.engine.startswith("sm")]
        pieces = [piece for piece in own if piece.label != "launch"]
        span = max(piece.end for piece in pieces) - min(piece.start for piece in pieces)
        assert span != fs
        expected[number] = round(busy(spec, step) * (fs if streams == 1 else span))
    assert dict(active(run, ["sm"])) == expected


def test_kernels_that_want_more_than_there_is_share_an_engine() -> None:
    """Of 6 fs side by side both get two thirds of what they want. Transfers, and what computes nothing, do not count."""
    work: Any = SimpleNamespace(actions=("mac",))
    commands = [work, work, work, SimpleNamespace(actions=()), work]
    kinds = {"sm:0": "simt", "sm:1": "simt", "dma": "dma"}
    rows = [(0, "sm:0", 0, 10), (1, "sm:1", 4, 12), (0, "dma", 10, 15), (0, "sm:0", 15, 18), (2, "sm:0", 12, 20)]
    slices = [
        SimpleNamespace(command=command, op=op, engine=engine, start=start, end=end)
        for command, (op, engine, start, end) in enumerate(rows)
    ]
    run: Any = SimpleNamespace(program=SimpleNamespace(commands=commands, engines=kinds), slices=slices, time_fs=20)
    assert side_by_side(run, {0: 0.5, 1: 1.0}) == pytest.approx({0: 2 + 2, 1: 4 + 2})


def test_blocks_that_are_alike_are_simulated_one_by_one() -> None:
    model = "gpt?layers=6,heads=4,hidden=32,seq=8,vocab=50"
    alone, beside = ran(model, 1), ran(model, 2)
    said = [" ".join(run.program.notes) for run in (alone, beside)]
    assert "one by one" not in said[0] and "one by one, for kernels of several streams share the engine" in said[1]
    assert any("in 2 streams" in note for note in beside.program.notes)


def test_a_run_is_the_same_each_time() -> None:
    one, other = (ran(branches(), 3) for _ in range(2))
    assert one.slices == other.slices


@pytest.mark.parametrize(
    ("chip", "options", "error", "told"),
    [
        ("tpu-v1", {"streams": 2}, UsageError, "no engine that runs kernels side by side"),
        (CHIP, {"streams": 400}, SpecError, "at most 128"),
        (CHIP, {"streams": 2, "set": ["l2.ports=1"]}, SpecError, "which has 1 port"),
    ],
)
def test_streams_that_cannot_be(chip: str, options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        accelsim.run("mlp", on=chip, values="off", **options)
