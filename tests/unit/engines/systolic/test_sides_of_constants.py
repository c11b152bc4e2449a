"""Operands of an epilogue that are constants and no parameters, such as masks, come tile by tile as others do: the
search counts what their slots take."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.program.writing.facts import EpilogueReads, epilogue_reads
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


def masked(rows: int) -> Graph:
    """A product of activations with a constant of the size of its result added to it."""
    b = Builder("masked")
    x, y = b.input("x", (rows, 64)), b.input("y", (64, rows))
    mask = b.weight("mask", (rows, rows))
    return b.finish(b.op("Add", [b.matmul(x, y, "scores"), mask], "sums"))


@pytest.mark.parametrize("kib", [32, 48, 64, 96, 128])
def test_what_the_search_chooses_fits_with_a_mask(kib: int) -> None:
    run = accelsim.run(
        masked(256), on="systolic-generic", dtype="fp32", values="off", set=[f"act_sram.capacity={kib} KiB"]
    )
    assert any(node.epilogue for node in run.program.graph.nodes), "the mask is added behind the product"
    run.check()


def test_a_constant_of_many_values_a_channel_is_a_side_and_one_of_each_channel_a_parameter() -> None:
    b = Builder("both")
    scores = b.matmul(b.input("x", (8, 64)), b.input("y", (64, 8)), "scores")
    biased = b.op("Add", [scores, b.weight("scale", (8,))], "biased")
    run = accelsim.run(
        b.finish(b.op("Add", [biased, b.weight("mask", (8, 8))], "sums")), on="systolic-generic", dtype="fp32",
        values="off",
    )  # fmt: skip
    (node,) = [node for node in run.program.graph.nodes if node.epilogue]
    assert epilogue_reads(run.program.graph, node) == EpilogueReads(("scale",), ("mask",))
