"""Throughput within limits of latency over that without, against MLPerf Inference 4.1 and 5.1 (closed division).

A system's Server or Interactive result over its Offline result; the median of all systems is compared with what
``accelsim serve --capacity 99%`` finds on one chip over what it serves when as many as fit are always there. Prompts and
answers of Llama 2 70B (OpenOrca) have 294 tokens on average.

``python -m tests.validation.serving_mlperf`` prints the table of docs/serve.md.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from accelsim.cluster.step.costs import Setting
from accelsim.serving.asked import Question, served
from accelsim.serving.capacity import search
from accelsim.serving.items import measures as of_items
from accelsim.serving.items.asked import Question as Items
from accelsim.serving.items.asked import read
from accelsim.serving.measures import probe
from tests.validation.measured import folder

FILE, SHARE = "serving/mlperf_public.csv", 0.99
BATCH, REQUESTS = 512, 10_000
"""Most requests of a decoder at one time, for which there is room to their ends; and all. Without limits the last of
these begins when all but ``BATCH`` have ended."""
DECODER = Question(
    "llama2-70b", "h200-sxm", "poisson:10/s", "lognormal:294,294,cv=0.8", REQUESTS, scheduler=f"vllm:most={BATCH}",
    setting=Setting(dtype="fp8", kv_dtype="fp8"),
)  # fmt: skip
IMAGES = Items("resnet50", "h100-sxm", scheduler="dynamic:max=256,delay=2ms,instances=7", requests=50_000, dtype="int8",
               edges="outside", inputs="device")  # fmt: skip
QUESTIONS = Items("bert-large?seq=177", "h100-sxm", scheduler="dynamic:max=128,instances=2", requests=20_000,
                  dtype="int8", edges="outside", longest=384)  # fmt: skip
"""As NVIDIA submitted on eight H100 (closed/NVIDIA/configs of mlcommons/inference_results_v3.0 and v4.1): largest
batch, delay, inference streams, whether items start in the device's memory. SQuAD's items have 177 tokens on average
(54 % of 384 are padding, openreview 3nzKUh9a4M); a batch of 128 in order of arrival has one of 384."""


class System(NamedTuple):
    """A system of a round of MLPerf."""

    version: str
    submitter: str
    platform: str
    accelerator: str
    n_acc: str


class Benchmark(NamedTuple):
    """A benchmark: as MLPerf calls model and scenario, what is asked for, limits, s, and, of items, what is another in
    the Offline scenario."""

    model: str
    scenario: str
    question: Question | Items
    limits_s: Mapping[str, float]
    offline: Mapping[str, Any] = MappingProxyType({})


BENCHMARKS = {
    "ResNet-50, Server": Benchmark("resnet50", "Server", IMAGES, {"e2e": 15e-3}, {"scheduler": "dynamic:max=2048"}),
    "BERT-99, Server": Benchmark(
        "bert-99", "Server", QUESTIONS, {"e2e": 130e-3}, {"scheduler": "dynamic:max=1280,instances=2", "longest": 0}
    ),
    "Llama 2 70B, Server": Benchmark("llama2-70b-99", "Server", DECODER, {"ttft": 2.0, "tpot": 0.2}),
    "Llama 2 70B, Interactive": Benchmark("llama2-70b-99", "Interactive", DECODER, {"ttft": 0.45, "tpot": 0.04}),
}


ACCELERATORS = {
    "h100-sxm": "NVIDIA H100-SXM-80GB", "h200-sxm": "NVIDIA H200-SXM-141GB", "h100-pcie": "NVIDIA H100-PCIe-80GB",
    "l40s": "NVIDIA L40S",
}  # fmt: skip
"""Chip -> accelerator."""
LARGE, HALF, QUARTER = (f"dynamic:max={size},instances=2" for size in (1280, 128, 64))
ON: Mapping[str, Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "ResNet-50, Server": {
        "h200-sxm": ({}, "dynamic:max=2048"),
        "h100-pcie": ({"scheduler": f"{HALF},delay=2ms", "inputs": "host"}, "dynamic:max=2048,instances=2"),
        "l40s": ({"scheduler": f"{QUARTER},delay=2ms", "inputs": "host"}, "dynamic:max=2048,instances=2"),
    },
    "BERT-99, Server": {
        "h200-sxm": ({}, LARGE), "h100-pcie": ({"scheduler": QUARTER}, LARGE), "l40s": ({"scheduler": QUARTER}, LARGE),
    },
}  # fmt: skip
"""Benchmark -> other chips: what is another there, by NVIDIA's files again (L40 for L40S), and batches when Offline."""


def systems(model: str) -> dict[System, dict[str, float]]:
    """Return what each system gives a second, new tokens or else queries, by scenario; none where the file is not
    there."""
    where, found = folder(), dict[System, dict[str, float]]()
    if where is None or not (path := where / FILE).is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == model and row["valid"] == "VALID":
                rate = row["completed_tok_s"] or row["completed_qps"]
                key = System(*(row[each] for each in System._fields))
                found.setdefault(key, {})[row["scenario"]] = float(rate)
    return found


def measured(model: str, scenario: str) -> list[float]:
    """Return the ratio of each system."""
    found = systems(model).values()
    return [each[scenario] / each["Offline"] for each in found if each.keys() >= {scenario, "Offline"}]


def each_chip(model: str, scenario: str, accelerator: str) -> list[float]:
    """Return what each chip of the systems with an accelerator gives a second."""
    found = systems(model).items()
    return [rates[scenario] / int(key.n_acc) for key, rates in found
            if key.accelerator == accelerator and scenario in rates]  # fmt: skip


def offline_rate(benchmark: Benchmark) -> float:
    """Return items a second without limits. In MLPerf's Offline scenario all are there at the start: batches are larger,
    and items of alike lengths go together."""
    assert isinstance(benchmark.question, Items)
    return read(replace(benchmark.question, **benchmark.offline)).bounds.rate


def predicted(benchmark: Benchmark) -> tuple[float, float]:
    """Return requests a second within the limits, and without."""
    limits = dict(benchmark.limits_s)
    if isinstance(benchmark.question, Items):
        items, offline = read(benchmark.question), offline_rate(benchmark)
        found = search(lambda rate: of_items.probe(items, limits, rate), SHARE, items.bounds.rate, False)
    else:
        question = benchmark.question
        burst = served(replace(question, load=f"closed:{BATCH}")).service
        offline = (REQUESTS - BATCH) / burst.sequences[-1].request.arrival_s
        made = served(question)
        found = search(lambda rate: probe(made.at_rate(rate).service, limits, rate), SHARE, offline / 2, False)
    return found.below.rate if found.below else 0.0, offline


def main() -> None:
    """Print a table."""
    for name, benchmark in BENCHMARKS.items():
        within, offline = predicted(benchmark)
        ratios = measured(benchmark.model, benchmark.scenario)
        told = f"{np.median(ratios):.2f} ({len(ratios)} systems)" if ratios else ""
        print(f"| {name} | {told} | {within / offline:.2f} | {within:.4g} of {offline:.4g} |", flush=True)
        for on, (tried, large) in ON.get(name, {}).items():
            question, other = replace(benchmark.question, on=on, **tried), {**benchmark.offline, "scheduler": large}
            found = predicted(benchmark._replace(question=question, offline=other))
            rates = [each_chip(benchmark.model, each, ACCELERATORS[on]) for each in (benchmark.scenario, "Offline")]
            middles = [float(np.median(each)) for each in rates if each]
            print(f"| {name}, {on} | {middles} | {found} |", flush=True)


if __name__ == "__main__":
    main()
