"""One ONNX node through ONNX Runtime, and the same op through the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from accelsim.workload import ops
from accelsim.workload.graph import Array, Node, Tensor

FORMATS = {"float32": "fp32", "float64": "fp64", "bool": "bool"}


def format_of(value: Array) -> str:
    return FORMATS.get(str(value.dtype), str(value.dtype))


@dataclass
class Case:
    """``attrs`` are canonical; ``onnx_attrs`` (default: the same) and ``tail`` (more inputs) are ONNX's."""

    op: str
    inputs: Sequence[Array | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    onnx_attrs: dict[str, Any] | None = None
    tail: Sequence[Array | None] = ()
    onnx_op: str = ""
    opset: int = 17
    outputs: int = 1
    rtol: float = 1e-5
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    @property
    def node(self) -> Node:
        names = [f"x{i}" if value is not None else "" for i, value in enumerate(self.inputs)]
        return Node("node", self.op, names, [f"y{i}" for i in range(self.outputs)], self.attrs)

    @property
    def tensors(self) -> list[Tensor | None]:
        return [
            None if value is None else Tensor(f"x{i}", value.shape, format_of(value))
            for i, value in enumerate(self.inputs)
        ]


def ort(case: Case) -> list[Array]:
    """Return what ONNX Runtime says (one thread, no graph optimisation)."""
    attrs = case.attrs if case.onnx_attrs is None else case.onnx_attrs
    given = list(case.inputs) + list(case.tail)
    names = ["" if value is None else f"x{i}" for i, value in enumerate(given)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.onnx_op or case.op, names, outputs, **attrs)
    infos, constants = [], []
    for name, value in zip(names, given, strict=True):
        if value is None:
            continue
        if int(name[1:]) >= len(case.inputs):
            constants.append(numpy_helper.from_array(np.asarray(value), name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            infos.append(helper.make_tensor_value_info(name, kind, value.shape))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "one", infos, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    return session(model).run(None, {info.name: value for info, value in zip(infos, _present(case), strict=True)})


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _present(case: Case) -> list[Array]:
    return [value for value in case.inputs if value is not None]


def own(case: Case) -> list[Array]:
    """Return what the registry says, with its shape rule checked against its kernel."""
    op = ops.get(case.op)
    results = op.kernel(case.node, list(case.inputs))
    inferred = op.infer(case.node, case.tensors)
    assert [result.shape for result in results] == [shape for shape, _ in inferred]
    assert [format_of(result) for result in results] == [dtype for _, dtype in inferred]
    return results


def outs(case: Case) -> list[Tensor]:
    inferred = ops.get(case.op).infer(case.node, case.tensors)
    return [Tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(inferred)]


def check(case: Case) -> None:
    """Same shapes, same types, same values to ``rtol`` (integers and bools exactly)."""
    before = [None if value is None else value.copy() for value in case.inputs]
    mine, theirs = own(case), ort(case)
    for value, copy in zip(case.inputs, before, strict=True):
        assert value is None or np.array_equal(value, copy, equal_nan=value.dtype.kind == "f"), "input changed"
    for y, want in zip(mine, theirs, strict=True):
        assert y.shape == want.shape
        assert y.dtype == want.dtype
        if y.dtype.kind == "f":
            scale = np.max(np.abs(want[np.isfinite(want)]), initial=1e-30)
            scale = scale if ops.get(case.op).kind == "matrix" else min(scale, 1)  # long sums cancel
            np.testing.assert_allclose(y, want, rtol=case.rtol, atol=case.rtol * scale)
        else:
            np.testing.assert_array_equal(y, want)
