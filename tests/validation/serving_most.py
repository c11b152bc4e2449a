"""Most throughput of a steady service: TensorRT-LLM 1.0, as its makers published it (perf-overview, Apache-2.0).

All requests have equal lengths, and always more wait than there is room for. Compared are the rows of Llama 3.1 8B in FP8,
keys and values too, on one H100. Nothing is fitted to them; kernels are those of vLLM.

``python -m tests.validation.serving_most`` prints a table.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from accelsim.cluster.step.costs import Setting
from accelsim.serving.asked import Question, served
from accelsim.serving.blocks import TOKENS
from accelsim.serving.service import Service
from tests.validation.measured import folder
from tests.validation.serving_loads import Compared, errors

FILE, SOURCE = "serving/serving_public.csv", "NVIDIA TensorRT-LLM perf-overview"
ROWS = {
    "gpu": "H100",
    "model": "Llama-3.1-8B",
    "precision": "fp8",
    "engine_version": "1.0",
    "tp": "1",
    "source": SOURCE,
}
SERVICE = Question(
    "llama3.1-8b", "h100-sxm", scheduler="vllm:budget=8192,most=2048", setting=Setting(dtype="fp8", kv_dtype="fp8")
)
PROMPT, OUTPUT = 5000, 4096
"""Longest prompts and outputs that are looked at."""
WAVES, SPARE = 3, 1.2
"""Requests of a client; clients for each request that there is room for."""


class Most(NamedTuple):
    """A row: tokens of prompts and outputs, new tokens a second."""

    prompt: int
    output: int
    tokens_per_s: float


def most() -> list[Most]:
    """Return the rows; none where the file is not there."""
    where = folder()
    if where is None or not (path := where / FILE).is_file():
        return []
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == value for key, value in ROWS.items())]
    found = [Most(int(row["isl"]), int(row["osl"]), float(row["out_tok_s"])) for row in rows]
    return sorted(each for each in found if each.prompt <= PROMPT and each.output <= OUTPUT)


def compared(row: Most) -> Compared:
    """Compare a row with requests that enter while others leave: all but the first of each client."""
    tokens = row.prompt + row.output
    blocks = served(replace(SERVICE, lengths="fixed:16,2", load="closed:1", requests=1)).last.blocks
    clients = min(2048, int(SPARE * blocks * TOKENS / tokens))
    asked = replace(
        SERVICE, load=f"closed:{clients}", lengths=f"fixed:{row.prompt},{row.output}", requests=WAVES * clients
    )
    made = served(asked)
    rates = [_rate(each, clients) * row.output for each in (made.service, *(made.ends or ()))]
    return Compared("most", {"tokens_per_s": row.tokens_per_s}, {"tokens_per_s": (rates[0], min(rates), max(rates))})


def _rate(service: Service, clients: int) -> float:
    """Return requests a second between the first arrivals and the last one."""
    return (len(service.sequences) - clients) / service.sequences[-1].request.arrival_s


def main() -> Iterator[str]:
    """Yield a line for each row, and the errors of all."""
    found = []
    for row in most():
        found.append(compared(row))
        yield f"| {row.prompt}, {row.output} | {row.tokens_per_s:.0f} | {found[-1].predicted['tokens_per_s'][0]:.0f} |"
    off = errors(found, "tokens_per_s")
    yield f"median error {np.median(abs(off)):.1%}, 90th percentile {np.quantile(abs(off), 0.9):.1%}"


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)
