"""Whole networks on GPUs against measured times: the sets of ``gpu-models`` that take a moment."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from accelsim.spec.yaml.load import load_chip
from tests.validation import gpu_frameworks
from tests.validation.gpu import shipped
from tests.validation.gpu_attention import CHIP, CLAIMED, measured
from tests.validation.gpu_models import DEVICES, NETWORKS, SETS, compass, gpt3_layer, neusight
from tests.validation.gpu_power import NEAR, powered, server
from tests.validation.gpu_training import training
from tests.validation.measured import ABSENT, folder
from tests.validation.serving import gpt3


@pytest.fixture(scope="module")
def data() -> Path:
    found = folder()
    if found is None:
        pytest.skip(ABSENT)
    return found


@pytest.mark.parametrize("rows_of", [compass, gpt3_layer])
def test_kernels_of_a_lab_are_as_far_off_as_is_claimed(data: Path, rows_of: object) -> None:
    claimed = next(bound for own, bound in SETS.values() if own is rows_of)
    errors = [abs(row.error) for row in rows_of(data)]  # type: ignore[operator]
    assert 0.3 * claimed < float(np.mean(errors)) <= claimed


def test_a_layer_with_its_all_reduces_is_as_far_off_as_is_claimed(data: Path) -> None:
    assert all(abs(row.error) <= (row.claimed or 0.0) for row in gpt3(data))


def test_language_models_are_as_far_off_as_their_worst(data: Path) -> None:
    rows = list(islice((row for row in neusight(data) if "eager" in row.name), 6))
    assert max(abs(row.error) for row in rows) < 0.25 and float(np.mean([row.error for row in rows])) > -0.2


def test_attention_is_as_far_off_as_is_claimed(data: Path) -> None:
    found = shipped(measured(data), load_chip(CHIP))
    assert 0.5 * CLAIMED < found.residuals.mean <= CLAIMED


def test_a_training_step_is_no_more_than_a_quarter_off_on_calibrated_chips(data: Path) -> None:
    """Forward and backward of BERT-Large on the A100 and the V100: gradients of all weights, three passes of work."""
    devices = {name: chip for name, chip in DEVICES.items() if chip in ("a100-80-pcie", "v100-pcie")}
    rows = list(training(data, {"bert_large": NETWORKS["bert_large"]}, devices))
    assert len(rows) == 2 and max(abs(row.error) for row in rows) < 0.25


def test_servers_draw_about_what_is_measured_at_the_wall(data: Path) -> None:
    errors = [row.error(server()) for row in islice(powered(data), 8)]
    assert len(errors) == 8 and max(map(abs, errors)) < NEAR and abs(float(np.mean(errors))) < 0.1


def test_frameworks_by_two_numbers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_frameworks, "FRAMEWORKS", ("PyTorch",))
    errors = [abs(row.error) for row in gpu_frameworks.frameworks(data)]
    assert len(errors) == 10 and float(np.mean(errors)) < 0.05
