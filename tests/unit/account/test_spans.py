"""What the engine that multiplies is called, and its peak."""

from __future__ import annotations

import pytest

from accelsim.account.spans import multiplier_title, peak_mac_rate
from accelsim.spec.yaml.load import load_chip


@pytest.mark.parametrize(
    ("chip", "title"),
    [("tpu-v1", "the matrix unit"), ("a100-80-sxm", "the multiprocessors"), ("haswell-e5-2699v3", "the matrix unit")],
)
def test_the_engine_that_multiplies_has_a_name(chip: str, title: str) -> None:
    assert multiplier_title(load_chip(chip)) == title


def test_without_one_there_is_no_peak() -> None:
    assert peak_mac_rate(load_chip("edu-4x4"), "int8") == 16 * 100e6
    with pytest.raises(KeyError, match="has no matrix unit, so no peak for int8"):
        peak_mac_rate(load_chip("haswell-e5-2699v3"), "int8")
