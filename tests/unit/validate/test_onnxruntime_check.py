"""The check against ONNX Runtime: passes on real networks, and fails when a kernel is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.workload.ops import REGISTRY, base
from accelsim.workload.sources.load import load_model
from tests.validation import onnxruntime_check
from tests.validation.base import CHECKS
from tests.validation.onnxruntime_check import TOLERANCE, normal_feeds, onnxruntime

pytest.importorskip("onnxruntime")


def test_small_real_networks_agree_at_every_tensor() -> None:
    result = onnxruntime(["squeezenet", "shufflenet"])
    assert result.rows == result.equal == len(result.errors) > 250
    assert result.max < TOLERANCE / 10
    assert any("squeezenet" in line for line in result.details) and "onnxruntime" in result.what


def test_a_wrong_kernel_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relu = base.get("Relu")
    monkeypatch.setitem(REGISTRY, "Relu", replace(relu, kernel=lambda node, values: [np.abs(values[0])]))
    result = onnxruntime(["cnn"])
    assert 0 < result.equal < result.rows
    assert any("relu1" in line for line in result.details)


def test_it_is_registered_and_needs_models() -> None:
    assert CHECKS["onnxruntime"] is onnxruntime
    with pytest.raises(UsageError):
        onnxruntime([])


def test_feeds_are_seeded() -> None:
    graph = load_model("cnn")
    first, again, other = (normal_feeds(graph, seed)["x"] for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert onnxruntime_check.TOLERANCE == 1e-4
