"""The fast value policy: sums of Tensor Cores by the library, everything else to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.machine.values.fast import by_library
from accelsim.workload.graph import Node


@pytest.mark.parametrize("rule, kept", [("tensor-core-a100", False), ("int32", True), ("fp32", True)])
def test_rules_of_blocks_alone_are_left_to_the_library(rule: str, kept: bool) -> None:
    node = Node("y", "MatMul", ["a", "b"], ["y"], {"dot": rule, "other": 1})
    assert ("dot" in by_library(node).attrs) == kept and by_library(node).attrs["other"] == 1


def test_sums_differ_from_a_tensor_core_in_their_last_bits() -> None:
    exact, fast = (
        accelsim.run("gemm?M=32,N=32,K=512", on="v100-sxm2-16", dtype="fp16", values=values).outputs["y"]
        for values in ("exact", "fast")
    )
    assert not np.array_equal(exact, fast)
    assert np.max(np.abs(exact - fast)) < 1e-3 * np.max(np.abs(exact))
