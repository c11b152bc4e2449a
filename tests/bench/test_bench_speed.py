"""How fast the tool is, against bars that hold on any machine or are ratios measured in one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GPT3_LAYER = "gpt-prefill?hidden=12288,heads=96,seq=2048"
"""One decoder layer of the size of GPT-3 (Brown et al. 2020): hidden 12,288, 96 heads, 2,048 tokens."""
SMALL_BERT = "bert?layers=1,hidden=64,heads=4,seq=9"
GPT_CHIPS = (("tpu-v1", "int8"), ("systolic-generic", "fp32"), ("neuroncore-v2", "bf16"))
REPEATED_CHIPS = (
    "a100-80-sxm",
    "edu-mixed",
    "edu-tensor-core",
    "haswell-e5-2699v3",
    "neuroncore-v2",
    "systolic-generic",
    "tpu-v1",
    "tpu-v4",
    "trainium1",
)
FEW_LAYERS, LAYERS_RATIO, LAYERS_S, LAYERS_MB = 8, 2.0, 10.0, 700.0
"""Chips on which GPT-3 is replayed; layers to compare all 96 with, and how many times as much these may take (1.06 to 1.2
are measured), CPU seconds and peak memory."""
RESNET_TARGETS = (("tpu-v1", "int8"), ("systolic-generic", "fp32"))
GPU_RUNS = (
    ("resnet50", "a100-80-sxm", "fp16", 0.5),
    ("llama2-7b?seq=2048", "h100-sxm", "bf16", 1.0),
    (GPT3_LAYER, "a100-80-sxm", "fp16", 0.1),
)
"""Networks on GPUs, and the CPU seconds that they may take; a layer of GPT-3 with the choice of its tiles."""
SCALESIM_S, SCALESIM_MB = 247, 6800
"""SCALE-Sim 3.0.0 on ResNet-50, 128 x 128: CPU seconds and peak memory, measured on a quiet machine."""

TENSOR_CORES = {"exact": 20.0, "fast": 4.0}
"""Values policy -> largest allowed ratio to ONNX Runtime's own run in FP32, for sums of Tensor Cores."""
RATIO, REPEATS = 5.0, 3
"""Largest allowed ratio to the CPU time of ONNX Runtime on one thread; fresh processes of which the best counts."""

NODES = (2_000, 20_000)
"""Nodes of the short graphs and of the long ones."""
LONG = (
    "chain", "products", "fan", "residuals", "vectors", "on_host", "joins", "convolutions", "waiting", "states",
    "caches", "coded_products",
)  # fmt: skip
"""Keys of ``LONG`` in tests/helpers/long_graphs.py, all of which count calls there; here a few are timed."""
LONG_CHIPS = (("edu-4x4", "int8"), ("edu-mixed", "fp32"))
COMPILE_S, PER_NODE = 20.0, 2.0
"""Most CPU seconds for 20,000 nodes; most that a node of a long graph may take, beside one of a short graph. A
quadratic time makes it 10, n^1.3 makes it 2; the room below is for caches that a long graph outgrows (1.0 to 1.8 where
calls, which the unit tests count, grow as the nodes do)."""

SEARCHES = (
    ("resnet50", "tpu-v1", "fast", 1e5), ("bert-base", "tpu-v1", "fast", 1e5), ("resnet50", "tpu-v1", "best", 1e5),
    ("cnn", "edu-4x4", "best", 1e6), (SMALL_BERT, "edu-4x4", "best", 1e6), (SMALL_BERT, "edu-mixed", "best", 1e6),
)  # fmt: skip
"""Model, chip, effort of searches, and candidates that are to be tried per CPU second."""

Probe = Callable[..., dict[str, float]]


def once(benchmark: Any, call: Callable[[], Any]) -> Any:
    """The probes repeat by themselves; the benchmark only records how long all of it took."""
    return benchmark.pedantic(call, rounds=1, iterations=1)


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
def test_resnet50_without_values(benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str) -> None:
    found = once(benchmark, lambda: probe("end-to-end", "resnet50", chip, dtype, "off"))
    parts = " + ".join(f"{name} {found[name]:.2f}" for name in ("load", "compile", "simulate"))
    what = f"ResNet-50 on {chip}, values off: load + compile + simulate"
    note = f"{parts}; SCALE-Sim 3.0.0: {SCALESIM_S} s, {SCALESIM_MB / 1000:g} GB"
    assert figure(what, found["total"], " s", 1.0, note).holds


@pytest.mark.parametrize(("model", "chip", "dtype", "bar_s"), GPU_RUNS)
def test_networks_on_gpus(
    benchmark: Any, probe: Probe, figure: Any, model: str, chip: str, dtype: str, bar_s: float
) -> None:
    found = once(benchmark, lambda: probe("end-to-end", model, chip, dtype, "off"))
    what = f"{model} on {chip}, values off: compile + simulate"
    assert figure(what, found["compile"] + found["simulate"], " s", bar_s).holds


@pytest.mark.parametrize(("model", "chip", "effort", "wanted"), SEARCHES)
def test_candidates_per_second(
    benchmark: Any, probe: Probe, figure: Any, model: str, chip: str, effort: str, wanted: float
) -> None:
    """The time for so many candidates as are wanted in a second: scored, ruled out by a bound, copies, or too large."""
    found = once(benchmark, lambda: probe("searches", model, chip, effort))
    note = (
        f"{found['tried']:,.0f} candidates in {found['searches']:.0f} searches, {found['per_second']:,.0f} per second"
    )
    what = f"mappings of {model} on {chip}, search {effort}: {wanted:,.0f} candidates"
    assert figure(what, wanted / found["per_second"], " s", 1.0, note).holds


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
@pytest.mark.parametrize("values", ["exact", "off"])
def test_resnet50_memory(benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str, values: str) -> None:
    found = once(benchmark, lambda: probe("end-to-end", "resnet50", chip, dtype, values))
    assert figure(f"ResNet-50 on {chip}, values {values}: peak memory", found["rss_MB"], " MB", 700).holds


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
def test_resnet50_exact_against_onnxruntime(benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str) -> None:
    """Everything is prepared: a compiled program here, a session there; the two take turns in one process.

    The bar is the time of ONNX Runtime, or that of NumPy's bare products where its BLAS is slower: no simulator in NumPy
    is faster than these.
    """
    found = once(benchmark, lambda: probe("against-ort", "resnet50", chip, dtype))
    name, ours = f"ResNet-50 on {chip}, exact {dtype}: simulate", found["exact"]
    note = f"{ours:.3f} s with the program compiled; ORT {found['ort']:.3f} s with its session made"
    figure(f"{name} / ORT run in fp32", ours / found["ort"], " x", None, note)
    bare, note = max(found["ort"], found["products"]), f"NumPy's products {found['products']:.3f} s"
    held = [figure(f"{name} / ORT run or NumPy's products", ours / bare, " x", RATIO, note).holds]
    if dtype == "int8":
        note = f"ORT {found['ort_integer']:.3f} s (ConvInteger, MatMulInteger, requantisation in float)"
        same = figure(f"{name} / ORT run of the same int8 graph", ours / found["ort_integer"], " x", RATIO, note)
        held.append(same.holds)
        note = f"ORT {found['ort_static']:.3f} s (quantised by ORT: uint8 activations, other scales)"
        figure(f"{name} / ORT run of its own int8 model", ours / found["ort_static"], " x", None, note)
    assert all(held)


@pytest.mark.parametrize(("values", "bar"), TENSOR_CORES.items())
def test_tensor_core_values_against_onnxruntime(
    benchmark: Any, probe: Probe, figure: Any, values: str, bar: float
) -> None:
    """ResNet-50 in FP16 on an A100 with every sum of its Tensor Cores to the bit, and with sums of the library."""
    found = once(benchmark, lambda: probe("against-ort", "resnet50", "a100-80-sxm", "fp16", values))
    note = f"{found[values]:.3f} s; ORT {found['ort']:.3f} s in fp32, NumPy's products {found['products']:.3f} s"
    assert figure(f"ResNet-50 on an A100, {values} fp16 / ORT", found[values] / found["ort"], " x", bar, note).holds


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
def test_resnet50_whole_against_onnxruntime(benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str) -> None:
    """From nothing to results, each in a fresh process, weights in memory: load, compile (int8: ranges) and simulate
    here, session and first run there. The ratio to a run of a session that is there already has no bar."""

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        ours = [probe("end-to-end", "resnet50", chip, dtype, "exact") for _ in range(REPEATS)]
        theirs = [probe("ort", "resnet50") for _ in range(REPEATS)]
        return min(ours, key=lambda each: each["total"]), min(theirs, key=lambda each: each["session"] + each["run"])

    ours, theirs = once(benchmark, measure)
    name, total = f"ResNet-50 on {chip}, exact {dtype}: load + compile + simulate", ours["total"]
    note = f"load {ours['load']:.2f} + compile {ours['compile']:.2f} + simulate {ours['simulate']:.2f} s; "
    note += f"ORT session {theirs['session']:.2f} + run {theirs['run']:.3f} s"
    figure(f"{name} / ORT run", total / theirs["run"], " x", None, "the same figures")
    assert figure(f"{name} / ORT session + run", total / (theirs["session"] + theirs["run"]), " x", RATIO, note).holds


@pytest.mark.parametrize("method", ["absmax", "entropy"])
def test_ranges_of_resnet50(benchmark: Any, probe: Probe, figure: Any, method: str) -> None:
    """Ranges of every tensor over 16 images, scales, codes of all weights; random weights."""
    found = once(benchmark, lambda: probe("ranges", "resnet50", "tpu-v1", "int8", method))
    what = f"ResNet-50 to int8, {method} over {found['images']:.0f} images: ranges + quantise"
    assert figure(what, found["total"], " s", 60.0, f"{found['tensors']:.0f} tensors").holds


def test_layer_of_gpt3(benchmark: Any, probe: Probe, figure: Any) -> None:
    """The bar is for the tool, not for a chip: a chip with 64 KiB weight tiles needs far more commands than others."""

    def measure() -> dict[str, dict[str, float]]:
        return {chip: probe("end-to-end", GPT3_LAYER, chip, dtype, "off") for chip, dtype in GPT_CHIPS}

    held = []
    for chip, found in once(benchmark, measure).items():
        note = f"compile {found['compile']:.2f} + simulate {found['simulate']:.2f} s, {found['commands']:,.0f} commands"
        what = f"GPT-3 layer on {chip}, values off: load + compile + simulate"
        held.append(figure(what, found["total"], " s", 5.0, note).holds)
    assert any(held)


@pytest.mark.parametrize("chip", REPEATED_CHIPS)
def test_all_layers_of_gpt3(benchmark: Any, probe: Probe, figure: Any, chip: str) -> None:
    """What is replayed takes hardly any time: twelve times the layers take far less than twelve times as long. There is
    no bar where all of them take less than two seconds: there the ratio is that of two small numbers."""

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        return probe("run", f"gpt3?layers={FEW_LAYERS}", chip), probe("run", "gpt3", chip)

    few, all_of_them = once(benchmark, measure)
    note = f"{all_of_them['total']:.1f} s, {all_of_them['commands']:,.0f} commands, {all_of_them['replayed']:,.0f} replayed"
    what = f"GPT-3 on {chip}, values off: 96 layers / {FEW_LAYERS} layers"
    bar = LAYERS_RATIO if all_of_them["total"] > 2.0 else None
    held = [
        figure(f"{what}: CPU", all_of_them["total"] / few["total"], " x", bar, note).holds,
        figure(f"{what}: peak memory", all_of_them["rss_MB"] / few["rss_MB"], " x", bar).holds,
        figure(f"GPT-3 on {chip}, values off: CPU", all_of_them["total"], " s", LAYERS_S).holds,
        figure(f"GPT-3 on {chip}, values off: peak memory", all_of_them["rss_MB"], " MB", LAYERS_MB).holds,
    ]
    assert all(held)


@pytest.mark.parametrize("chip", LONG_CHIPS)
@pytest.mark.parametrize("kind", LONG)
def test_time_is_linear_in_the_nodes(
    benchmark: Any, probe: Probe, figure: Any, kind: str, chip: tuple[str, str]
) -> None:
    """What a node of a long graph takes, beside one of a short graph of the same kind. Simulating and accounting have no
    bar where they take less than a second: there the ratio is that of two small numbers."""

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        short = [probe("nodes", kind, str(NODES[0]), *chip) for _ in range(REPEATS)]
        return {name: min(each[name] for each in short) for name in short[0]}, probe(
            "nodes", kind, str(NODES[1]), *chip
        )

    few, many = once(benchmark, measure)
    name, held = f"{kind} of {NODES[1]:,} nodes on {chip[0]}", []
    note = f"{many['commands']:,.0f} commands; simulate {many['simulate']:.1f}, account {many['account']:.1f} s"
    held.append(figure(f"{name}: compile", many["compile"], " s", COMPILE_S, note).holds)
    for part in ("compile", "simulate", "account"):
        ratio = many[part] / few[part] * NODES[0] / NODES[1]
        bar = PER_NODE if many[part] > 1.0 else None
        held.append(figure(f"{name}: {part}, a node / with {NODES[0]:,}", ratio, " x", bar).holds)
    assert all(held)
