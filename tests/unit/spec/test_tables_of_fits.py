"""Tables of our own fits, of what GPUs draw and how far off kernels are: as they ship, and what is missing told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelsim.errors import SpecError
from accelsim.spec.intervals import KINDS
from accelsim.spec.yaml.chips import load_intervals, load_power

ROOT = Path(__file__).resolve().parents[3] / "hwspecs"


def test_every_kind_of_kernel_has_a_factor() -> None:
    found = load_intervals("kernels").kernels
    assert found is not None and set(found.uncalibrated) == set(KINDS)
    assert min(found.uncalibrated.values()) > max(found.labs.values()) > 1


def test_a_table_without_a_kind_of_kernel_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "intervals" / "kernels.yaml").read_text(encoding="utf-8")
    file = tmp_path / "kernels.yaml"
    file.write_text(re.sub(r"convolution: [0-9.]+, ", "", text, count=1), encoding="utf-8")
    with pytest.raises(SpecError, match=r"no uncalibrated\.convolution"):
        load_intervals(file)


def test_ratios_are_those_to_a_node_that_is_known(tmp_path: Path) -> None:
    text = (ROOT / "power" / "gpu.yaml").read_text(encoding="utf-8")
    file = tmp_path / "gpu.yaml"
    file.write_text(text.replace("measured: 5", "measured: 6"), encoding="utf-8")
    with pytest.raises(SpecError, match="expected \\[12, 8, 7, 5\\]"):
        load_power(file)
