"""The comparison with an outside implementation: what counts as how far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.workload.execute import run
from accelsim.workload.onnx import reference
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.onnx_models import feeds_of


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9), st.floats(0, 1, width=32))
def test_relative_error_is_over_the_largest_value(values: list[float], gap: float) -> None:
    theirs = np.array(values, np.float32)
    ours = theirs.astype(np.float64)
    ours[0] += gap
    (row,) = compare({"t": ours}, {"t": theirs})
    assert row.max_abs == pytest.approx(gap, abs=1e-12)
    size = float(np.abs(theirs).max())
    assert row.relative == (pytest.approx(gap / size, rel=1e-6) if size else (0 if gap == 0 else np.inf))


@pytest.mark.parametrize(
    ("ours", "theirs", "relative"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, 2.0], [1.0, np.nan], np.inf),
        ([np.inf], [np.inf], 0.0),
        ([np.inf], [-np.inf], np.inf),
        ([0.0], [0.0], 0.0),
        ([1e-9], [0.0], np.inf),
        ([[1.0]], [1.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_special_values(ours: list[float], theirs: list[float], relative: float) -> None:
    assert compare({"t": np.array(ours)}, {"t": np.array(theirs)})[0].relative == relative


def test_only_common_tensors_in_the_order_of_the_reference() -> None:
    one = np.ones(1)
    assert [row.tensor for row in compare({"a": one, "c": one, "x": one}, {"c": one, "b": one, "a": one})] == ["c", "a"]


def test_both_references_agree_and_say_who_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model("cnn")
    feeds = feeds_of(graph)
    fast = reference_outputs(graph, feeds, every_tensor=True)
    monkeypatch.setattr(reference, "find_spec", lambda name: None)
    slow = reference_outputs(graph, feeds, every_tensor=True)
    assert fast.by.startswith("onnxruntime ") and slow.by.startswith("onnx.reference ")
    assert list(fast.values) == list(slow.values)
    assert max(row.relative for row in compare(fast.values, slow.values)) < 1e-5
    assert max(row.relative for row in compare(run(graph, feeds, keep=True), slow.values)) < 1e-5


def test_missing_feeds_are_named() -> None:
    with pytest.raises(UsageError, match="x"):
        reference_outputs(load_model("mlp"), {})


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_both_reduce_all_axes_of_an_image_of_any_rank(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    b = Builder("pooled")
    graph = b.finish(b.op("GlobalMaxPool", [b.input("x", shape)], "y"))
    feeds = feeds_of(graph)
    for name in ("onnxruntime", ""):
        monkeypatch.setattr(reference, "find_spec", lambda _, found=name: found or None)
        theirs = reference_outputs(graph, feeds)
        assert theirs.by.startswith(name or "onnx.reference ")
        assert compare(run(graph, feeds), theirs.values) == [("y", 0.0, 0.0)]
