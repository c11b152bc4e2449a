"""Kernels and networks of an H200 and an H100 that were measured for the project: what is claimed of them holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.validation import gpu_own
from tests.validation.gpu_own import CHIPS, CLAIMED, Rows, kernels_of, networks_of

SETS = {device: {(rows.op, rows.format): rows for rows in kernels_of(device)} for device in CHIPS}
"""Device -> its sets of kernels."""


@pytest.mark.parametrize(("device", "form", "op"), [(*key, op) for key, claimed in CLAIMED.items() for op in claimed])
def test_kernels_are_as_near_as_is_claimed(device: str, form: str, op: str) -> None:
    rows = SETS[device][op, form]
    mean = float(np.abs(rows.error).mean())
    assert 0.8 * CLAIMED[device, form][op] - 0.02 < mean <= CLAIMED[device, form][op], "neither more nor far less"


@pytest.mark.parametrize("device", CHIPS)
def test_nine_of_ten_products_in_fp16_lie_within_their_intervals_on_the_chip_that_was_calibrated(device: str) -> None:
    covered = SETS[device]["gemm", "fp16"].covered
    assert 0.85 < covered < 0.95 if device == "h200" else covered > 0.6


def test_every_row_of_the_h200_had_no_part_in_its_fit() -> None:
    whole: list[Rows] = list(SETS["h200"].values())
    assert sum(len(rows.measured) for rows in whole) == 995


@pytest.mark.parametrize(
    ("device", "name", "seconds", "joules"),
    [("h200", "resnet50, batch 32, fp16", 0.05, 0.2), ("h100", "llama2-7b?seq=2048, batch 1, bf16, sdpa", 0.05, 0.18)],
)
def test_a_network_takes_about_the_measured_time_and_energy(
    device: str, name: str, seconds: float, joules: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = gpu_own._network
    monkeypatch.setattr(
        gpu_own, "_network", lambda device, row: kept(device, row) if name.startswith(row["model"] + ",") else None
    )
    (found,) = [each for each in networks_of(device) if each is not None and each.name.startswith(name)]
    assert found.predicted_s == pytest.approx(found.measured_s, rel=seconds)
    assert found.predicted_J == pytest.approx(found.measured_J, rel=joules, abs=0)


def test_without_a_checkout_nothing_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_own, "FOLDER", tmp_path)
    for check in (gpu_own.gpu_own, gpu_own.gpu_own_models):
        assert check().rows == 0 and "nothing compared" in check().details[0]
