"""Check ``generations``: whole generations against the static tables of TensorRT-LLM 0.5 on A100, H100 and L40S.

A row of the tables is a batch of equal prompts that are written on to the end together (tokens per second of all of it),
or the first token of one prompt. Each is what ``accelsim run 'MODEL?prompt=P,new=N' --on CHIP`` says, on several GPUs
of a node by tensor parallelism, with ``--stack tensorrt-llm``: FP16 on the A100, layers and keys and values in FP8 on
the others, scales static. Constants of the stack come of some rows of the H100 (``Row.fitted``); the claim is about all
others. Linear layers and prompts are those of another stack (vLLM) on the same GPUs. GPT-J is a decoder of the
zoo with its widths, the two matrices of its feed-forward part counted as three of equal size together. A row of the
check is a GPU.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.serving.asked import served
from accelsim.cluster.step.costs import Setting
from accelsim.explore.generation import generation
from accelsim.kernels.whole import Interval
from accelsim.request import Request
from tests.validation.base import Check, check
from tests.validation.measured import ABSENT, folder

TABLE, SOURCE = "serving/serving_public.csv", "NVIDIA TensorRT-LLM performance.md"
MODELS: Mapping[str, str] = {
    "LLaMA-7B": "llama2-7b?", "LLaMA-70B": "llama2-70b?",
    "GPT-J-6B": "llama2-7b?layers=28,heads=16,kv_heads=16,ffn=10923,vocab=50400,",
}  # fmt: skip
"""Model of the tables -> its text. Falcon 180B is not in the zoo."""
CHIPS: Mapping[str, tuple[str, str]] = {
    "A100-SXM-80": ("a100-80-sxm", "dgx-a100"), "H100": ("h100-sxm", "dgx-h100"), "L40S": ("l40s", ""),
}  # fmt: skip
"""GPU of the tables -> the chip, and the node of several of them."""
STACK = "tensorrt-llm"
CLAIMED: Mapping[str, tuple[float, float]] = {"A100-SXM-80": (0.08, 0.8), "L40S": (0.06, 0.8), "H100": (0.12, 0.8)}
"""GPU -> mean error that is claimed of rows without part in the constants, and share of them within their intervals."""


class Row(NamedTuple):
    """A row of the tables: the value is tokens per second, or of one new token the time to it, s."""

    name: str
    gpu: str
    model: str
    tp: int
    batch: int
    prompt: int
    new: int
    measured: float

    @property
    def fitted(self) -> bool:
        """Return whether constants of the stack come of this row (``hwspecs/serving/tensorrt-llm-h100-sxm.yaml``)."""
        longest = (self.model, self.batch, self.prompt, self.new) == ("LLaMA-70B", 64, 2048, 2048)
        return self.gpu == "H100" and (self.model == "GPT-J-6B" or longest)


class Predicted(NamedTuple):
    """What the tool says of a row, and the ends of its interval."""

    value: float
    low: float
    high: float


def rows(data: Path) -> Iterator[Row]:
    """The rows whose model and GPU the tool knows."""
    with (data / TABLE).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["source"] != SOURCE or row["model"] not in MODELS or row["gpu"] not in CHIPS:
                continue
            first = row["ttft_mean_ms"]
            value = float(first) * 1e-3 if first else float(row["out_tok_s"])
            tp, batch, prompt, new = (int(float(row[name])) for name in ("tp", "concurrency", "isl", "osl"))
            yield Row(row["row_id"], row["gpu"], row["model"], tp, batch, prompt, new, value)


def timed(row: Row, node_alone: bool = False) -> tuple[float, Interval]:
    """Seconds of a row as a user asks for it, on a chip or on a node under a plan, with their interval; ``node_alone``:
    one device of a node in place of a chip, which says the same sooner."""
    chip, node = CHIPS[row.gpu]
    text = f"{MODELS[row.model]}prompt={row.prompt},new={row.new}"
    dtype, kept = ("fp16", "") if row.gpu.startswith("A100") else ("fp8", "fp8")
    if row.tp == 1 and not (node_alone and node):
        alone = generation(Request(
            text, chip, dtype=dtype, kv_dtype=kept, values="off", batch=row.batch, ignore_capacity=True, stack=STACK,
        ))  # fmt: skip
        ends = alone.intervals
        return _with(alone.total_s, ends.first if row.new == 1 else ends.total)
    setting = Setting(dtype, kv_dtype=kept, stack=STACK)
    found, _ = served(text, f"{node}?devices={row.tp}", (), f"tp={row.tp}", row.batch, setting, "", True)
    return _with(found.total_s, found.first_interval if row.new == 1 else found.total_interval)


def _with(seconds: float, interval: Interval | None) -> tuple[float, Interval]:
    assert interval is not None
    return seconds, interval


def predicted(row: Row) -> Predicted:
    """A row in the unit of the tables."""
    seconds, ends = timed(row)
    if row.new == 1:
        return Predicted(seconds, ends.low_s, ends.high_s)
    tokens = row.batch * row.new
    return Predicted(tokens / seconds, tokens / ends.high_s, tokens / ends.low_s)


class Outcome(NamedTuple):
    """Rows of a GPU with what the tool says of them."""

    gpu: str
    rows: list[Row]
    found: list[Predicted]

    @property
    def errors(self) -> list[float]:
        """Relative errors."""
        return [each.value / row.measured - 1 for row, each in zip(self.rows, self.found, strict=True)]

    def only(self, fitted: bool) -> Outcome:
        """Return the rows that told constants, or the others."""
        kept = [pair for pair in zip(self.rows, self.found, strict=True) if pair[0].fitted == fitted]
        return Outcome(self.gpu, [row for row, _ in kept], [each for _, each in kept])

    @property
    def inside(self) -> int:
        """Rows within their intervals."""
        pairs = zip(self.rows, self.found, strict=True)
        return sum(each.low <= row.measured <= each.high for row, each in pairs)

    @property
    def mean(self) -> float:
        """Mean size of the errors."""
        return float(np.abs(self.errors).mean())

    @property
    def agrees(self) -> bool:
        """Return whether both are as claimed, of rows that told no constants."""
        (most, least), test = CLAIMED[self.gpu], self.only(fitted=False)
        return test.mean <= most and test.inside >= least * len(test.rows)

    def said(self) -> Iterator[str]:
        """A line for the GPU, and one for each row."""
        most, least = CLAIMED[self.gpu]
        test, fit = self.only(fitted=False), self.only(fitted=True)
        also = f"; {len(fit.rows)} that told constants: {fit.mean:.1%}, {fit.inside} within" if fit.rows else ""
        yield (
            f"{self.gpu}: {len(test.rows)} rows, mean error {test.mean:.1%} (claimed: {most:.0%}, {least:.0%} within "
            f"intervals), {test.inside} within their intervals{also}"
        )
        for row, each, error in zip(self.rows, self.found, self.errors, strict=True):
            unit, scale = ("ms", 1e3) if row.new == 1 else ("tokens/s", 1.0)
            told = " (told constants)" if row.fitted else ""
            yield (
                f"  {row.model}, {row.batch} x ({row.prompt} + {row.new}), tp {row.tp}: "
                f"{each.value * scale:,.4g} {unit}, measured {row.measured * scale:,.4g}: {error:+.1%}{told}"
            )


def outcome(data: Path, gpu: str) -> Outcome:
    """All rows of a GPU."""
    chosen = [row for row in rows(data) if row.gpu == gpu]
    return Outcome(gpu, chosen, [predicted(row) for row in chosen])


@check("generations")
def generations() -> Check:
    """All GPUs."""
    what = "whole generations on A100, H100 and L40S against static tables of TensorRT-LLM, as shipped"
    data = folder()
    if data is None or not (data / TABLE).exists():
        return Check("generations", what, 0, 0, np.zeros(0), [ABSENT])
    found = [outcome(data, gpu) for gpu in CHIPS]
    return Check(
        "generations", what, len(found), sum(each.agrees for each in found),
        np.array([error for each in found for error in each.errors]), [line for each in found for line in each.said()],
        "mean error and coverage as claimed",
    )  # fmt: skip
