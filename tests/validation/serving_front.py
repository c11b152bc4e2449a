"""Closed loops that others measured on vLLM, as ``accelsim serve`` predicts them, and the fit of ``vllm-server``.

InferenceX (by way of aiconfigurator, Apache-2.0): C clients, 10 C requests without common prefixes, lengths uniform
between 0.8 and 1.0 of the nominal ones. Looked at are Qwen3 32B in 16 bits, vLLM 0.12, on H100, and Llama 3.1 70B in
FP8 on H100, H200 and B200, whose rows tell no version. (Rows of a second source with FP8 and 0.12 compute more than
half of what the chips can in prompts alone: their prefixes were cached.) Half of the settings on H100 and H200, by
their number, is for the fit, the other half and the B200 for the test. ``python -m tests.validation.serving_front``
prints the four numbers of the site and the errors of both.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple
from zlib import crc32

import numpy as np

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.devices import Devices, serving_library
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.serving.asked import blocks_of, factors_of
from accelsim.serving.blocks import Pool
from accelsim.serving.front import hosted, way_s
from accelsim.serving.loads import drawn, read_lengths, read_load
from accelsim.serving.measures import tpot_s, ttft_s
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, Service, simulate
from accelsim.serving.times import StepTimes
from accelsim.spec.site import Front
from accelsim.spec.yaml.clusters import load_devices
from accelsim.types import Array, Floats
from tests.validation.measured import folder

FILE = "serving/serving_public.csv"
MODELS = {"Qwen/Qwen3-32B": "qwen3-32b", "meta-llama/Llama-3.1-70B": "llama3-70b"}
CHIPS = {"H100": ("h100-sxm", "dgx-h100"), "H200": ("h200-sxm", "dgx-h200"), "B200": ("b200-sxm", "dgx-b200")}
FORMATS = {"": "bf16", "fp8": "fp8_e4m3fn"}
CLIENTS, OUTPUT = 64, 1024
"""Most clients and longest outputs that are looked at."""
BUDGET, MOST = 8192, 1024
"""Defaults of vLLM's server on these chips."""
JITTER = 0.2 / 12**0.5 / 0.9
"""Coefficient of variation of lengths."""
STEPS, SEQUENCES = (0.0, 0.3e-3, 0.6e-3, 0.9e-3), (0.0, 2e-5, 4e-5, 6e-5)
"""Seconds that the fit tries."""


class Row(NamedTuple):
    """A measured loop: its settings, and mean times to the first token and per token, s."""

    number: str
    model: str
    gpu: str
    tp: int
    precision: str
    prompt: int
    output: int
    clients: int
    ttft_s: float
    tpot_s: float

    @property
    def fit(self) -> bool:
        """Whether the fit may see it."""
        return self.gpu != "B200" and crc32(self.number.encode()) % 2 == 0


def rows() -> list[Row]:
    """Return the rows of this check; none where the file is not there."""
    where = folder()
    if where is None or not (path := where / FILE).is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return list(_kept(csv.DictReader(file)))


def _kept(found: Iterator[dict[str, str]]) -> Iterator[Row]:
    for row in found:
        plain = row["engine"] == "vllm" and row["mode"] == "agg" and row["load_kind"] == "closed-loop concurrency"
        known = (
            row["model"] in MODELS and row["gpu"] in CHIPS and row["precision"] in FORMATS and row["pp"] in ("", "1")
        )
        versions = row["precision"] == "" or not row["engine_version"]
        if not (plain and known and versions and row["ttft_mean_ms"]):
            continue
        if int(row["concurrency"]) <= CLIENTS and int(row["osl"]) <= OUTPUT:
            sizes = (int(row[key]) for key in ("isl", "osl", "concurrency"))
            seconds = (float(row[key]) / 1e3 for key in ("ttft_mean_ms", "tpot_mean_ms"))
            yield Row(row["config_id"], row["model"], row["gpu"], int(row["tp"]), row["precision"], *sizes, *seconds)


@cache
def times(model: str, gpu: str, tp: int, precision: str) -> tuple[StepTimes, int]:
    """Return times of steps, which remember what was simulated, and the blocks of a replica."""
    chip, node = CHIPS[gpu]
    setting, spec = Setting(dtype=FORMATS[precision]), load_devices(chip if tp == 1 else f"{node}?devices={tp}")
    fleet = fleet_of(spec, setting, serving_library(spec, "", setting))
    devices, plan, decoder = Devices(fleet, fleet.setting), Plan(tp=tp), transformer_of(MODELS[model])
    assert decoder is not None
    return StepTimes(decoder, devices, plan), blocks_of(devices, Layout(decoder, plan, 1), BUDGET, 0.9)[0]


def predicted(row: Row, front: Front, end: int = 0) -> tuple[float, float]:
    """Return mean times to the first token and per token, s; ``end``: if steps take as little (-1) or as long (1) as
    they may."""
    found, blocks = times(row.model, row.gpu, row.tp, row.precision)
    lengths = read_lengths(f"uniform:{round(0.9 * row.prompt)},{round(0.9 * row.output)},cv={JITTER}")
    load = read_load(f"closed:{row.clients}")
    requests = list(drawn(load, lengths, 10 * row.clients, 0))
    route, way = ROUTERS["round-robin"](), partial(way_s, front)

    def simulated(factor: float) -> Service:
        cost = hosted(partial(found.scaled, factor), front)
        scheduler = Vllm(Pool(blocks), budget=BUDGET, most=MOST)
        return simulate(requests, [scheduler], cost, route, load.clients, way_s=way)

    service = simulated(1.0)
    factors = factors_of(service, found.devices, Layout(found.model, found.plan, 1)) if end else None
    if factors:
        service = simulated(factors[end > 0])
    return float(ttft_s(service).mean()), float(tpot_s(service).mean())


def errors(found: Sequence[Row], front: Front) -> Floats:
    """Return relative errors of the times to the first token and per token, a line for each row."""
    return np.array([_error(row, predicted(row, front)) for row in found])


def _error(row: Row, seconds: tuple[float, float]) -> tuple[float, float]:
    return seconds[0] / row.ttft_s - 1, seconds[1] / row.tpot_s - 1


def fitted(found: Sequence[Row]) -> Front:
    """Return the front with the least mean error of times per token, and then of times to the first one."""
    tried = [
        Front().model_copy(update={"step": step, "sequence": sequence}) for step in STEPS for sequence in SEQUENCES
    ]
    seconds = {(front.step, front.sequence): [predicted(row, front) for row in found] for front in tried}
    best = min(tried, key=lambda front: _mean(found, seconds[front.step, front.sequence]))
    first = np.array([ttft for ttft, _ in seconds[best.step, best.sequence]])
    request, token = _line(
        np.array([0.9 * row.prompt for row in found]), np.array([row.ttft_s for row in found]), first
    )
    return best.model_copy(update={"request": request, "token": token})


def _mean(found: Sequence[Row], seconds: Sequence[tuple[float, float]]) -> float:
    return float(np.mean([abs(np.log(tpot / row.tpot_s)) for row, (_, tpot) in zip(found, seconds, strict=True)]))


def _line(tokens: Floats, measured: Floats, predicted: Floats) -> tuple[float, float]:
    """Fit what lies before the queue, s and s per token, for the least sum of relative errors (by weights anew)."""
    columns = np.stack([np.ones(len(tokens)), tokens], 1)
    weights, solved = np.array(1 / measured), np.zeros(2)
    for _ in range(50):
        solved = np.array(np.linalg.lstsq(columns * weights[:, None], (measured - predicted) * weights, rcond=None)[0])
        off = np.abs(measured - predicted - columns @ solved) / measured
        weights = np.array(1 / measured / np.sqrt(np.maximum(off, 1e-3)))
    return float(solved[0]), float(solved[1])


def _held(row: Row, front: Front) -> Array:
    """Return whether the interval (90 %) holds the times to the first token and per token."""
    low, high = (np.array(predicted(row, front, end)) for end in (-1, 1))
    measured = np.array((row.ttft_s, row.tpot_s))
    return np.array((low <= measured) & (measured <= high))


def _told(name: str, plain: Array, fronted: Array, held: Array) -> Iterator[str]:
    for told, off in (("without a front", plain), ("with it", fronted)):
        middle, most, signed = np.median(abs(off), 0), np.quantile(abs(off), 0.9, 0), np.median(off, 0)
        yield (
            f"{name}, {len(off)} rows, {told}: first token {middle[0]:.1%} (90th percentile {most[0]:.1%}, median "
            f"{signed[0]:+.1%}), per token {middle[1]:.1%} ({most[1]:.1%}, {signed[1]:+.1%})"
        )
    first, each = held.mean(axis=0)
    yield f"{name}: the interval holds {first:.0%} of the times to the first token, {each:.0%} of those per token"


def main() -> None:
    """Fit, and print what comes of it."""
    found = rows()
    front = fitted([row for row in found if row.fit])
    print(front, flush=True)
    kinds = ["fit" if row.fit else f"test, {MODELS[row.model]} on {row.gpu}" for row in found]
    columns = errors(found, Front()), errors(found, front), np.array([_held(row, front) for row in found])
    for name in ("fit", "test", *sorted(set(kinds) - {"fit"})):
        picked = [kind.startswith(name) for kind in kinds]
        print(*_told(name, *(column[picked] for column in columns)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
