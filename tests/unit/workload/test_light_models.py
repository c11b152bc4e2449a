"""The real networks of the onnx package: shapes, work, batches, and every intermediate value against ONNX
Runtime.
"""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.workload.execute import run
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.light import LIGHT
from tests.helpers.macs import macs
from tests.helpers.onnx_models import feeds_of

MACS = {
    "alexnet": 654_560_384,
    "densenet121": 2_834_161_664,
    "inception-v1": 1_431_556_352,
    "inception-v2": 2_018_851_840,
    "resnet50": 4_089_184_256,
    "shufflenet": 124_664_528,
    "squeezenet": 349_151_936,
    "vgg19": 19_632_062_464,
    "zfnet512": 1_481_727_008,
}
"""Multiply-accumulates of convolutions and products by hand count; 3.8 to 4.1 billion is published for
ResNet-50, 19.6 billion for VGG-19."""


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("batch", [1, 8])
def test_shapes_and_work_follow_the_batch(name: str, batch: int) -> None:
    graph = load_model(name, batch=batch)
    assert len(graph.inputs) == 1, "initialisers and unused blobs are no inputs"
    assert graph.tensors[graph.inputs[0]].shape == (batch, 3, 224, 224)
    assert graph.tensors[graph.outputs[0]].shape[:2] == (batch, 1000)
    assert macs(graph) == batch * macs(load_model(name))
    assert name not in MACS or macs(graph) == batch * MACS[name]


@pytest.mark.parametrize("name", LIGHT)
def test_graph_is_topological_and_closed(name: str) -> None:
    graph = load_model(name)
    known = {*graph.inputs, *(tensor.name for tensor in graph.constants())}
    for node in graph.nodes:
        assert set(node.reads) <= known
        known.update(node.writes)
    assert known == set(graph.tensors)
    assert set(graph.outputs) <= known


def test_values_are_seeded_and_the_graph_says_so() -> None:
    graph = load_model("resnet50")
    assert graph.values_from.startswith("random:0")
    again, other = load_model("resnet50", weights="random:0"), load_model("resnet50", weights="random:1")
    name = "gpu_0/conv1_w_0"
    assert np.array_equal(graph.tensors[name].value(), again.tensors[name].value())
    assert not np.array_equal(graph.tensors[name].value(), other.tensors[name].value())


def test_import_makes_no_weights() -> None:
    graph = load_model("resnet50")
    assert all(tensor.data is None for tensor in graph.constants() if tensor.elements > 1024)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_every_tensor_equals_onnxruntime(name: str) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(name)
    feeds = feeds_of(graph)
    reference = reference_outputs(graph, feeds, every_tensor=True)
    rows = compare(run(graph, feeds, keep=True), reference.values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5
    assert min(np.abs(value).max() for value in reference.values.values()) > 1e-3, "a dead tensor proves nothing"


def test_a_batch_is_its_images_side_by_side() -> None:
    one, two = load_model("squeezenet", batch=1), load_model("squeezenet", batch=2)
    images = feeds_of(two)[two.inputs[0]]
    both = run(two, {two.inputs[0]: images})[two.outputs[0]]
    second = run(one, {one.inputs[0]: images[1:]})[one.outputs[0]]
    np.testing.assert_allclose(both[1:], second, rtol=1e-4, atol=1e-7)
