"""Measured services, replayed with the same arrivals and lengths; nothing is fitted to them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.devices import Devices, serving_library
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.costs import PLAIN
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.serving.blocks import Pool
from accelsim.serving.measures import tpot_s, ttft_s
from accelsim.serving.replicas import blocks_of
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, simulate
from accelsim.serving.times import StepTimes
from accelsim.spec.yaml.clusters import load_devices
from accelsim.types import Array
from tests.validation.measured import ABSENT, folder

RUNS = {
    "RTX4090/Llama-3.1-8B": ("rtx4090", 256, 2588, 0.12, 0.10),
    "RTXPRO6000/Llama-3.1-8B": ("rtx-pro-6000-server", 128, None, 0.27, 0.10),
}
"""Run -> chip, requests at one time, blocks that vLLM reported, and the errors that the page claims at most: of the
time to the first token and of the time per token, at the mean, the middle and the 99th percentile."""
BUDGET = 2048


@pytest.mark.parametrize("name", RUNS)
def test_measured_services_take_about_as_long(name: str) -> None:
    where = folder()
    if where is None or not (path := where / "serving" / "requests_vllm_measured.csv").is_file():
        pytest.skip(ABSENT)
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == name]
    rows.sort(key=lambda row: float(row["arrival_s"]))
    chip, most, blocks, *claimed = RUNS[name]
    model = transformer_of("llama3-8b")
    assert model is not None
    spec = load_devices(chip)
    fleet = fleet_of(spec, PLAIN, serving_library(spec, "", PLAIN))
    devices = Devices(fleet, fleet.setting)
    blocks = blocks or blocks_of(devices, Layout(model, Plan(), 1), BUDGET, 0.9)[0]
    requests = [Request(*(kind(row[key]) for kind, key in COLUMNS)) for row in rows]
    scheduler = Vllm(Pool(blocks), budget=BUDGET, most=most)
    service = simulate(requests, [scheduler], StepTimes(model, devices, Plan()).cost, ROUTERS["round-robin"]())
    for figure, key, bound in ((ttft_s, "ttft_ms", claimed[0]), (tpot_s, "tpot_ms", claimed[1])):
        measured = np.array([float(row[key]) / 1e3 for row in rows if row[key]])
        assert np.all(np.abs(_three(figure(service)) / _three(measured) - 1) < bound), key


COLUMNS = ((float, "arrival_s"), (int, "input_tokens"), (int, "output_tokens"))


def _three(values: Array) -> Array:
    return np.array([values.mean(), np.quantile(values, 0.5), np.quantile(values, 0.99)])
