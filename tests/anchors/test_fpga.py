"""Images per second of designs on FPGAs, as the Vitis AI Model Zoo 1.1 publishes them (several threads)."""

from __future__ import annotations

import pytest

import accelsim

PUBLISHED = [("zcu102", "squeezenet", 1045.9), ("zcu102", "resnet18", 461.6)]
"""Chip, network, images per second; docs/fpga.md has more."""


@pytest.mark.parametrize(("chip", "network", "published"), PUBLISHED, ids=lambda each: str(each))
def test_a_design_is_about_as_fast_as_published(chip: str, network: str, published: float) -> None:
    run = accelsim.run(network, chip, values="off")
    cores = accelsim.load_chip(chip).core_count
    assert abs(cores / run.seconds / published - 1) < 0.25
