"""Small valid ONNX models, of every family of ops and of every part of the file format, for the mutators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Model = onnx.ModelProto
Node = onnx.NodeProto


def node(op: str, inputs: str, outputs: str, domain: str = "", **attrs: Any) -> Node:
    """A node; names of tensors apart by blanks, '_' for an absent one."""
    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, domain=domain, **attrs)


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Seeded standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def info(name: str, dims: Sequence[Any] | None, kind: int = TensorProto.FLOAT) -> Any:
    """Name, type and shape of a graph's input or output."""
    return helper.make_tensor_value_info(name, kind, dims)


def graph(nodes: Sequence[Node], inputs: Sequence[Any], outputs: Sequence[Any], constants: Mapping[str, Any]) -> Any:
    """A GraphProto with its constants as initialisers."""
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), values)


def model(
    nodes: Sequence[Node], inputs: Sequence[Any], outputs: str = "y", opset: int = 17, functions: Sequence[Any] = (),
    domains: Sequence[str] = (), **constants: Any,
) -> Model:  # fmt: skip
    """A model whose outputs (names apart by blanks) are of unstated shape."""
    body = graph(nodes, inputs, [info(name, None) for name in outputs.split()], constants)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(body, opset_imports=opsets, ir_version=8, functions=list(functions))


X = ("x", [1, 2, 6, 6])
INT = TensorProto.INT64


def cnn() -> Model:
    nodes = [
        node("Conv", "x w b", "c", pads=[1] * 4, kernel_shape=[3, 3]),
        node("BatchNormalization", "c s t m v", "n"),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f g h", "y", transB=1),
    ]
    ones = np.ones(4, np.float32)
    return model(nodes, [info(*X)], w=weights(4, 2, 3, 3), b=ones, s=ones, t=ones, m=ones, v=ones,
                 g=weights(5, 36), h=weights(5))  # fmt: skip


def conv1d() -> Model:
    nodes = [
        node("Conv", "x w", "c", strides=[2], auto_pad="SAME_UPPER"),
        node("PRelu", "c a", "r"),
        node("AveragePool", "r", "y", kernel_shape=[2]),
    ]
    return model(nodes, [info("x", [1, 2, 9])], w=weights(3, 2, 3), a=weights(3, 1))


def transposed_conv() -> Model:
    return model([node("ConvTranspose", "x w", "y", strides=[2, 2], output_padding=[1, 1])], [info(*X)],
                 w=weights(2, 3, 3, 3))  # fmt: skip


def attention() -> Model:
    nodes = [
        node("MatMul", "x w", "q"),
        node("Transpose", "q", "t", perm=[0, 2, 1]),
        node("MatMul", "x t", "s"),
        node("Div", "s d", "k"),
        node("Softmax", "k", "p", axis=-1),
        node("MatMul", "p q", "o"),
        node("LayerNormalization", "o g b", "y"),
    ]
    return model(nodes, [info("x", [1, 5, 4])], w=weights(4, 4), d=np.float32(2), g=weights(4), b=weights(4))


def shapes() -> Model:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n", axis=0),
        node("Unsqueeze", "n z", "u"),
        node("Concat", "u m", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Slice", "r st en ax sp", "l"),
        node("Split", "l pa", "a b", axis=1),
        node("Concat", "b a", "y", axis=1),
    ]
    whole = {name: np.array(values, np.int64) for name, values in
             {"z": [0], "m": [-1], "st": [0], "en": [8], "ax": [1], "sp": [2], "pa": [1, 3]}.items()}  # fmt: skip
    return model(nodes, [info("x", [2, 3, 4])], i=np.int64(0), **whole)


def moves() -> Model:
    nodes = [
        node("Pad", "x p", "a", mode="reflect"),
        node("Tile", "a r", "b"),
        node("Expand", "b e", "c"),
        node("Squeeze", "c q", "d"),
        node("DepthToSpace", "d", "f", blocksize=2),
        node("SpaceToDepth", "f", "g", blocksize=2),
        node("Resize", "g _ sc", "y", mode="nearest"),
    ]
    return model(nodes, [info("x", [1, 4, 3, 3])], p=np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
                 r=np.array([1, 1, 1, 2], np.int64), e=np.array([1, 1, 4, 5, 10], np.int64),
                 q=np.array([0], np.int64), sc=np.array([1, 1, 2, 1.5], np.float32))  # fmt: skip


def indices() -> Model:
    nodes = [
        node("Gather", "e i", "a"),
        node("GatherElements", "a j", "b", axis=1),
        node("ScatterElements", "b j2 u", "c", axis=1),
        node("GatherND", "c k", "d"),
        node("ScatterND", "d k2 u2", "f"),
        node("TopK", "f t", "g h"),
        node("OneHot", "h dp ov", "y"),
    ]
    return model(nodes, [info("i", [2, 3], INT)], e=weights(6, 4), j=np.zeros((2, 3, 4), np.int64),
                 j2=np.zeros((2, 1, 4), np.int64), u=weights(2, 1, 4), k=np.array([[0, 1], [1, 2]], np.int64),
                 k2=np.array([[1]], np.int64), u2=weights(1, 4), t=np.array([2], np.int64), dp=np.int64(4),
                 ov=np.array([0, 1], np.float32))  # fmt: skip


def elementwise() -> Model:
    nodes = [
        node("Add", "x w", "a"), node("Mul", "a x", "b"), node("Clip", "b lo hi", "c"), node("Pow", "c two", "d"),
        node("Sqrt", "d", "e"), node("Erf", "e", "f"), node("Greater", "f x", "g"), node("Where", "g f x", "h"),
        node("Cast", "h", "i", to=TensorProto.FLOAT16), node("Cast", "i", "j", to=TensorProto.FLOAT),
        node("Max", "j x w", "k"), node("Sum", "k x", "y"),
    ]  # fmt: skip
    return model(nodes, [info("x", [2, 3, 4])], w=weights(3, 1), lo=np.float32(-1), hi=np.float32(1),
                 two=np.float32(2))  # fmt: skip


def reductions() -> Model:
    nodes = [
        node("ReduceMean", "x", "a", axes=[1], keepdims=1),
        node("ReduceSum", "a ax", "b", keepdims=0),
        node("ArgMax", "x", "c", axis=2),
        node("Cast", "c", "d", to=1),
        node("ReduceL2", "d", "e", axes=[0], keepdims=0),
        node("CumSum", "x ax", "f"),
        node("LogSoftmax", "f", "g"),
        node("GlobalAveragePool", "g", "h"),
        node("Hardmax", "h", "y"),
    ]
    return model(nodes, [info("x", [2, 3, 4])], "y b e", ax=np.array([2], np.int64))


def norms() -> Model:
    nodes = [
        node("InstanceNormalization", "x s s", "a"),
        node("GroupNormalization", "a s s", "b", num_groups=2),
        node("LRN", "b", "c", size=3),
        node("LpNormalization", "c", "d", axis=1),
        node("MeanVarianceNormalization", "d", "y"),
    ]
    return model(nodes, [info(*X)], opset=21, s=np.ones(2, np.float32))


def constants() -> Model:
    nodes = [
        node("Constant", "", "a", value=numpy_helper.from_array(weights(4, 3))),
        node("ConstantOfShape", "sh", "b", value=numpy_helper.from_array(np.array([2], np.float32))),
        node("Range", "r0 r1 r2", "c"),
        node("EyeLike", "a", "d", k=1),
        node("Constant", "", "e", value_floats=[1.0, 2.0, 3.0]),
        node("Constant", "", "f", value_int=3),
        node("Cast", "f", "f2", to=1),
        node("Add", "x a", "g"), node("Add", "g b", "h"), node("Add", "h c", "i"), node("Add", "i d", "j"),
        node("Add", "j e", "k"), node("Mul", "k f2", "y"),
    ]  # fmt: skip
    return model(nodes, [info("x", [4, 3])], sh=np.array([4, 3], np.int64), r0=np.float32(0), r1=np.float32(3),
                 r2=np.float32(1))  # fmt: skip


def quantised() -> Model:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w sw zw", "v", axis=1),
        node("MatMul", "d v", "m"),
        node("QuantizeLinear", "m s z", "o"),
        node("DequantizeLinear", "o s z", "y"),
    ]
    rng = np.random.default_rng(1)
    return model(nodes, [info("x", [3, 8])], s=np.float32(0.05), z=np.int8(0),
                 w=rng.integers(-9, 9, (8, 4)).astype(np.int8), sw=np.full(4, 0.1, np.float32),
                 zw=np.zeros(4, np.int8))  # fmt: skip


def integer_ops() -> Model:
    nodes = [
        node("QLinearMatMul", "a s z w s z s z", "q"),
        node("QLinearConv", "c s z k s z s z", "r"),
        node("MatMulInteger", "q v", "i"),
        node("ConvInteger", "r k", "y"),
        node("DynamicQuantizeLinear", "x", "dq ds dz"),
    ]
    rng = np.random.default_rng(2)
    kind = TensorProto.INT8
    return model(nodes, [info("a", [2, 4], kind), info("c", [1, 2, 5, 5], kind), info("x", [3])], "i y dq ds dz",
                 s=np.float32(0.1), z=np.int8(0), w=rng.integers(-9, 9, (4, 3)).astype(np.int8),
                 v=rng.integers(-9, 9, (3, 2)).astype(np.int8),
                 k=rng.integers(-9, 9, (2, 2, 2, 2)).astype(np.int8))  # fmt: skip


def recurrent() -> Model:
    nodes = [
        node("LSTM", "x w r b", "a b1 c1", hidden_size=3, direction="bidirectional"),
        node("Transpose", "a", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t sh", "f"),
        node("GRU", "f gw gr", "g", hidden_size=3, linear_before_reset=1),
        node("Squeeze", "g one", "s"),
        node("RNN", "s nw nr", "_ y", hidden_size=2),
    ]
    return model(nodes, [info("x", [4, 2, 5])], w=weights(2, 12, 5), r=weights(2, 12, 3), b=weights(2, 24),
                 sh=np.array([4, 2, 6], np.int64), gw=weights(1, 9, 6), gr=weights(1, 9, 3),
                 one=np.array([1], np.int64), nw=weights(1, 2, 3), nr=weights(1, 2, 2))  # fmt: skip


def branch() -> Model:
    yes = graph([node("Add", "x w", "p")], [], [info("p", None)], {})
    no = graph([node("Mul", "x k", "q")], [], [info("q", None)], {"k": weights(3)})
    return model([node("If", "c", "y", then_branch=yes, else_branch=no)], [info("x", [2, 3])], w=weights(3),
                 c=np.array(True))  # fmt: skip


def loop() -> Model:
    body = graph([node("Identity", "go", "going"), node("Add", "v w", "next"), node("Mul", "next next", "out")],
                 [info("n", [], INT), info("go", [], 9), info("v", None)],
                 [info("going", [], 9), info("next", None), info("out", None)], {})  # fmt: skip
    return model([node("Loop", "m c x", "z y", body=body)], [info("x", [2, 3])], "z y", w=weights(3), m=np.int64(3),
                 c=np.array(True))  # fmt: skip


def scan() -> Model:
    body = graph([node("Add", "s e", "t"), node("Identity", "t", "o")], [info("s", [3]), info("e", [3])],
                 [info("t", [3]), info("o", [3])], {})  # fmt: skip
    return model([node("Scan", "i x", "z y", body=body, num_scan_inputs=1)], [info("x", [4, 3])], "z y", i=weights(3))


def functions() -> Model:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    gelu = onnx.FunctionProto(name="Half", domain="own", input=["a"], output=["b"], opset_import=opsets,
                              node=[node("Constant", "", "h", value_float=0.5), node("Mul", "a h", "b")])  # fmt: skip
    twice = onnx.FunctionProto(name="Twice", domain="own", input=["a"], output=["b"], opset_import=opsets,
                               node=[node("Half", "a", "c", "own"), node("Half", "c", "b", "own")])  # fmt: skip
    return model([node("Twice", "x", "t", "own"), node("Half", "t", "y", "own")], [info("x", [2, 3])],
                 functions=[gelu, twice], domains=["own"])  # fmt: skip


def composites() -> Model:
    nodes = [
        node("Einsum", "x w", "a", equation="bij,jk->bik"),
        node("Gelu", "a", "b"),
        node("Mish", "b", "c"),
        node("Celu", "c", "d"),
        node("HardSwish", "d", "e"),
        node("Trilu", "e", "f"),
        node("DFT", "g", "h"),
        node("Unsqueeze", "f ax", "g"),
    ]
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    return model(nodes, [info("x", [2, 3, 4])], "h", opset=20, w=weights(4, 4), ax=np.array([-1], np.int64))


def contrib() -> Model:
    nodes = [
        node("QLinearAdd", "x s z k s z s z", "a", "com.microsoft"),
        node("QGemm", "a s z w s z _ s z", "b", "com.microsoft"),
        node("QLinearConcat", "s z b s z a s z", "c", "com.microsoft", axis=1),
        node("QLinearLeakyRelu", "c s z s z", "y", "com.microsoft", alpha=0.1),
    ]
    rng = np.random.default_rng(3)
    return model(nodes, [info("x", [2, 4], TensorProto.INT8)], domains=["com.microsoft"], s=np.float32(0.1), z=np.int8(0),
                 k=rng.integers(-9, 9, (4,)).astype(np.int8), w=rng.integers(-9, 9, (4, 3)).astype(np.int8))  # fmt: skip


def typed_data() -> Model:
    """Initialisers in the typed fields instead of raw bytes."""
    made = model([node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Gather", "c i", "y")], [info("x", [2, 3])])
    made.graph.initializer.extend([
        helper.make_tensor("w", 1, [3, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        helper.make_tensor("b", 1, [2], [1.0, 2.0]),
        helper.make_tensor("i", 7, [1], [1]),
    ])  # fmt: skip
    return made


def old() -> Model:
    """An operator set in which much is an attribute that is an input today."""
    nodes = [
        node("Reshape", "x sh", "a"), node("Unsqueeze", "a", "b", axes=[0]), node("Squeeze", "b", "c", axes=[0]),
        node("Slice", "c", "d", starts=[0], ends=[2], axes=[1]), node("Pad", "d", "e", pads=[0, 1, 0, 1]),
        node("Clip", "e", "f", min=-1.0, max=1.0), node("Split", "f", "g h", axis=1, split=[2, 2]),
        node("Upsample", "u us", "i"), node("Dropout", "g", "j", ratio=0.5), node("Add", "j h", "y"),
    ]  # fmt: skip
    return model(nodes, [info("x", [4, 3]), info("u", [1, 1, 2, 2])], "y i", opset=9, sh=np.array([3, 4], np.int64),
                 us=np.array([1, 1, 2, 2], np.float32))  # fmt: skip


def strings() -> Model:
    return model([node("Constant", "", "s", value_strings=["a", "b"]), node("Shape", "s", "n"),
                  node("Cast", "n", "f", to=1), node("Mul", "x f", "y")], [info("x", [2])])  # fmt: skip


def matvec() -> Model:
    nodes = [node("MatMul", "x w", "a"), node("Mul", "a k", "b"), node("Softmax", "b", "y")]
    return model(nodes, [info("x", [7, 6])], w=weights(6), k=weights(7))


def sampled() -> Model:
    nodes = [node("AffineGrid", "th si", "g"), node("GridSample", "x g", "s"), node("RoiAlign", "s r ri", "y")]
    return model(nodes, [info(*X)], opset=20, th=weights(1, 2, 3), si=np.array([1, 2, 4, 4], np.int64),
                 r=np.array([[0, 0, 2, 2]], np.float32), ri=np.array([0], np.int64))  # fmt: skip


BUILDERS: tuple[Callable[[], Model], ...] = (
    cnn, conv1d, transposed_conv, attention, shapes, moves, indices, elementwise, reductions, norms, constants, quantised,
    integer_ops, recurrent, branch, loop, scan, functions, composites, contrib, typed_data, old, strings, matvec, sampled,
)  # fmt: skip


@cache
def corpus() -> tuple[Model, ...]:
    """All of them."""
    return tuple(build() for build in BUILDERS)
