"""A training step of a tiny model on every cluster that comes with the tool, and what its chips keep."""

from __future__ import annotations

import pytest

from accelsim.cluster.step.asked import Asked, step
from accelsim.cluster.step.memory import bandwidth_Bps, capacity_B
from accelsim.spec.yaml.clusters import clusters
from accelsim.spec.yaml.load import load_chip

FEW = {"tpu-v3-pod": "2x-tpu-v3-pod", "tpu-v4-pod": "2x-tpu-v4-pod"}
"""Pods with fewer chips."""


@pytest.mark.parametrize("name", clusters())
def test_a_step_runs_on_every_cluster(name: str) -> None:
    result = step(Asked("digits-mlp?hidden=16,layers=2", FEW.get(name, name)))
    assert result.check() == []
    assert 0 < result.mfu < 1
    assert result.parts_fs["compute"] > 0 and result.parts_fs["optimiser"] > 0 and result.parts_fs["data"] > 0
    assert result.energy_J["forward"] > 0 and sum(result.by_link_B.values()) > 0


def test_a_chip_without_memory_of_its_own_keeps_all_on_its_tiles() -> None:
    ipu = load_chip("ipu-gc200")
    assert capacity_B(ipu) == 1472 * (624 - 64) * 1024
    assert bandwidth_Bps(ipu) == 1472 * 8 * 1_325_000_000
