"""Time of one training step of a language model on eight GPUs, by plan and by what overlaps or waits elsewhere."""

from __future__ import annotations

from dataclasses import replace

from accelsim.cluster.step.asked import Asked, step
from accelsim.cluster.step.costs import Setting

BASE = Asked("llama2-7b?layers=8,seq=4096", "dgx-h100", "fsdp=8", batch=64, setting=Setting("bf16"))
ASKED = {
    "weights shared out (FSDP)": BASE,
    "attention of the generation before": replace(BASE, setting=Setting("bf16", attention="memory-efficient")),
    "activations on the host": replace(BASE, setting=Setting("bf16", offload=True)),
    "tensor parallelism": replace(BASE, plan="tp=8,sp"),
    "... beside products": replace(BASE, plan="tp=8,sp", setting=Setting("bf16", overlap_tensor=True)),
}

for name, asked in ASKED.items():
    found = step(asked)
    memory = found.fullest.memory.peak_B / 2**30
    print(f"{name:35} {found.time_s:6.3f} s, {memory:5.1f} GiB, {found.tokens_per_s / 1e3:5.1f}k tokens/s")
