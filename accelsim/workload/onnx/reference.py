"""An outside implementation runs the same graph on the same values: ONNX Runtime, or ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.errors import ModelError, UsageError
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.ops.foreign import stored
from accelsim.workload.ops.values import CONTAINERS, contain

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnx.reference.op_run import OpRun

LONGEST = 200
"""Characters of another implementation's error that are shown."""


class Reference(NamedTuple):
    """Values by tensor name, in graph order, and who computed them ('onnxruntime 1.20.0')."""

    values: dict[str, Array]
    by: str


class Difference(NamedTuple):
    """Difference of one tensor from the reference: max |a - b|, and that over max |b|."""

    tensor: str
    max_abs: float
    relative: float


def reference_outputs(graph: Graph, feeds: Mapping[str, Array], every_tensor: bool = False) -> Reference:
    """Outputs of ``graph`` on ``feeds`` by ONNX Runtime when it is installed, else by ``onnx.reference``.

    With ``every_tensor`` the result of every node, and then without graph optimisations (which fuse tensors
    away). One thread, so that sums are taken in a repeatable order. What ONNX Runtime lacks (types, operator sets) is
    left to ``onnx.reference``. Raises ModelError when the graph cannot be exported, or when neither can execute it.
    """
    missing = [name for name in graph.inputs if name not in feeds]
    if missing:
        raise UsageError(f"no values for input {', '.join(missing)}")
    model = export_onnx(graph, every_tensor)
    kinds = {name: tensor.dtype for name, tensor in graph.tensors.items()}
    given = {name: stored(contain(np.asarray(feeds[name]), kinds[name]), kinds[name]) for name in graph.inputs}
    values, by = _executed(model, given, every_tensor, graph.name)
    return Reference({name: contain(numbers(value, kinds[name]), kinds[name]) for name, value in values.items()}, by)


def _executed(
    model: ModelProto, given: dict[str, Array], every_tensor: bool, name: str
) -> tuple[dict[str, Array], str]:
    """Results by the first implementation that can, and which it is."""
    reasons = []
    for run in (_onnxruntime, _onnx_reference) if find_spec("onnxruntime") else (_onnx_reference,):
        try:
            with np.errstate(all="ignore"):
                return run(model, given, every_tensor)
        except Exception as error:  # both raise types of their own, RuntimeError, and what NumPy raises within them
            reasons.append(f"{run.__name__.removeprefix('_')}: {_first_line(error)}")
    raise ModelError(f"no reference executes the model ({'; '.join(reasons)})", name)


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def numbers(values: Array, dtype: str) -> Array:
    """Values as numbers: ONNX Runtime gives some formats of 8 bits as their codes."""
    kind = stored(np.zeros((), CONTAINERS[dtype]), dtype).dtype if dtype in CONTAINERS else values.dtype
    coded = values.dtype == np.uint8 and kind.itemsize == 1 and kind.kind not in "iub"
    return values.view(kind).astype(CONTAINERS[dtype]) if coded else values


def compare(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> list[Difference]:
    """Differences of the tensors that both have, in the order of ``theirs``.

    The relative error is max |a - b| / max |b| over the whole tensor; infinite where the shapes differ, where
    only one is not a number, or where b is zero and a is not.
    """
    return [_difference(name, ours[name], value) for name, value in theirs.items() if name in ours]


def _difference(name: str, ours: Array, theirs: Array) -> Difference:
    if ours.shape != theirs.shape:
        return Difference(name, float("inf"), float("inf"))
    if not theirs.size:
        return Difference(name, 0.0, 0.0)
    if theirs.dtype == np.object_:  # texts
        equal = np.array_equal(ours, theirs)
        return Difference(name, 0.0 if equal else float("inf"), 0.0 if equal else float("inf"))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gaps = np.where(same, 0.0, np.abs(a - b))
    gap = float(np.where(np.isnan(gaps), np.inf, gaps).max())
    size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    return Difference(name, gap, gap / size if size else (0.0 if gap == 0.0 else float("inf")))


def _onnxruntime(model: ModelProto, feeds: dict[str, Array], plain: bool) -> tuple[dict[str, Array], str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it cannot do is raised, and told by whoever asked
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # its fused integer ops lack 4-bit and float8
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wire = unsaturated(model).SerializeToString()
    session = onnxruntime.InferenceSession(wire, options, ["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True)), f"onnxruntime {onnxruntime.__version__}"


def _onnx_reference(model: ModelProto, feeds: dict[str, Array], plain: bool) -> tuple[dict[str, Array], str]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model, new_ops=_mended())
    results = [np.asarray(value) for value in evaluator.run(None, feeds)]
    return dict(zip(evaluator.output_names, results, strict=True)), f"onnx.reference {onnx.__version__}"


def _mended() -> list[type[OpRun]]:
    """Ops of ``onnx.reference`` that are wrong there: its GlobalMaxPool reduces the right axes of images only."""
    from onnx.reference.op_run import OpRun

    class GlobalMaxPool(OpRun):
        op_domain = ""

        def _run(self, x: Array) -> tuple[Array]:
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    return [GlobalMaxPool]


SLOTS = {
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
    "QGemm": (2, 3, 5),
    "ConvInteger": (0, 1, 3),
    "MatMulInteger": (0, 1, 3),
}
"""Op -> the inputs that have the format of the first factor, that are the second one, and its zero point."""

SHIFT, LENGTH = 128, 64
"""Difference of unsigned and signed codes; number of products in the sum that is tried."""


@cache
def saturates() -> bool:
    """Return whether ONNX Runtime cuts off sums of unsigned times signed bytes on this processor: it is asked for
    one."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    b = np.full((LENGTH, LENGTH), 127, np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, LENGTH])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, LENGTH])],
        [numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"a": np.full((1, LENGTH), 255, np.uint8)})
    return bool(np.any(y != LENGTH * 255 * 127))


def unsaturated(model: ModelProto) -> ModelProto:
    """The model; signed weights that multiply unsigned codes are made unsigned where sums would be cut off."""
    return unsigned_weights(model) if saturates() else model


def unsigned_weights(model: ModelProto) -> ModelProto:
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
            constants[other] = numpy_helper.from_array((values.astype(np.int16) + SHIFT).astype(np.uint8), other)
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
