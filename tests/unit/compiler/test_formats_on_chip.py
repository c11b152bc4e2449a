"""Whole small networks in every format of a chip: the reference agrees, and so do all value policies."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.compiler.numbers.formats import is_integer, pair, resolve, supported
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.formats import table
from accelsim.machine.simulate import simulate
from accelsim.spec.chip import Chip
from accelsim.workload.sources.load import load_model
from tests.helpers.format_runs import assert_usable, matrix_nodes, net, output, ran, real
from tests.helpers.pass_graphs import chip, sqnr_dB

EVERYWHERE = [
    (on, dtype, name)
    for on, names in (
        ("edu-mixed", ["cnn", "block", "attention"]),
        ("systolic-generic", ["attention"]),
        ("neuroncore-v2", ["block"]),
    )
    for dtype in supported(chip(on))
    for name in names
]


@pytest.mark.parametrize(("on", "dtype", "name"), EVERYWHERE)
def test_every_format_of_a_chip(on: str, dtype: str, name: str) -> None:
    """The reference agrees; policies share ledger and timeline; values of integers are equal to the last bit."""
    graph = net(name)
    program, exact, verdict = ran(graph, on, dtype=dtype)
    assert verdict.holds, verdict.wrong
    assert_usable(program)
    for policy in ("fast", "off"):
        other = simulate(program, None if policy == "off" else exact.feeds, policy, keep=True)
        assert other.ledger == exact.ledger
        assert other.slices == exact.slices
        assert other.engines == exact.engines
        if policy == "off":
            continue
        for tensor in exact.tensors:
            value = other.tensors[tensor]
            assert value.dtype == exact.tensors[tensor].dtype
            if is_integer(pair(dtype)[0]) and name != "attention":
                np.testing.assert_array_equal(value, exact.tensors[tensor], err_msg=tensor)
            else:
                largest = np.max(np.abs(exact.tensors[tensor].astype(np.float64)))
                error = np.max(np.abs(value.astype(np.float64) - exact.tensors[tensor]))
                assert error <= 2 * table.get(pair(dtype)[1]).epsilon * largest + 1e-6 * largest, tensor


@pytest.mark.parametrize("dtype", supported(chip("edu-tensor-core")))
@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_every_format_of_a_unit_with_rules_of_its_own(dtype: str, name: str) -> None:
    program, exact, verdict = ran(net(name), "edu-tensor-core", dtype=dtype)
    assert verdict.holds, verdict.wrong
    fast = simulate(program, exact.feeds, "fast")
    assert (fast.ledger, fast.slices) == (exact.ledger, exact.slices)
    largest = np.max(np.abs(output(exact)))
    np.testing.assert_allclose(output(fast), output(exact), rtol=0, atol=2e-2 * largest)


@pytest.mark.parametrize("dtype", [name for name in supported(chip("edu-mixed")) if is_integer(pair(name)[0])])
def test_integers_lose_no_bit_when_they_are_tiled(dtype: str) -> None:
    """Whatever the tiles along K: sums of integers do not depend on their order."""
    graph = load_model("gemm?M=5,N=70,K=150", weights="random:0")
    name = graph.nodes[0].name
    whole = output(ran(graph, "edu-mixed", dtype=dtype).run)
    for pins in ({"tk": 7, "tn": 9}, {"tk": 64, "order": "nmk"}, {"tm": 2, "tk": 33, "order": "mnk"}):
        tiled = output(ran(graph, "edu-mixed", dtype=dtype, pinned={name: pins}).run)
        np.testing.assert_array_equal(tiled, whole)


MIXES = [
    ("int8", "fp16"), ("fp16", "int8"), ("int4", "int8"), ("int8", "int4"), ("bf16", "int4"), ("int4", "bf16"),
    ("fp32", "bf16"), ("tf32", "fp16"), ("fp16", "int1"), ("int1", "fp16"), ("fp8", "int8"), ("fp32", "int8"),
    ("int8", "tf32"), ("int8", "int4xint8"), ("int16", "int8"), ("fp4_e2m1fn", "int4"),
]  # fmt: skip


@pytest.mark.parametrize("layer", ["conv1", "conv2"])
@pytest.mark.parametrize(("dtype", "own"), MIXES)
def test_one_layer_in_another_format(dtype: str, own: str, layer: str) -> None:
    program, run, verdict = ran(net("cnn"), "edu-mixed", dtype=dtype, layers={layer: own})
    assert verdict.holds, verdict.wrong
    assert_usable(program)
    formats = {node.name: node.format for node in program.graph.nodes if node.engine == "matrix"}
    expected = {"fp8": "fp8_e4m3fn"}
    assert formats == {
        name: expected.get(wanted, wanted)
        for name in ("conv1", "conv2", "fc")
        for wanted in [own if name == layer else dtype]
    }
    for policy in ("fast", "off"):
        other = simulate(program, None if policy == "off" else run.feeds, policy)
        assert (other.ledger, other.slices) == (run.ledger, run.slices)


@pytest.mark.parametrize(("dtype", "own"), [("int8", "fp16"), ("bf16", "int4"), ("int4", "int8")])
def test_a_branch_of_a_residual_block_in_another_format(dtype: str, own: str) -> None:
    for layer in ("c1", "c2", "c3"):
        assert ran(net("block"), "edu-mixed", dtype=dtype, layers={layer: own}).verdict.holds


def test_a_wider_layer_costs_less_accuracy() -> None:
    graph = net("cnn")
    exact = real(graph, synthetic(graph, 1))
    narrow = output(ran(graph, "edu-mixed", dtype="int4").run)
    mixed = output(ran(graph, "edu-mixed", dtype="int4", layers={"conv1": "fp16", "fc": "fp16"}).run)
    assert sqnr_dB(exact, mixed) > sqnr_dB(exact, narrow) + 3


EMULATED = [
    ("tpu-v1", "int4", "int8"), ("tpu-v1", "int1", "int8"), ("tpu-v1", "int2", "int8"),
    ("neuroncore-v2", "fp8_e4m3fn", "fp16"),
    ("neuroncore-v2", "fp4_e2m1fn", "fp8_e4m3"), ("neuroncore-v2", "int4xint8", "int8"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize(("on", "dtype", "through"), EMULATED)
def test_emulation_gives_the_values_of_a_native_unit_and_the_bytes_of_the_wider_format(
    on: str, dtype: str, through: str, name: str
) -> None:
    graph = net(name)
    program, run, verdict = ran(graph, on, dtype=dtype, emulate=True)
    assert verdict.holds, verdict.wrong
    native = ran(graph, with_format(chip(on), dtype, like=through), dtype=dtype)
    assert {node.format for node in matrix_nodes(native.program)} == {dtype}
    np.testing.assert_array_equal(output(run), output(native.run))
    macs = {node.format for node in program.graph.nodes if node.engine == "matrix"}
    assert len(macs) == 1 and table.get(macs.pop()).bits == table.get(through).bits
    wide = ran(graph, on, dtype=through).program.graph
    for node in program.graph.nodes:
        if node.engine == "matrix":
            weights = program.graph.tensors[node.inputs[1]]
            assert weights.dtype == pair(dtype)[0]
            assert weights.nbytes == wide.tensors[node.inputs[1]].nbytes
    streamed = [node.inputs[0] for node in program.graph.nodes if node.engine == "matrix"]
    assert all(program.graph.tensors[name].element_B == table.bytes_of(through) for name in streamed)


def with_format(base: Chip, dtype: str, like: str) -> Chip:
    """A chip that has one format more."""
    assert base.matrix is not None
    formats = {**base.matrix.formats, dtype: base.matrix.formats[like]}
    return base.with_engine(base.matrix.model_copy(update={"formats": formats})).model_copy(update={"peak": {}})


def test_without_emulation_a_format_that_is_missing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"emulat.* int8"):
        ran(net("mlp"), "tpu-v1", dtype="int4")


def only(*formats: str) -> Chip:
    base = chip("edu-mixed")
    assert base.matrix is not None
    matrix = base.matrix.model_copy(update={"formats": {name: base.matrix.formats[name] for name in formats}})
    return base.with_engine(matrix).model_copy(update={"peak": {}})


def test_codes_computed_by_a_unit_of_floats() -> None:
    """int4 on a unit that has fp16 only: sums are exact, biases are not rounded; one code of the result at most."""
    graph = net("mlp")
    program, run, verdict = ran(graph, only("fp16"), dtype="int4", emulate=True)
    assert verdict.holds
    assert {node.format for node in program.graph.nodes if node.engine == "matrix"} == {"fp16"}
    native = output(ran(graph, "edu-mixed", dtype="int4").run)
    quant = program.graph.tensors[program.graph.nodes[-1].inputs[0]].quant
    assert quant is not None
    np.testing.assert_allclose(output(run), native, rtol=0, atol=1.01 * float(quant.scale))


def test_integers_are_emulated_by_integers_where_those_are_as_narrow() -> None:
    """int8 adds up exactly, with a quarter of the energy of fp8."""
    for dtype in ("int4", "int2", "int1"):
        assert resolve(chip("neuroncore-v2"), dtype, emulate=True).mac == "int8"


def test_a_pair_that_emulates_keeps_each_operand_as_its_multiplier_takes_it() -> None:
    """int2 on int4 x int8: weights lie in memory as int4, activations as int8."""
    program = compile(net("cnn").copy(), only("int8", "int4xint8"), Options(dtype="int2", emulate=True))
    for node in program.graph.nodes:
        if node.engine == "matrix":
            streamed, weights = (program.graph.tensors[name] for name in node.inputs[:2])
            assert node.format == "int4xint8"
            assert (streamed.memory_format, weights.memory_format) == ("int8", "int4")


@pytest.mark.parametrize("on", ["edu-4x4", "a100-80-sxm"])
@pytest.mark.parametrize(("weights", "least_dB"), [("int4", 6), ("int8", 40), ("fp8_e4m3fn", 25), ("fp4_e2m1fn", 6)])
def test_weights_alone_in_codes_keep_their_bytes_and_are_multiplied_as_numbers(
    on: str, weights: str, least_dB: float
) -> None:
    """Bytes, notes and values agree: weights in their codes, arithmetic in the format of the unit."""
    program, exact, verdict = ran(net("cnn"), on, dtype=f"{weights}xfp16", emulate=True)
    assert verdict.holds, verdict.wrong
    assert min(verdict.sqnr_dB.values()) > least_dB
    mac = "fp16" if on == "a100-80-sxm" else "fp32"
    (note,) = [text for text in program.notes if text.startswith("quantise")]
    assert f"weights are kept as {weights}" in note and note.endswith(f"products are computed as {mac}")
    for node in matrix_nodes(program):
        tensor = program.graph.tensors[node.inputs[1]]
        assert node.format == mac and tensor.nbytes == np.ceil(tensor.elements * table.bytes_of(weights))
        codes = np.unique(tensor.value().reshape(tensor.shape[0], -1)[0] if node.op == "Conv" else tensor.value()[:, 0])
        assert len(codes) <= 2 ** table.get(weights).bits
    assert {row.action for row in exact.ledger if str(row.action).startswith("mac.")} >= {f"mac.{mac}"}
