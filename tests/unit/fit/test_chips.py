"""A chip's constants fitted to what a chip with other ones would do, and the spec that comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.fit.chips import calibrate, knobs, write_spec
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, is_calibrated, with_values
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats, Ints

BASE = load_chip("a100-80-sxm", ["calibration=null"])
SHAPES = 2 ** np.random.default_rng(2).uniform(5, 14, (60, 3))
NAMES = ["sm.formats.fp16.sustained", ("sm.prologue", "sm.epilogue"), "sm.launch", "hbm.memory.efficiency"]
TRUE = {"sm.formats.fp16.sustained": 0.66, "sm.prologue": 900, "sm.epilogue": 900, "sm.launch": 5.2e-6,
        "hbm.memory.efficiency": 0.74}  # fmt: skip


def seconds(chip: Chip, rows: Ints) -> Floats:
    """Products of fp16, m x n x k, by the line: rounds of 108 tiles of 128 x 256, each with the ends of a block."""
    sm: Any = chip.engines["sm"]
    m, n, k = SHAPES[rows].T
    rounds = 1 + m * n / (108 * 128 * 256)
    products = m * n * k / (108 * float(sm.formats["fp16"].rate) * sm.formats["fp16"].sustained)
    moved_B = 2 * (m * k + k * n + m * n)
    compute = (rounds * (sm.prologue + sm.epilogue) + products) / chip.clock
    return sm.launch + np.maximum(compute, moved_B / chip.memories["hbm"].memory.rate_Bps)


def calibrated() -> Chip:
    measured = seconds(with_values(BASE, TRUE), np.arange(len(SHAPES)))
    return calibrate(BASE, NAMES, seconds, measured, "a test", "2026-11", parts=3)


def test_a_chip_gets_its_constants_back_and_says_on_what(tmp_path: Path) -> None:
    chip = calibrated()
    found = constants(chip)
    assert {name: found[name].value for name in TRUE} == pytest.approx(TRUE, rel=0.03)
    assert [name for name, each in found.items() if is_calibrated(chip, each)] == [
        name for name, each in found.items() if name in TRUE or (each.shares and each.of_shared in TRUE)
    ]
    block = chip.calibration
    assert block is not None and (block.rows, block.residual.rows, block.as_of) == (60, 60, "2026-11")
    assert block.residual.median < 0.01 and block.residual.median <= block.residual.p90
    assert "3 parts" in (block.residual.note or "")
    again = load_chip(write_spec(chip, tmp_path / "mine.yaml"))
    assert again == chip


LAUNCH_S = constants(load_chip("a100-80-sxm"))["sm.launch"].value


def test_a_knob_starts_where_the_chip_is_and_moves_where_all_may() -> None:
    first, both = knobs(load_chip("a100-80-sxm"), ["sm.launch", ("sm.prologue", "sm.epilogue")])
    assert (first.start, first.low, first.high, first.whole) == (LAUNCH_S, 0.0, 100e-6, False)
    assert (both.names, both.start, both.high, both.whole) == (
        ("sm.prologue", "sm.epilogue"),
        constants(load_chip("a100-80-sxm"))["sm.prologue"].value,
        20_000,
        True,
    )


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no constant 'sm.lunch'.*sm\.launch"):
        knobs(BASE, ["sm.lunch"])
    with pytest.raises(UsageError, match=r"sm\.launch is named twice"):
        knobs(BASE, ["sm.launch", ("sm.prologue", "sm.launch")])
    with pytest.raises(UsageError, match=r"tpu-v1 has no constant 'sm\.launch'"):
        knobs(load_chip("tpu-v1"), ["sm.launch"])
