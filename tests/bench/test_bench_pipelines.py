"""How fast pipelines are played, partitioned and tuned, CPU seconds of one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

from accelsim.cluster.buckets import MIB, MILLISECOND_FS, Gradient
from accelsim.cluster.partition.assign import read_profile
from accelsim.cluster.partition.pipedream import optimise
from accelsim.cluster.partition.states import ProfiledLayer, chain_states
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.fusing import grid
from tests.helpers.bucket_attempts import attempts
from tests.helpers.ring_cost import ring_cost
from tests.validation.measured import ABSENT, folder

SHAPES = {
    "1f1b, p=64, m=512": ("1f1b", 64, 512, 1, 1.0),
    "interleaved, p=8, m=96, v=12": ("interleaved", 8, 96, 12, 0.3),
    "1f1b, p=8, m=1536": ("1f1b", 8, 1536, 1, 0.5),
}
"""What is played: schedule, stages, microbatches, chunks, the bar in seconds."""


def seconds(call: Callable[[], Any], repeats: int = 3) -> float:
    """CPU seconds, the best of a few."""
    found = []
    for _ in range(repeats):
        start = process_time()
        call()
        found.append(process_time() - start)
    return min(found)


@pytest.mark.parametrize("shape", SHAPES)
def test_play(benchmark: Any, figure: Any, shape: str) -> None:
    name, p, m, v, bar = SHAPES[shape]

    def play() -> None:
        play_schedule(SCHEDULES[name].orders(p, m, v), 10, 20, 0, 3)

    spent = benchmark.pedantic(lambda: seconds(play), rounds=1, iterations=1)
    ops = 2 * p * m * v
    assert figure(f"play {shape}", spent, " s", bar, f"{ops / spent / 1e3:,.0f} thousand ops/s").holds


def test_optimiser_of_a_chain(benchmark: Any, figure: Any) -> None:
    """As many layers as PipeDream's profile of ResNet-50 has places to cut, on 16 workers."""
    rng = np.random.default_rng(0)
    layers = [ProfiledLayer(str(i), *(float(one) for one in rng.uniform(1, 40, 3))) for i in range(240)]
    states = chain_states(layers)
    spent = benchmark.pedantic(lambda: seconds(lambda: optimise(states, [16], [1.0])), rounds=1, iterations=1)
    assert figure("optimiser, 240 layers, 16 workers", spent, " s", 0.3).holds


def test_optimiser_of_resnet50(benchmark: Any, figure: Any) -> None:
    profile = (folder() or Path("nowhere")) / "pipedream_profiles" / "resnet50.graph.txt"
    if not profile.is_file():
        pytest.skip(ABSENT)
    text = profile.read_text()
    spent = benchmark.pedantic(
        lambda: seconds(lambda: optimise(read_profile(text), [16], [3.125e9])), rounds=1, iterations=1
    )
    note = "PipeDream's own: 25 to 46 s (another machine)"
    assert figure("optimiser, ResNet-50, 16 workers, with its profile", spent, " s", 0.3, note).holds


def test_tuning(benchmark: Any, figure: Any) -> None:
    gradients = [Gradient(str(i), (i + 1) * MILLISECOND_FS, MIB) for i in range(160)]
    tuning = attempts(gradients, 160 * MILLISECOND_FS, ring_cost(64, 10**10, 3 * 10**9))
    spent = benchmark.pedantic(lambda: seconds(lambda: grid(tuning), 1), rounds=1, iterations=1)
    assert figure("fusion of 160 gradients, grid of 165 choices", spent, " s", 1.0).holds
