"""The data of the animation of an array: equal to the register-level model in every register, small, the same each time."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.following import PADS, WORKS, follow, names
from accelsim.engines.systolic.streaming import timing_of
from accelsim.engines.systolic.timing import cycles
from accelsim.explore import array_frames as module
from accelsim.explore.array_frames import MOST_BYTES, MOST_CLIPS, MOST_EDGES, array_frames
from accelsim.program.roles import spec_of
from accelsim.program.work import Folds
from accelsim.workload.matrix import a_matrix, b_matrix
from accelsim.workload.zoo.build import Builder
from tests.helpers.array_clips import registers, setup_of, small_run, unpacked, words
from tests.helpers.fold_edges import folds_of
from tests.helpers.synthetic_run import make_run
from tests.validation.systolic import combinations

FLOWS = ("ws", "os", "is")
SIDES, SIZES = st.integers(1, 5), st.integers(1, 9)


@cache
def clips(sets: tuple[str, ...] = (), model: str = "gemm?M=6,N=6,K=5", **asked: Any) -> dict[str, Any]:
    found = array_frames(small_run(model, sets, **asked))
    assert found is not None
    return found


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(1, 100, shape) * rng.choice((-1, 1), shape)


@settings(max_examples=60)
@given(machine=st.sampled_from(combinations()), R=SIDES, C=SIDES, lanes=st.integers(1, 3), size=st.tuples(SIZES, SIZES, SIZES),
       seed=st.integers(0, 99))  # fmt: skip
def test_every_register_at_every_edge_is_that_of_the_model(machine, R, C, lanes, size, seed):
    flow, schedule, shadow = machine
    setup, (M, N, K) = Setup(R, C, flow, schedule, shadow, lanes), size
    rng = np.random.default_rng(seed)
    a, b = numbers(rng, M, K), numbers(rng, K, N)
    edges, matrices = list(follow(M, N, K, setup)), names(setup)
    assert len(edges) == cycles(R, C, flow, schedule, shadow, M, N, K, load_rows_per_clock=lanes)
    real = every = np.zeros((R, C), np.int64)
    for edge, (known, products, multiplied) in zip(edges, registers(a, b, setup), strict=True):
        assert known.keys() == edge.registers.keys()
        for name, (values, on) in known.items():
            told, shown = words(edge.registers[name], matrices[name], a, b)
            assert np.array_equal(shown, on), name
            assert np.array_equal(told[on], values[on]), name
        assert np.array_equal(edge.work == WORKS, products > real)
        assert np.array_equal(edge.work > 0, multiplied > every)
        real, every = products, multiplied
    assert real.sum() == M * N * K


@pytest.mark.parametrize("schedule", ["sequential", "overlapped"])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_clip_holds_the_edges_of_its_fold(flow, schedule):
    (clip,) = clips((f"dataflow={flow}", f"schedule={schedule}"))["clips"]
    setup, size = setup_of(clip), clip["size"]
    edges = list(follow(*size, setup))
    assert len(clip["frames"]) == len(edges) == cycles(4, 4, flow, schedule, "column", *size)
    for number, edge in enumerate(edges, 1):
        found, work = unpacked(clip, number)
        assert all(np.array_equal(found[name], indices) for name, indices in edge.registers.items())
        assert np.array_equal(work, edge.work)
        assert clip["stream"][number - 1] == [edge.fold, edge.row]
        assert clip["busy"][number - 1] == (work == WORKS).sum()
        assert clip["pads"][number - 1] == (work == PADS).sum()


@pytest.mark.parametrize("flow", FLOWS)
def test_the_engine_takes_as_many_edges_for_the_tile(flow):
    run = small_run(sets=(f"dataflow={flow}",))
    (clip,) = clips((f"dataflow={flow}",))["clips"]
    command = next(each for each in run.program.commands if each.kind == "MatMul")
    assert isinstance(command.work, Folds)
    fold = timing_of(spec_of(run.chip, command.engine), command.work)
    last_row = fold.load + 1 + (command.work.n - 1) * fold.step + command.work.rows - 1
    assert clip["cycles"] == last_row + fold.drain
    record = next(each.stream for each in folds_of(run) if each.command == command.id)
    assert (record.load, record.step, record.rows) == (fold.load, fold.step, command.work.rows)


@pytest.mark.parametrize("dtype", ["int8", "fp32"])
def test_operands_are_those_of_the_run(dtype):
    model = "mlp?hidden=12,layers=2,inputs=9"
    run = small_run(model, dtype=dtype, keep=True)
    found = array_frames(run)
    assert found is not None
    assert found == clips((), model, dtype=dtype)  # tensors that are not kept are computed again
    steps = [step for step in run.program.steps if step.gemm is not None]
    for clip, step in zip(found["clips"], steps, strict=True):
        (m, n, k), (M, N, K) = clip["from"], clip["size"]
        a = a_matrix(step.gemm, (run.feeds | run.tensors)[step.gemm.a], 0, step.node)[m : m + M, k : k + K]
        b = b_matrix(step.gemm, run.program.graph.tensors[step.gemm.b].value(), 0, step.node)
        b = b[k : k + K, n : n + N]
        exact = dtype == "int8"
        assert np.allclose(clip["a"], a, rtol=0 if exact else 1e-3)
        assert np.allclose(clip["b"], b, rtol=0 if exact else 1e-3)
    assert clips((), model, dtype=dtype)["clips"][1]["folds"] == 2


def test_without_values_there_are_names_only():
    with_values, without = clips()["clips"][0], clips(values="off")["clips"][0]
    assert without["a"] is without["b"] is None
    assert all(without[key] == with_values[key] for key in without if key not in "ab")


def test_phases_follow_the_number_of_pes_at_work():
    (clip,) = clips()["clips"]
    working = [sum(both) for both in zip(clip["busy"], clip["pads"], strict=True)]
    phases = dict(clip["phases"])
    assert list(phases) == ["load", "fill", "steady", "drain"]
    assert working[phases["fill"] - 2 : phases["fill"]] == [0, 1]
    assert working[phases["steady"] - 1] == max(working)
    assert working[phases["drain"] - 2] == max(working) > working[phases["drain"] - 1]
    two = clips((), "mlp?hidden=12,layers=2,inputs=9")["clips"][1]
    assert [name for name, _ in two["phases"]].count("steady") == 2


def test_a_long_stream_is_cut_and_the_clip_says_so():
    (clip,) = clips((), "gemm?M=900,N=4,K=4", values="off")["clips"]
    shown, most = clip["size"][0], clip["tile"][0]
    assert len(clip["frames"]) == MOST_EDGES < clip["cycles"]
    assert shown < most
    assert clip["notes"] == [
        f"Cut: only the first {shown} of {most} rows of the stream are shown, then the array drains."
    ]


def test_what_is_shown_otherwise_than_it_was_is_said():
    slow = clips(("formats.int8.cycles_per_row=2",))["clips"][0]["notes"]
    assert any("The unit streams" in note for note in slow)
    other = clips(("schedule=scalesim",))["clips"][0]
    assert other["schedule"] == "sequential"
    assert any("scalesim" in note for note in other["notes"])


def many_shapes() -> accelsim.Result:
    b = Builder("many")
    x = b.input("x", (40, 40))
    for index, features in enumerate((40, 39, 38, 37, 36, 35, 34, 33)):
        x = b.dense(x, features, f"fc{index}")
    sets = [f"cores.core.engines.matrix.{side}=16" for side in ("rows", "cols")]
    return accelsim.run(b.finish(x), accelsim.load_chip("edu-4x4", sets), dtype="fp32")


def test_clips_are_few_and_small_and_what_is_left_out_is_counted(monkeypatch):
    run = many_shapes()
    found = array_frames(run)
    assert found is not None
    assert len(found["clips"]) <= MOST_CLIPS
    assert found["left_out"] == 8 - len(found["clips"])
    assert len(json.dumps(found, allow_nan=False)) <= MOST_BYTES + 200
    monkeypatch.setattr(module, "MOST_BYTES", 90_000)
    less = array_frames(run)
    assert less is not None
    assert 0 < len(less["clips"]) < len(found["clips"])
    assert less["left_out"] + len(less["clips"]) == 8


def test_no_clip_without_a_small_array_at_work():
    assert array_frames(make_run(layers=2)) is None  # 256 x 256
    assert array_frames(accelsim.run("gemm?M=4,N=4,K=4", "eyeriss", values="off")) is None
    b = Builder("no product")
    graph = b.finish(b.op("Relu", [b.input("x", (4, 4))], "relu"))
    assert array_frames(accelsim.run(graph, "edu-4x4")) is None


def test_the_same_run_gives_the_same_bytes():
    again = accelsim.run("gemm?M=6,N=6,K=5", accelsim.load_chip("edu-4x4"), seed=3)
    assert json.dumps(array_frames(again)) == json.dumps(clips())
