"""Ops outside the registry: one ONNX node at a time, through the reference implementation of onnx.

They only ever run on the host. A foreign node keeps the inputs and attributes of its ONNX node (see the package page).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Node

if TYPE_CHECKING:
    from onnx import NodeProto
    from onnx.reference import ReferenceEvaluator

PREFIX = "onnx::"
"""Marks a foreign node whose op type is also in the registry, but in another form."""

_LOADERS = {
    "": "onnx.reference.ops",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml",
    "ai.onnx.preview": "onnx.reference.ops.aionnx_preview",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training",
}
"""Domain -> the module that implements it."""

OWN_ATTRIBUTES = ("domain", "formats")
"""Attributes of foreign nodes that are not of the ONNX node: its domain, and the formats of its inputs where a
container is not the NumPy type that ONNX stores.
"""

_NUMPY_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp4_e2m1fn": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    **{f"fp8_{kind}": f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    **{name: name for name in ("int4", "uint4", "int2", "uint2")},
}
"""Format whose container is not the NumPy type that ONNX stores -> that type, of NumPy or ml_dtypes."""

_INTEGERS = 7
"""AttributeProto.INTS: what an empty list is taken for."""

_WITH_SUBGRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def op_type(node: Node) -> str:
    """The ONNX op type of a foreign node."""
    return node.op.removeprefix(PREFIX)


def stored(values: Array, dtype: str) -> Array:
    """Container values of format ``dtype`` as the NumPy type that ONNX stores."""
    import ml_dtypes

    name = _NUMPY_TYPES.get(dtype)
    if name is None:
        return values
    return values.astype(getattr(ml_dtypes, name, None) or np.dtype(name))


def noted_formats(node: Node, formats: Sequence[str]) -> Node:
    """A foreign node that knows the formats of its inputs ('' where absent), if their containers do not tell."""
    if any(name in _NUMPY_TYPES for name in formats):
        node.attrs["formats"] = list(formats)
    return node


def knows(op: str, domain: str, opset: int) -> bool:
    """Return whether the host kernel can evaluate ``op`` of ``domain`` ('' is ONNX) at ``opset``.

    Control flow is refused: its bodies read tensors of the graph around them.
    """
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeContextError

    if op in _WITH_SUBGRAPHS or domain not in _LOADERS:
        return False
    options = {} if domain else {"evaluator_cls": ReferenceEvaluator}
    try:
        import_module(_LOADERS[domain]).load_op(domain, op, opset, **options)
    except RuntimeContextError:  # defined by other ops, once the types of its inputs are known
        return True
    except Exception:  # onnx raises a different type for each reason: no such op, no such version
        return False
    return True


def foreign_kernel(node: Node, opset: int, values: list[Array | None]) -> list[Array]:
    """Outputs of one foreign node, empty where unnamed; ``values`` of its inputs, None where absent.

    Raises ModelError naming node, op and opset when the op is unknown or its evaluation fails.
    """
    if not knows(op_type(node), node.attrs.get("domain", ""), opset):
        raise ModelError(f"no kernel knows op {op_type(node)} of opset {opset}", node.name)
    formats = node.attrs.get("formats") or [""] * len(values)
    values = [None if value is None else stored(value, dtype) for value, dtype in zip(values, formats, strict=True)]
    feeds = {f"i{index}": value for index, value in enumerate(values) if value is not None}
    try:
        with np.errstate(all="ignore"):
            results = _session(node, opset, values).run(None, feeds)
    except Exception as error:  # whatever the reference implementation of this op throws at us
        raise ModelError(f"{op_type(node)} of opset {opset} failed: {error}", node.name) from error
    if any(isinstance(result, (list, dict)) or result is None for result in results):
        raise ModelError(f"{op_type(node)} of opset {opset} gives no tensor", node.name, "a tensor")
    computed = iter(results)
    return [np.asarray(next(computed) if name else ()) for name in node.outputs]


def _session(node: Node, opset: int, values: list[Array | None]) -> ReferenceEvaluator:
    from onnx import TensorProto, helper
    from onnx.defs import onnx_opset_version
    from onnx.reference import ReferenceEvaluator

    domain = node.attrs.get("domain", "")
    inputs = [f"i{index}" if value is not None else "" for index, value in enumerate(values)]
    outputs = [f"o{index}" if name else "" for index, name in enumerate(node.outputs)]
    attributes = {key: value for key, value in node.attrs.items() if key not in OWN_ATTRIBUTES}
    proto = node_proto(op_type(node), inputs, outputs, attributes, domain=domain)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(inputs, values, strict=True)
        if value is not None
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs if name]
    graph = helper.make_graph([proto], "foreign", given, made)
    versions = {"": opset} if domain == "" else {"": onnx_opset_version(), domain: opset}
    opsets = [helper.make_opsetid(*item) for item in versions.items()]
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))


def node_proto(
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, object],
    name: str = "",
    domain: str = "",
) -> NodeProto:
    """A NodeProto; attributes as Python values, arrays for tensors, and of any name (``name`` itself too)."""
    from onnx import helper

    node = helper.make_node(op, inputs, outputs, name, domain=domain)
    node.attribute.extend(
        helper.make_attribute(key, _attribute(value))
        if not isinstance(value, list) or value
        else helper.make_attribute(key, value, attr_type=_INTEGERS)
        for key, value in sorted(attributes.items())
        if value is not None
    )
    return node


def _attribute(value: object) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
