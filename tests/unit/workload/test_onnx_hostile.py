"""ONNX files that lie, contradict themselves, or ask for more than any machine has: one clear error each, at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accelsim.errors import AccelsimError, ModelError
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops import get
from accelsim.workload.sources.load import load_model
from tests.helpers.effort import at_once
from tests.helpers.onnx_models import FLOAT, model, node

X = {"x": (2, 3)}
W = np.arange(12, dtype=np.float32).reshape(3, 4)


def product(**changes: Any) -> onnx.ModelProto:
    """y = x W, with fields of the initialiser changed."""
    proto = model([node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": W})
    tensor = proto.graph.initializer[0]
    for name, value in changes.items():
        if isinstance(value, list):
            del getattr(tensor, name)[:]
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return proto


def refused(proto: onnx.ModelProto, folder: Path) -> str:
    """Return what the loader says; it says it with little work, and names the file."""
    path = folder / "bad.onnx"
    path.write_bytes(proto.SerializeToString())
    with at_once(), pytest.raises(AccelsimError) as caught:
        load_model(path)
    assert all(problem.where.startswith(str(path)) for problem in caught.value.problems), caught.value
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"raw_data": bytes(20)}, r"'w' of shape \[3, 4\] and type fp32 has 20 B of data; expected 48 B"),
        ({"raw_data": bytes(47)}, "47 B of data; expected 48 B"),
        ({"raw_data": bytes(200)}, "200 B of data; expected 48 B"),
        ({"dims": [3, 400]}, "48 B of data; expected 4,800 B"),
        ({"dims": [10**6, 10**6]}, "expected 4,000,000,000,000 B"),
        ({"dims": [2**62, 4]}, "expected 73,786,976,294,838,206,464 B"),
        ({"dims": [-3, -4]}, r"dimensions \[-3, -4\]; expected sizes from 0"),
        ({"dims": [1] * 65}, "65 dimensions; expected 64 at the most"),
        ({"data_type": 999}, "ONNX element type 999"),
        ({"data_type": 8}, "texts as raw bytes"),
        ({"data_type": 22}, "expected 6 B"),
    ],
)  # fmt: skip
def test_data_that_are_not_what_the_dimensions_say(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=text):
        raise ModelError(refused(product(**changes), tmp_path))


def test_typed_data_and_segments(tmp_path: Path) -> None:
    proto = product()
    proto.graph.initializer[0].ClearField("raw_data")
    assert "0 entries in float_data; expected 12" in refused(proto, tmp_path)
    proto.graph.initializer[0].float_data.extend(range(12))
    proto.graph.initializer[0].segment.begin = 3
    assert "stored in segments" in refused(proto, tmp_path)


def test_an_attribute_that_lies(tmp_path: Path) -> None:
    value = numpy_helper.from_array(W, "v")
    value.dims[0] = 5
    proto = model([node("Constant", [], ["w"], value=value), node("MatMul", ["x", "w"], ["y"])], X, ["y"])
    assert "n_w: tensor of attribute 'value' of shape [5, 4] and type fp32 has 48 B" in refused(proto, tmp_path)


def external(tensor: Any, **entries: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"location": "w.bin", "offset": "abc"}, "has offset 'abc'; expected a number of bytes"),
        ({"location": "w.bin", "offset": "-4"}, "has offset '-4'"),
        ({"location": "w.bin", "offset": "9" * 30}, "has offset '999"),
        ({"location": "w.bin", "length": "1.5"}, "has length '1.5'"),
        ({"location": "w.bin", "length": "47"}, "has 47 B; expected 48 B for"),
        ({"location": "w.bin", "offset": "4"}, "truncated: w.bin has 48 B; expected 52 B"),
        ({"location": "w.bin", "offset": "1" + "0" * 16}, "truncated"),
        ({"location": "../bad/w.bin"}, "expected a file beside the model"),
        ({"location": "/etc/passwd"}, "expected a file beside the model"),
        ({"location": "out.bin"}, "expected a file beside the model"),
        ({"location": "w.bin\0"}, "expected a file beside the model"),
        ({"location": "n" * 5000}, "is missing; expected a file"),
        ({"location": "."}, "is missing"),
        ({"location": ""}, "expected a file beside the model"),
        ({"location": "no.bin"}, "is missing; expected a file"),
    ],
)
@pytest.mark.parametrize("place", ["initialiser", "attribute", "subgraph"])
@pytest.mark.parametrize("here", [False, True])
def test_external_data_that_lie(
    entries: dict[str, str], text: str, place: str, here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever holds them, and also where the folder of the model is the working directory, named '.'."""
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "w.bin").write_bytes(bytes(48))
    (tmp_path / "out.bin").write_bytes(bytes(48))
    (folder / "out.bin").symlink_to(tmp_path / "out.bin")
    monkeypatch.chdir(folder)
    said = refused(HOLDERS[place](entries), Path() if here else folder)
    assert text in said.replace("\\", "")


def in_initialiser(entries: dict[str, str]) -> onnx.ModelProto:
    proto = product()
    external(proto.graph.initializer[0], **entries)
    return proto


def in_attribute(entries: dict[str, str]) -> onnx.ModelProto:
    value = numpy_helper.from_array(W, "v")
    external(value, **entries)
    return model([node("Constant", [], ["w"], value=value), node("MatMul", ["x", "w"], ["y"])], X, ["y"])


def in_subgraph(entries: dict[str, str]) -> onnx.ModelProto:
    tensor = numpy_helper.from_array(W, "w")
    external(tensor, **entries)
    yes = helper.make_graph([node("MatMul", ["x", "w"], ["p"])], "yes", [], [info("p", None)], [tensor])
    no = helper.make_graph([node("Identity", ["x"], ["q"])], "no", [], [info("q", None)])
    return model([node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], X, ["y"], {"c": np.array(True)})


def info(name: str, dims: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


HOLDERS: dict[str, Callable[[dict[str, str]], onnx.ModelProto]] = {
    "initialiser": in_initialiser, "attribute": in_attribute, "subgraph": in_subgraph,
}  # fmt: skip


@pytest.mark.parametrize("place", HOLDERS)
def test_external_data_beside_the_model_are_read_from_anywhere(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that ONNX does not define are nobody's business: no warning."""
    folder = tmp_path / "net"
    folder.mkdir()
    (folder / "w.bin").write_bytes(b"junk" + W.tobytes())
    proto = HOLDERS[place]({"location": "w.bin", "offset": "4", "length": "48", "unheard": "of"})
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    monkeypatch.chdir(tmp_path)
    graph = load_model("net/net.onnx")
    (weight,) = [tensor for tensor in graph.constants() if tensor.shape == (3, 4)]
    assert np.array_equal(weight.value(), W)


def relu(*nodes: Any, outputs: tuple[str, ...] = ("y",), **more: Any) -> onnx.ModelProto:
    return model(list(nodes), more.pop("inputs", X), list(outputs), **more)


def nested(depth: int, steps: int) -> onnx.ModelProto:
    """Loops in Loops: steps ** depth sums."""
    kinds = [info("n", [], 7), info("go", [], 9), info("v", None)]
    graph: Any = None
    for level in range(depth):
        inner = [node("Identity", ["go"], ["on"])]
        if graph is None:
            inner.append(node("Add", ["v", "v"], ["r"]))
        else:
            inner.append(node("Loop", ["m", "yes", "v"], ["r"], body=graph))
        graph = helper.make_graph(inner, f"level{level}", kinds, [info("on", [], 9), info("r", None)])
    loop = node("Loop", ["m", "yes", "x"], ["y"], body=graph)
    return relu(loop, constants={"m": np.int64(steps), "yes": np.array(True)})


def laughs(depth: int, circle: bool = False) -> onnx.ModelProto:
    """Functions that call the one before twice: 2 ** depth nodes."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(depth):
        op = f"F{level - 1}" if level else (f"F{depth - 1}" if circle else "Relu")
        domain = "own" if level or circle else ""
        nodes = [helper.make_node(op, ["a"], ["b"], domain=domain), helper.make_node(op, ["b"], ["c"], domain=domain)]
        functions.append(helper.make_function("own", f"F{level}", ["a"], ["c"], nodes, opsets))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")
    proto = relu(call, functions=functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def called_wrongly() -> onnx.ModelProto:
    proto = laughs(2)
    proto.graph.node[0].input.extend(["x", "x"])
    return proto


def scanned(count: int) -> onnx.ModelProto:
    body = helper.make_graph([node("Identity", ["a"], ["b"])], "body", [info("a", [3])], [info("b", [3])])
    return relu(helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=count))


def stated(dims: list[int], kind: int = FLOAT) -> onnx.ModelProto:
    proto = relu(node("Relu", ["x"], ["y"]))
    proto.graph.output[0].CopyFrom(info("y", dims, kind))
    return proto


def twice(field: str) -> onnx.ModelProto:
    proto = product()
    entries = getattr(proto.graph, field)
    entries.add().CopyFrom(entries[0])
    return proto


def versioned(version: int) -> onnx.ModelProto:
    proto = relu(node("Relu", ["x"], ["y"]))
    proto.opset_import.append(helper.make_opsetid("own", version))
    return proto


def with_attribute(op: str, **attrs: Any) -> onnx.ModelProto:
    return relu(node(op, ["x"], ["y"], **attrs))


def index(*values: int) -> dict[str, Any]:
    return {"i": np.array(values, np.int64)}


REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "no attribute": (with_attribute("DepthToSpace"), "DepthToSpace lacks the attribute 'blocksize'"),
    "wrong type": (with_attribute("Softmax", axis=1.5), "'axis' of Softmax is a float; expected an integer"),
    "wrong list": (with_attribute("Transpose", perm="10"), "'perm' of Transpose is a text; expected integers"),
    "too few inputs": (relu(node("MatMul", ["x"], ["y"])), "MatMul has 1 inputs; expected 2"),
    "too many inputs": (relu(node("Relu", ["x", "x"], ["y"])), "Relu has 2 inputs; expected 1"),
    "too many outputs": (relu(node("Relu", ["x"], ["y", "z"])), "Relu has 2 outputs; expected 1"),
    "absent input": (relu(node("MatMul", ["", "x"], ["y"])), "input 0 of MatMul is absent"),
    "text": (relu(node("Add", ["x", "t"], ["y"]), constants={"t": np.array(["a"], object)}), "'t' of string"),
    "two formats": (relu(node("Add", ["x", "i"], ["y"]), constants=index(1)), "'i' of int64 beside one of fp32"),
    "index": (relu(node("Gather", ["x", "i"], ["y"]), constants=index(7)), "indices from 7 to 7; expected -2 to 1"),
    "far index": (relu(node("Gather", ["x", "i"], ["y"]), constants=index(2**62)), "expected -2 to 1"),
    "axis": (with_attribute("Softmax", axis=2), "axis 2 is none of 2 axes"),
    "axis below": (with_attribute("Softmax", axis=-3), "axis -3 is none of 2 axes"),
    "repeated axes": (with_attribute("ReduceMean", axes=[1, -1]), "name one axis twice"),
    "perm": (with_attribute("Transpose", perm=[0, 0]), "perm [0, 0] of [2, 3]; expected each axis once"),
    "auto_pad": (
        relu(node("Conv", ["x", "w"], ["y"], auto_pad="SOME"), inputs={"x": (1, 1, 4)},
             constants={"w": np.ones((1, 1, 2), np.float32)}), "auto_pad 'SOME' is none of NOTSET",
    ),
    "kernel below 1": (
        relu(node("AveragePool", ["x"], ["y"], kernel_shape=[3, -1], auto_pad="SAME_LOWER"), inputs={"x": (1, 1, 4, 4)}),
        "kernel [3, -1], strides [1, 1], dilations [1, 1] are not 1 or more each",
    ),
    "bias of two for one channel": (
        relu(node("Conv", ["x", "w", "s"], ["y"]), inputs={"x": (1, 1, 4)},
             constants={"w": np.ones((1, 1, 2), np.float32), "s": np.ones(2, np.float32)}),
        "a bias of shape [2]; expected [1]",
    ),
    "pads below 0": (
        relu(node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[-1, 0]), inputs={"x": (1, 1, 4)}), "pads [-1, 0]"
    ),
    "scale of 3 for 2 channels": (
        relu(node("InstanceNormalization", ["x", "s", "s"], ["y"]), inputs={"x": (1, 2, 4)},
             constants={"s": np.ones(3, np.float32)}), "a parameter of shape [3]; expected [2]",
    ),
    "five groups of four channels": (
        relu(node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=5), inputs={"x": (1, 4, 4)}, opset=21,
             constants={"s": np.ones(4, np.float32)}), "5 groups of 4 channels",
    ),
    "scale of other rows": (
        relu(node("LayerNormalization", ["x", "s"], ["y"]), constants={"s": np.ones(4, np.float32)}),
        "a parameter of shape [4]; expected [3]",
    ),
    "no rows": (
        relu(node("MatMul", ["x", "w"], ["y"]), inputs={"x": (0, 3)}, constants={"w": W}),
        "1 x 0 x 4 x 3 multiply-accumulates",
    ),
    "nothing to sum": (
        relu(node("MatMul", ["x", "w"], ["y"]), inputs={"x": (2, 0)}, constants={"w": W[:0]}),
        "1 x 2 x 4 x 0 multiply-accumulates",
    ),
    "65 dimensions": (relu(node("Relu", ["x"], ["y"]), inputs={"x": (1,) * 65}), "65 dimensions"),
    "two makers": (
        relu(node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"], "second")),
        "second: Neg makes 'y', which n_y makes too",
    ),
    "made input": (relu(node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])), "makes 'x', which is an input"),
    "made constant": (
        relu(node("Relu", ["x"], ["i"]), node("Neg", ["x"], ["y"]), constants=index(1)), "makes 'i', which is an input"
    ),
    "input twice": (twice("input"), "input 'x' is there twice"),
    "initialiser twice": (twice("initializer"), "initialiser 'w' is there twice"),
    "stated shape": (stated([7, 7]), "output 'y' is stated as [7, 7]; expected [2, 3]"),
    "stated rank": (stated([2]), "output 'y' is stated as [2]; expected [2, 3]"),
    "stated type": (stated([2, 3], TensorProto.INT64), "output 'y' is stated as int64; expected fp32"),
    "domain": (versioned(2**40), "operator set 1099511627776 of domain 'own'; expected a version from 1"),
    "unknown form": (
        relu(node("LpNormalization", ["x"], ["y"], p=33)), "no kernel knows this form of op 'ReduceL33'"
    ),
    "circle": (laughs(3, circle=True), "a function calls itself: F0 -> F2 -> F1 -> F0"),
    "itself": (laughs(1, circle=True), "a function calls itself: F0 -> F0"),
    "call": (called_wrongly(), "a call of F1 with 3 inputs; expected 1 at the most"),
    "laughs": (laughs(30), "1,073,741,824 nodes once its functions are put in place of their calls; expected 65,536"),
    "loops": (nested(2, 1000), "expected 65,536 at the most"),
    "deep loops": (nested(8, 10), "expected 65,536 at the most"),
    "scan inputs": (scanned(2_000_000_000), "num_scan_inputs 2000000000 of 1 inputs"),
    "endless range": (
        relu(node("Range", ["a", "b", "a"], ["r"]), node("Mul", ["x", "r"], ["y"]),
             constants={"a": np.float32(1), "b": np.float32(np.inf)}), "Range from 1.0 to inf by 1.0",
    ),
    "still range": (
        relu(node("Range", ["a", "a", "a"], ["r"]), node("Mul", ["x", "r"], ["y"]),
             constants={"a": np.float32(0)}), "Range from 0.0 to 0.0 by 0.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_contradict_themselves_or_the_definition_of_an_op(name: str, tmp_path: Path) -> None:
    proto, text = REFUSED[name]
    assert text in refused(proto, tmp_path)


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    proto = product(raw_data=b"123")
    proto.graph.node.append(node("Softmax", ["y"], ["z"], axis=0.5))
    proto.graph.node.append(node("MatMul", ["y"], ["q"]))
    proto.graph.initializer.add(name="v", data_type=77)
    said = refused(proto, tmp_path)
    assert all(text in said for text in ("3 B of data", "type 77", "'axis' of Softmax", "MatMul has 1 inputs"))
    assert len(said.splitlines()) == 4


LARGE: dict[str, onnx.ModelProto] = {
    "range": relu(node("Range", ["a", "b", "a"], ["r"]), node("Gather", ["r", "i"], ["y"]), outputs=("y",),
                  constants={"a": np.float32(1), "b": np.float32(2**34), **index(0)}),
    "zeros": relu(node("ConstantOfShape", ["i"], ["y"]), constants=index(2**30, 8)),
    "expand": relu(node("Expand", ["w", "i"], ["y"]), constants={"w": W[:1], **index(2**30, 4)}),
    "tile": relu(node("Tile", ["w", "i"], ["y"]), constants={"w": W, **index(2**15, 2**15)}),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_constants_are_refused_when_they_are_made_and_not_before(name: str) -> None:
    """Time and energy of a run need no values: the import only notes how they would be made."""
    from tests.helpers.onnx_models import import_proto

    with at_once():
        graph = import_proto(LARGE[name])
        with pytest.raises(AccelsimError, match=r"takes about .* the limit of 16 GiB"):
            graph.tensors[graph.outputs[0]].value()


def test_constants_behind_each_other_are_made_once_each() -> None:
    """c1 = c0 + c0, c2 = c1 + c1, ...: 2 ** 40 sums if each input were made anew."""
    from tests.helpers.onnx_models import import_proto

    names = [f"c{index}" for index in range(41)]
    sums = [node("Add", [name, name], [after]) for name, after in itertools.pairwise(names)]
    proto = relu(*sums, outputs=("c40",), constants={"c0": np.ones(2000, np.float32)})
    assert np.array_equal(import_proto(proto).tensors["c40"].value(), np.full(2000, 2.0**40, np.float32))


def test_a_long_chain_of_constants_needs_no_recursion() -> None:
    from tests.helpers.onnx_models import import_proto

    names = [f"c{index}" for index in range(3001)]
    chain = [node("Neg", [name], [after]) for name, after in itertools.pairwise(names)]
    proto = relu(*chain, outputs=("c3000",), constants={"c0": np.ones(1100, np.float32)})
    assert np.array_equal(import_proto(proto).tensors["c3000"].value(), np.ones(1100, np.float32))


@pytest.mark.parametrize(
    ("old", "told"),
    [(b"MatMul", r"NodeProto.op_type b'\xffatMul' is no text; expected UTF-8"),
     (b"inner", r"NodeProto.input b'\xffnner' is no text")],
)  # fmt: skip
def test_texts_that_are_no_utf8(tmp_path: Path, old: bytes, told: str) -> None:
    proto = model([node("Relu", ["x"], ["inner"]), node("MatMul", ["inner", "w"], ["y"])], X, ["y"], {"w": W})
    broken = proto.SerializeToString().replace(old, b"\xff" + old[1:])
    path = tmp_path / "bad.onnx"
    path.write_bytes(broken)
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert told in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("op", ["Add", "Pow", "Mod", "Less", "BitwiseXor", "PRelu"])
def test_a_pair_of_one(op: str, tmp_path: Path) -> None:
    """Also of an op that the stated operator set does not have, so that no schema says how many inputs it takes."""
    proto = model([node(op, ["x"], ["y"])], X, ["y"], {})
    for version in (1, proto.opset_import[0].version):
        proto.opset_import[0].version = version
        assert "y" in refused(proto, tmp_path)


def test_nothing_to_choose_from(tmp_path: Path) -> None:
    for op in ("ArgMax", "ArgMin"):
        proto = model([node(op, ["x"], ["y"], axis=0)], {"x": (0, 2)}, ["y"], {})
        assert "axis 0 of [0, 2]; expected elements to choose from" in refused(proto, tmp_path)


@pytest.mark.parametrize("directions", [2, 2**62])
def test_more_directions_than_a_recurrent_layer_has(tmp_path: Path, directions: int) -> None:
    recurrent = [node("RNN", ["x", "w", "r"], ["y"], hidden_size=4)]
    shapes = {"x": (5, 1, 3), "w": (directions, 4, 3), "r": (directions, 4, 4)}
    told = f"RNN with weights of {directions} directions; expected 1"
    assert told in refused(model(recurrent, shapes, ["y"], {}), tmp_path)


def test_an_attribute_without_a_type(tmp_path: Path) -> None:
    proto = model([node("Clip", ["x"], ["y"], strides=[2, 2])], X, ["y"], {})
    proto.graph.node[0].attribute[0].type = 0
    assert "attribute 'strides' has no type" in refused(proto, tmp_path)


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
def test_bits_of_real_numbers(op: str) -> None:
    """Told by the op itself: in a loop of an older operator set no schema says what it takes."""
    inputs = [Tensor(name, (2, 3), "fp32") for name in ("a", "b")]
    with pytest.raises(ModelError, match=f"{op} of fp32; expected integers"):
        get(op).infer(Node("n", op, ["a", "b"], ["y"]), inputs[: 1 + (op != "BitwiseNot")])


def test_an_equation_that_is_none(tmp_path: Path) -> None:
    """The inference of ONNX does not come back from this one."""
    proto = model([node("Einsum", ["x", "w"], ["y"], equation='"j"ij,jkj"ij,jk->bikbik>bik')], X, ["y"], {"w": W})
    assert "expected letters as in 'ij,jk->ik'" in refused(proto, tmp_path)
