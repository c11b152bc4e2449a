"""Effects of a faster clock, a slower memory or another dataflow on a matrix product, without touching a spec file."""

from __future__ import annotations

import accelsim

SETTINGS = {
    "as it is": {},
    "twice the clock": {"set": ["clock=1.4 GHz"]},
    "half the memory bandwidth": {"set": ["memories.ddr3.memory.bandwidth=17 GB/s"]},
    "output stationary": {"dataflow": "os"},
}

for name, changes in SETTINGS.items():
    run = accelsim.run("gemm?M=256,N=1024,K=1024", on="tpu-v1", values="off", **changes)
    print(f"{name:26} {run.seconds * 1e6:6.1f} us")
