"""Steady services that others measured: rows of ``serving_public.csv`` as questions of ``accelsim serve``.

InferenceX (by way of aiconfigurator, Apache-2.0): C clients, 10 C requests without common prefixes (SGLang: C), lengths
uniform between 0.8 and 1.0 of the nominal ones. Looked at are Qwen3 32B in 16 bits on H100 under vLLM 0.12, SGLang 0.5.1 and
TensorRT-LLM 1.0 (FP8), Llama 3.1 8B on H100 under TensorRT-LLM, and Llama 3.1 70B under vLLM in FP8 on H100, H200 and
B200 and in FP4 on B200, whose rows tell no version. (Other rows in FP8 with vLLM 0.12 or SGLang 0.5.6 compute more
than half of what the chips can in prompts alone: their prefixes were cached.) Throughput of these rows is derived from
their times. GPUStack measured it: all requests of a row come at once, to vLLM 0.11.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from accelsim.cluster.step.costs import Setting
from accelsim.serving.asked import Question, served
from accelsim.serving.loads import read_lengths
from accelsim.serving.measures import tpot_s, ttft_s
from accelsim.serving.service import Service
from accelsim.spec.site import Front
from tests.validation.measured import folder

FILE, GPUSTACK = "serving/serving_public.csv", "GPUStack performance lab"
QWEN3_14B = "llama?layers=40,hidden=5120,heads=40,kv_heads=8,ffn=17408,vocab=151936"
"""Sizes of Qwen3 14B, without the norms of its queries and keys."""
QWEN, LLAMA, SMALL = "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B-Instruct"
OSS, CHECKPOINT = "openai/gpt-oss-120b", "checkpoint"
"""A mixture of experts, whose experts have 4 bits and all else 16."""
MODELS = {
    OSS: "gpt-oss-120b", QWEN: "qwen3-32b", LLAMA: "llama3.1-70b", SMALL: "llama3.1-8b", "Qwen/Qwen3-14B": QWEN3_14B,
    "Qwen/Qwen3-8B": "qwen3-8b",
}  # fmt: skip
A100 = "A100-SXM-80"
CHIPS = {
    "H100": ("h100-sxm", "dgx-h100"), "H200": ("h200-sxm", "dgx-h200"), "B200": ("b200-sxm", "dgx-b200"),
    A100: ("a100-80-sxm", "dgx-a100"),
}  # fmt: skip
"""GPU -> a chip, and a node of them."""
FORMATS = {"": "bf16", "fp8": "fp8_e4m3fn", "fp4": "nvfp4"}
LOOPS = {
    ("vllm", QWEN, ""), ("vllm", LLAMA, "fp8"), ("vllm", LLAMA, "fp4"), ("sglang", QWEN, ""), ("trtllm", QWEN, "fp8"),
    ("trtllm", SMALL, ""), ("vllm", OSS, "fp4"),
}  # fmt: skip
"""Engine, model and format of loops."""
ENGINES = {"vllm": "vllm:budget=8192,most=1024", "sglang": "sglang", "trtllm": "vllm:budget=8192,most=2048"}
"""Engine -> its scheduler here, as its server has it on a GPU of 80 GB or more; TensorRT-LLM's is near that of vLLM."""
WAVES = {"vllm": 10, "sglang": 1, "trtllm": 10}
"""Requests of a client. Those of SGLang's rows came all at once: in each, the first token takes half to three quarters
of the time of all clients' prompts, however long the outputs are."""
ON_A100 = "vllm:budget=2048,most=256"
"""Scheduler of vLLM's server on an A100."""
SITE = "vllm-server"
ROOM = 0.8
"""Share of the room for keys and values up to which nobody waits for it."""
CLIENTS, OUTPUT = 128, 1024
"""Most clients and longest outputs that are looked at."""
JITTER = 0.2 / 12**0.5 / 0.9
"""Coefficient of variation of lengths."""


class Row(NamedTuple):
    """A measured service: its settings, mean times to the first token and per token, s, and new tokens a second where
    these were measured by themselves (0: they were not). ``lengths``: mean tokens of prompts and outputs and how they
    spread, as ``accelsim serve`` reads them."""

    number: str
    engine: str
    model: str
    gpu: str
    tp: int
    precision: str
    lengths: str
    clients: int
    requests: int
    ttft_s: float
    tpot_s: float
    tokens_per_s: float = 0.0

    @property
    def draw(self) -> int:
        """A number without order, by the number of the row."""
        return crc32(self.number.encode())

    @property
    def kind(self) -> str:
        """Engine, model, format and GPU, and whether all requests come at once."""
        burst = ", at once" if self.tokens_per_s else ""
        return f"{self.engine}, {self.model.split('/')[1]}, {self.precision or '16 bits'}, {self.gpu}{burst}"

    @property
    def prompt(self) -> int:
        """Mean tokens of a prompt."""
        return int(read_lengths(self.lengths)[1])

    @property
    def question(self) -> Question:
        """What ``accelsim serve`` is asked."""
        chip, node = CHIPS[self.gpu]
        return Question(
            MODELS[self.model], chip if self.tp == 1 else f"{node}?devices={self.tp}", f"closed:{self.clients}",
            self.lengths, self.requests, plan=f"tp={self.tp}",
            scheduler=ON_A100 if self.gpu == A100 else ENGINES[self.engine],
            setting=Setting(dtype=CHECKPOINT if self.model == OSS else FORMATS[self.precision], site=SITE),
        )  # fmt: skip


class Loop(NamedTuple):
    """Mean times of a service to the first token and per token, s, new tokens a second, and the share of the room for
    keys and values that it uses at most."""

    ttft_s: float
    tpot_s: float
    tokens_per_s: float
    room: float


def rows() -> list[Row]:
    """Return the rows of both sources; none where the file is not there."""
    where = folder()
    if where is None or not (path := where / FILE).is_file():
        return []
    with path.open(encoding="utf-8") as file:
        plain = [row for row in csv.DictReader(file) if row["mode"] == "agg" and row["pp"] in ("", "1")]
    known = [row for row in plain if row["model"] in MODELS and row["gpu"] in CHIPS and row["precision"] in FORMATS]
    return [found for row in known for read in (_loop, _burst) if (found := read(row))]


def _loop(row: Mapping[str, str]) -> Row | None:
    """Return a closed loop of InferenceX; None for another row."""
    if row["load_kind"] != "closed-loop concurrency" or (row["engine"], row["model"], row["precision"]) not in LOOPS:
        return None
    if row["model"] == OSS and (row["gpu"] == "H200" or not row["engine_version"]):
        return None  # on an H200 kernels of its experts come out above the peak, which accelsim refuses
    clients, prompt, output = (int(row[key]) for key in ("concurrency", "isl", "osl"))
    if clients > CLIENTS or output > OUTPUT:
        return None
    lengths = f"uniform:{round(0.9 * prompt)},{round(0.9 * output)},cv={JITTER}"
    return Row(*_settings(row), lengths, clients, WAVES[row["engine"]] * clients, *_means_s(row))


def _burst(row: Mapping[str, str]) -> Row | None:
    """Return requests of GPUStack that come all at once; None for another row."""
    alike = row["source"] == GPUSTACK and row["engine_version"] == "0.11.0" and not row["quality_flag"]
    if not alike or row["precision"] or row["n_gpus"] != "1":
        return None
    spread = "lognormal" if row["dataset"] == "ShareGPT" else "fixed"
    lengths = f"{spread}:{round(float(row['isl_mean']))},{round(float(row['osl_mean']))}"
    sizes = int(float(row["concurrency"])), int(row["n_requests"])
    return Row(*_settings(row), lengths, *sizes, *_means_s(row), float(row["out_tok_s"]))


def _settings(row: Mapping[str, str]) -> tuple[str, str, str, str, int, str]:
    return row["config_id"], row["engine"], row["model"], row["gpu"], int(row["tp"]), row["precision"]


def _means_s(row: Mapping[str, str]) -> tuple[float, float]:
    return float(row["ttft_mean_ms"]) / 1e3, float(row["tpot_mean_ms"]) / 1e3


def told(service: Service, blocks: int) -> Loop:
    """Return the figures of a simulated service; ``blocks`` of room."""
    (steps,), out = service.steps, sum(each.request.output for each in service.sequences)
    means = float(ttft_s(service).mean()), float(tpot_s(service).mean())
    return Loop(*means, out / steps.end_s[-1], max(steps.held) / blocks)


def predicted(row: Row, front: Front) -> Loop:
    """Return what ``accelsim serve`` predicts with a front."""
    made = served(row.question)
    return told(made.run(1.0, front=front), made.last.blocks)


def loops(row: Row) -> list[Loop]:
    """Return what ``accelsim serve`` predicts, and the ends of its intervals (90 %)."""
    made = served(row.question)
    return [told(each, made.last.blocks) for each in (made.service, *(made.ends or ()))]
