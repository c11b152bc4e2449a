"""The smallest proof that the whole path works: a product of two matrices has the right value at a sane time."""

from __future__ import annotations

import numpy as np

import accelsim


def test_one_product_from_end_to_end() -> None:
    run = accelsim.run("gemm?M=8,N=8,K=8", on="edu-4x4", dtype="fp32", inputs={"a": np.eye(8)})
    weights = next(run.program.graph.constants()).value()
    np.testing.assert_array_equal(run.outputs["y"], weights)
    assert run.time_fs >= 8 * 8 * 8 / 16 * 10_000_000  # 16 PEs at 100 MHz
