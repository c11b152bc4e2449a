"""Loss scaling against PyTorch's op, recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.formats.loss_scale import LossScaler, found_inf
from tests.helpers.torch_oracle import torch_says

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden" / "numerics" / "loss_scaling_torch.json").read_text()
)


def scaler_of(case: dict[str, Any]) -> LossScaler:
    return LossScaler(case["init"], case.get("growth", 2.0), case.get("backoff", 0.5), case.get("interval", 2000))


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


def test_every_step_is_that_of_pytorch() -> None:
    """Sixty random rules, each over sixty steps, from scales near zero to near infinity."""
    rng = np.random.default_rng(0)
    rules = np.stack([(2.0 ** rng.uniform(-140, 127, 60)).astype(np.float32), rng.uniform(1.001, 100, 60), rng.uniform(0.01, 0.999, 60),
                      rng.integers(1, 5, 60)])  # fmt: skip
    steps = rng.random((60, 60)) < rng.random((60, 1))

    def theirs(torch: Any) -> list[Any]:
        states = []
        for (init, growth, backoff, interval), found in zip(rules.T.tolist(), steps, strict=True):
            scale, tracker = torch.tensor([init]), torch.zeros(1, dtype=torch.int32)
            for bad in found:
                torch._amp_update_scale_(scale, tracker, torch.tensor([float(bad)]), growth, backoff, int(interval))
                states.append((scale.item(), tracker.item()))
        return [np.array(states)]

    found = []
    for (init, growth, backoff, interval), bads in zip(rules.T.tolist(), steps, strict=True):
        scaler = LossScaler(float(np.float32(init)), growth, backoff, int(interval))
        for bad in bads:
            scaler.update(bool(bad))
            found.append((scaler.scale, scaler.tracker))
    assert np.array_equal(np.array(found, np.float64), torch_says("loss scale", [rules, steps], theirs)[0])


def test_a_static_scale_stays() -> None:
    scaler = LossScaler(1024.0, interval=1, dynamic=False)
    for bad in (True, False, False):
        scaler.update(bad)
    assert (scaler.scale, scaler.tracker) == (1024.0, 0)


def test_an_infinity_or_nan_anywhere_is_found() -> None:
    fine = np.ones((2, 3), np.float32)
    assert not found_inf([fine, fine])
    for bad in (np.inf, -np.inf, np.nan):
        assert found_inf([fine, np.array([1.0, bad], np.float32)])


def test_senseless_parameters_are_all_said() -> None:
    with pytest.raises(UsageError) as caught:
        LossScaler(0.0, 1.0, 1.0, 0)
    assert len(caught.value.problems) == 4
