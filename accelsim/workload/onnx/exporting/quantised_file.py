"""Quantised graph -> ONNX file that other tools run: QDQ form or QOperator form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.formats.table import bytes_of
from accelsim.workload.graph import Graph
from accelsim.workload.onnx.exporting.coded_graph import PRODUCTS, is_code
from accelsim.workload.onnx.exporting.model import OPSET, export_onnx
from accelsim.workload.onnx.exporting.qdq import to_qdq
from accelsim.workload.onnx.exporting.qoperator import QLINEAR, to_qoperator
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES

if TYPE_CHECKING:
    from onnx import ModelProto

FORMS: dict[str, Callable[[Graph], Graph]] = {"qdq": to_qdq, "qoperator": to_qoperator}
"""Form of a quantised ONNX model -> what writes a graph of codes in that form."""

PLAIN_OPSET = 20
"""Operator set of models whose codes all have 8 bits."""

NEEDS_21 = frozenset({"GroupNormalization"})
"""Ops that mean something else in ``PLAIN_OPSET``."""


def export_quantised(graph: Graph, form: str = "qdq") -> ModelProto:
    """The ``onnx.ModelProto`` of a graph that the compiler's pass ``quantise`` (or ``integerise``) has made.

    ``form`` 'qdq': float ops between DequantizeLinear and QuantizeLinear, weights as codes; its codes differ from
    those of ``graph`` by one where a float32 sum rounds to the other side. 'qoperator': QLinearConv, QLinearMatMul
    and integer ops, equal to ``graph`` to the last bit. Inputs and outputs are those of the graph. The optimiser of
    ONNX Runtime 1.31 writes wrong ops around float8 codes and some 4-bit codes of the QDQ form: its session option
    ``session.disable_quant_qdq`` = '1' leaves them alone.
    Raises UsageError for another form, ModelError for codes that the form does not have, and as ``export_onnx``.
    """
    written = in_form(graph, form)
    ModelError.raise_for(
        Problem(f"tensor {tensor.name!r} holds {tensor.dtype}, which ONNX does not have", graph.name)
        for tensor in written.tensors.values()
        if tensor.dtype not in ELEMENT_TYPES
    )
    return _lowered(_named(export_onnx(written), written), written)


def _lowered(model: ModelProto, graph: Graph) -> ModelProto:
    """The model in operator set 20 where it needs nothing newer.

    ONNX Runtime 1.31 cannot optimise some 8-bit models of set 21 (it writes a QuantizeLinear of two types).
    """
    (entry,) = [item for item in model.opset_import if not item.domain]
    newer = any(node.op in NEEDS_21 or node.attrs.get("block") for node in graph.nodes)
    wide = any(is_code(tensor.dtype) and bytes_of(tensor.dtype) != 1 for tensor in graph.tensors.values())
    if entry.version == OPSET and not newer and not wide:
        entry.version = PLAIN_OPSET
    return model


def _named(model: ModelProto, graph: Graph) -> ModelProto:
    """The model with its products named as the layers of the graph."""
    names = {node.outputs[0]: node.name for node in graph.nodes if node.op in (*PRODUCTS, *QLINEAR)}
    for proto in model.graph.node:
        proto.name = names.get(proto.output[0], proto.name)
    return model


def in_form(graph: Graph, form: str) -> Graph:
    """The graph of canonical nodes that ``export_quantised`` writes. Raises as that."""
    if form not in FORMS:
        what = f"{form!r} is no form of a quantised model"
        raise UsageError(what, "", " or ".join(FORMS), nearest(form, FORMS))
    return FORMS[form](graph)
