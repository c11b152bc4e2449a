"""How fast the tool is, against bars that hold on any machine or are ratios measured in one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GPT3_LAYER = "gpt-prefill?hidden=12288,heads=96,seq=2048"
"""One decoder layer of the size of GPT-3 (Brown et al. 2020): hidden 12,288, 96 heads, 2,048 tokens."""
GPT_CHIPS = (("tpu-v1", "int8"), ("systolic-generic", "fp32"), ("neuroncore-v2", "bf16"))
RESNET_TARGETS = (("tpu-v1", "int8"), ("systolic-generic", "fp32"))
SCALESIM_S, SCALESIM_MB = 247, 6800
"""SCALE-Sim 3.0.0 on ResNet-50, 128 x 128: CPU seconds and peak memory, measured on a quiet machine."""

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


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
@pytest.mark.parametrize("values", ["exact", "off"])
def test_resnet50_memory(
    benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str, values: str
) -> None:
    found = once(benchmark, lambda: probe("end-to-end", "resnet50", chip, dtype, values))
    assert figure(f"ResNet-50 on {chip}, values {values}: peak memory", found["rss_MB"], " MB", 700).holds


@pytest.mark.parametrize(("chip", "dtype"), RESNET_TARGETS)
def test_resnet50_with_values_against_onnxruntime(
    benchmark: Any, probe: Probe, figure: Any, chip: str, dtype: str
) -> None:
    found = once(benchmark, lambda: probe("against-ort", "resnet50", chip, dtype))
    name = f"ResNet-50 on {chip}, exact {dtype}"
    held = [
        figure(
            f"{name}: simulate / ORT run in fp32", found["exact"] / found["ort"], " x", 5.0,
            f"simulate {found['exact']:.3f} s (compiled, weights made), ORT {found['ort']:.3f} s (session made)",
        ),
        figure(
            f"{name}: whole / ORT session and run", found["whole"] / (found["ort_session"] + found["ort"]), " x", 5.0,
            f"load {found['load']:.2f} + compile {found['compile']:.2f} + simulate {found['first']:.2f} s (weights "
            f"are made on the way); ORT session {found['ort_session']:.2f} + run {found['ort']:.3f} s",
        ),
    ]  # fmt: skip
    if "ort_integer" in found:
        held.append(
            figure(
                f"{name}: simulate / ORT run of the same int8 graph", found["exact"] / found["ort_integer"], " x", 5.0,
                f"simulate {found['exact']:.3f} s, ORT {found['ort_integer']:.3f} s (ConvInteger, as exported)",
            )
        )  # fmt: skip
    assert all(each.holds for each in held)


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
