"""The builders of the zoo: shapes, parameters, and values against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import ModelError
from accelsim.usercache import Table
from accelsim.workload.execute import run
from accelsim.workload.onnx.importing import importer
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.sources.load import list_models, load_model
from accelsim.workload.zoo import light
from accelsim.workload.zoo.entry import ZOO, register
from accelsim.workload.zoo.vision import RESNET_STAGES
from tests.helpers.macs import macs
from tests.helpers.onnx_models import feeds_of

SMALL = {
    "gemm": "gemm?M=5,N=6,K=7",
    "mlp": "mlp?hidden=32,layers=4",
    "mlp0": "mlp0?hidden=40",
    "cnn": "cnn",
    "mobilenet": "mobilenet?width=25,resolution=32,classes=10",
    "mobilenet-v1": "mobilenet-v1?width=25,resolution=32,classes=10",
    "lstm": "lstm?hidden=16,inputs=8,steps=3,layers=2",
    "bert": "bert?layers=2,hidden=32,heads=4,seq=6",
    "gpt-prefill": "gpt-prefill?layers=2,hidden=32,heads=4,seq=6",
    "gpt-decode": "gpt-decode?layers=2,hidden=32,heads=4,seq=5",
    "mlp1": "mlp1?hidden=40",
    "lstm0": "lstm0?hidden=12,cells=2",
    "lstm1": "lstm1?hidden=12,cells=2",
    "cnn0": "cnn0?filters=8,channels=4,layers=5,resolution=7",
    **{f"resnet{depth}": f"resnet{depth}?resolution=32,classes=10" for depth in RESNET_STAGES},
    "mobilenet-v2": "mobilenet-v2?resolution=32,classes=10",
    "mobilenet-v3": "mobilenet-v3?resolution=32,classes=10",
    "mobilenet-v3-small": "mobilenet-v3-small?resolution=32,classes=10",
    "efficientnet-b0": "efficientnet-b0?resolution=32,classes=10",
    "amoebanet-d": "amoebanet-d?layers=3,filters=16,resolution=32,classes=10",
    "vit-b16": "vit-b16?layers=2,hidden=24,heads=3,patch=4,resolution=12,classes=10",
    "unet": "unet?channels=2,resolution=188",
    "digits-mlp": "digits-mlp",
    "digits-tanh": "digits-tanh",
    "digits-sigmoid": "digits-sigmoid",
    "digits-cnn": "digits-cnn",
}
OTHER = {("unet", "resolution"): 588}
"""A second value of a parameter that twice the default is not."""
PUBLISHED = {
    "resnet18": (11_689_512, 1.81e9),
    "resnet34": (21_797_672, 3.66e9),
    "resnet101": (44_549_160, 7.80e9),
    "resnet152": (60_192_808, 11.51e9),
    "mobilenet-v2": (3_504_872, 0.30e9),
    "mobilenet-v3": (5_483_032, 0.22e9),
    "mobilenet-v3-small": (2_542_856, 0.06e9),
    "efficientnet-b0": (5_288_548, 0.39e9),
    "vit-b16": (86_567_656, 17.56e9),
}
"""Parameters and multiply-accumulates (there "GFLOPS", to two digits) of the models of torchvision 0.20, from its page
"Models and pre-trained weights"."""
BUILDERS = [row.name for row in list_models() if row.kind == "builder"]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("batch", [1, 3])
def test_every_builder_equals_onnxruntime_at_every_tensor(name: str, batch: int) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(SMALL[name], batch=batch)
    feeds = feeds_of(graph)
    rows = compare(run(graph, feeds, keep=True), reference_outputs(graph, feeds, every_tensor=True).values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5
    assert all(graph.tensors[node_in].shape[0] == batch or batch == 1 for node_in in graph.inputs)


@pytest.mark.parametrize("name", BUILDERS)
def test_default_sizes_build_without_making_a_weight(name: str) -> None:
    graph = load_model(name)
    assert all(tensor.data is None for tensor in graph.constants() if tensor.elements > 1)
    assert graph.values_from.startswith("random:0")


@pytest.mark.parametrize("name", BUILDERS)
def test_every_parameter_changes_the_graph(name: str) -> None:
    def signature(**params: int) -> list[tuple[str, tuple[int, ...]]]:
        return [(tensor.name, tensor.shape) for tensor in load_model(name, params=params).tensors.values()]

    for parameter, default in ZOO[name].params.items():
        other = OTHER.get((name, parameter), 2 * default)
        assert signature(**{parameter: other}) != signature(), parameter


def test_mlp0_is_that_of_the_tpu_paper() -> None:
    graph = load_model("mlp0")
    weights = [tensor for tensor in graph.constants() if len(tensor.shape) == 2]
    assert [tensor.shape for tensor in weights] == [(2000, 2000)] * 5
    assert graph.tensors[graph.inputs[0]].shape[0] == 200
    assert macs(graph) == 200 * 20_000_000


def test_published_multiply_accumulates() -> None:
    assert macs(load_model("mobilenet")) == 568_740_352  # Howard et al. 2017: 569 million
    assert macs(load_model("gemm?M=3,N=5,K=7")) == 105


def test_gpt3_sizes_by_parameters() -> None:
    graph = load_model("gpt-prefill", params={"hidden": 12288, "heads": 96, "seq": 2048}, batch=8)
    weights = sum(tensor.elements for tensor in graph.constants() if ".weight" in tensor.name)
    assert weights == 12 * 12288**2  # Brown et al. 2020: 12 hidden^2 per layer
    assert graph.tensors[graph.outputs[1]].shape == (8, 96, 2048, 128)


def test_decoding_with_a_cache_continues_the_prompt() -> None:
    """The last row of a prompt of n tokens equals one decoding step behind a prompt of n - 1."""
    whole = load_model("gpt-prefill?layers=2,hidden=32,heads=4,seq=6")
    prompt = feeds_of(whole)["x"]
    last = run(whole, {"x": prompt})[whole.outputs[0]][:, -1:]
    before = load_model("gpt-prefill?layers=2,hidden=32,heads=4,seq=5")
    cached = run(before, {"x": prompt[:, :-1]})
    step = load_model("gpt-decode?layers=2,hidden=32,heads=4,seq=5")
    feeds = {"x": prompt[:, -1:]}
    feeds |= dict(zip(step.inputs[1:], (cached[name] for name in before.outputs[1:]), strict=True))
    np.testing.assert_allclose(run(step, feeds)[step.outputs[0]], last, rtol=1e-4, atol=1e-5)


def test_causality() -> None:
    graph = load_model("gpt-prefill?layers=2,hidden=32,heads=4,seq=6")
    prompt = feeds_of(graph)["x"]
    changed = prompt.copy()
    changed[:, 4] += 1
    first, second = (run(graph, {"x": x})[graph.outputs[0]] for x in (prompt, changed))
    assert np.array_equal(first[:, :4], second[:, :4]) and not np.allclose(first[:, 4:], second[:, 4:])


@pytest.mark.parametrize(
    "name", ["bert?hidden=10,heads=3", "gpt-prefill?hidden=10,heads=3", "gpt-decode?heads=5", "vit-b16?heads=5"]
)
def test_heads_must_divide_the_hidden_size(name: str) -> None:
    with pytest.raises(ModelError, match="heads that divide hidden"):
        load_model(name)


def test_all_that_does_not_fit_amoebanet_is_told_at_once() -> None:
    with pytest.raises(ModelError, match=r"(?s)layers=4.*multiple of 3.*filters=24.*16.*resolution=40.*32"):
        load_model("amoebanet-d?layers=4,filters=24,resolution=40")


@pytest.mark.parametrize(
    ("layers", "filters", "millions"), [(18, 208, 82), (18, 416, 319), (18, 544, 543), (36, 544, 1056), (72, 512, 1845)]
)
def test_parameters_of_amoebanet(layers: int, filters: int, millions: int) -> None:
    """Huang et al., GPipe, table 1, and Kim et al., torchgpipe: 82 M, 318 or 319 M, 542 or 543 M, 1.05 or 1.06 B, 1.8 B."""
    graph = load_model(f"amoebanet-d?layers={layers},filters={filters}")
    found = sum(each.elements for each in graph.constants() if not each.name.endswith((".mean", ".var")))
    assert round(found / 1e6) == millions


def test_patches_must_fill_the_image() -> None:
    with pytest.raises(ModelError, match="a patch that divides the resolution"):
        load_model("vit-b16?patch=15")


def test_mobilenet_v1_has_two_names() -> None:
    first, second = load_model("mobilenet"), load_model("mobilenet-v1")
    assert first.nodes == second.nodes and first.name == second.name == "mobilenet-v1"


def test_sizes_that_vanish_are_refused() -> None:
    with pytest.raises(ModelError):
        load_model("cnn?resolution=1")


def test_parameters_in_the_name_and_beside_it() -> None:
    graph = load_model("mlp?hidden=8,layers=2", params={"hidden": 16})
    assert graph.tensors["fc1"].shape == (1, 16)


def test_the_list_tells_names_kinds_and_defaults() -> None:
    rows = {row.name: row for row in list_models()}
    assert len(rows) == len(ZOO) >= 18
    assert rows["mlp0"].batch == 200 and rows["gpt-decode"].parameters["heads"] == 12
    assert all(row.description and row.kind for row in rows.values())


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        register(ZOO["mlp"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameters_and_work_of_vision_models(name: str) -> None:
    graph = load_model(name)
    parameters, work = PUBLISHED[name]
    learnt = [tensor for tensor in graph.constants() if tensor.shape and not tensor.name.endswith((".mean", ".var"))]
    assert sum(tensor.elements for tensor in learnt) == parameters
    assert macs(graph) == pytest.approx(work, abs=0.005e9)


def test_unet_is_that_of_the_paper() -> None:
    """Figure 1 of Ronneberger et al.: 572 x 572 in, 388 x 388 out; 23 convolutions, the up-convolutions among them."""
    graph = load_model("unet")
    assert graph.tensors[graph.outputs[0]].shape == (1, 2, 388, 388)
    assert sum(node.op == "Conv" for node in graph.nodes) == 23
    with pytest.raises(ModelError, match="188, 204, 220"):
        load_model("unet?resolution=570")


def test_a_kept_graph_is_the_one_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCELSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(light, "_KNOWN", Table("graphs", 4))
    made = load_model("squeezenet", batch=2)
    light._KNOWN.save()
    monkeypatch.setattr(light, "_KNOWN", Table("graphs", 4))
    monkeypatch.setattr(importer, "import_onnx", lambda *_, **__: pytest.fail("the file was read again"))
    kept = load_model("squeezenet", batch=2)
    assert repr(kept.nodes) == repr(made.nodes) and kept.name == made.name
    assert [(each.name, each.shape, each.dtype) for each in kept.tensors.values()] == [
        (each.name, each.shape, each.dtype) for each in made.tensors.values()
    ]
    for name in [each.name for each in made.constants()][:4]:
        assert np.array_equal(kept.tensors[name].value(), made.tensors[name].value())
