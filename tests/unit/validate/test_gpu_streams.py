"""Kernels side by side on an H200 and an H100 that were measured for the project: what is claimed of them holds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.validation import gpu_streams
from tests.validation.gpu_own import CHIPS
from tests.validation.gpu_streams import CLAIMED, Beside, kernels_of, means


@cache
def sets() -> dict[tuple[str, str], Beside]:
    return {(each.device, each.op): each for device in CHIPS for each in kernels_of(device)}


@pytest.mark.parametrize(("device", "op"), CLAIMED)
def test_they_are_as_near_as_is_claimed(device: str, op: str) -> None:
    for mean, claimed in zip(means(sets()[device, op]), CLAIMED[device, op], strict=True):
        assert 0.8 * claimed - 0.02 < mean <= claimed, "neither more nor far less"


@pytest.mark.parametrize("device", CHIPS)
def test_more_streams_are_never_much_slower(device: str) -> None:
    for each in (found for key, found in sets().items() if key[0] == device):
        assert (each.predicted <= 1.02 * each.alone_predicted).all()


def test_without_a_checkout_nothing_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.validation.gpu_own.FOLDER", tmp_path)
    found = gpu_streams.gpu_streams()
    assert found.rows == 0 and "nothing compared" in found.details[0]
