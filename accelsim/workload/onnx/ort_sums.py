"""Products of codes whose sums ONNX Runtime would cut off: on x86 processors with AVX2 but without VNNI.

There its kernels for unsigned times signed bytes add two products in 16 bits, and saturate: 2 * 255 * 127 becomes
32,767. Unsigned times unsigned is exact on each processor. So that a comparison shows our errors and not those of the
processor, such weights are handed over as unsigned codes, 128 larger, with a zero point 128 larger: the same numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accelsim.types import Array

SLOTS = {
    "QLinearConv": (2, 3, 5), "QLinearMatMul": (2, 3, 5), "QGemm": (2, 3, 5), "ConvInteger": (0, 1, 3),
    "MatMulInteger": (0, 1, 3),
}  # fmt: skip
"""Op -> the inputs that have the format of the first factor, that are the second one, and its zero point."""

SHIFT, LENGTH = 128, 64
"""What signed codes lack to unsigned ones; products of the sum that is tried."""


@cache
def saturates() -> bool:
    """Whether ONNX Runtime cuts off sums of unsigned times signed bytes on this processor: it is asked for one."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    b = np.full((LENGTH, LENGTH), 127, np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "sum",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, LENGTH])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, LENGTH])], [numpy_helper.from_array(b, "b")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"a": np.full((1, LENGTH), 255, np.uint8)})
    return bool(np.any(y != LENGTH * 255 * 127))


def unsaturated(model: Any) -> Any:
    """The model, with its signed weights behind unsigned codes as unsigned ones where sums would be cut off else."""
    return unsigned_weights(model) if saturates() else model


def unsigned_weights(model: Any) -> Any:
    """A copy of the model in which constant signed factors of unsigned codes are unsigned: the same numbers."""
    import onnx
    from onnx import TensorProto, numpy_helper, shape_inference

    if not any(node.op_type in SLOTS for node in model.graph.node):
        return model
    new = onnx.ModelProto()
    new.CopyFrom(model)
    graph = new.graph
    constants = {item.name: item for item in graph.initializer}
    known = shape_inference.infer_shapes(model).graph
    kinds = {item.name: item.type.tensor_type.elem_type for item in (*known.value_info, *known.input)}
    kinds |= {name: item.data_type for name, item in constants.items()}

    def shifted(name: str) -> str:
        """A constant 128 larger; without a name, that of zero."""
        other = f"{name}.unsigned"
        if other not in constants:
            values = numpy_helper.to_array(constants[name]) if name else np.zeros((), np.int8)
            constants[other] = numpy_helper.from_array(_shifted(values), other)
            graph.initializer.append(constants[other])
        return other

    for node in graph.node:
        first, factor, zero = SLOTS.get(node.op_type, (0, 0, 0))
        given = [*node.input, *[""] * (zero + 1 - len(node.input))]
        constant = given[factor] in constants and (not given[zero] or given[zero] in constants)
        signed = kinds.get(given[factor]) == TensorProto.INT8 and kinds.get(given[first]) == TensorProto.UINT8
        if factor and constant and signed:
            given[factor], given[zero] = shifted(given[factor]), shifted(given[zero])
            del node.input[:]
            node.input.extend(given)
    return new


def _shifted(values: Array) -> Array:
    return (values.astype(np.int16) + SHIFT).astype(np.uint8)
