"""Loss scaling against PyTorch's op, recorded and live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats.loss_scale import LossScaler, found_inf

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden" / "numerics" / "loss_scaling_torch.json").read_text()
)


def scaler_of(case: dict[str, Any]) -> LossScaler:
    return LossScaler(
        case["init"], case.get("growth", 2.0), case.get("backoff", 0.5), case.get("interval", 2000)
    )


def test_defaults_over_ten_thousand_steps() -> None:
    case = GOLDEN["default_interval2000"]
    assert LossScaler() == scaler_of(case)
    scaler, changes = LossScaler(), [[0, 65536.0]]
    for step in range(changes[0][0], case["changes"][-1][0] + 1):
        before = scaler.scale
        scaler.update(step in case["found_inf_steps"])
        if scaler.scale != before:
            changes.append([step, float(scaler.scale)])
    assert changes == case["changes"]


def test_every_step_of_a_short_interval() -> None:
    case = GOLDEN["interval5"]
    scaler = scaler_of(case)
    for found, scale, tracker in zip(case["found_inf"], case["scale"], case["tracker"], strict=True):
        scaler.update(bool(found))
        assert (scaler.scale, scaler.tracker) == (scale, tracker)


def test_growth_stops_before_infinity() -> None:
    case = GOLDEN["overflow_guard"]
    scaler = scaler_of(case)
    for scale in case["scale"]:
        scaler.update(False)
        assert scaler.scale == np.float32(scale)
    assert np.isfinite(scaler.scale)


def test_nothing_stops_the_fall_to_zero() -> None:
    case = GOLDEN["underflow"]
    scaler, scales = scaler_of(case), []
    for _ in range(200):
        scaler.update(True)
        scales.append(float(scaler.scale))
    assert scales.index(0.0) == case["first_zero"]
    assert scales[-1] == case["last"]


@given(
    init=st.floats(2.0**-140, 2.0**127, width=32),
    growth=st.floats(1.001, 100.0),
    backoff=st.floats(0.01, 0.999),
    interval=st.integers(1, 4),
    found=st.lists(st.booleans(), max_size=60),
)
@settings(max_examples=60)
def test_live_pytorch(init: float, growth: float, backoff: float, interval: int, found: list[bool]) -> None:
    torch = pytest.importorskip("torch")
    scale, tracker = torch.tensor([init]), torch.zeros(1, dtype=torch.int32)
    scaler = LossScaler(init, growth, backoff, interval)
    for bad in found:
        torch._amp_update_scale_(scale, tracker, torch.tensor([float(bad)]), growth, backoff, interval)
        scaler.update(bad)
        assert (scaler.scale, scaler.tracker) == (np.float32(scale.item()), tracker.item())


def test_a_static_scale_stays() -> None:
    scaler = LossScaler(1024.0, interval=1, dynamic=False)
    for bad in (True, False, False):
        scaler.update(bad)
    assert (scaler.scale, scaler.tracker) == (1024.0, 0)


@pytest.mark.parametrize("scale", [1.0, 3.0, 65536.0, 1000.1])
def test_unscaling_is_that_of_pytorch(scale: float) -> None:
    torch = pytest.importorskip("torch")
    gradients = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    theirs, bad = torch.tensor(gradients), torch.zeros(1)
    inverse = torch.tensor([scale]).double().reciprocal().float()
    torch._amp_foreach_non_finite_check_and_unscale_([theirs], bad, inverse)
    assert np.array_equal(LossScaler(scale).unscale(gradients), theirs.numpy())
    assert not bad.item()


def test_an_infinity_or_nan_anywhere_is_found() -> None:
    fine = np.ones((2, 3), np.float32)
    assert not found_inf([fine, fine])
    for bad in (np.inf, -np.inf, np.nan):
        assert found_inf([fine, np.array([1.0, bad], np.float32)])


def test_senseless_parameters_are_all_said() -> None:
    with pytest.raises(UsageError) as caught:
        LossScaler(0.0, 1.0, 1.0, 0)
    assert len(caught.value.problems) == 4
