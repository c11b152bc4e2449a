"""``--check`` of valid models whatever ONNX Runtime lacks: compared with the other reference, or a reason why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accelsim.errors import ModelError, UsageError
from accelsim.explore.against_reference import Verdict, check_run
from accelsim.request.job import Request, execute, prepare
from accelsim.workload.onnx.reference import reference_outputs
from tests.helpers.onnx_models import import_proto

FLOAT = TensorProto.FLOAT
CHIP = "edu-4x4"


def one_node(op: str, kinds: dict[str, int], made: int, opset: int = 21, **attrs: Any) -> onnx.ModelProto:
    """A model of one node on inputs [2, 3] of the given types."""
    inputs = [helper.make_tensor_value_info(name, kind, [2, 3]) for name, kind in kinds.items()]
    output = helper.make_tensor_value_info("y", made, [2, 3])
    graph = helper.make_graph([helper.make_node(op, list(kinds), ["y"], **attrs)], "one", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def checked(proto: onnx.ModelProto, values: str = "exact", **asked: Any) -> Verdict:
    job = prepare(Request(import_proto(proto), CHIP, dtype="fp32", values=values, **asked))
    return check_run(execute(job, keep=True), job.graph)


CASES = {
    "a type that it lacks": one_node("Relu", {"x": TensorProto.INT16}, TensorProto.INT16),
    "an op that it lacks": one_node("BitShift", {"x": TensorProto.UINT16, "z": TensorProto.UINT16},
                                    TensorProto.UINT16, direction="LEFT"),
    "brain floats": one_node("Neg", {"x": TensorProto.BFLOAT16}, TensorProto.BFLOAT16),
    "numbers of 64 bits": one_node("Neg", {"x": TensorProto.DOUBLE}, TensorProto.DOUBLE),
    "codes of 4 bits": one_node("Cast", {"x": TensorProto.INT4}, FLOAT, to=FLOAT),
    "codes of 8 bits": one_node("Cast", {"x": FLOAT}, TensorProto.FLOAT8E4M3FN, to=TensorProto.FLOAT8E4M3FN),
    "codes of 8 bits, wide": one_node("Cast", {"x": FLOAT}, TensorProto.FLOAT8E5M2, to=TensorProto.FLOAT8E5M2),
    "scales of 8 bits": one_node("Cast", {"x": TensorProto.FLOAT8E8M0}, FLOAT, 24, to=FLOAT),
    "texts": one_node("Identity", {"x": TensorProto.STRING}, TensorProto.STRING),
    "flags": one_node("Not", {"x": TensorProto.BOOL}, TensorProto.BOOL),
}  # fmt: skip


@pytest.mark.parametrize("values", ["exact", "fast"])
@pytest.mark.parametrize("name", CASES)
def test_what_onnx_runtime_cannot_do_is_left_to_the_other_reference(name: str, values: str) -> None:
    verdict = checked(CASES[name], values)
    assert verdict.holds and verdict.text == "holds", (verdict.text, verdict.by)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_inputs_of_another_number_type(kind: Any) -> None:
    given = {"x": np.arange(6).reshape(2, 3).astype(kind)}
    assert checked(one_node("Neg", {"x": FLOAT}, FLOAT), inputs=given).holds


def none_can() -> onnx.ModelProto:
    """A node for the host whose op the exported operator set has in another form."""
    proto = one_node("Det", {"x": FLOAT}, FLOAT, 22)
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, [2, 3, 3]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [2]))
    return proto


def test_a_model_that_no_reference_executes_is_not_called_wrong() -> None:
    with pytest.raises(ModelError, match="cannot be exported"):
        reference_outputs(import_proto(none_can()), {"x": np.ones((2, 3, 3), np.float32)})
    verdict = checked(none_can())
    assert not verdict.wrong and not verdict.rows and verdict.text.startswith("cannot check: Det:y: Det of opset 22")
    assert verdict.as_dict()["holds"] is None and "cannot check" in verdict.as_dict()["verdict"]


def constant_output() -> onnx.ModelProto:
    value = numpy_helper.from_array(np.arange(3, dtype=np.float32))
    output = helper.make_tensor_value_info("y", FLOAT, [3])
    graph = helper.make_graph([helper.make_node("Constant", [], ["y"], value=value)], "constant", [], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("values", ["exact", "fast"])
def test_a_constant_output(values: str) -> None:
    job = prepare(Request(import_proto(constant_output()), CHIP, dtype="fp32", values=values))
    run = execute(job, keep=True)
    assert np.array_equal(run.outputs["y"], np.arange(3, dtype=np.float32))
    assert not check_run(run, job.graph).wrong


def test_nothing_to_compare_is_not_wrong() -> None:
    """A model that gives back its input: no tensor is computed."""
    verdict = checked(one_node("Identity", {"x": FLOAT}, FLOAT))
    assert not verdict.wrong
    assert Verdict("nobody", []).text == "nothing to compare: the model computes no tensor"


def unused() -> onnx.ModelProto:
    proto = one_node("Neg", {"x": FLOAT}, FLOAT)
    proto.graph.input.add().CopyFrom(helper.make_tensor_value_info("mask", TensorProto.INT64, [2]))
    return proto


def test_an_input_that_nothing_reads_may_be_given_and_need_not_be() -> None:
    x = np.ones((2, 3), np.float32)
    assert checked(unused(), inputs={"x": x, "mask": np.zeros(2, np.int64)}).holds
    assert checked(unused(), inputs={"x": x}).holds
    with pytest.raises(UsageError, match="the model has no input 'musk'"):
        checked(unused(), inputs={"x": x, "musk": x})


def test_texts_may_be_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([["a", "b", "c"], ["d", "e", "fff"]]))
    assert checked(CASES["texts"], inputs=tmp_path / "in.npz").holds
    with pytest.raises(UsageError, match="holds float64 values"):
        checked(CASES["texts"], inputs={"x": np.zeros((2, 3))})


def test_the_command_says_why_it_cannot_check_and_does_not_fail(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from accelsim.cli import main

    onnx.save(none_can(), tmp_path / "det.onnx")
    result = CliRunner().invoke(main, ["run", str(tmp_path / "det.onnx"), "--on", CHIP, "--dtype", "fp32", "--check"])
    assert result.exit_code == 0 and "cannot check: " in result.stdout
