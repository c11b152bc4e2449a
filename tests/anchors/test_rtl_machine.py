"""A decoupled access/execute accelerator in SystemVerilog, run through Verilator: tests/validation/data/rtl_machine.

The general machine, configured by hwspecs/chips/dae-edu.yaml, must equal every column of every run, the hash over the
results and the hash over the edges of all events included.
"""

from __future__ import annotations

import numpy as np

from tests.validation import rtl_check


def test_every_row_and_column_is_equal() -> None:
    check = rtl_check.rtl_machine()
    assert (check.rows, check.equal, check.max) == (60, 60, 0.0)


def test_hashes_are_compared() -> None:
    columns = rtl_check.result_columns(rtl_check.golden_rows()[0])
    assert {"total_clocks", "stall_total", "out_fnv", "trace_fnv"} <= set(columns)
    assert len(columns) == 28


def test_simpler_models_are_far_off() -> None:
    """What the machine is for: a roofline and max(compute, transfer) miss these clocks by 20 and 15 % in the median."""
    medians = {name: float(np.median(np.abs(errors)))
               for name, errors in rtl_check.simpler_errors(rtl_check.golden_rows()).items()}  # fmt: skip
    assert 0.15 < medians["a roofline"] < 0.25
    assert 0.10 < medians["max(compute, transfer)"] < 0.20
