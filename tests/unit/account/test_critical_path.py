"""The critical path: whose time it is, against cases in which shares of spans named the wrong one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import accelsim
from accelsim.account import critical_path
from accelsim.account.critical_path import OUTSIDE, Blame, by_blame, by_key, by_step
from accelsim.account.latency import Layer, layers, summary
from accelsim.account.roofline import rooflines
from accelsim.machine import critical_path as machine_path
from accelsim.machine.replay import RepeatedPath
from accelsim.machine.run import LawError, Run, Segment
from accelsim.program.work import Transfer


def simulated(model: str, on: str, *overrides: str, **options: object) -> Run:
    return accelsim.run(model, on, values="off", set=overrides, **options)  # type: ignore[arg-type]


def share(run: Run, **wanted: str) -> float:
    """Of the run, what goes to blames with these fields."""
    found = (
        fs
        for blame, fs in by_blame(run).items()
        if all(getattr(blame, name) == value for name, value in wanted.items())
    )
    return sum(found) / run.time_fs


def layer(run: Run, name: str) -> Layer:
    return next(row for row in layers(run) if row.name == name)


@pytest.mark.parametrize("memory_model", ["ideal", "bandwidth", "pattern", "bank"])
def test_every_memory_model_has_a_path_whose_parts_add_up(memory_model: str) -> None:
    run = simulated("cnn", "edu-4x4", memory_model=memory_model)
    path = machine_path.critical_path(run)
    assert path[0].start == 0 and path[-1].end == run.time_fs
    assert all(before.end == after.start for before, after in pairwise(path))
    assert sum(by_blame(run).values()) == run.time_fs
    assert sum(sum(times.values()) for times in by_step(run).values()) == run.time_fs
    assert sum(row.added_fs for row in layers(run)) == run.time_fs
    assert sum(summary(run)["critical_path_s"].values()) == pytest.approx(run.seconds, rel=1e-12, abs=0)
    assert (share(run, kind="transfer") > 0) == (memory_model != "ideal")


def test_a_layer_that_one_unit_works_for_is_bound_by_it() -> None:
    """Dense block: the vector unit scales 56 x 56 images while the weights of layers ahead are prefetched.

    Layer 12 of DenseNet-121 adds 8.96 us, in all of which the vector unit works.
    """
    row = layers(simulated("densenet121", "tpu-v1"))[11]
    assert row.engine == "vector"
    assert row.added_fs == 8_960_000_000
    assert row.path == {Blame("vector", "vector"): row.added_fs}
    assert row.bound == "vector unit"


def test_time_on_a_link_is_blamed_on_the_link_and_not_on_the_memory_next_to_the_chip() -> None:
    """A sum of large inputs: they come over PCIe, and HBM does nothing."""
    run = simulated("gemm?M=2048,N=64,K=2048", "neuroncore-v2", dtype="bf16")
    first = next(iter(by_blame(run)))
    assert first == Blame("transfer", "pcie-gen4-x16", "activations")
    assert share(run, resource="pcie-gen4-x16") > 0.5
    assert layers(run)[0].bound == "pcie-gen4-x16 (activations)"
    assert next(iter(summary(run)["critical_path_s"])) == "pcie-gen4-x16 (activations)"
    assert share(run, resource="hbm") < 0.1


def test_a_product_of_two_activations_is_never_bound_by_weights() -> None:
    """Attention scores of a transformer: the 4 B of constants that the layer reads cost no time."""
    run = simulated("bert?layers=1", "neuroncore-v2")
    tensors = run.program.graph.tensors
    products = [row for row in layers(run) if row.gemm is not None and not tensors[row.gemm.b].is_constant]
    assert len(products) == 2, "scores, and what they weigh"
    for row in products:
        assert "weights" not in row.bound
        assert row.reasons.get("weights", 0) < 0.01 * max(row.added_fs, 1)


DECODE = ("matrix.rows=32", "matrix.cols=32", "matrix.dataflow=os")


def test_what_lies_on_the_memory_roof_is_bound_by_memory() -> None:
    """Decode on an output-stationary array of 32 x 32: one row of each tile does something, and DRAM sets the pace."""
    run = simulated("gpt-decode?layers=1,hidden=256,heads=4", "systolic-generic", *DECODE)
    (roof, *_) = rooflines(run)
    on_the_roof = [
        point
        for point in roof.points
        if point.achieved_ops_per_s > 0.8 * roof.roof(point.intensity_ops_per_B)
        and point.intensity_ops_per_B < 0.5 * roof.knee_ops_per_B
    ]
    assert on_the_roof
    rows = layers(run)
    assert all("dram" in rows[point.layer].bound for point in on_the_roof if rows[point.layer].added_fs)


def test_a_store_at_the_end_belongs_to_the_layer_that_made_the_data() -> None:
    """Equal layers of a decoder cost the same; the caches that leave at the end are not the last layer's."""
    run = simulated("gpt-decode?layers=4,hidden=256,heads=4", "neuroncore-v2", edges="outside")
    commands, steps = run.program.commands, run.program.steps
    makers = {name: index for index, step in enumerate(steps) for name in step.node.writes}
    stored = {
        run.program.regions[use.region].name: command.op
        for command in commands
        if command.kind == "Store"
        for use in command.writes
    }
    outputs = [name for name in run.program.graph.outputs if name in stored and name in makers]
    assert outputs
    assert all(stored[name] == makers[name] for name in outputs)


def test_what_a_prefetch_hides_is_not_blamed() -> None:
    """Of compute-bound layers the weights arrive while others compute: they are on no path."""
    run = simulated("mlp", "edu-4x4")
    read_fs = sum(
        piece.end - piece.data for piece in run.slices if piece.label.startswith("load") and "weight" in piece.label
    )
    assert share(run, operand="weights") * run.time_fs < 0.2 * read_fs


def test_latency_and_bandwidth_are_told_apart() -> None:
    near = simulated("mlp", "edu-4x4", "memories.dram.memory.latency=0 ns")
    far = simulated("mlp", "edu-4x4", "memories.dram.memory.latency=50 us")
    assert share(near, kind="latency") == 0
    assert share(far, kind="latency") > 0.05
    assert Blame("latency", "dram") in by_blame(far)


def test_one_port_makes_units_wait_for_it() -> None:
    run = simulated("cnn", "edu-4x4", "act_sram.ports=1")
    assert share(run, kind="buffer_port", resource="act_sram") > 0


def test_unused_pes_are_told_apart_by_the_multiplications_of_each_command() -> None:
    wide = simulated("gemm?M=64,N=4,K=4", "edu-4x4", "matrix.rows=8", "matrix.cols=8", edges="outside")
    times = by_key(by_blame(wide))
    assert times["padding"] == pytest.approx(3 * times["compute"], rel=1e-6)


def test_a_time_that_its_cause_does_not_explain_is_an_error() -> None:
    run = simulated("cnn", "edu-4x4")
    late = [piece._replace(end=piece.end + 10**9) if piece.engine == "dma_in" else piece for piece in run.slices]
    with pytest.raises(LawError, match="which no cause explains"):
        machine_path.critical_path(replace(run, slices=late))


def test_a_hidden_layer_says_so() -> None:
    run = simulated("gpt-decode", "neuroncore-v2")
    hidden = [row for row in layers(run) if not row.added_fs]
    assert hidden
    assert {(row.bound, row.bound_key) for row in hidden} == {("hidden", "hidden")}


def test_time_that_no_step_causes_has_its_own_place() -> None:
    """So has that of a command of no step, as a barrier of a program without steps."""
    assert OUTSIDE not in by_step(simulated("mlp", "edu-4x4"))
    commands = [SimpleNamespace(op=op) for op in (-1, 0, 1, 2)]
    steps = [SimpleNamespace(outside=False)] * 2
    run: Any = SimpleNamespace(program=SimpleNamespace(steps=steps, commands=commands))
    pieces = [Segment(at, at + 1, at, "transfer", "dram") for at in range(4)]
    assert list(critical_path._steps_of(run, pieces, OUTSIDE)) == [OUTSIDE, 0, 1, OUTSIDE]


def test_texts_name_resource_and_operand() -> None:
    assert Blame("transfer", "ddr3", "weights").text == "ddr3 (weights)"
    assert Blame("latency", "pcie-gen3-x16").text == "pcie-gen3-x16 latency"
    assert Blame("padding", "matrix").text == "unused PEs"
    assert set(critical_path.KEYS) >= {
        Blame(kind, "x", operand).key
        for kind in critical_path.KINDS
        for operand in (critical_path.OPERANDS if kind == "transfer" else ("",))
    }


def test_states_are_collected_once_for_all_transfers() -> None:
    """A graph of 20,000 states has as many transfers of them."""

    class Counted(dict[str, str]):
        asked = 0

        def values(self) -> Any:
            Counted.asked += 1
            return super().values()

    run = accelsim.run("gpt-decode?layers=2,hidden=32,heads=4,seq=9", "neuroncore-v2", values="off")
    run.program.graph.states = Counted(run.program.graph.states)
    run.derived.clear()
    operands = [
        critical_path.operand_of(run, command) for command in run.program.commands if isinstance(command.work, Transfer)
    ]
    assert operands.count("states") > 4
    assert Counted.asked == 1


@pytest.mark.parametrize("on", ["haswell-e5-2699v3", "a100-80-sxm"])
def test_what_goes_to_copies_of_a_block_is_asked_for_once(on: str) -> None:
    """Each step gets what its pieces of the whole path say."""
    run = simulated("mlp?hidden=64,layers=40", on, edges="outside")
    path, expected = machine_path.critical_path(run), Counter[tuple[int, Blame]]()
    for part in critical_path.parts(run):
        expected[part.step, part.blame] += part.fs
    assert isinstance(path, RepeatedPath)
    with (
        mock.patch.object(critical_path, "blamed", wraps=critical_path.blamed) as asked,
        mock.patch.object(critical_path, "_parts", wraps=critical_path._parts) as read,
    ):
        found = by_step(run)
    assert {(step, blame): fs for step, times in found.items() for blame, fs in times.items()} == expected
    assert 0 < asked.call_count < 0.7 * len(path)
    _, _, before = read.call_args.args  # what comes behind the copies knows whose time is ahead of it
    ahead = path[len(path) - len(list(path.behind)) - 1]
    assert before == run.program.commands[ahead.command].op


def test_columns_are_those_of_the_engines_of_a_run_and_of_every_machine() -> None:
    arrays, kernels = (
        set(critical_path.keys_of(accelsim.run("gemm?M=8,N=8,K=8", on=name, values="off")))
        for name in ("edu-4x4", "a100-80-sxm")
    )
    assert {"compute", "weight_shift", "weights", "buffer_port", "hand_over"} <= arrays and "lanes" not in arrays
    assert {"products", "lanes", "weights", "buffer_port", "hand_over"} <= kernels and "weight_shift" not in kernels


def test_a_cache_holds_what_the_memory_behind_it_holds() -> None:
    run = accelsim.run("gemm?M=8,N=8,K=8", on="edu-cache", values="off")
    held = {each.memory: each.holds for each in rooflines(run)}
    assert not run.chip.memories["l2"].holds and held["l2"] == held["dram"] == ("activations", "weights", "host")
