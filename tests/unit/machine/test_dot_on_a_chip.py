"""A rule of sums that a chip names is what its values are made with."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.formats.dot import RULES, product

HALF = [name for name, row in RULES.items() if row.native == "fp16" and row.accepts("fp16")]


@pytest.mark.parametrize("rule", HALF)
def test_a_chip_adds_up_in_fp16_as_its_rule_says(rule: str) -> None:
    graph = accelsim.load_model("gemm?M=5,N=7,K=70")
    override = f"matrix.formats.fp16.dot={rule}"
    run = accelsim.run(graph, "edu-tensor-core", dtype="fp16", set=[override])
    a, b = (np.asarray(x, np.float16).astype(np.float32) for x in (run.feeds["a"], graph.tensors["b"].value()))
    parts = [slice(k, k + 16) for k in range(0, 70, 16)]  # the array has 16 rows: a sum goes on from tile to tile
    total = np.zeros((5, 7), np.float32)
    for k in parts:
        total = product(a[:, k], b[k], rule, "fp16", c=total)
    assert np.array_equal(run.outputs["y"], total)


def test_fp8_with_fp16_accumulators_overflows_where_codes_are_large() -> None:
    """Codes are scaled to the end of FP8: sums of their products leave FP16, and become the largest code."""
    base = accelsim.run("gemm?M=4,N=4,K=32", "edu-tensor-core", dtype="fp8")
    narrow = accelsim.run(
        "gemm?M=4,N=4,K=32", "edu-tensor-core", dtype="fp8",
        set=["matrix.formats.fp8_e4m3fn.dot=tensor-core-h100-fp16"],
    )  # fmt: skip
    largest = [np.abs(y) == np.abs(y).max() for y in (base.outputs["y"], narrow.outputs["y"])]
    assert largest[0].sum() < 3
    assert largest[1].sum() > 8
    assert base.seconds == narrow.seconds
