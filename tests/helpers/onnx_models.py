"""Small ONNX models for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accelsim.workload.execute import run
from accelsim.workload.graph import Array, Graph
from accelsim.workload.onnx.importing.importer import build
from accelsim.workload.onnx.importing.inputs import Shapes
from accelsim.workload.onnx.importing.read import raw_model
from accelsim.workload.ops import find

FLOAT = TensorProto.FLOAT


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), name=f"n_{outputs[0]}", **attrs)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, FLOAT, list(dims)) for name, dims in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "small", infos, made, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def import_proto(
    proto: onnx.ModelProto, name: str = "model", batch: int | None = None, shapes: Shapes | None = None
) -> Graph:
    """The graph of a model in memory, named ``name``; otherwise as ``import_onnx``."""
    return build(raw_model(proto, Path(name)), batch, shapes or {})


def feeds_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(graph.tensors[name].shape, dtype=np.float32) for name in graph.inputs}


def against_ort(proto: onnx.ModelProto, feeds: Mapping[str, Array], rtol: float = 1e-4) -> Graph:
    """The imported graph, once own kernels alone gave the outputs of ONNX Runtime."""
    ort = pytest.importorskip("onnxruntime")
    graph = import_proto(proto)
    assert all(find(each.op) is not None for each in graph.nodes)
    got = run(graph, {name: feeds[name] for name in graph.inputs})
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for name, want in zip(graph.outputs, session.run(None, dict(feeds)), strict=True):
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name], want, rtol=rtol, atol=rtol)
    return graph
