"""Published training steps of decoders with attention in one kernel, on A100 and H100, as a user asks for them.

* **MPT** (llm-foundry, ``scripts/train/benchmarking/README.md`` at 061f2c7c): PyTorch's FSDP in bf16 on 8 to 128 GPUs,
  microbatches and recomputation as published. Of the rows of 7 billion parameters and more and up to 8,192 tokens every
  second one (of the file, from the first) has told constants: ``cluster.step.ops.FSDP``, ``loaded`` of A100 SXM, and on
  Hopper ``attention_backward``. The rest are compared. Its attention was a kernel of the first generation (Triton, for ALiBi),
  ``--attention memory-efficient``; smaller models and longer sequences are a set of their own.
* **Megatron-LM** (README of 2024, H100, sequences of 4,096, vocabulary of 131,072): no row has told anything. Sizes of
  microbatches and chunks of its pipelines are not published; the tool finds the first, the second are layers. It
  overlapped gathers of new weights and tensor-parallel collectives, as its README says.

A row that does not fit in memory raises: all of these ran.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from accelsim.cluster.step.asked import Asked, step
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.result import StepResult
from tests.validation.gpu_rows import Row

FILE = Path(__file__).parent / "data" / "published" / "mpt_training.csv"
SIZES = {"1b": (24, 2048, 16), "3b": (32, 2560, 20), "7b": (32, 4096, 32), "13b": (40, 5120, 40),
         "30b": (48, 7168, 56), "70b": (80, 8192, 64)}  # fmt: skip
"""Model of MPT -> layers, hidden size, heads (``scripts/train/yamls/pretrain`` of llm-foundry)."""
VOCAB, NODE = 50368, 8
CLUSTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "h100-80": ("dgx-h100", ()), "a100-80": ("dgx-a100", ()),
    "a100-40": ("dgx-a100", ("nodes.node.devices.gpu.chip=a100-40-sxm",)),
}  # fmt: skip
"""GPU -> cluster of its nodes (eight, with 1,600 Gbit/s and more), what is changed of it."""
LARGE, LONGEST = ("7b", "13b", "30b", "70b"), 8192


class Published(NamedTuple):
    """A row of the table; ``fitted``: it has told constants."""

    row: Mapping[str, str]
    fitted: bool

    @property
    def common(self) -> bool:
        """Return whether it is of 7 billion parameters and more, and of sequences that are not long."""
        return self.row["model"] in LARGE and int(self.row["tokens"]) <= LONGEST

    def asked(self) -> Asked:
        """Return the step as a user asks for it."""
        row = self.row
        layers, hidden, heads = SIZES[row["model"]]
        gpus, each, times = (int(row[name]) for name in ("gpus", "microbatch", "accumulation"))
        cluster, changes = CLUSTERS[row["gpu"]]
        plan = f"fsdp={gpus},microbatches={times},recompute={row['recompute']}"
        return Asked(
            decoder(layers, hidden, heads, int(row["tokens"]), VOCAB), f"{gpus // NODE}x-{cluster}", plan,
            gpus * each * times, changes, Setting("bf16", attention="memory-efficient"),
        )  # fmt: skip

    def compared(self) -> Row:
        """Return seconds of a step beside simulated ones. Raises OutOfMemory."""
        row, found = self.row, step(self.asked())
        name = ", ".join(f"{row[key]} {key}" for key in ("model", "tokens", "gpus", "microbatch", "recompute"))
        tokens = found.batch * found.sample_tokens / int(row["gpus"])
        return Row(f"{row['gpu']}: {name}", tokens / float(row["tokens_per_s_gpu"]), found.time_s)


def decoder(layers: int, hidden: int, heads: int, tokens: int, vocab: int) -> str:
    """The text that names a decoder of GPT's shape without biases."""
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": heads, "ffn": 4 * hidden,
             "vocab": vocab, "seq": tokens, "bias": 0}  # fmt: skip
    return "gpt3?" + ",".join(f"{name}={value}" for name, value in sizes.items())


def published() -> Iterator[Published]:
    """All rows of MPT; every second one of the common ones has told constants."""
    told = 0
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one = Published(row, False)
            told += one.common
            yield one._replace(fitted=one.common and told % 2 == 1)


def mpt(data: Path | None = None) -> Iterator[Row]:
    """Rows of 7 to 70 billion parameters and up to 8,192 tokens that have told nothing."""
    yield from (one.compared() for one in published() if one.common and not one.fitted)


def mpt_others(data: Path | None = None) -> Iterator[Row]:
    """Smaller models and longer sequences."""
    yield from (one.compared() for one in published() if not one.common)


MEGATRON = (
    ("1.7B", 16, 2048, 24, 1, 1, 192, 408.8), ("7.1B", 32, 4096, 30, 2, 1, 192, 465.9),
    ("16B", 48, 6144, 32, 4, 1, 192, 489.1), ("32B", 56, 7168, 48, 8, 1, 192, 459.6),
    ("70B", 64, 8192, 84, 8, 2, 384, 419.7), ("119B", 80, 10240, 92, 8, 4, 768, 420.5),
    ("177B", 96, 12288, 96, 8, 6, 1152, 432.8), ("314B", 128, 16384, 96, 8, 8, 1536, 474.4),
)  # fmt: skip
"""Model, heads, hidden, layers, tensor parallelism, stages, batch, TFLOP/s of a GPU; 48 replicas. The largest, 462B on
6,144 GPUs, is left out: it takes as long as all others together."""
SEQ, TOKENS, REPLICAS = 4096, 131072, 48


def megatron(data: Path | None = None) -> Iterator[Row]:
    """Steps of 2024 beside simulated ones."""
    for name, seconds, found in megatron_steps():
        yield Row(f"Megatron-LM {name}", seconds, found.time_s)


def megatron_steps() -> Iterator[tuple[str, float, StepResult]]:
    """Name, seconds and the simulated step: seconds follow from TFLOP/s by Megatron-LM's count of operations, without
    recomputation."""
    for name, heads, hidden, layers, tp, pp, batch, rate in MEGATRON:
        parts = [f"dp={REPLICAS}", f"tp={tp}", f"pp={pp}", "zero=1", "recompute=none"] + ["sp"] * (tp > 1)
        parts += [f"schedule=interleaved,chunks={layers // pp}"] if pp > 1 else []
        gpus = REPLICAS * tp * pp
        asked = Asked(decoder(layers, hidden, heads, SEQ, TOKENS), f"{gpus // NODE}x-dgx-h100", ",".join(parts), batch,
                      setting=Setting("bf16", overlap_tensor=tp > 1), options=Options(gradient_B=4, overlap_gather=True))  # fmt: skip
        found, work = step(asked), 1 + SEQ / (6 * hidden) + TOKENS / (12 * layers * hidden)
        flops = 72 * batch * SEQ * layers * hidden**2 * work
        yield f"{name} on {gpus:,} H100", flops / (rate * 1e12 * gpus), found
