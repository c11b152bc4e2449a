"""Simulate a small network on a TPU v1; print where the time went."""

from __future__ import annotations

import accelsim
from accelsim.account.latency import layers

run = accelsim.run("cnn", on="tpu-v1", values="fast")
print(f"{run.seconds * 1e6:.1f} us")
for layer in layers(run):
    print(f"{layer.name:15} {layer.added_fs * 1e-9:6.2f} us  bound by {layer.bound}")
