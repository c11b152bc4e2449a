"""Kernels of serving stacks: what is joined, that values stay what they are, and that one device is one device."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import accelsim
from accelsim.account.interval import latency_interval
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.serve import Asked, serve
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.explore.generation import generate
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs

A100 = "a100-80-sxm"
SMALL = "llama?layers=1,hidden=64,heads=2,kv_heads=1,ffn=128,vocab=64"


def kernels(graph: Graph, fusion: str = "serving", chip: str = A100, dtype: str = "fp16") -> list[str]:
    options = Options(dtype=dtype, values="off", fusion=fusion)
    after = transform(graph, accelsim.load_chip(chip), options)
    return [node.label() for node in after.nodes if node.engine not in ("alias", "dma", "host")]


@pytest.mark.parametrize("place", ("seq=8", "seq=1,past=8"))
def test_rotary_positions_are_a_kernel_of_queries_and_one_of_keys(place: str) -> None:
    apart, joined = (Counter(kernels(load_model(f"{SMALL},{place}"), fusion)) for fusion in ("compiled", "serving"))
    assert sum(count for label, count in apart.items() if label in ("Split", "Concat")) == 4
    assert [label for label in joined if "Concat" in label] and not joined["Split"] and not joined["Concat"]
    assert sum(count for label, count in joined.items() if "Split+Concat+Mul" in label) == 2


def test_what_somebody_else_reads_stays_a_kernel() -> None:
    g = Graphs()
    x = g.input("x", (4, 8))
    turned = g.op("Transpose", [x], "turned", perm=(1, 0))
    both = g.finish(g.op("Relu", [turned], "relu"), g.op("Sigmoid", [turned], "sigmoid"))
    assert kernels(both) == ["Transpose", "Relu", "Sigmoid"]
    g = Graphs()
    turned = g.op("Transpose", [g.input("x", (4, 8))], "turned", perm=(1, 0))
    assert kernels(g.finish(g.op("Relu", [turned], "relu"))) == ["Transpose+Relu"]


def test_chips_without_such_kernels_and_other_fusions_join_nothing() -> None:
    graph, tpu = load_model(f"{SMALL},seq=8"), "tpu-v4"
    assert kernels(graph, chip=tpu, dtype="bf16") == kernels(graph, "compiled", tpu, "bf16")
    assert len(kernels(graph)) < len(kernels(graph, "compiled")) < len(kernels(graph, "eager"))


@pytest.mark.parametrize("place", ("seq=8", "seq=1,past=8"))
def test_values_are_those_of_kernels_apart_but_for_rounding(place: str) -> None:
    apart, joined = (
        accelsim.run(f"{SMALL},{place}", on=A100, dtype="fp16", fusion=fusion).outputs
        for fusion in ("compiled", "serving")
    )
    assert apart.keys() == joined.keys()
    for name, values in apart.items():
        assert np.allclose(values, joined[name], rtol=0.02, atol=0.02 * float(np.abs(values).max()))


def test_a_chip_of_calibrated_functions_knows_how_far_off_narrow_weights_are() -> None:
    """Constants of a format that only weights have are those of the format that multiplies."""
    model = "llama?layers=1,hidden=64,heads=2,kv_heads=1,ffn=128,vocab=64,prompt=8,new=2"
    for name, own in (("int4xfp16", "fp16"), ("int8xfp16", "fp16")):
        narrow, wide = (
            latency_interval(generate(model, "t4", dtype=each, values="off").prefill) for each in (name, own)
        )
        assert narrow is not None and wide is not None and narrow.low_s < narrow.high_s
        assert narrow.calibrated == pytest.approx(wide.calibrated, abs=0.3)


@pytest.mark.parametrize(
    ("cluster", "chip", "dtype", "kv", "quantiser", "stack"),
    [("dgx-a100", A100, "fp16", "", "", ""), ("dgx-a100", A100, "int4xfp16", "", "", ""),
     ("dgx-h100", "h100-sxm", "int4xfp16", "", "", ""), ("dgx-h100", "h100-sxm", "fp8", "fp8", "", ""), ("dgx-h100", "h100-sxm", "fp8", "", "kernel", ""),
     ("dgx-h100", "h100-sxm", "fp8", "fp8", "", "tensorrt-llm"), ("dgx-b200", "b200-sxm", "nvfp4", "", "", ""),
     ("dgx-b200", "b200-sxm", "mxfp4", "fp8", "kernel", "")],
)  # fmt: skip
def test_a_cluster_of_one_gives_the_answer_of_its_chip(
    cluster: str, chip: str, dtype: str, kv: str, quantiser: str, stack: str
) -> None:
    """Compare equal calls, but that the chip looks up the embedding as one kernel with others around it; and where a host
    asks for kernels, the energy of a chip has the idle power of that host, and no power of multiprocessors that wait."""
    model = "llama2-7b?layers=4,vocab=1024"
    alone = generate(
        f"{model},prompt=64,new=3", on=chip, dtype=dtype, values="off", kv_dtype=kv, quantiser=quantiser,
        stack=stack,
    )  # fmt: skip
    found = transformer_of(model)
    assert found is not None
    setting = Setting(dtype, kv_dtype=kv, quantiser=quantiser, stack=stack)
    fleet = fleet_of(load_cluster(cluster, ["nodes.node.devices.gpu.count=1"]), setting)
    served = serve(found, fleet, Plan(), Asked(1, 64, 3))
    assert served.time_to_first_token_s == pytest.approx(alone.time_to_first_token_s, rel=0.02)
    assert served.decode_s == pytest.approx(alone.decode_s, rel=0.02)
    assert served.total_J == pytest.approx(alone.total_J, rel=0.06 if stack else 0.02, abs=0)


def test_products_of_one_operand_are_one_product() -> None:
    after = kernels(load_model(f"{SMALL},seq=1,past=8"))
    assert sum(label.startswith("MatMul") for label in after) == 6  # qkv, attention, out, gate and up, down, logits
    assert "Slice+Silu+Slice+Mul" in after or "Slice+Slice+Silu+Mul" in after


def test_layers_of_which_something_is_asked_stay_alone() -> None:
    graph = load_model(f"{SMALL},seq=8")
    asked = Options(dtype="fp16", values="off", fusion="serving", layers={"l0.q": "fp32"})
    names = [node.name for node in transform(graph, accelsim.load_chip(A100), asked).nodes]
    assert "l0.q" in names and "l0.k+l0.v" in names


def test_a_slice_of_a_tensor_is_all_that_a_kernel_reads_of_it() -> None:
    g = Graphs()
    x = g.input("x", (64, 128))
    half = g.op("Slice", [x], "half", starts=[64], ends=[128], axes=[1], steps=[1])
    run = accelsim.run(g.finish(g.op("Relu", [half], "y")), on=A100, dtype="fp16", values="off", fusion="serving")
    (read,) = (row.count for row in run.ledger if row[:2] == ("hbm", "read") and row.tensor == "x")
    assert read == 64 * 64 * 4
