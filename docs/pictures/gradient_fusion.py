"""A picture of docs/parallelism.md: how long a step waits for gradients, by Horovod's cycle time and threshold."""

from __future__ import annotations

from pathlib import Path

from accelsim.cluster.buckets import Gradient
from accelsim.cluster.step.fusing import grid
from accelsim.report.fusing import tuning_plot
from accelsim.time import FS_PER_S
from tests.helpers.bucket_attempts import attempts
from tests.helpers.ring_cost import ring_cost

LAYERS, LAYER_B, BACKWARD_FS = 160, 640_000, 120 * 10**12
RANKS, LATENCY_FS, BANDWIDTH_BPS = 16, 20 * 10**9, 3 * 10**9
CYCLES_FS = [FS_PER_S // 10**6 * step for step in (10, 100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000)]
THRESHOLDS_B = [2**20, 2**23, 2**27]


def draw(path: Path) -> None:
    """Write the picture: 160 gradients of 640 kB on 16 devices at 25 Gbit/s."""
    gradients = [Gradient(f"layer{index}", (index + 1) * BACKWARD_FS // LAYERS, LAYER_B) for index in range(LAYERS)]
    attempt = attempts(gradients, BACKWARD_FS, ring_cost(RANKS, LATENCY_FS, BANDWIDTH_BPS))
    title = "160 gradients of 640 kB, 16 devices, 3 GB/s, 20 us a message"
    tuning_plot(grid(attempt, THRESHOLDS_B, CYCLES_FS), title).save(path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "gradient-fusion.png")
