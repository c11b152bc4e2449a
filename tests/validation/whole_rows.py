"""Whole things that were measured and published, beside predictions as a user gets them: constants and options that ship.

Nothing is fitted to any of these rows: no host's time of one machine, no share of a peak, no factor of a class of
submissions. What a user cannot know (the host of a machine, which activations were computed again) is what the checks of
the same tables assume: see ``training_clusters``, ``public_training``, ``gpu_models``, ``gpu_frameworks``, ``gpu_own``,
``gpu_power``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.account.interval import JOULES, NETWORK, latency_interval
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.asked import step
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import train_step
from accelsim.cli.run_cluster_serve import Serving, served
from accelsim.errors import Infeasible
from accelsim.kernels.whole import Interval
from accelsim.workload.sources.load import load_model
from tests.validation import gpu_frameworks, gpu_models, gpu_own, gpu_power, public_training, training_clusters
from tests.validation.gpu_rows import EAGER, PUBLISHED, rows_of, simulated, without_link_s
from tests.validation.gpu_training import gradients
from tests.validation.training_clusters import Case

PARTS = 3
"""Of so many rows one has no part in a factor, by a hash of what it is."""


class Whole(NamedTuple):
    """A whole thing: its key in ``hwspecs/intervals``, who measured it, the family of its model, its device, what it
    is, the measured and the predicted figure (s or J), and the factor of the interval by its kernels alone."""

    key: str
    lab: str
    family: str
    device: str
    name: str
    measured: float
    predicted: float
    kernels: float

    @property
    def unseen(self) -> bool:
        """Return whether the row has no part in a factor."""
        text = f"{self.key}|{self.lab}|{self.name}"
        return sha256(text.encode()).digest()[0] % PARTS == PARTS - 1


def _factor(found: Interval | None, seconds: float) -> float:
    """The factor of an interval, 1 for none."""
    return 1.0 if found is None else found.high_s / seconds


def inference(data: Path) -> Iterator[Whole]:
    """NeuSight's networks, eager and fused, on calibrated GPUs and, by the defaults, on the same as if uncalibrated."""
    for row in rows_of(data / "neusight_model_e2e.csv"):
        chip, network = gpu_models.DEVICES.get(row["device"]), gpu_models.NETWORKS.get(row["model"])
        if chip is None or network is None:
            continue
        name, seconds = f"{row['model']}, {row['mode']}, batch {row['batch']}, {row['option']}, {chip}", float(row["time_us"]) * 1e-6
        if row["mode"] == "inf":
            fusion = "compiled" if row["option"] == "fusion" else "eager"
            run = simulated(network, chip, "fp32", batch=int(row["batch"]), fusion=fusion, site=EAGER)
            yield Whole(NETWORK, "NeuSight", _kind(row["model"]), chip, name, seconds, run.seconds, _factor(latency_interval(run), run.seconds))
        elif row["mode"] == "train":
            run = simulated(gradients(load_model(network, batch=int(row["batch"]))), chip, "fp32", fusion="eager", site=EAGER)
            own = without_link_s(run)
            yield Whole("step: one GPU", "NeuSight", _kind(row["model"]), chip, name, seconds, own, _factor(latency_interval(run), run.seconds))


def _kind(model: str) -> str:
    """The family of a model by its name."""
    text = model.lower()
    return next((kind for part, kind in FAMILIES.items() if part in text), "decoder")


FAMILIES = {"bert": "encoder", "resnet": "convolutions", "vit": "encoder", "cnn": "convolutions", "mobilenet": "convolutions", "vgg": "convolutions", "efficientnet": "convolutions", "unet": "convolutions", "mlp": "products"}
"""Part of the name of a model -> its family; all others are decoders."""


def deep_learning_examples(data: Path) -> Iterator[Whole]:
    """NVIDIA's published passes of frameworks, kernel by kernel with PyTorch's host."""
    known: dict[tuple[str, str, int], tuple[float, float]] = {}
    for line in rows_of(data / PUBLISHED):
        told = gpu_frameworks._told(line)
        if told is None:
            continue
        framework, network, chip, batch, seconds = told
        if (network, chip, batch) not in known:
            run = simulated(network, chip, "fp16", batch=batch, fusion="eager", site=EAGER)
            known[network, chip, batch] = without_link_s(run), _factor(latency_interval(run), run.seconds)
        own, factor = known[network, chip, batch]
        yield Whole(NETWORK, f"DeepLearningExamples, {framework}", _kind(network), chip, f"{network}, batch {batch}, {chip}", seconds, own, factor)


def mlperf(data: Path) -> Iterator[Whole]:
    """MLPerf offline, the median of all submissions of a chip."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows_of(data / PUBLISHED):
        key = (row["workload"], row["chip_id"])
        offline = row["shape_or_batch"] == "Offline" and row["source"].startswith("MLPerf Inference")
        if offline and key[0] in gpu_models.SUBMITTED and key[1] in gpu_models.CHIPS:
            found.setdefault(key, []).append(float(row["per_chip_value"]))
    for (workload, name), rates in found.items():
        (network, dtype, batch), chip = gpu_models.SUBMITTED[workload], gpu_models.CHIPS[name]
        run = simulated(network, chip, gpu_models.format_of(workload, dtype, chip), batch=batch)
        yield Whole(NETWORK, "MLPerf", _kind(network), chip, f"{workload}, {chip}", batch / float(np.median(rates)), without_link_s(run), _factor(latency_interval(run), run.seconds))


def own(data: Path) -> Iterator[Whole]:
    """Own networks on an H200 and an H100, seconds and joules."""
    for device in gpu_own.there():
        with (gpu_own.FOLDER / device / "networks.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["mode"] == "graph" and row["time_us"]:
                    fusion, seconds = gpu_own.FUSION[row["attention"]], float(row["time_us"]) * 1e-6
                    run = simulated(row["model"], gpu_own._in_graphs(device), row["dtype"], batch=int(row["batch"]), fusion=fusion)
                    name = f"{row['model']}, batch {row['batch']}, {row['dtype']}, {fusion}, {device}"
                    yield Whole(NETWORK, "own", _kind(row["model"]), device, name, seconds, without_link_s(run), _factor(latency_interval(run), run.seconds))
                    yield Whole(JOULES, "own", _kind(row["model"]), device, name, float(row["power_W"]) * seconds, gpu_own.on_the_board_J(run), 1.0)


def wall(data: Path) -> Iterator[Whole]:
    """MLPerf's power at the wall: the share of the GPU, of the usual share on other chips."""
    rows = list(gpu_power.powered(data))
    for row in rows:
        usual = float(np.median([each.share for each in rows if each.chip != row.chip]))
        yield Whole(JOULES, "MLPerf", _kind(row.name), row.chip, row.name, row.wall_J * usual, row.simulated_J, 1.0)


def _step(lab: str, family: str, device: str, name: str, measured: float, found: StepResult) -> Whole:
    extent = "one GPU" if found.plan.devices == 1 else "one node" if found.plan.devices <= training_clusters.NODE else "many nodes"
    return Whole(f"step: {extent}", lab, family, device, name, measured, found.time_s, _factor(found.interval, found.time_s))


def _of_case(lab: str, case: Case, changes: tuple[str, ...] = (), host_s: float = 0.0) -> Whole:
    fleet = training_clusters.fleet(case.plan.devices, changes, host_s)
    found = train_step(training_clusters.work(case.model), fleet, case.plan, case.batch, training_clusters.OPTIONS)
    return _step(lab, f"{case.model.hidden}", "a100-80-sxm", case.name, case.seconds, found)


def vtrain(data: Path) -> Iterator[Whole]:
    """vTrain's steps on one node and on several."""
    cases = enumerate(training_clusters.vtrain(data / "training" / "vtrain_single_a100.csv"))
    for index, case in cases:
        if index % training_clusters.FITTED:
            yield _of_case("vTrain", case, host_s=training_clusters.HOST_S)
    for case in training_clusters.vtrain(data / "training" / "vtrain_multi_a100.csv"):
        yield _of_case("vTrain", case, training_clusters.FOUR_CARDS)


def mpt(data: Path) -> Iterator[Whole]:
    """MosaicML's tables of 7 to 70 billion parameters that have told no constant."""
    for one in public_training.published():
        if one.common and not one.fitted:
            found, row = step(one.asked()), one.row
            seconds = found.batch * found.sample_tokens / int(row["gpus"]) / float(row["tokens_per_s_gpu"])
            yield _step("MosaicML", row["model"], row["gpu"], f"{row['gpu']}: {row}", seconds, found)


def megatron(data: Path) -> Iterator[Whole]:
    """Megatron-LM's tables of 2021, 2022 and 2024, on GPUs as they ship."""
    for name, layers, hidden, heads, _, batch, stages, chunks, full, selective in training_clusters.TABLE_5:
        schedule = "interleaved" if chunks > 1 else "1f1b"
        shape = {"tp": 8, "pp": stages, "chunks": chunks, "microbatches": batch, "schedule": schedule}
        for recompute, sp, seconds in (("full", False, full), ("selective", True, selective)):
            plan, model = Plan(**shape, recompute=recompute, sp=sp), training_clusters.gpt(layers, hidden, heads)
            yield _of_case("Megatron-LM", Case(f"{name}, {recompute}", model, plan, batch, seconds))
    for case in training_clusters.weak_scaled():
        yield _of_case("Megatron-LM", case)
    for name, seconds, found in public_training.megatron_steps():
        yield _step("Megatron-LM", name, "h100-sxm", name, seconds, found)


MODELS: Mapping[str, str] = {
    "LLaMA-7B": "llama2-7b", "LLaMA-70B": "llama2-70b",
    "GPT-J-6B": "gpt?layers=28,hidden=4096,heads=16,kv_heads=16,ffn=16384,vocab=50400",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3-8b", "meta-llama/Llama-3.1-70B": "llama3-70b",
}  # fmt: skip
"""Model of the serving tables -> name here."""
SERVERS: Mapping[str, str] = {"H100": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200", "A100-SXM-80": "dgx-a100"}
FORMATS: Mapping[str, str] = {"": "bf16", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8_e4m3fn"}


def generation(data: Path) -> Iterator[Whole]:
    """TensorRT-LLM's static batches and first tokens."""
    for row in rows_of(data / "serving" / "serving_public.csv"):
        if row["load_kind"] not in ("static batch", "batch 1") or row["gpu"] not in SERVERS or row["model"] not in MODELS:
            continue
        yield from _served(row, int(row["isl"]), int(row["osl"]), int(row["concurrency"]))


def closed_loop(data: Path) -> Iterator[Whole]:
    for index, row in enumerate(rows_of(data / "serving" / "serving_public.csv")):
        if row["load_kind"].startswith("closed") and row["mode"] == "agg" and row["gpu"] in SERVERS and row["model"] in MODELS and row["precision"] in FORMATS and row["isl"]:
            yield from _served(row, int(row["isl"]), int(row["osl"]), int(row["concurrency"]))


def _served(row: Mapping[str, str], prompt: int, new: int, batch: int) -> Iterator[Whole]:
    devices = int(row["tp"])
    model = MODELS[row["model"]]
    text = f"{model}{',' if '?' in model else '?'}prompt={prompt},new={new}"
    asked = Serving(text, f"{SERVERS[row['gpu']]}?devices={devices}", plan=f"tp={devices}", batch=batch, dtype=FORMATS[row["precision"]], ignore_capacity=True, advice=False)
    found, _ = served(asked)
    lab, name = row["source"].split(" (")[0] + ", " + row["engine"], f"{row['model']} {row['precision']} on {devices} {row['gpu']}, {prompt} + {new}, batch {batch}, {row['row_id']}"
    extent = "one GPU" if devices == 1 else "one node"
    if row["ttft_mean_ms"]:
        yield Whole(f"first token: {extent}", lab, row["model"], row["gpu"], name, float(row["ttft_mean_ms"]) * 1e-3, found.time_to_first_token_s, _factor(found.first_interval, found.time_to_first_token_s))
    if row["tpot_mean_ms"] and found.token_s:
        yield Whole(f"token: {extent}", lab, row["model"], row["gpu"], name, float(row["tpot_mean_ms"]) * 1e-3, found.token_s, _factor(found.token_interval, found.decode.last.period_s))
    whole = 0.0
    if row["ttft_mean_ms"] and row["tpot_mean_ms"]:
        whole = (float(row["ttft_mean_ms"]) + (new - 1) * float(row["tpot_mean_ms"])) * 1e-3
    elif row["out_tok_s"]:
        whole = batch * new / (float(row["out_tok_s"]) * devices)
    if whole:
        yield Whole(f"generation: {extent}", lab, row["model"], row["gpu"], name, whole, found.total_s, _factor(found.token_interval, found.decode.last.period_s))
