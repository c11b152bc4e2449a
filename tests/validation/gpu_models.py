"""Check ``gpu-models``: whole networks on GPUs against measured times.

Sets, none of whose rows has a part in a constant of a chip that is here:

* **NeuSight**, inference of five language models in FP32 by PyTorch, eager and fused, on seven GPUs and an MI100. The
  host's time for a kernel is that of the site ``pytorch-eager``.
* **NeuSight, training**: a step of the same models forward and backward, without an optimiser, eager; gradients stay
  on the device.
* **DeepLearningExamples**, ResNet-50 and BERT by batch in three frameworks on V100, T4 and A100: see
  ``gpu_frameworks``.
* **MLPerf**, ResNet-50 and BERT-Large offline on eight GPUs, the median of the submissions of a chip that had not
  limited its power, by the constants that ship: nothing in them comes of MLPerf. BERT skips padding there, so a
  question has as many tokens as SQuAD v1.1 has on the mean, not 384.
* **LLMCompass**, products, softmax, layer norms and GELU alone on an A100, each row by a fit of three constants that
  had not seen it (cross-validation); and the kernels of one GPT-3 layer on a quarter of four A100, prefill and decode.
  There the constants come of the kernels that the same lab measured alone, kind by kind; see ``lab``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from accelsim.account.interval import latency_interval
from accelsim.kernels.calibrate import Calibrated, calibrate
from accelsim.kernels.table import read_table
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from tests.validation.base import Check, check
from tests.validation.gpu_frameworks import frameworks
from tests.validation.gpu_rows import EAGER, NEWER, PUBLISHED, Row, rows_of, simulated, without_link_s
from tests.validation.gpu_training import training
from tests.validation.kernel_plot import Compared
from tests.validation.lab import CHIP, KERNELS, layer
from tests.validation.measured import ABSENT, folder
from tests.validation.shipped import plain_chip

NETWORKS: Mapping[str, str] = {
    "bert_large": "bert-large?seq=512",
    "gpt2_large": "gpt?layers=36,hidden=1280,heads=20,kv_heads=20,ffn=5120,vocab=50257,seq=1024",
    "gpt3_xl": "gpt?layers=24,hidden=3072,heads=24,kv_heads=24,ffn=12288,vocab=50257,seq=2048",
    "gpt3_27": "gpt?layers=32,hidden=2560,heads=32,kv_heads=32,ffn=10240,vocab=50257,seq=2048",
    "opt_13": "gpt?layers=24,hidden=2048,heads=32,kv_heads=32,ffn=8192,vocab=50272,seq=2048",
}
"""NeuSight's models. GPT-3 XL has 24 heads of 128 (Brown et al., table 2.1), so that attention is 3,072 wide, and its
measured times are those of layers as wide."""
DEVICES: Mapping[str, str] = {
    "NVIDIA_A100-PCIE-40GB": "a100-40-pcie", "NVIDIA_A100_80GB_PCIe": "a100-80-pcie",
    "NVIDIA_H100_80GB_HBM3": "h100-sxm", "Tesla_P100-PCIE-16GB": "p100-pcie", "Tesla_P4": "p4", "Tesla_T4": "t4",
    "Tesla_V100-PCIE-32GB": "v100-pcie", "AMD_Instinct_MI100": "mi100",
}  # fmt: skip
"""NeuSight's devices that are chips here."""
SQUAD_TOKENS = 176
"""Tokens of a question with its paragraph in SQuAD v1.1: 177 on the mean (MLPerf pads to 384 and its servers skip
that), here a multiple of eight, so that rows begin at multiples of 16 B."""
SUBMITTED: Mapping[str, tuple[str, str, int]] = {
    "ResNet-50": ("resnet50", "int8", 256),
    "BERT-Large SQuAD (99%)": (f"bert-large?seq={SQUAD_TOKENS}", "int8", 64),
    "BERT-Large SQuAD (99.9%)": (f"bert-large?seq={SQUAD_TOKENS}", "fp16", 64),
}
"""MLPerf's workloads: network, format, batch."""
FP8 = frozenset({"h100-sxm", "h100-pcie", "h100-nvl", "h200-sxm", "gh200"})
"""Chips whose submissions compute BERT 99.9 % in FP8."""
CHIPS: Mapping[str, str] = {
    "nvidia-t4": "t4", "nvidia-a2": "a2", "nvidia-a10": "a10", "nvidia-a30": "a30",
    "nvidia-a100-80-pcie": "a100-80-pcie", "nvidia-a100-80-sxm": "a100-80-sxm", "nvidia-l40": "l40",
    "nvidia-h100-pcie": "h100-pcie", "nvidia-h100-nvl": "h100-nvl", "nvidia-h100-sxm": "h100-sxm",
    "nvidia-gh200": "gh200", "nvidia-h200-sxm": "h200-sxm",
}  # fmt: skip
"""MLPerf's chips that are here. Jetson is not compared: two further accelerators of its die take part of the work."""
Submission = tuple[str, str]
"""Workload and chip."""


def neusight(data: Path) -> Iterator[Row]:
    """Inference, eager and fused, of one device."""
    for row in rows_of(data / "neusight_model_e2e.csv"):
        chip, network = DEVICES.get(row["device"]), NETWORKS.get(row["model"])
        if row["mode"] != "inf" or chip is None or network is None:
            continue
        fusion = "compiled" if row["option"] == "fusion" else "eager"
        calibrated, shared = (
            simulated(network, on, "fp32", batch=int(row["batch"]), fusion=fusion, site=EAGER).seconds
            for on in (load_chip(chip), plain_chip(chip))
        )
        name = f"{row['model']}, batch {row['batch']}, {fusion}, on {chip}"
        yield Row(name, float(row["time_us"]) * 1e-6, calibrated, shared)


def mlperf(data: Path) -> Iterator[Row]:
    """Offline throughput as seconds of a batch, with the interval of the run."""
    for (workload, chip), rate in submitted(data).items():
        network, dtype, batch = SUBMITTED[workload]
        run = simulated(network, chip, format_of(workload, dtype, chip), batch=batch)
        interval, measured, predicted = latency_interval(run), batch / rate, without_link_s(run)
        assert interval is not None
        ratio = run.seconds / predicted * measured
        yield Row(
            f"{workload} offline on {chip}", measured, predicted, None, interval.low_s <= ratio <= interval.high_s
        )


def submitted(data: Path) -> dict[Submission, float]:
    """Offline samples per second of a chip, the median of all submissions that had not limited its power."""
    found: dict[Submission, list[float]] = {}
    for row in (*rows_of(data / PUBLISHED), *rows_of(data / NEWER)):
        workload, chip = row["workload"], CHIPS.get(row["chip_id"])
        offline = row["shape_or_batch"] == "Offline" and row["source"].startswith("MLPerf Inference")
        if offline and not row["power_w"] and chip is not None and workload in SUBMITTED:
            found.setdefault((workload, chip), []).append(float(row["per_chip_value"]))
    return {
        (workload, chip): median(found[workload, chip])
        for workload in SUBMITTED
        for chip in CHIPS.values()
        if (workload, chip) in found
    }


def format_of(workload: str, dtype: str, chip: str) -> str:
    """The format of a submission: Hopper computes BERT 99.9 % in FP8."""
    return "fp8_e4m3fn" if dtype == "fp16" and chip in FP8 and workload.endswith("(99.9%)") else dtype


def compass(data: Path) -> Iterator[Row]:
    """Kernels alone, each by a fit to the others of its kind."""
    for file in ("matmul", "softmax", "layernorm", "gelu"):
        found = _fitted(plain_chip(CHIP), data, file)
        for cells, measured, predicted in zip(found.table.cells, found.table.measured, found.left_out, strict=True):
            size = f"{cells['M']} x {cells['N']}" if cells["M"] else f"{cells['elements']} elements"
            yield Row(f"{file} of {size}", float(measured), float(predicted))


def _fitted(chip: Chip, data: Path, file: str) -> Calibrated:
    return calibrate(read_table(data / "llmcompass" / f"{file}_A100.csv", timed=True), chip, file, "2026-11")


def gpt3_layer(data: Path) -> Iterator[Row]:
    """The kernels of a layer one after the other, without its all-reduce (``serving`` has it)."""
    for case in KERNELS:
        kernels = layer(data, case)
        yield Row(f"GPT-3 layer, {case}", kernels.measured_s, kernels.predicted_s, kernels.shared_s)


SETS: Mapping[str, tuple[Callable[[Path], Iterator[Row]], float]] = {
    "language models of NeuSight, inference": (neusight, 0.105),
    "language models of NeuSight, training": (lambda data: training(data, NETWORKS, DEVICES), 0.105),
    "ResNet-50 and BERT by batch of DeepLearningExamples": (frameworks, 0.14),
    "MLPerf offline": (mlperf, 0.2),
    "kernels of LLMCompass alone": (compass, 0.035),
    "kernels of a GPT-3 layer": (gpt3_layer, 0.025),
}
"""Set -> its rows, and the mean error that is claimed of it."""


@check("gpu-models")
def gpu_models() -> Check:
    """Mean error of each set, with its worst row."""
    what, data = "whole networks on GPUs against measured times", folder()
    if data is None:
        return Check("gpu-models", what, 0, 0, np.zeros(0), [ABSENT])
    told, errors, kept, compared = [], [], 0, []
    for name, (predicted, claimed) in SETS.items():
        rows = list(predicted(data))
        sizes = np.abs([row.error for row in rows])
        worst = rows[int(np.argmax(sizes))]
        kept += bool(sizes.mean() <= claimed)
        errors += [row.error for row in rows]
        measured, times = (np.array([getattr(row, field) for row in rows]) for field in ("measured", "predicted"))
        compared.append(Compared(name, measured, times, np.full(len(rows), "", dtype=object)))
        told.append(
            f"{name}: {len(rows)} rows, mean {sizes.mean():.1%}, median {np.median(sizes):.1%}, 90th percentile "
            f"{np.quantile(sizes, 0.9):.1%} (claimed: mean {claimed:.1%}){_by_others(rows)}; "
            f"worst {worst.name}: {worst.error:+.1%}"
        )
    return Check("gpu-models", what, len(SETS), kept, np.array(errors), told, "mean error as claimed", 0, compared)


def _by_others(rows: Sequence[Row]) -> str:
    """The mean error with what all chips share, and rows within their intervals, where a set has these."""
    sizes = [abs(row.by_others / row.measured - 1) for row in rows if row.by_others is not None]
    held = [row.inside for row in rows if row.inside is not None]
    return (f", without numbers of that chip mean {np.mean(sizes):.1%}" if sizes else "") + (
        f"; {sum(held)} of {len(held)} within their intervals" if held else ""
    )
