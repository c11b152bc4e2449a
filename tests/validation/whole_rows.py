"""Whole things that were measured and published, beside predictions as a user gets them: constants and options that ship.

Nothing is fitted to any of these rows: no share of a peak of one machine, no factor of a class of submissions. What a
user cannot know (the host of a machine, which activations were computed again) is what the checks of the same tables
assume: ``training_clusters``, ``public_training``, ``gpu_models``, ``gpu_frameworks``, ``gpu_own``, ``gpu_power``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from accelsim.account.interval import GENERATION, JOULES, TOKEN, WALL, WATTS, key_of, latency_interval
from accelsim.cluster.serving.asked import served
from accelsim.cluster.step.asked import step
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import train_step
from accelsim.kernels.whole import PLANS, Interval
from accelsim.machine.run import Run
from accelsim.workload.sources.load import load_model
from tests.validation import (
    generations,
    gpu_frameworks,
    gpu_models,
    gpu_own,
    gpu_power,
    public_training,
    training_clusters,
)
from tests.validation.gpu_rows import EAGER, PUBLISHED, rows_of, simulated, without_link_s
from tests.validation.gpu_training import gradients
from tests.validation.training_clusters import Case

IN_LAB = "calibration-lab-eager"
"""Site of NeuSight's GPUs, whose kernels told their constants."""
PARTS = 3
"""Of so many rows one has no part in a factor, by a hash of what it is."""


class Row(NamedTuple):
    """A whole thing: its key in ``hwspecs/intervals``, who measured it, the family of its model, its device, what it
    is, the measured and the predicted figure (s, J, W or their ratio), and the factor of its kernels alone (1: none)."""

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
        return sha256(f"{self.lab}|{self.name}".encode()).digest()[0] % PARTS == PARTS - 1


FAMILIES: Mapping[str, str] = {
    "bert": "encoders", "vit": "encoders", "resnet": "convolutions", "cnn": "convolutions", "mobilenet": "convolutions",
    "vgg": "convolutions", "efficientnet": "convolutions", "unet": "convolutions", "mlp": "products",
}  # fmt: skip
"""Part of the name of a model -> its family; all others are decoders."""


def family(model: str) -> str:
    """Return the family of a model by its name."""
    return next((kind for part, kind in FAMILIES.items() if part in model.lower()), "decoders")


def row(
    key: str, who: tuple[str, str, str], name: str, measured: float, predicted: float, found: Interval | None
) -> Row:
    """Return a row; ``who``: lab, family of the model, device. ``found``: the interval of its prediction."""
    return Row(key, *who, name, measured, predicted, 1.0 if found is None else found.kernels)


def _passed(run: Run, who: tuple[str, str, str], name: str, measured: float) -> Row:
    """A pass through a network on one device, whose inputs are there."""
    return row(key_of(run), who, name, measured, without_link_s(run), latency_interval(run))


def neusight(data: Path) -> Iterator[Row]:
    """NeuSight's networks under PyTorch, and their steps forward and backward."""
    for line in rows_of(data / "neusight_model_e2e.csv"):
        chip, network = gpu_models.DEVICES.get(line["device"]), gpu_models.NETWORKS.get(line["model"])
        if chip is None or network is None:
            continue
        batch, training = int(line["batch"]), line["mode"] == "train"
        name = f"{line['model']}, {line['mode']}, {line['option']}, batch {batch}, {chip}"
        who, seconds = ("NeuSight", family(line["model"]), chip), float(line["time_us"]) * 1e-6
        if training:
            graph = gradients(load_model(network, batch=batch))
            run = simulated(graph, chip, "fp32", fusion="eager", site=IN_LAB)
            yield _passed(run, who, name, seconds)._replace(key="step: one node")
        elif line["mode"] == "inf":
            fusion = "compiled" if line["option"] == "fusion" else "eager"
            run = simulated(network, chip, "fp32", batch=batch, fusion=fusion, site=IN_LAB)
            yield _passed(run, who, name, seconds)


def frameworks(data: Path) -> Iterator[Row]:
    """NVIDIA's DeepLearningExamples: passes of four frameworks, with the host of PyTorch."""
    known: dict[tuple[str, str, int], Run] = {}
    for line in rows_of(data / PUBLISHED):
        told = gpu_frameworks.told(line)
        if told is None:
            continue
        framework, network, chip, batch, seconds = told
        if (network, chip, batch) not in known:
            known[network, chip, batch] = simulated(network, chip, "fp16", batch=batch, fusion="eager", site=EAGER)
        who = (f"DeepLearningExamples, {framework}", family(network), chip)
        yield _passed(known[network, chip, batch], who, f"{network}, batch {batch}, {chip}", seconds)


def mlperf(data: Path) -> Iterator[Row]:
    """MLPerf offline, the median of all submissions of a chip, without any number of these."""
    for (workload, chip), rate in gpu_models.submitted(data).items():
        network, dtype, batch = gpu_models.SUBMITTED[workload]
        run = simulated(network, chip, gpu_models.format_of(workload, dtype, chip), batch=batch)
        yield _passed(run, ("MLPerf", family(network), chip), f"{workload}, {chip}", batch / rate)


def own(data: Path) -> Iterator[Row]:
    """Networks on an H200 and an H100 that were measured for this project: seconds and joules."""
    for device in gpu_own.there():
        with (gpu_own.FOLDER / device / "networks.csv").open(encoding="utf-8", newline="") as file:
            lines = [line for line in csv.DictReader(file) if line["mode"] == "graph" and line["time_us"]]
        for line in lines:
            run, seconds = gpu_own.simulated_network(device, line), float(line["time_us"]) * 1e-6
            who, joules = ("this project", family(line["model"]), device), float(line["power_W"]) * seconds
            name = f"{line['model']}, batch {line['batch']}, {line['dtype']}, {line['attention']}, {device}"
            yield _passed(run, who, name, seconds)
            simulated_J = gpu_own.on_the_board_J(run)
            yield row(JOULES, who, name, joules, simulated_J, None)
            yield row(WATTS, who, name, float(line["power_W"]), simulated_J / without_link_s(run), None)


def wall(data: Path) -> Iterator[Row]:
    """MLPerf's power at the wall, but for the submissions that told what a host draws."""
    server = gpu_power.server()
    for each in gpu_power.powered(data):
        if not each.fitted:
            who = ("MLPerf", family(each.name), each.chip)
            yield row(WALL, who, each.name, each.wall_J, each.simulated_J(server), None)


def _stepped(who: tuple[str, str, str], name: str, measured: float, found: StepResult) -> Row:
    extent = "one node" if found.plan.devices <= training_clusters.NODE else "many nodes"
    return row(f"step: {extent}", who, name, measured, found.time_s, found.interval)


def _of_case(lab: str, case: Case, changes: tuple[str, ...] = (), host_s: float = 0.0) -> Row:
    fleet = training_clusters.fleet(case.plan.devices, changes, host_s)
    work, options = training_clusters.work(case.model), training_clusters.OPTIONS
    found = train_step(work, fleet, case.plan, case.batch, options)
    who = (lab, f"{case.model.hidden} wide", "a100-80-sxm")
    return _stepped(who, case.name, case.seconds, found)


def vtrain(data: Path) -> Iterator[Row]:
    """vTrain's steps on one node, but for those that told the time of its host, and on several."""
    for case in training_clusters.one_node_cases(data):
        yield _of_case("vTrain", case, host_s=training_clusters.HOST_S)
    for case in training_clusters.vtrain(data / "training" / "vtrain_multi_a100.csv"):
        yield _of_case("vTrain", case, training_clusters.FOUR_CARDS)


def mpt(data: Path) -> Iterator[Row]:
    """MosaicML's table of MPT, but for the rows that told constants."""
    for one in public_training.published():
        if one.common and not one.fitted:
            found, line = step(one.asked()), one.row
            tokens = found.batch * found.sample_tokens / int(line["gpus"])
            name = ", ".join(
                f"{line[key]} {key}" for key in ("model", "tokens", "gpus", "microbatch", "recompute", "gpu")
            )
            who = ("MosaicML", f"MPT {line['model']}", line["gpu"])
            yield _stepped(who, name, tokens / float(line["tokens_per_s_gpu"]), found)


def megatron(data: Path) -> Iterator[Row]:
    """Megatron-LM's tables of 2021, 2022 and 2024, on GPUs as they ship."""
    for case in (*training_clusters.table_5_cases(), *training_clusters.weak_scaling_cases()):
        yield _of_case("Megatron-LM", case)
    for name, seconds, found in public_training.megatron_steps():
        yield _stepped(("Megatron-LM", name, "h100-sxm"), name, seconds, found)


def plans(rows: Iterable[Row]) -> Iterator[Row]:
    """Pairs of plans of vTrain for one model, batch and number of GPUs, each with the next slower one: how many times as
    long that takes, measured and predicted."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for each in rows:
        if each.lab == "vTrain":
            groups.setdefault((each.key, each.name.rpartition(", ")[0]), []).append(each)
    for (key, name), found in groups.items():
        for one, other in pairwise(sorted(found, key=lambda each: (each.predicted, each.name))):
            ratios = (other.measured / one.measured, other.predicted / one.predicted)
            yield row(key.replace("step", PLANS), (one.lab, one.family, one.device), name, *ratios, None)


MODELS: Mapping[str, str] = {
    "meta-llama/Llama-3.1-8B-Instruct": "llama3-8b", "meta-llama/Llama-3.1-70B": "llama3-70b",
}  # fmt: skip
"""Dense model of the closed loops -> name here."""
SERVERS: Mapping[str, str] = {"H100": "dgx-h100", "H200": "dgx-h200", "B200": "dgx-b200"}
FORMATS: Mapping[str, str] = {"": "bf16", "fp8": "fp8_e4m3fn"}
"""Precision of the closed loops -> format."""
CLOSED = 2
"""Of so many closed loops, by their number, one is compared."""
LITTLE = 0.05
"""Share of a closed loop that prompts may take where the time of a token is compared: it waits for those of others."""


def static(data: Path) -> Iterator[Row]:
    """TensorRT-LLM's static batches and first tokens."""
    for each in generations.rows(data):
        first = each.new == 1
        if not first and not generations.CHIPS[each.gpu][1]:
            continue  # a generation on a chip that is on no node takes a minute
        seconds, found = generations.timed(each, node_alone=True)
        measured = each.measured if first else each.batch * each.new / each.measured
        name = f"{each.batch} x ({each.prompt} + {each.new}), tp {each.tp}, {each.gpu}, {each.name}"
        yield row(GENERATION, ("TensorRT-LLM", each.model, each.gpu), name, measured, seconds, found)


def loops(data: Path) -> Iterator[Row]:
    """Closed loops (InferenceX). As many prompts and tokens are computed in the life of a request as in a batch of as
    many sequences as there are requests at a time."""
    for line in rows_of(data / "serving" / "serving_public.csv"):
        wanted = line["load_kind"] == "closed-loop concurrency" and line["mode"] == "agg" and line["isl"]
        known = line["gpu"] in SERVERS and line["model"] in MODELS and line["precision"] in FORMATS
        if wanted and known and int(line["row_id"][1:]) % CLOSED == 0:
            yield from _loop(line)


ENGINES = {
    "trtllm": "TensorRT-LLM in InferenceX", "vllm": "vLLM in InferenceX", "sglang": "SGLang in InferenceX",
}  # fmt: skip
"""Serving stack of a closed loop -> its name in sentences."""


def _loop(line: Mapping[str, str]) -> Iterator[Row]:
    devices, prompt, new, batch = (int(line[key]) for key in ("tp", "isl", "osl", "concurrency"))
    dtype = FORMATS[line["precision"]]
    setting = Setting(dtype, kv_dtype=dtype if line["engine"] == "trtllm" and line["precision"] else "")
    found, _ = served(
        f"{MODELS[line['model']]}?prompt={prompt},new={new}", f"{SERVERS[line['gpu']]}?devices={devices}", (),
        f"tp={devices}", batch, setting, "", True,
    )  # fmt: skip
    first, token = float(line["ttft_mean_ms"]) * 1e-3, float(line["tpot_mean_ms"]) * 1e-3
    who = (ENGINES[line["engine"]], line["model"].split("/")[-1], line["gpu"])
    name = f"{batch} x ({prompt} + {new}), {line['precision']}, tp {devices}, {line['gpu']}, {line['row_id']}"
    assert found.token_s is not None
    if found.time_to_first_token_s < LITTLE * found.total_s:
        yield row(TOKEN, who, name, token, found.token_s, found.token_interval)
    whole = first + (new - 1) * token
    yield row(GENERATION, who, name, whole, found.total_s, found.total_interval)


SETS: tuple[Callable[[Path], Iterator[Row]], ...] = (
    vtrain, mpt, megatron, own, wall, mlperf, frameworks, static, loops, neusight,
)  # fmt: skip
"""What is compared, the longest last."""
