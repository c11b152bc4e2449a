"""Networks of the ONNX model zoo, simulated with values, against ONNX Runtime and plain integer arithmetic.

SqueezeNet (Iandola et al. 2016) and ShuffleNet (Zhang et al. 2018) here; ``accelsim validate light-models`` and
reports/light-models.md take all nine.
"""

from __future__ import annotations

import pytest

from accelsim.errors import UsageError
from tests.validation import light_models


@pytest.mark.parametrize("model", ["squeezenet", "shufflenet"])
def test_int8_is_equal_to_the_last_bit(model: str) -> None:
    found = light_models.measure(model, light_models.TARGETS[0])
    assert found.target.dtype == "int8"
    assert found.within == found.tensors > 20
    assert max(found.exact, found.fast) < 1e-6
    assert found.sqnr_dB is not None
    assert found.sqnr_dB > 15


def test_fp32_is_within_1e_4_of_the_reference() -> None:
    found = light_models.measure("squeezenet", light_models.TARGETS[1])
    assert found.within == found.tensors > 20
    assert 0 < max(found.exact, found.fast) <= 1e-4
    assert found.sqnr_dB is None
    assert min(found.latency_s, found.energy_J, found.read_B, found.written_B) > 0


def test_the_networks_of_the_onnx_package_are_on_the_list() -> None:
    known = {"alexnet", "densenet121", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"}
    assert known <= set(light_models.LIGHT)


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(UsageError, match="no models"):
        light_models.light_models([])
