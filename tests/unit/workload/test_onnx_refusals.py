"""What the ONNX import refuses, and that it names every problem and where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import accelsim
from accelsim.errors import ModelError, UsageError
from accelsim.workload.onnx.importing.importer import build
from accelsim.workload.onnx.importing.read import raw_model
from accelsim.workload.sources.load import load_model
from tests.helpers.onnx_models import FLOAT, import_proto, model, node

X = {"x": (2, 3, 4)}


def test_dynamic_dimensions_are_named_all_at_once() -> None:
    proto = model([node("Add", ["x", "z"], ["y"])], {"x": ("n", 3, None), "z": (1, 3, "w")}, ["y"])
    with pytest.raises(ModelError) as caught:
        import_proto(proto)
    text = str(caught.value)
    assert "'x' has shape [n, 3, ?]" in text and "'z' has shape [1, 3, w]" in text and "--shape x=" in text


def test_a_symbol_bound_once_is_bound_everywhere() -> None:
    proto = model([node("Add", ["x", "z"], ["y"])], {"x": ("n", "w"), "z": (1, "w")}, ["y"])
    graph = import_proto(proto, shapes={"x": (2, 7)})
    assert graph.tensors["z"].shape == (1, 7) and graph.tensors["y"].shape == (2, 7)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shapes": {"xx": (2, 3, 4)}}, "did you mean 'x'"),
        ({"shapes": {"x": (2, 3)}}, "3 dimensions"),
        ({"shapes": {"x": (2, 0, 4)}}, "positive"),
        ({"shapes": {"x": (2, 3, 5)}}, "n_y"),
    ],
)
def test_bad_shapes(options: dict[str, Any], text: str) -> None:
    proto = model([node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones((4, 5), np.float32)})
    with pytest.raises(ModelError, match=text):
        import_proto(proto, **options)


@pytest.mark.parametrize("opset", [29, 99])
def test_operator_sets_outside_the_range(opset: int) -> None:
    with pytest.raises(ModelError, match=f"operator set {opset}; expected 1 to 28"):
        import_proto(model([node("Relu", ["x"], ["y"])], X, ["y"], opset=opset))


@pytest.mark.parametrize("opset", range(1, 29))
def test_every_operator_set_in_the_range(opset: int) -> None:
    op = "Relu" if opset >= 6 else "Transpose"  # the oldest form of Relu is another one
    graph = import_proto(model([node(op, ["x"], ["y"])], X, ["y"], opset=opset))
    assert graph.opset == opset and graph.nodes[0].op == op


def test_missing_makers_and_wrong_order() -> None:
    with pytest.raises(ModelError, match="n_y: Relu reads 'a', which nothing before it makes"):
        import_proto(model([node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])], X, ["y"]))
    with pytest.raises(ModelError, match="output 'q' is made by no node"):
        import_proto(model([node("Relu", ["x"], ["y"])], X, ["y", "q"]))


def test_unknown_element_types_are_named() -> None:
    proto = model([node("Relu", ["x"], ["y"])], X, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.COMPLEX64
    with pytest.raises(ModelError, match="tensor 'x' has ONNX element type 14"):
        import_proto(proto)


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x07"])
def test_files_that_are_not_models(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"net\.onnx"):
        load_model(path)


def test_truncated_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    whole = model(
        [node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones((4, 50), np.float32)}
    ).SerializeToString()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"net\.onnx.*(truncated|not an ONNX)"):
        load_model(path)
    with pytest.raises(ModelError, match=r"gone\.onnx: no such file"):
        load_model(tmp_path / "gone.onnx")


def external(tmp_path: Path) -> Path:
    proto = model(
        [node("MatMul", ["x", "w"], ["y"])], X, ["y"], {"w": np.arange(400, dtype=np.float32).reshape(4, 100)}
    )
    path = tmp_path / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.bin", size_threshold=0)
    return path


def test_external_data(tmp_path: Path) -> None:
    graph = load_model(external(tmp_path))
    assert graph.tensors["w"].data is None
    assert np.array_equal(graph.tensors["w"].value(), np.arange(400, dtype=np.float32).reshape(4, 100))


def without_data(tmp_path: Path, kind: str, dtype: int = FLOAT) -> Path:
    """y = x w, where the file states format and shape of w and nothing more; 'stored' has values."""
    w = onnx.TensorProto(name="w", data_type=dtype, dims=[4, 5])
    if kind == "external":
        w.data_location = onnx.TensorProto.EXTERNAL
        w.external_data.add(key="location", value="gone.bin")
    elif kind == "stored":
        w = numpy_helper.from_array(np.ones((4, 5), np.float32), "w")
    proto = model([node("MatMul", ["x", "w"], ["y"])], X, ["y"])
    proto.graph.initializer.append(w)
    path = tmp_path / f"{kind}.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("kind", ["external", "empty"])
def test_weights_without_data_are_drawn_where_their_values_do_not_matter(kind: str, tmp_path: Path) -> None:
    path = without_data(tmp_path, kind)
    with pytest.raises(ModelError, match="or --values off or --weights random:SEED"):
        load_model(path)
    run = accelsim.run(path, on="edu-4x4", values="off")
    note = "weights: 1 of 1 initialiser has no data in the file; drawn (seed {})"
    assert run.program.notes[0] == note.format(0)
    drawn, stored = (load_model(each, weights="random:3") for each in (path, without_data(tmp_path, "stored")))
    assert drawn.notes == [note.format(3)] and stored.notes == []
    np.testing.assert_array_equal(drawn.tensors["w"].value(), stored.tensors["w"].value())


def test_shapes_and_indices_without_data_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"type int64 has 0 entries in int64_data; expected 20$"):
        load_model(without_data(tmp_path, "empty", onnx.TensorProto.INT64), data=False)


@pytest.mark.parametrize(("kernel", "stride"), [(2**30, 1), (3, 2**30)])
def test_a_transposed_convolution_of_more_places_than_any_has(kernel: int, stride: int) -> None:
    """Weights without data may state any size."""
    proto = model([node("ConvTranspose", ["x", "w"], ["y"], strides=[stride])], {"x": (1, 1, 4)}, ["y"])
    proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[1, 1, kernel])
    with pytest.raises(ModelError, match="65,536 at the most"):
        build(raw_model(proto, Path("m"), 0), None, {})


def test_external_data_missing_truncated_or_elsewhere(tmp_path: Path) -> None:
    path = external(tmp_path)
    data = tmp_path / "net.bin"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ModelError, match="'w' is truncated"):
        load_model(path)
    data.unlink()
    with pytest.raises(ModelError, match=r"net\.onnx: external data of 'w' is missing"):
        load_model(path)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = "../net.bin"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="a file beside the model"):
        load_model(path)


def test_random_weights_on_a_file(tmp_path: Path) -> None:
    path = external(tmp_path)
    graph = load_model(path, weights="random:4", batch=5)
    assert graph.values_from == "random:4" and graph.tensors["y"].shape == (5, 3, 100)
    assert graph.tensors["w"].value().std() == pytest.approx(np.sqrt(2 / 4), rel=0.15)


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        ("resnet5", {}, ModelError, "did you mean 'resnet50'"),
        ("mpl", {}, ModelError, "mlp"),
        ("mlp?hidden=x", {}, UsageError, "hidden=x"),
        ("mlp?hiden=3", {}, UsageError, "did you mean 'hidden'"),
        ("mlp", {"params": {"hidden": 0}}, UsageError, "1 to 2,147,483,647"),
        ("mlp", {"shapes": {"x": (1, 2)}}, UsageError, "shapes for x"),
        ("mlp", {"batch": 0}, UsageError, "batch 0"),
        ("resnet50", {"params": {"layers": 3}}, UsageError, "no parameter 'layers'"),
        ("/", {}, ModelError, "not a file"),
    ],
)
def test_bad_names_and_options(name: str, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        load_model(name, **options)


def test_unknown_ops_are_named_all_at_once() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Bogus", ["a"], ["b"]),
        helper.make_node("FusedThing", ["b"], ["c"], name="fused", domain="com.vendor"),
        node("RandomNormalLike", ["c"], ["y"]),
    ]
    proto = model(nodes, X, ["y"])
    proto.opset_import.append(helper.make_opsetid("com.vendor", 1))
    with pytest.raises(ModelError) as caught:
        import_proto(proto)
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert "n_b: no kernel knows op 'Bogus'" in text and "opset 17" in text
    assert "fused: no kernel knows op 'FusedThing' (domain 'com.vendor', opset 1)" in text
    assert "RandomNormalLike" in text and "other values in every run" in text


def test_control_flow_is_refused_by_name() -> None:
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "then", [],
                             [helper.make_tensor_value_info("r", FLOAT, None)])  # fmt: skip
    made = helper.make_node("If", ["c"], ["y"], name="branch", then_branch=body, else_branch=body)
    with pytest.raises(ModelError, match=r"branch: what If does depends on values that only a run makes"):
        import_proto(model([node("IsNaN", ["s"], ["c"]), made], {"x": (3,), "s": ()}, ["y"]))


def test_a_shape_that_depends_on_values_is_refused() -> None:
    with pytest.raises(ModelError, match="'y', made by NonZero, depends on values"):
        import_proto(model([node("NonZero", ["x"], ["y"])], X, ["y"]))


def test_an_op_younger_than_the_operator_set_is_unknown() -> None:
    proto = model([node("Einsum", ["x"], ["y"], equation="abc->a")], X, ["y"], opset=11)
    with pytest.raises(ModelError, match="n_y: no kernel knows op 'Einsum'"):
        import_proto(proto)
