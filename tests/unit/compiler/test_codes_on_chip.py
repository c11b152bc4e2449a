"""How numbers become codes on a chip: zero points, ranges, scales, signs, rules of sums, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.compiler.numbers.formats import is_code, is_integer, pair, supported
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.formats import codec, dot, integer, table
from accelsim.formats.ranges.methods import METHODS
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.workload.graph import Array, Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.format_runs import assert_usable, matrix_nodes, net, output, ran, real
from tests.helpers.pass_graphs import Graphs, chip, sqnr_dB


def skewed() -> tuple[Graph, dict[str, Array]]:
    """Convolutions with padding, Pad, Clip, Relu and MaxPool on data between -0.2 and 3.8."""
    g = Graphs(5)
    x = g.input("x", (2, 3, 10, 10))
    padded = g.op("Pad", [x], "padded", mode="constant", pads=[0, 0, 1, 0, 0, 0, 0, 1], value=0.0)
    y = g.op("Clip", [g.conv(padded, 6, 3, "a", pad=1)], "clip", min=-1.0, max=4.0)
    y = g.max_pool(y, 2, "pool")
    y = g.op("Relu", [g.conv(y, 4, 3, "b", pad=1)], "relu")
    graph = g.finish(g.conv(y, 4, 2, "c"))
    feeds = np.random.default_rng(8).uniform(-0.2, 3.8, (2, 3, 10, 10)).astype(np.float32)
    return graph, {"x": feeds}


AFFINE = ["int8", "int4", "int8xuint8", "int16", "int4xint8", "int8xint16"]


@pytest.mark.parametrize("method", ["absmax", "percentile", "entropy"])
@pytest.mark.parametrize("dtype", AFFINE)
def test_zero_points_through_pads_clips_pools_and_convolutions(dtype: str, method: str) -> None:
    graph, feeds = skewed()
    program, run, verdict = ran(graph, "edu-mixed", feeds, dtype=dtype, scheme="affine", ranges=method)
    assert verdict.holds, verdict.wrong
    assert_usable(program)
    points = {t.quant.zero_point for t in program.graph.tensors.values() if t.quant is not None}
    assert points - {0}
    assert program.graph.tensors["relu"].quant is not None
    low = table.get(pair(dtype)[1]).low
    assert program.graph.tensors["relu"].quant.zero_point == low, "a tensor without negative numbers starts at 0"
    np.testing.assert_array_equal(output(simulate(program, feeds, "fast")), output(run))


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_a_zero_point_is_worth_most_of_a_bit_on_numbers_of_one_sign(dtype: str) -> None:
    graph, feeds = skewed()
    exact = real(graph, feeds)
    plain, affine = (
        sqnr_dB(exact, output(ran(graph, "edu-mixed", feeds, dtype=f"{dtype}xint8", scheme=scheme).run))
        if dtype == "int4"
        else sqnr_dB(exact, output(ran(graph, "edu-mixed", feeds, dtype=dtype, scheme=scheme).run))
        for scheme in ("symmetric", "affine")
    )
    assert affine > plain - 0.5 if dtype == "int4" else affine > plain + 1


@pytest.mark.parametrize("scheme", ["symmetric", "affine"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["int8", "int1", "fp8_e4m3fn"])
def test_every_range_method(dtype: str, method: str, scheme: str) -> None:
    program, _, verdict = ran(net("cnn"), "edu-mixed", dtype=dtype, ranges=method, scheme=scheme)
    assert verdict.holds
    assert_usable(program)
    if dtype in ("int8", "int16", "fp8_e4m3fn") and method != "entropy-ort":  # bad for ten numbers
        assert verdict.sqnr_dB["probabilities"] > 15


def test_a_percentile_clips_more_the_lower_it_is() -> None:
    def scale(percentile: float) -> float:
        program = compile(net("cnn").copy(), chip("edu-mixed"), Options(
            dtype="int8", ranges="percentile", percentile=percentile))  # fmt: skip
        quant = program.graph.tensors["x.int8"].quant
        assert quant is not None
        return float(quant.scale)

    found = [scale(percentile) for percentile in (50, 90, 99, 99.9, 100)]
    assert found == sorted(found) and found[0] < 0.6 * found[-1]
    with pytest.raises(UsageError, match="percentile"):
        scale(0)


def uneven() -> Graph:
    """A product whose output channels differ a hundredfold."""
    weights = np.random.default_rng(4).standard_normal((32, 6)) * 10 ** np.linspace(-2, 0, 6)
    g = Graphs(2)
    return g.finish(g.matmul(g.input("x", (8, 32)), g.constant("w", weights.astype(np.float32)), "y"))


@pytest.mark.parametrize(("dtype", "gain_dB"), [("int8", 20), ("int4xint8", 10), ("int1", 10), ("fp8_e4m3fn", 0)])
def test_one_scale_for_all_weights_is_worse_for_uneven_channels(dtype: str, gain_dB: float) -> None:
    graph = uneven()
    real_weights, worst = graph.tensors["w"].value().astype(np.float64), {}
    for per_channel in (True, False):
        program, _, verdict = ran(graph, "edu-mixed", dtype=dtype, per_channel=per_channel)
        assert verdict.holds
        tensor = program.graph.tensors["w"]
        assert tensor.quant is not None and np.shape(tensor.quant.scale) == ((6,) if per_channel else ())
        rounded = tensor.value().astype(np.float64) * tensor.quant.scale
        worst[per_channel] = min(sqnr_dB(real_weights[:, i], rounded[:, i]) for i in range(6))
    assert worst[True] >= worst[False] + gain_dB


@pytest.mark.parametrize("dtype", ["int4xint8", "int2", "int4"])
@pytest.mark.parametrize("kind", ["gemm", "conv"])
def test_bias_correction_takes_back_the_mean_error(dtype: str, kind: str) -> None:
    """Inputs of one sign: the error of rounded weights has a mean, and the bias takes it back."""
    g = Graphs(6)
    if kind == "gemm":
        x, y = (256, 24), g.gemm_node(g.input("x", (256, 24)), g.weight("w", (24, 5)), g.weight("b", (5,)), "y")
    else:
        x, y = (8, 3, 9, 9), g.conv(g.input("x", (8, 3, 9, 9)), 5, 3, "y")  # type: ignore[assignment]
    graph = g.finish(y)
    feeds = {"x": np.random.default_rng(0).uniform(0.5, 1.5, x).astype(np.float32)}
    exact, axis = real(graph, feeds), 1
    shift = {}
    for corrected in (False, True):
        run = ran(graph, "edu-mixed", feeds, dtype=f"{dtype}", scheme="affine", bias_correction=corrected).run
        error = (output(run) - exact).astype(np.float64)
        shift[corrected] = np.abs(np.mean(error, axis=tuple(i for i in range(error.ndim) if i != axis)))
    assert np.max(shift[True]) < 0.7 * np.max(shift[False])
    assert np.mean(shift[True]) < 0.6 * np.mean(shift[False])


def test_given_scales_are_taken_as_they_are() -> None:
    given = {"x": np.float32(0.11), "pool1": np.float32(0.3), "conv1.weight": np.full(8, 0.02, np.float32),
             "conv2.weight": np.float32(0.017)}  # fmt: skip
    program, _, verdict = ran(net("cnn"), "edu-mixed", dtype="int8", scales=given)
    assert verdict.holds
    found = {name: t.quant.scale for name, t in program.graph.tensors.items() if t.quant is not None}
    assert found["x.int8"] == np.float32(0.11)
    assert found["pool1"] == np.float32(0.3)
    np.testing.assert_array_equal(found["conv1.weight"], np.full(8, 0.02, np.float32))
    np.testing.assert_array_equal(found["conv2.weight"], np.float32(0.017))
    assert program.graph.nodes[0].attrs["scale"] == np.float32(0.11)
    weights = np.asarray(net("cnn").tensors["conv1.weight"].value(), np.float64)
    expected = np.clip(np.rint(weights / np.float32(0.02)), -128, 127)
    np.testing.assert_array_equal(program.graph.tensors["conv1.weight"].value(), expected)


@pytest.mark.parametrize(
    "given",
    [
        {"conv1.weight": np.float32(0)}, {"conv1.weight": np.float32("nan")},
        {"x": np.float32(0)}, {"x": np.float32("nan")}, {"conv1.weight": np.ones(3, np.float32)},
        {"x": np.ones(3, np.float32)}, {"conv1.weigth": np.float32(1)},
    ],
)  # fmt: skip
def test_given_scales_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        compile(net("cnn").copy(), chip("edu-mixed"), Options(dtype="int8", scales=given))


def test_a_given_scale_holds_for_each_reader_that_takes_codes() -> None:
    """One tensor, read as fp16 by a layer and as int8 by another: the codes have the scale that was given."""
    g = Graphs()
    x = g.op("Relu", [g.input("x", (4, 8))], "r")
    both = [g.matmul(x, g.weight(f"w{name}", (8, 4)), name) for name in ("a", "b")]
    graph = g.finish(g.op("Add", both, "sum"))
    program, _, _ = ran(graph, "edu-mixed", dtype="int8", layers={"a": "fp16"}, scales={"r": np.float32(0.5)})
    node = next(node for node in program.graph.nodes if node.name == "b")
    quant = program.graph.tensors[node.inputs[0]].quant
    assert quant is not None and quant.scale == np.float32(0.5)


def test_binary_weights_are_signs_with_the_mean_magnitude() -> None:
    """Rastegari et al., arXiv 1603.05279, equation 6: per output channel, and sign(0) is +1."""
    g = Graphs()
    weights = np.array([[0.5, -2.0], [-0.25, 1.0], [0.0, -0.5]], np.float32)
    graph = g.finish(g.matmul(g.input("x", (4, 3)), g.constant("w", weights), "y"))
    program, _, verdict = ran(graph, "edu-mixed", dtype="int1")
    assert verdict.holds
    tensor = program.graph.tensors["w"]
    np.testing.assert_array_equal(tensor.value(), [[1, -1], [-1, 1], [1, -1]])
    assert tensor.quant is not None
    np.testing.assert_allclose(tensor.quant.scale, [0.25, 3.5 / 3], rtol=1e-6)
    assert tensor.nbytes == 1


@pytest.mark.parametrize("on", ["edu-mixed", "systolic-generic", "neuroncore-v2"])
def test_tf32_rounds_what_it_reads_and_nothing_else(on: str) -> None:
    g = Graphs(1)
    graph = g.finish(g.matmul(g.input("x", (7, 9)), g.weight("w", (9, 5)), "y"))
    program, run, _ = ran(graph, on, dtype="tf32")
    x, w = (codec.cast(value, "tf32") for value in (run.feeds["x"], graph.tensors["w"].value()))
    assert np.any(x != run.feeds["x"])
    expected = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(output(run), expected, rtol=0, atol=4e-7 * np.max(np.abs(expected)))
    assert np.any(codec.cast(output(run), "tf32") != output(run)), "results stay fp32"
    np.testing.assert_array_equal(output(simulate(program, run.feeds, "fast")), output(run))
    assert all(t.element_B == 4 for t in program.graph.tensors.values())


@pytest.mark.parametrize("policy", ["exact", "fast"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_an_input_is_rounded_to_its_format_whoever_reads_it(dtype: str, policy: str) -> None:
    g = Graphs(1)
    eye = g.constant("w", np.eye(6, dtype=np.float32))
    graph = g.finish(g.matmul(g.input("x", (4, 6)), eye, "y"))
    feeds = synthetic(graph, 1)
    program = compile(graph, chip("edu-mixed"), Options(dtype=dtype))
    found = output(simulate(program, feeds, policy))
    np.testing.assert_array_equal(found, codec.cast(feeds["x"], dtype))


RULED = [name for name in supported(chip("edu-tensor-core")) if not is_integer(name)]


@pytest.mark.parametrize("dtype", RULED)
def test_a_unit_adds_up_by_its_rule(dtype: str) -> None:
    """One product, done by hand: over the whole of K, and tile by tile where tiles are whole blocks."""
    target = chip("edu-tensor-core")
    assert target.matrix is not None
    rule = target.matrix.formats[dtype].dot
    assert rule is not None
    g = Graphs(7)
    graph = g.finish(g.matmul(g.input("x", (3, 96)), g.weight("w", (96, 4)), "y"))
    program, run, verdict = ran(graph, target, dtype=dtype, pinned={"y": {"tk": 10**6}})
    assert verdict.holds
    expected, plain = by_hand(program, run, rule, dtype)
    if is_code(dtype):
        (scaling,) = [part.attrs["scale"] for part in matrix_nodes(program)[0].epilogue if part.op == "Dequantize"]
        real_result = expected * scaling
        quant = program.graph.tensors[matrix_nodes(program)[0].writes[0]].quant
        assert quant is not None
        codes = integer.quantise(real_result, quant.scale, dtype)
        np.testing.assert_array_equal(run.tensors[matrix_nodes(program)[0].writes[0]], codes)
    else:
        result = program.graph.tensors[matrix_nodes(program)[0].writes[0]].dtype
        np.testing.assert_array_equal(output(run), codec.cast(expected, result))
    assert np.any(expected != plain), "the rule is not that of the host's library"


def by_hand(program: Program, run: Run, rule: str, dtype: str) -> tuple[Array, Array]:
    """The product by the rule, and by the host's library, of the operands as the unit reads them."""
    (node,) = matrix_nodes(program)
    name = node.inputs[0]
    streamed = run.tensors.get(name, run.feeds.get(name))
    assert streamed is not None
    a = codec.cast(streamed.astype(np.float32), dtype)
    b = codec.cast(program.graph.tensors[node.inputs[1]].value().astype(np.float32), dtype)
    return dot.product(a, b, rule, dtype), a @ b


@pytest.mark.parametrize("dtype", RULED)
@pytest.mark.parametrize("tk", [32, 64])
def test_tiles_of_whole_blocks_change_no_bit(dtype: str, tk: int) -> None:
    """The sum so far is the third operand of the next block, whether it waits in an accumulator or not."""
    g = Graphs(7)
    graph = g.finish(g.matmul(g.input("x", (3, 96)), g.weight("w", (96, 4)), "y"))
    whole, tiled = (ran(graph, "edu-tensor-core", dtype=dtype, pinned={"y": {"tk": size}}).run for size in (10**6, tk))
    np.testing.assert_array_equal(output(tiled), output(whole))


@pytest.mark.parametrize("scheme", ["symmetric", "affine"])
@pytest.mark.parametrize("kind", ["zero x", "zero w", "tiny x", "tiny w", "dead", "zero channel"])
@pytest.mark.parametrize("dtype", ["int16", "int8", "int8xuint8", "int4", "int1", "fp8_e5m2", "fp4_e2m1fn", "fp16"])
def test_no_scale_is_ever_zero(dtype: str, kind: str, scheme: str) -> None:
    """Constant zeros, subnormal numbers and dead activations: every scale is positive, every result finite."""
    g = Graphs()
    weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    weights *= np.float32({"zero w": 0.0, "tiny w": 1e-40}.get(kind, 1.0))
    if kind == "zero channel":
        weights[:, 1] = 0
    bias = np.full(4, -100.0 if kind == "dead" else 0.5, np.float32)
    y = g.gemm_node(g.input("x", (2, 8)), g.constant("w", weights), g.constant("b", bias), "y")
    graph = g.finish(g.matmul(g.op("Relu", [y], "r"), g.weight("w2", (4, 3)), "z"))
    x = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    feeds = {"x": x * np.float32({"zero x": 0.0, "tiny x": 1e-40}.get(kind, 1.0))}
    program, run, verdict = ran(graph, "edu-mixed", feeds, dtype=dtype, scheme=scheme)
    assert verdict.holds
    assert_usable(program)
    assert np.all(np.isfinite(output(run)))


@pytest.mark.parametrize("scheme", ["symmetric", "affine"])
@pytest.mark.parametrize("dtype", [name for name in supported(chip("edu-mixed")) if is_integer(pair(name)[0])])
def test_sums_of_one_sign_stay_within_32_bits(dtype: str, scheme: str) -> None:
    """The worst case of an accumulator: all products at their largest, all of one sign, and a bias on top."""
    g = Graphs()
    y = g.gemm_node(g.input("x", (2, 64)), g.constant("w", np.full((64, 4), 0.5, np.float32)),
               g.constant("b", np.full(4, 20.0, np.float32)), "y")  # fmt: skip
    feeds = {"x": np.full((2, 64), 3.0, np.float32)}
    run = ran(g.finish(y), "edu-mixed", feeds, dtype=dtype, scheme=scheme).run
    np.testing.assert_allclose(output(run), 116.0, rtol=0.02)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int8xint16", "int8xuint8", "int4xint8"])
def test_sums_of_products_of_activations_stay_within_32_bits(dtype: str) -> None:
    g = Graphs()
    x = g.input("x", (1, 4, 8))
    graph = g.finish(g.matmul(x, g.op("Transpose", [x], "t", perm=[0, 2, 1]), "y"))
    run = ran(graph, "edu-mixed", {"x": np.full((1, 4, 8), 3.0, np.float32)}, dtype=dtype).run
    np.testing.assert_allclose(output(run), 72.0, rtol=0.02)


def test_unsigned_activations_hold_negative_numbers_too() -> None:
    """Whatever the scheme: a format without a sign has a zero point where there are negative numbers."""
    found = ran(net("cnn"), "edu-mixed", dtype="int8xuint8", scheme="symmetric").verdict
    assert found.holds and found.sqnr_dB["probabilities"] > 15


def test_masks_of_attention_in_half_precision() -> None:
    """Minus a large number means minus infinity: in fp16, which has nothing so large, it is just that."""
    graph = load_model("gpt-prefill?seq=8,hidden=24,heads=2", weights="random:0")
    for dtype in ("fp16", "bf16"):
        _, run, verdict = ran(graph, "edu-mixed", dtype=dtype)
        assert all(np.all(np.isfinite(value)) for value in run.outputs.values())
        assert verdict.holds, verdict.wrong


@pytest.mark.parametrize("dtype", ["int16", "int8xint16", "int8"])
def test_a_bias_larger_than_all_products_is_not_cut_off(dtype: str) -> None:
    g = Graphs()
    y = g.gemm_node(g.input("x", (2, 64)), g.constant("w", np.full((64, 4), 0.5, np.float32)),
               g.constant("b", np.full(4, 1000.0, np.float32)), "y")  # fmt: skip
    run = ran(g.finish(y), "edu-mixed", {"x": np.full((2, 64), 3.0, np.float32)}, dtype=dtype).run
    np.testing.assert_allclose(output(run), 1096.0, rtol=0.01)


def test_aliases_of_formats_are_the_formats() -> None:
    for alias, name in (("half", "fp16"), ("bfloat16", "bf16"), ("fp8", "fp8_e4m3fn"), ("binary", "int1")):
        mine, theirs = (ran(net("mlp"), "edu-mixed", dtype=dtype) for dtype in (alias, name))
        assert mine.verdict.holds
        assert mine.run.ledger == theirs.run.ledger
        np.testing.assert_array_equal(output(mine.run), output(theirs.run))
