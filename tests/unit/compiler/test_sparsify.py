"""Pruning by the compiler: which weights stay, along which axis, and what is said of layers that stay dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.numbers.sparsify import pattern, prune, pruned, skipped_as
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.explore.against_reference import check_run
from accelsim.formats import sparsity
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import Sparse
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Tensor
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, chip, residual_block


def built(graph: Graph, dtype: str = "fp16", text: str = "2:4", on: str = "edu-mixed", **options: Any) -> Program:
    return compile(graph.copy(), chip(on), Options(dtype=dtype, sparsity=text, **options))


def note(program: Program) -> str:
    (found,) = [text for text in program.notes if text.startswith("sparsify")]
    return found


def in_groups(weights: Array, m: int) -> Array:
    """Nonzero weights in each group of m neighbours of the rows [R, K]."""
    return np.asarray(np.count_nonzero(weights.reshape(len(weights), -1, m), axis=2))


@pytest.mark.parametrize(("text", "expected"), [("2:4", (2, 4)), ("1:1", (1, 1)), ("4:4", (4, 4)), ("1:16", (1, 16))])
def test_patterns(text: str, expected: tuple[int, int]) -> None:
    assert pattern(text) == expected


@pytest.mark.parametrize(
    "text", ["5:4", "0:4", "2:0", "2", "2:", ":4", "2:4:8", "-2:4", "2.0:4", "a:b", " 2:4", "²:4", "2:257", "300:400"]
)
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        pattern(text)
    assert repr(text) in str(caught.value)
    with pytest.raises(UsageError):
        built(residual_block(), text=text)
    with pytest.raises(UsageError):
        prune(residual_block(), text)


def test_the_largest_of_each_group_along_the_reduction_stay() -> None:
    g = Graphs(1)
    graph = g.finish(g.matmul(g.input("x", (3, 8)), g.weight("w", (8, 5)), "y"))
    dense = graph.tensors["w"].value()
    program = built(graph)
    kept = program.graph.tensors["w"].value()
    assert np.array_equal(in_groups(kept.T, 4), np.full((5, 2), 2))
    for column in range(5):
        for start in (0, 4):
            group = np.abs(dense[start : start + 4, column])
            stay = kept[start : start + 4, column] != 0
            assert group[stay].min() >= group[~stay].max()
    assert program.graph.tensors["w"].sparse == (2, 4)


@pytest.mark.parametrize("group", [1, 2])
def test_groups_of_a_convolution_run_over_channel_row_and_column(group: int) -> None:
    g = Graphs(2)
    x, w = g.input("x", (1, 8, 6, 6)), g.weight("w", (4, 8 // group, 3, 3))
    y = g.op("Conv", [x, w], "y", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, dilations=[1, 1], group=group,
             a_zero_point=0, b_zero_point=0)  # fmt: skip
    graph = g.finish(y)
    program = built(graph)
    kept = program.graph.tensors["w"].value()
    rows = graph.tensors["w"].value().reshape(4, -1)
    expected = rows * sparsity.mask(rows, 2, 4, axis=-1)
    np.testing.assert_allclose(kept.reshape(4, -1), expected, rtol=1e-3)
    assert np.all(in_groups(kept.reshape(4, -1), 4) == 2)


@pytest.mark.parametrize("transposed", [0, 1])
def test_groups_of_a_gemm_run_along_its_reduction_however_it_is_stored(transposed: int) -> None:
    g = Graphs(3)
    w = g.weight("w", (5, 16) if transposed else (16, 5))
    graph = g.finish(g.gemm_node(g.input("x", (3, 16)), w, g.weight("b", (5,)), "y", transB=transposed))
    program, feeds = built(graph, "fp32"), synthetic(graph, 1)
    ours = next(iter(simulate(program, feeds, "exact").outputs.values()))
    weights = graph.tensors["w"].value()
    rows = weights if transposed else weights.T
    expected = feeds["x"] @ (rows * sparsity.mask(rows, 2, 4, axis=-1)).T + graph.tensors["b"].value()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
    alone = execute.run(prune(graph, "2:4"), feeds)["y"]
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "block", "mlp?hidden=16", "gpt-prefill?seq=8,hidden=24,heads=2"])
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_a_pruned_model_and_a_pruned_program_are_the_same(name: str, dtype: str) -> None:
    """Batch normalisation is absorbed in between: it scales whole channels, and changes no choice."""
    graph = residual_block() if name == "block" else load_model(name, weights="random:0")
    feeds = synthetic(graph, 1)
    direct, before = (built(graph, dtype, ranges_from=feeds), built(prune(graph, "2:4"), dtype, ranges_from=feeds))
    one, two = (simulate(program, feeds, "exact", keep=True) for program in (direct, before))
    assert one.ledger == two.ledger
    for output, value in one.outputs.items():
        np.testing.assert_allclose(value, two.outputs[output], rtol=0, atol=1e-6 * np.max(np.abs(value)))
    assert check_run(two, prune(graph, "2:4")).holds


def test_pruning_a_model_leaves_the_model_alone() -> None:
    graph = residual_block()
    before = {name: t.value().copy() for name, t in graph.tensors.items() if t.is_constant}
    result = prune(graph, "2:4")
    changed = {name for name in before if not np.array_equal(result.tensors[name].value(), before[name])}
    assert changed == {"c1.weight", "c2.weight", "c3.weight"} - {
        name for name in ("c1.weight", "c2.weight", "c3.weight")
        if np.prod(before[name].shape[1:]) % 4
    }  # fmt: skip
    assert all(np.array_equal(graph.tensors[name].value(), values) for name, values in before.items())


def test_layers_without_whole_groups_stay_dense_and_are_named() -> None:
    graph = load_model("cnn", weights="random:0")  # 25 weights per output of the first layer
    program = built(graph)
    assert "dense" in note(program) and "conv1" in note(program) and "2 layers are 2:4 sparse" in note(program)
    assert np.count_nonzero(program.graph.tensors["conv1.weight"].value()) == 200
    assert program.graph.tensors["conv1.weight"].sparse is None


def test_what_the_unit_does_with_them_is_said() -> None:
    graph = residual_block()
    assert "stored compressed, zeros skipped" in note(built(graph, "fp16"))
    for dtype, text, on in (("fp32", "2:4", "edu-mixed"), ("fp16", "3:4", "edu-mixed"), ("int8", "2:4", "tpu-v1")):
        program = built(graph, dtype, text, on)
        assert "like any other weight" in note(program)
        assert all(tensor.sparse is None for tensor in program.graph.tensors.values())
        assert all("sparse" not in node.attrs for node in program.graph.nodes)


def test_no_pattern_no_word() -> None:
    assert not any(text.startswith("sparsify") for text in built(residual_block(), text="").notes)


def test_products_of_activations_are_not_pruned() -> None:
    g = Graphs(1)
    x = g.input("x", (1, 4, 8))
    graph = g.finish(g.matmul(x, g.op("Transpose", [x], "t", perm=[0, 2, 1]), "y"))
    program = built(graph)
    assert "0 layers" in note(program)
    assert all("sparse" not in node.attrs for node in program.graph.nodes)


def test_other_readers_of_the_weights_keep_them_whole() -> None:
    g = Graphs(1)
    table = g.weight("table", (8, 8))
    rows = g.op("Gather", [table, g.input("ids", (3,), "int64")], "rows", axis=0)
    program = built(g.finish(g.matmul(rows, table, "y")))
    found = {t.name: np.count_nonzero(t.value()) for t in program.graph.constants()}
    assert sorted(found.values()) == [32, 64]


def test_weights_that_two_layers_share_are_stored_once() -> None:
    g = Graphs(1)
    w = g.weight("w", (8, 8))
    graph = g.finish(g.matmul(g.matmul(g.input("x", (3, 8)), w, "a"), w, "b"))
    for dtype in ("int8", "fp16"):
        dense, sparse = (sum(t.nbytes for t in built(graph, dtype, text).graph.constants()) for text in ("", "2:4"))
        assert sparse < dense


@pytest.mark.parametrize("dtype", ["int8", "int4", "fp16"])
def test_a_pruned_weight_is_zero_in_every_format(dtype: str) -> None:
    graph = residual_block()
    program, real = built(graph, dtype), prune(graph, "2:4")
    for name in ("c1.weight", "c3.weight"):
        dropped = real.tensors[name].value() == 0
        assert np.any(dropped) and np.all(program.graph.tensors[name].value()[dropped] == 0)


def test_a_layer_keeps_its_own_format_and_its_own_pattern() -> None:
    program = built(residual_block(), "fp16", layers={"c1": "fp32"})
    sparse = {node.name: node.attrs.get("sparse") for node in program.graph.nodes if node.engine == "matrix"}
    assert sparse == {"c1": None, "c2": None, "c3": (2, 4)}, "54 weights of c2 are no whole groups"


def with_pattern(n: int, m: int, rows: int = 64) -> Chip:
    base = chip("edu-mixed")
    assert base.matrix is not None
    mac = base.matrix.formats["fp16"].model_copy(update={"sparse": Sparse(n=n, m=m)})
    matrix = base.matrix.model_copy(update={"formats": {"fp16": mac}, "rows": rows})
    return base.with_engine(matrix).model_copy(update={"peak": {}})


def test_which_patterns_a_unit_skips() -> None:
    fitting = [(2, 4), (1, 4), (1, 2), (2, 8), (1, 8), (2, 16)]
    for n, m in [*fitting, (3, 4), (2, 2), (3, 8), (1, 3), (2, 6)]:
        own = (2, 4) if (n, m) in fitting else None
        assert skipped_as(with_pattern(2, 4), "fp16", n, m, 48) == own
    assert skipped_as(with_pattern(2, 4), "fp16", 1, 2, 6) is None  # half a group
    assert skipped_as(with_pattern(2, 4, rows=66), "fp16", 2, 4, 48) is None
    assert skipped_as(with_pattern(2, 4), "bf16", 2, 4, 48) is None
    assert skipped_as(chip("haswell-e5-2699v3"), "fp32", 2, 4, 48) is None


@pytest.mark.parametrize("on", ["edu-mixed", "a100-80-sxm"])
def test_a_sparser_pattern_runs_as_that_of_the_unit(on: str) -> None:
    graph = load_model("gemm?M=8,N=16,K=64")
    sparse, sparser = (built(graph, text=text, on=on, values="off") for text in ("2:4", "1:4"))
    assert simulate(sparser).time_fs == simulate(sparse).time_fs
    assert "1 layer is 1:4 sparse; 1 stored compressed as 2:4" in note(sparser)
    assert note(sparse).endswith("1 stored compressed, zeros skipped")


@pytest.mark.parametrize("values", ["exact", "fast", "off"])
def test_nothing_depends_on_whether_values_are_known(values: str) -> None:
    program = built(residual_block(), "int8", values=values)
    reference = built(residual_block(), "int8")
    assert program.notes[:-1] == reference.notes[:-1]
    assert [command.work for command in program.commands] == [command.work for command in reference.commands]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=30)
def test_pruned_weights_of_any_rank(n: int, groups: int, columns: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((2, 4 * groups, columns)).astype(np.float32)
    found = pruned(Tensor("w", values.shape, "fp32", values), "MatMul", n, 4)
    for plane, dense in zip(found, values, strict=True):
        assert np.all(in_groups(plane.T, 4) == n)
        assert np.all((plane == 0) | (plane == dense))
