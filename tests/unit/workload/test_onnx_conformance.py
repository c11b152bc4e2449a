"""The operator test cases of the onnx package itself: what can be imported must give the expected outputs."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from accelsim.errors import AccelsimError, ModelError
from accelsim.workload.execute import run
from accelsim.workload.graph import Array, Graph
from accelsim.workload.onnx.canonical.rules import RULES
from accelsim.workload.onnx.importing.constants import CONSTANT_OPS
from accelsim.workload.onnx.importing.read import OPSETS
from tests.helpers.onnx_models import import_proto


def array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def imported(case: Any, feeds: dict[str, Array]) -> Graph | None:
    """The graph, with the inputs that must be constants (shapes, axes) made initialisers; None when it is
    refused.
    """
    names = list(feeds)
    for constants in (names[1:], names, []):
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        proto.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in constants)
        try:
            return import_proto(proto, case.name)
        except ModelError:
            continue
    return None


def agrees(got: Array, want: Array) -> bool:
    if want.dtype.kind in "OUS":
        return bool((got == want).all())
    narrow = want.dtype.itemsize <= 2 and want.dtype.kind not in "iub"
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if narrow else {"rtol": 1e-3, "atol": 1e-5}
    return np.allclose(got.astype(np.float64), want.astype(np.float64), equal_nan=True, **tolerance)


def outcome(case: Any) -> str:
    names = [item.name for item in case.model.graph.input]
    inputs, expected = case.data_sets[0]
    if any(isinstance(value, list) or value is None for value in inputs):
        return "sequence"
    feeds = {name: array(value) for name, value in zip(names, inputs, strict=True)}
    graph = imported(case, feeds)
    if graph is None:
        return "refused"
    try:
        got = run(graph, {name: feeds[name] for name in graph.inputs})
    except AccelsimError:
        return "refused"
    wants = zip(case.model.graph.output, (array(value) for value in expected), strict=True)
    same = all(got[item.name].shape == want.shape and agrees(got[item.name], want) for item, want in wants)
    return "agrees" if same else "differs"


def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return [case for case in collect_testcases(None) if case.model is not None and case.data_sets]


def covered(case: Any) -> bool:
    """Return whether the case is one node of an op that has a canonical form, of an operator set that can be
    imported.
    """
    opset = next((item.version for item in case.model.opset_import if not item.domain), 0)
    nodes = case.model.graph.node
    known = len(nodes) == 1 and nodes[0].op_type in {*RULES, *CONSTANT_OPS} and not nodes[0].domain
    return known and opset in OPSETS and "empty_set" not in case.name


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.skipif(os.name == "nt", reason="paths of the onnx test data")
def test_operator_cases_of_the_onnx_package() -> None:
    found: dict[str, list[str]] = {}
    for case in filter(covered, cases()):
        found.setdefault(outcome(case), []).append(case.name)
    counts = Counter({name: len(items) for name, items in found.items()})
    assert not found.get("differs"), found["differs"]
    assert counts["agrees"] > 500, counts
    assert counts["refused"] < 200, found["refused"]
