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
from typing import NamedTuple

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
IMAGES = Items("resnet50", "h100-sxm", scheduler="dynamic:max=64,delay=2ms,instances=2", requests=50_000,
               dtype="int8")  # fmt: skip


class Benchmark(NamedTuple):
    """A benchmark: as MLPerf calls model and scenario, what is asked for, and limits, s."""

    model: str
    scenario: str
    question: Question | Items
    limits_s: Mapping[str, float]


BENCHMARKS = {
    "ResNet-50, Server": Benchmark("resnet50", "Server", IMAGES, {"e2e": 15e-3}),
    "Llama 2 70B, Server": Benchmark("llama2-70b-99", "Server", DECODER, {"ttft": 2.0, "tpot": 0.2}),
    "Llama 2 70B, Interactive": Benchmark("llama2-70b-99", "Interactive", DECODER, {"ttft": 0.45, "tpot": 0.04}),
}


def measured(model: str, scenario: str) -> list[float]:
    """Return the ratio of each system; none where the file is not there."""
    where = folder()
    if where is None or not (path := where / FILE).is_file():
        return []
    systems: dict[tuple[str, ...], dict[str, float]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == model and row["valid"] == "VALID":
                rate = row["completed_tok_s"] or row["completed_qps"]
                key = tuple(row[each] for each in ("version", "submitter", "platform", "accelerator", "n_acc"))
                systems.setdefault(key, {})[row["scenario"]] = float(rate)
    return [each[scenario] / each["Offline"] for each in systems.values() if each.keys() >= {scenario, "Offline"}]


def predicted(benchmark: Benchmark) -> tuple[float, float]:
    """Return requests a second within the limits, and without."""
    limits = dict(benchmark.limits_s)
    if isinstance(benchmark.question, Items):
        items = read(benchmark.question)
        offline = items.bounds.rate
        found = search(lambda rate: of_items.probe(items, limits, rate), SHARE, offline, False)
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


if __name__ == "__main__":
    main()
