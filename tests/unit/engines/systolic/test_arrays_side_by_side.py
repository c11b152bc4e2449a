"""Two arrays of a teaching chip: times and ledger of a small product, worked out by hand.

The memory moves a tile of 4 x 4 fp32 words (64 B) per clock of 10 ns, 10 clocks after the request; a token takes a clock.
So tile i of those that are asked for one after the other is there at clock 12 + i and can be used from edge 13 + i on.
A 4 x 4 array shifts its weights in during 4 edges and streams 4 rows; the last sum is there 3 + 6 + 1 edges after the
first row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.account.latency import summary
from accelsim.errors import Infeasible
from accelsim.machine.run import Run
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.law_cases import changed, compiled

CLOCK_FS = 10 * 10**6
TILE_B = 64
TILED = {"tm": 4, "tn": 4, "tk": 4, "a_resident": False, "y_resident": False}


def chip(count: int, width_B: int = 32, **matrix: Any) -> Chip:
    found = changed(load_chip("edu-4x4"), "memories.dram.memory", bandwidth=6.4e9, beat=64)
    for name in found.buffers:
        found = changed(found, name, read_width=width_B, write_width=width_B)
    return changed(changed(found, "", peak={}), "matrix", count=count, **matrix)


def ran(on: Chip, m: int, n: int, k: int, **pinned: Any) -> Run:
    graph = load_model(f"gemm?M={m},N={n},K={k}")
    case = compiled(graph, on, "fp32", pinned={"y": TILED | pinned}, edges="outside")
    run = case.run("exact")
    (a,) = case.feeds.values()
    weights = graph.tensors[graph.nodes[0].inputs[1]].value()
    np.testing.assert_allclose(run.outputs["y"], a @ weights, rtol=1e-4, atol=1e-5)
    return run


def spans(run: Run, kind: str) -> list[tuple[str, float, float]]:
    """(queue, clocks from which on it works, clocks at which it has completed) of the commands of a kind."""
    return [
        (piece.engine, piece.data / CLOCK_FS, piece.end / CLOCK_FS)
        for piece in run.slices
        if run.program.commands[piece.command].kind == kind
    ]


def counted(run: Run, component: str, action: str, tensor: str = "") -> int:
    rows = [row for row in run.ledger if (row.component, row.action) == (component, action)]
    return sum(row.count for row in rows if not tensor or row.tensor == tensor)


def test_rows_are_split() -> None:
    """Both stream at the edges 17 to 20, as the weights they share came first. One array may shift weights in again
    when the last PE of its first column has swapped, at the edges 21 to 24, and streams the other rows after that."""
    run = ran(chip(2), 8, 4, 4, split="m", order="nmk")
    assert spans(run, "MatMul") == [("matrix:0", 16, 27), ("matrix:1", 16, 27)]
    assert spans(ran(chip(1), 8, 4, 4, order="nmk"), "MatMul") == [("matrix", 16, 27), ("matrix", 24, 35)]
    assert [counted(run, f"matrix:{array}", "mac.fp32") for array in range(2)] == [64, 64]
    assert counted(run, "dram", "read", "b") == TILE_B  # loaded once,
    assert counted(run, "weight_sram", "read", "b") == 2 * TILE_B  # and read by each array
    assert counted(run, "dram", "read", "a") == counted(run, "act_sram", "read", "a") == 2 * TILE_B


def test_columns_are_split() -> None:
    """The second weights come behind the first and the rows that both stream: a load later, two edges."""
    run = ran(chip(2), 4, 8, 4, split="n", order="mnk")
    assert spans(run, "MatMul") == [("matrix:0", 16, 27), ("matrix:1", 18, 29)]
    assert counted(run, "dram", "read", "a") == TILE_B
    assert counted(run, "act_sram", "read", "a") == 2 * TILE_B
    assert counted(run, "dram", "read", "b") == counted(run, "weight_sram", "read", "b") == 2 * TILE_B


def test_the_reduction_is_split() -> None:
    """Weights, rows, weights, rows: the second array is two edges behind. The vector unit reads 32 B of sums per clock,
    so 4 clocks from edge 30 on, in which it also adds 16 pairs on 4 lanes.
    """
    run = ran(chip(2), 4, 4, 8, split="k", order="nmk")
    assert spans(run, "MatMul") == [("matrix:0", 16, 27), ("matrix:1", 18, 29)]
    assert spans(run, "Vector") == [("vector", 29, 33)]
    assert counted(run, "accumulators", "write") == counted(run, "accumulators", "read") == 2 * TILE_B
    assert counted(run, "vector", "op.fp32") == 16


def test_a_tile_that_stays_is_not_loaded_again() -> None:
    """4 tiles of rows on 2 arrays, 2 of columns outside: all rows come twice, weights stay for both turns."""
    run = ran(chip(2), 16, 8, 4, split="m", order="nmk")
    assert [queue for queue, _, _ in spans(run, "MatMul")].count("matrix:1") == 4
    assert counted(run, "dram", "read", "b") == 2 * TILE_B
    assert counted(run, "dram", "read", "a") == 2 * 4 * TILE_B
    kept = ran(chip(2), 8, 8, 4, split="m", order="nmk")  # each array has one tile of rows, and keeps it
    assert counted(kept, "dram", "read", "a") == 2 * TILE_B


def test_the_peak_is_that_of_all_arrays() -> None:
    """Two tiles of 64 MACs on 2 x 16 PEs are 4 clocks of work."""
    run = ran(chip(2), 8, 4, 4, split="m", order="nmk")
    assert summary(run)["utilisation"] == pytest.approx(4 * CLOCK_FS / run.time_fs)
    assert chip(2).engines["matrix"].peaks(chip(2))["fp32"] == 2 * 32 * 100e6


def test_arrays_share_the_width_of_a_buffer() -> None:
    """16 B per clock are a row of 4 fp32 words: two arrays that stream at once get one every other clock each."""
    narrow = ran(chip(2, 16), 8, 4, 4, split="m", order="nmk")
    work = [command.work for command in narrow.program.commands if command.kind == "MatMul"]
    assert [each.cycles_per_row for each in work] == [2, 2]  # type: ignore[union-attr]


def test_a_reduction_is_not_split_without_a_vector_unit_behind() -> None:
    graph = load_model("gemm?M=4,N=4,K=8")
    with pytest.raises(Infeasible, match="no mapping of this chip has all pinned fields"):
        compiled(graph, chip(2, epilogue=False), "fp32", pinned={"y": {"split": "k"}}, edges="outside")
