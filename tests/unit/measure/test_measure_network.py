"""Whole networks by PyTorch: the values of the simulator's own kernels; and, without PyTorch, rows, refusals and timing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.errors import UsageError
from accelsim.measure.clock import CALLS, WARM
from accelsim.measure.network import COLUMNS, compiled, fused, measured_networks
from accelsim.measure.torch_nodes import ATTENTION, NODES, refusals
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo import ZOO
from tests.helpers.fake_network_torch import NetworkTorch

_TEXT = "layers=1,hidden=64,heads=4,ffn=96,vocab=100,seq=8"
TRANSFORMERS = (
    "bert?layers=1,hidden=64,heads=4,seq=16", "gpt-prefill?hidden=64,heads=4,seq=16",
    "gpt-decode?hidden=64,heads=4,seq=16", f"bert-base?{_TEXT}", f"bert-large?{_TEXT}", "gpt", "gpt?seq=1,past=8",
    "llama", "llama?seq=1,past=8", "llama?seq=4,past=8", "moe", "moe?seq=1,past=4", f"llama2-7b?{_TEXT},kv_heads=4",
    f"llama3-8b?{_TEXT},kv_heads=2", f"gpt3?{_TEXT},kv_heads=4", "vit-b16?layers=1,resolution=64",
)  # fmt: skip
OTHERS = (
    "gemm", "mlp", "mlp0?hidden=64", "mlp1?hidden=64", "lstm?inputs=16,hidden=16", "lstm0?hidden=32", "lstm1?hidden=32",
    "digits-mlp", "digits-tanh", "digits-sigmoid", "digits-cnn", "cnn", "cnn0?filters=32,layers=3",
    "unet?resolution=188,channels=8", "amoebanet-d?resolution=32,layers=3,filters=16", "resnet18?resolution=32",
    "resnet34?resolution=32", "mobilenet-v1?resolution=32", "mobilenet?resolution=32", "mobilenet-v2?resolution=32",
    "mobilenet-v3?resolution=32", "mobilenet-v3-small?resolution=32", "efficientnet-b0?resolution=32",
    "squeezenet", "shufflenet", "inception-v1", "inception-v2", "resnet50", "alexnet",
)  # fmt: skip


Case = tuple[Graph, dict[str, Any], dict[str, Any]]
"""A graph, its inputs, and what the simulator's own kernels make of them."""


@cache
def _case(model: str, batch: int | None = None) -> Case:
    pytest.importorskip("torch")
    return _with_values(load_model(model, batch=batch))


def _with_values(graph: Graph) -> Case:
    """Logits count as results: a Softmax may hide how far off they are."""
    graph.outputs += [node.inputs[0] for node in graph.nodes[-1:] if node.op == "Softmax" and len(graph.nodes) > 1]
    feeds = synthetic(graph, 0)
    return graph, feeds, run(graph, feeds)


def _error(case: Case, **how: Any) -> float:
    """Largest difference of a result, relative to the largest number of it."""
    torch, (graph, feeds, wanted) = pytest.importorskip("torch"), case
    torch.set_num_threads(1)  # beside other tests its threads wait for each other
    network = compiled(torch, graph, "cpu", "fp32", weights="graph", **how)
    for name, tensor in network.inputs.items():
        tensor.copy_(torch.tensor(feeds[name]))
    found, errors = network.call(), [0.0]
    for name, want in wanted.items():
        got = found[name].numpy()
        assert got.shape == want.shape
        errors.append(float(np.abs(got - want).max() / np.abs(want).max()))
    return max(errors)


@pytest.mark.parametrize("model", [*TRANSFORMERS, *OTHERS])
@pytest.mark.parametrize("channels_last", [False, True])
def test_values_are_those_of_the_simulator(model: str, channels_last: bool) -> None:
    assert _error(_case(model), channels_last=channels_last) < 1e-4


@pytest.mark.parametrize("model", TRANSFORMERS)
def test_attention_in_one_call_has_the_same_values(model: str) -> None:
    assert _error(_case(model), attention="fused") < 1e-4


def test_a_batch_has_values_too() -> None:
    assert _error(_case("llama", 3), attention="fused") < 1e-4
    assert _error(_case("cnn", 3)) < 1e-4


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [2, 0, 0, 1]])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_pad_as_their_attributes_say(op: str, pads: list[int], ceil: int, include: int) -> None:
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads, "dilations": [1, 1], "ceil_mode": ceil}
    more = {"count_include_pad": include} if op == "AveragePool" else {}
    assert _error(_with_values(_graph(op, {"x": (2, 3, 8, 10)}, attrs | more))) < 1e-6


def _graph(op: str, shapes: dict[str, tuple[int, ...]], attrs: dict[str, Any], **constants: Any) -> Graph:
    """One node of floats, of its inputs and then its constants, with the shape that its row infers."""
    from accelsim.workload.ops import get

    tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    for name, value in constants.items():
        kind = "int64" if np.asarray(value).dtype == np.int64 else "fp32"
        tensors[name] = Tensor(name, np.shape(value), kind, np.asarray(value))
    node = Node("n", op, list(tensors), ["y"], attrs)
    ((shape, kind),) = get(op).infer(node, list(tensors.values()))
    return Graph("one", [node], {**tensors, "y": Tensor("y", shape, kind)}, list(shapes), ["y"])


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "constants"),
    [
        ("Conv", {"x": (1, 4, 9, 9), "w": (6, 2, 3, 3)},
         {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [0, 1, 2, 0], "dilations": [1, 2], "group": 2}, {}),
        ("Slice", {"x": (4, 9)}, {"axes": [0, 1], "starts": [3, 1], "ends": [-9, 100], "steps": [-2, 3]}, {}),
        ("Gather", {"x": (3, 5)}, {"axis": 1}, {"at": np.int64(-1)}),
        ("Gather", {"x": (3, 5)}, {"axis": 0}, {"at": np.array([[0, -1]])}),
        ("Gather", {"x": (3, 5)}, {"axis": 1}, {"at": np.array([2, 0, 2])}),
        ("Gemm", {"a": (3, 4), "b": (5, 3)}, {"alpha": 2.0, "beta": 0.5, "transA": 1, "transB": 1},
         {"c": np.float32(3)}),
        ("Gemm", {"a": (4, 3), "b": (3, 5)}, {"alpha": 0.5, "beta": 1.0, "transA": 0, "transB": 0}, {}),
        ("MatMul", {"a": (2, 4, 3), "b": (2, 5, 3)}, {"transB": 1}, {}),
        ("Softmax", {"x": (2, 3, 4)}, {"flatten_from": 1}, {}),
        ("LayerNormalization", {"x": (2, 3, 4)}, {"axis": 1, "epsilon": 1e-5}, {"scale": np.ones(4, np.float32)}),
        ("HardSigmoid", {"x": (40,)}, {"alpha": 0.3, "beta": 0.4}, {}),
        ("Clip", {"x": (40,)}, {"min": None, "max": 0.5}, {}),
        ("DepthToSpace", {"x": (1, 8, 2, 3)}, {"blocksize": 2, "mode": "DCR"}, {}),
        ("Pad", {"x": (2, 3)}, {"pads": [1, 0, -1, 2], "mode": "constant", "value": 2.0}, {}),
    ],
)  # fmt: skip
def test_attributes_that_no_model_has(
    op: str, shapes: dict[str, tuple[int, ...]], attrs: dict[str, Any], constants: dict[str, Any]
) -> None:
    assert _error(_with_values(_graph(op, shapes, attrs, **constants))) < 1e-5


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("model", ["llama", "gpt?seq=1,past=8", "moe", "cnn"])
def test_weights_are_drawn_on_the_device(model: str, dtype: str) -> None:
    torch, graph = pytest.importorskip("torch"), load_model(model)
    network = compiled(torch, graph, "cpu", dtype)
    assert not any(tensor.data is not None for tensor in graph.constants() if not tensor.fixed and tensor.elements > 64)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    for result in network.call().values():
        assert result.dtype == kind and bool(torch.isfinite(result).all())
    again = compiled(torch, graph, "cpu", dtype).call()
    assert all(torch.equal(result, again[name]) for name, result in network.call().items())


def test_new_keys_are_written_behind_the_old_ones_in_place() -> None:
    torch = pytest.importorskip("torch")
    network = compiled(torch, load_model("llama?seq=1,past=8"), "cpu", "fp32")
    past, cache = network.inputs["l0.k_past"], network.call()["l0.k_cache"]
    assert cache.data_ptr() == past.data_ptr() and cache.shape[2] == past.shape[2] + 1


@pytest.mark.parametrize("name", ZOO)
def test_every_op_of_the_zoo_has_a_row(name: str) -> None:
    params = {"layers": 1} if ZOO[name].params.get("layers", 0) > 24 else {}
    assert not list(refusals(load_model(name, params=params)))


@pytest.mark.parametrize("model", TRANSFORMERS)
def test_each_attention_is_found_once(model: str) -> None:
    graph = load_model(model)
    softmaxes = sum(node.op == "Softmax" for node in graph.nodes)
    joined = fused(graph)
    assert sum(node.op == ATTENTION for node in joined.nodes) == softmaxes
    assert sum(node.op == "Softmax" for node in graph.nodes) == softmaxes, "the graph itself stays"


def test_everything_without_a_call_is_told_at_once() -> None:
    graph = load_model("mlp")
    graph.nodes[0].op, graph.nodes[1].op = "Selu", "MatMull"
    graph.nodes[2].epilogue.append(Node("f", "Relu", [], []))
    graph.tensors[graph.inputs[0]].dtype = "int4"
    with pytest.raises(UsageError) as told:
        compiled(NetworkTorch(), graph, "cuda:0", "fp12", attention="flash")
    text = str(told.value)
    for word in ("'Selu'", "'MatMull'", "did you mean 'MatMul'", "fused", "int4", "fp12", "flash"):
        assert word in text


def test_attributes_that_pytorch_lacks_are_told() -> None:
    pool = {"kernel_shape": [3], "strides": [1], "pads": [0, 0], "dilations": [2], "ceil_mode": 0}
    graph = _graph("AveragePool", {"x": (1, 2, 9)}, pool | {"count_include_pad": 0})
    with pytest.raises(UsageError, match="dilations"):
        compiled(NetworkTorch(), graph, "cuda:0", "fp16")


def test_nothing_is_held_behind_its_last_reader() -> None:
    network = compiled(NetworkTorch(), load_model("mlp"), "cuda:0", "fp16")
    given = {*network.inputs, *network.constants}
    held = given - {name for step in network.steps for name in step.last}
    assert not held, "what is read once more would be missed, what is not would stay"
    assert [step.writes for step in network.steps if set(step.writes) & set(step.last)] == []
    assert list(network.call()) == list(network.outputs)


def test_both_modes_are_timed_and_metered() -> None:
    torch = NetworkTorch()
    rows = list(measured_networks(torch, "cuda:0", ["mlp"], [1, 2], "fp16", meter=lambda call: {"W": call() or 7}))
    assert [(row["batch"], row["mode"], row.get("W")) for row in rows] == [
        (1, "eager", None), (1, "graph", 7), (2, "eager", None), (2, "graph", 7)
    ]  # fmt: skip
    assert {row["time_us"] for row in rows} == {"2000"} and {row["device"] for row in rows} == {"Tesla T4"}
    assert all(set(row) <= {*COLUMNS, "W"} for row in rows)
    assert torch.calls.count("replay") == 2 * (WARM + CALLS + 1)
    products = len(load_model("mlp").nodes) // 2 + 1
    assert torch.calls.count("addmm") == 2 * products * (WARM + CALLS + WARM + 1)


def test_what_cannot_be_captured_has_its_eager_time() -> None:
    torch = NetworkTorch(captures=False)
    rows = list(measured_networks(torch, "cuda:0", ["mlp"], [1], "fp16", meter=lambda call: {"W": 7}))
    assert [row["mode"] for row in rows] == ["eager", "graph"] and rows[0]["time_us"] == "2000"
    assert rows[0]["W"] == 7 and "W" not in rows[1] and rows[1]["time_us"] == ""
    assert rows[1]["why"] == "RuntimeError: operation not permitted when stream is capturing"


def test_a_network_that_fails_does_not_end_the_others() -> None:
    models = ["mlp?hidden=4096", "cnn", "mlp?hidden=64"]
    rows = list(measured_networks(NetworkTorch(room=2000), "cuda:0", models, [1], "fp16"))
    assert [(row["model"], row["mode"], "why" in row) for row in rows] == [
        (models[0], "eager", True), (models[1], "eager", True), (models[2], "eager", False),
        (models[2], "graph", False),
    ]  # fmt: skip
    assert rows[0]["why"] == "MemoryError: CUDA out of memory"


def test_a_meter_that_fails_costs_no_time() -> None:
    rows = list(measured_networks(NetworkTorch(), "cuda:0", ["mlp"], [1], "fp16", meter=lambda call: {}["W"]))
    assert [row["time_us"] for row in rows] == ["2000", "2000"] and "KeyError" in rows[1]["why"]


def test_what_is_not_there_is_told_before_anything_is_measured() -> None:
    with pytest.raises(UsageError) as told:
        list(measured_networks(NetworkTorch(there=False), "cuda:0", ["mpl", "mlp?deep=1"], [1, 2], "fp12"))
    text = str(told.value)
    assert text.count("mpl") == 1 and "deep" in text and "fp12" in text and "no GPU at cuda:0" in text


def test_rows_are_ops_of_the_registry() -> None:
    from accelsim.workload.ops import REGISTRY

    assert set(NODES) - {ATTENTION} <= set(REGISTRY)
