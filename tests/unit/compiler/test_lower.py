"""Lowering: where tensors go, when they move, and that what is in the way makes room."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import Infeasible
from accelsim.machine.check import check
from accelsim.machine.simulate import simulate
from accelsim.program.actions import mac
from accelsim.program.program import Program
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from tests.fuzz.recurrent import RecurrentModel
from tests.helpers.onnx_models import import_proto
from tests.helpers.pass_graphs import Graphs, chip


def small(activations_B: int = 1 << 16, **matrix: Any) -> Chip:
    base = chip("edu-4x4")
    buffers = dict(base.buffers)
    buffers["act_sram"] = buffers["act_sram"].model_copy(update={"capacity": activations_B})
    assert base.matrix is not None
    return base.with_engine(base.matrix.model_copy(update=matrix)).with_core(memories=buffers)


def compiled(graph: Graph, on: Chip | None = None, **pinned: dict[str, Any]) -> Program:
    return compile(graph, on or small(), Options(dtype="fp32", pinned=pinned))


def moves(program: Program) -> Counter[str]:
    return Counter(command.label for command in program.commands if isinstance(command.work, Transfer))


def assert_right(program: Program) -> None:
    """Values of the exact policy equal those of plain execution, and all laws hold."""
    feeds = synthetic(program.graph, 1)
    run = simulate(program, feeds, "exact")
    check(run, thorough=True)
    for name, values in execute.run(program.graph, feeds).items():
        scale = np.abs(values).max() or 1.0
        np.testing.assert_allclose(run.outputs[name] / scale, values / scale, atol=1e-5)


def chain(links: int = 3, rows: int = 8) -> Graph:
    g = Graphs()
    x = g.input("x", (rows, 8))
    for index in range(links):
        x = g.dense(x, 8, f"fc{index}", relu=True)
    return g.finish(x)


def test_what_stays_on_the_chip_moves_only_at_the_ends() -> None:
    whole = {"tm": 8, "tn": 8, "a_resident": True}
    program = compiled(chain(), fc0=whole, fc2=whole)
    assert moves(program) == {
        "load x": 1, "load parameters": 3, "store fc2.relu": 1,
        **{f"load fc{index}.weight": moves(program)[f"load fc{index}.weight"] for index in range(3)},
    }  # fmt: skip
    assert_right(program)


def test_weights_do_not_wait_behind_an_activation_that_is_not_there_yet() -> None:
    """The first weight tile and the parameters are asked for before the whole activation operand."""
    program = compiled(chain(1), fc0={"a_resident": True})
    labels = [command.label for command in program.commands if isinstance(command.work, Transfer)]
    assert labels.index("load fc0.weight") < labels.index("load x")


def test_a_residual_may_be_the_input_of_its_own_product() -> None:
    """x + W x: the side operand is the activation operand, on the chip or streamed."""
    g = Graphs()
    x = g.input("x", (12, 8))
    graph = g.finish(g.op("Add", [x, g.project(x, 8, "p")], "y"))
    for resident in (True, False):
        program = compiled(graph, **{"p.product": {"a_resident": resident, "tm": 5, "tn": 4, "tk": 8, "order": "mnk"}})
        assert program.steps[0].label == "MatMul+Bias+Add"
        assert moves(program)["load x"] == (1 if resident else 3 + 6)
        assert_right(program)


def test_tensors_that_wait_for_later_steps_make_room() -> None:
    """Three branches of which the buffer holds two: the largest is stored, and read again where it is needed."""
    g = Graphs()
    x = g.input("x", (16, 8))
    branches = [g.op("Softmax", [g.matmul(x, g.weight(f"w{i}", (8, 16)), f"b{i}")], f"s{i}", axis=1) for i in range(3)]
    products = [g.matmul(g.op("Transpose", [s], f"t{i}", perm=[1, 0]), x, f"p{i}") for i, s in enumerate(branches)]
    graph = g.finish(*products)
    for capacity in (2600, 3400, 1 << 16):
        assert_right(compiled(graph, small(capacity)))
    assert moves(compiled(graph, small(1 << 16)))["store s0"] == 0


@pytest.mark.parametrize("capacity", [200, 400, 1000, 1 << 16])
def test_a_vector_node_streams_in_chunks_when_it_does_not_fit(capacity: int) -> None:
    g = Graphs()
    graph = g.finish(g.op("Softmax", [g.op("Tanh", [g.input("x", (6, 20))], "t")], "y", axis=1))
    program = compiled(graph, small(capacity))
    assert moves(program)["load x"] > (1 if capacity < 960 else 0)
    assert sum(c.work.nbytes for c in program.commands if c.label == "load x" and isinstance(c.work, Transfer)) == 480
    assert_right(program)


def test_a_vector_node_that_never_fits_says_so() -> None:
    g = Graphs()
    graph = g.finish(g.op("Softmax", [g.input("x", (6, 20))], "y", axis=1))
    with pytest.raises(Infeasible, match="act_sram needs 4 B, 3 B are available"):
        compiled(graph, small(3))


def test_a_table_is_read_by_the_row_and_a_scale_as_a_whole() -> None:
    """Constants of a vector node: of a table only what is gathered, of everything else all of it."""
    g = Graphs()
    indices = g.input("i", (3,), "int64")
    graph = g.finish(g.op("Gather", [g.weight("table", (50, 8)), indices], "rows", axis=0))
    parameters = [c.work.nbytes for c in compiled(graph).commands if c.label == "load parameters"]  # type: ignore[union-attr]
    assert parameters == [3 * 8 * 4]
    h = Graphs()
    graph = h.finish(h.layer_norm(h.input("x", (2, 8)), "ln"))
    parameters = [c.work.nbytes for c in compiled(graph).commands if c.label == "load parameters"]  # type: ignore[union-attr]
    assert parameters == [2 * 8 * 4]


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("size", [7, 9])
def test_a_pooling_that_leaves_a_border_over_is_counted_right(size: int, batch: int) -> None:
    """7 x 7 pooled by 2 x 2 is 3 x 3: no whole number of sums per result."""
    g = Graphs()
    graph = g.finish(g.max_pool(g.conv(g.input("x", (batch, 2, size, size)), 5, 1, "c"), 2, "pooled"))
    program = compiled(graph, c={"tm": size * size, "tn": 2, "y_resident": False})
    assert program.steps[0].label == "Conv+Bias+MaxPool"
    stored = sum(c.work.nbytes for c in program.commands if isinstance(c.work, Transfer) and c.work.write)
    assert stored == batch * 5 * (size // 2) ** 2 * 4
    assert_right(program)


def test_streamed_channels_that_are_cut_fit_their_slot() -> None:
    """A K tile that begins within one channel and ends within the next touches both."""
    g = Graphs()
    graph = g.finish(g.conv(g.input("x", (1, 6, 5, 5)), 4, 3, "c", pad=1))
    for tk in (4, 5, 8, 10, 13, 20):
        assert_right(compiled(graph, c={"tk": tk, "a_resident": False, "a_whole_k": False}))


def test_views_are_free_and_outputs_may_be_views() -> None:
    g = Graphs()
    y = g.op("Reshape", [g.dense(g.input("x", (4, 8)), 6, "fc")], "y", shape=[2, 12])
    program = compiled(g.finish(y, "fc"))
    assert [step.engine for step in program.steps] == ["matrix"]
    assert_right(program)


@pytest.mark.parametrize("kind", ["cell", "loop", "scan"])
@pytest.mark.parametrize("steps", [5, 6, 9])
def test_a_few_alike_steps_that_read_what_was_made_before_are_not_copied(kind: str, steps: int) -> None:
    """All slices of the input, and all rows of the output, lie in memory before the blocks that read them."""
    drawn = RecurrentModel(0)
    drawn.steps = steps
    program = compile(import_proto(getattr(drawn, kind)()), chip("a100-80-sxm"), Options(values="off"))
    check(simulate(program), thorough=True)


@pytest.mark.parametrize(("on", "dtype"), [("h100-sxm", "fp8_e4m3fn"), ("a100-80-sxm", "int8")])
@pytest.mark.parametrize("layers", [3, 4, 5])
def test_conversions_of_states_that_are_written_later_are_not_copied(on: str, dtype: str, layers: int) -> None:
    """In few layers the conversions of their states are the longest row of alike blocks."""
    params = {"layers": layers, "past": 5, "seq": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 64}
    graph, options = load_model("llama", params=params), Options(dtype=dtype, values="off")
    with limited(ignore_capacity=True):
        run, whole = (simulate(compile(graph, chip(on), each)) for each in (options, replace(options, repeat=False)))
    check(run, thorough=True)
    assert run.time_fs == whole.time_fs and list(run.slices) == list(whole.slices)


@pytest.mark.parametrize("tg", [1, 2, 3])
def test_tiles_of_groups_multiply_each_group_once(tg: int) -> None:
    g = Graphs()
    graph = g.finish(g.matmul(g.input("x", (3, 6, 5)), g.input("w", (3, 5, 4)), "y"))
    program = compiled(graph, y={"tg": tg})
    done = [entry for command in program.commands for entry in command.actions if entry.action == mac("fp32")]
    assert sum(entry.count for entry in done) == 3 * 6 * 5 * 4
