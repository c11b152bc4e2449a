"""Hints that name another cluster can be pasted: they load, and have as many devices as a plan."""

from __future__ import annotations

import pytest

from accelsim.cluster.step.costs import PLAIN
from accelsim.cluster.step.fleet import fleet_of
from accelsim.spec.yaml.clusters import load_devices


@pytest.mark.parametrize(("on", "devices", "hint"), [
    ("dgx-h100", 4, "dgx-h100?devices=4"), ("dgx-h100", 16, "dgx-h100?nodes=2"), ("dgx-h100", 12, ""),
    ("dgx-h100?devices=4", 8, "dgx-h100?devices=8"), ("4x-edu", 16, "16x-edu"), ("4x-a100-nvlink", 8, ""),
    ("4x-h100-pairwise", 1, "h100-pcie"), ("p4d-cluster", 8, "p4d-cluster?nodes=1,devices=8"),
    ("trn1-32xl", 64, "trn1-32xl?nodes=4"), ("30x-aws:p4d.24xlarge", 8, "aws:p4d.24xlarge?devices=8"),
    ("aws:p5.48xlarge?devices=4", 2, "aws:p5.48xlarge?devices=2"), ("dgx-h100", 8, ""), ("t4", 8, ""),
])  # fmt: skip
def test_a_hint_names_a_cluster_with_as_many_devices(on: str, devices: int, hint: str) -> None:
    told = fleet_of(load_devices(on), PLAIN).resized(devices)
    assert told == (f"; or --on '{hint}'" if hint else "")
    if hint:
        assert fleet_of(load_devices(hint), PLAIN).size == devices
