"""Conversions of libraries, bit for bit: every column of the golden files, and the libraries that are here."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.formats.table import get
from accelsim.types import Array
from tests.validation import cast_policies as policies

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics"
COLUMNS = {
    "ml_dtypes_bits": ["ml_dtypes"],
    "torch_bits": ["torch"],
    "ort_bits": ["ort-saturate1", "ort-saturate0"],
    "ort_saturate1_bits": ["ort-saturate1"],
    "ort_saturate0_bits": ["ort-saturate0"],
    "rne_bits": ["tf32 rne"],
    "rna_bits": ["tf32 rna"],
    "rz_bits": ["tf32 rz"],
}


def golden() -> list[tuple[str, str, str]]:
    found = []
    for path in sorted(GOLDEN.glob("cast_*.npz")):
        columns = [key for key in np.load(path).files if key not in ("x_bits", "decoded_all_f32_bits")]
        found += [(path.stem.removeprefix("cast_"), key, policy) for key in columns for policy in COLUMNS[key]]
    return found


def inputs() -> Array:
    """All inputs of the golden files, and NaNs with payloads."""
    known = [np.load(path)["x_bits"] for path in sorted(GOLDEN.glob("cast_*.npz"))]
    nans = [0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FFFFFFF, 0x7FC02000, 0xFF800001, 0xFFC00000, 0xFF802000]
    return np.concatenate([*known, np.array(nans, np.uint32)]).view(np.float32)


@pytest.mark.parametrize(("name", "column", "policy"), golden())
def test_golden(name: str, column: str, policy: str) -> None:
    file = np.load(GOLDEN / f"cast_{name}.npz")
    codes = policies.encode(file["x_bits"].view(np.float32), name, policy)
    assert np.count_nonzero(codes != file[column]) == 0
    assert codes.dtype == get(name).code_type


def test_every_column_is_covered() -> None:
    assert len(golden()) == 24
    assert {policy for _, _, policy in golden()} == set(policies.POLICIES)


@pytest.mark.parametrize("name", policies.POLICIES["ml_dtypes"])
def test_ml_dtypes_itself(name: str) -> None:
    x = inputs()
    theirs = {"fp16": "float16", "bf16": "bfloat16", "e8m0": "float8_e8m0fnu"}.get(name, name.replace("fp", "float"))
    with np.errstate(all="ignore"):
        want = x.astype(getattr(ml_dtypes, theirs, theirs)).view(get(name).code_type)
    np.testing.assert_array_equal(policies.encode(x, name, "ml_dtypes"), want)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", policies.POLICIES["ort-saturate1"])
def test_onnxruntime_itself(name: str, saturate: int) -> None:
    x = inputs()
    np.testing.assert_array_equal(policies.encode(x, name, f"ort-saturate{saturate}"), ort_cast(x, name, saturate))


def ort_cast(x: Array, name: str, saturate: int) -> Array:
    ort, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    helper = onnx.helper
    names = {"fp16": "FLOAT16", "bf16": "BFLOAT16"}
    kind = getattr(onnx.TensorProto, names.get(name, name.replace("fp", "float").replace("_", "").upper()))
    attributes = {"saturate": saturate} if "fp8" in name else {}
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=kind, **attributes)]
    values = [helper.make_tensor_value_info(*each) for each in (("x", 1, [x.size]), ("y", kind, [x.size]))]
    graph = helper.make_graph(nodes, "cast", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(x)})[0]
    import ctypes

    size = x.size * np.dtype(get(name).code_type).itemsize
    return np.frombuffer(bytes((ctypes.c_uint8 * size).from_address(found.data_ptr())), get(name).code_type)


def test_sources_differ_where_the_table_says() -> None:
    x = np.array([464.5, 485, 1e9, np.inf], np.float32)
    codes = {policy: policies.encode(x, "fp8", policy).tolist() for policy in ("ml_dtypes", "torch", "ort-saturate0")}
    assert codes == {"ml_dtypes": [127] * 4, "torch": [126] * 4, "ort-saturate0": [127, 126, 127, 127]}
    assert np.isnan(policies.cast(x, "fp8", "ml_dtypes")).all()


def test_shape_is_kept() -> None:
    assert policies.encode(np.ones((2, 3), np.float32), "fp16", "torch").shape == (2, 3)
    assert policies.encode(np.float32("nan"), "bf16", "torch") == 0xFFFF


@pytest.mark.parametrize(("name", "policy", "said"), [("fp8", "pytorch", "torch"), ("fp4", "torch", "one of ml_dtypes"),
                                                      ("int8", "torch", "codec")])  # fmt: skip
def test_errors(name: str, policy: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        policies.encode([1.0], name, policy)
