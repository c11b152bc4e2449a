"""Bytes of partial sums that a product reads and writes, counted by hand on an array of 4 x 4 PEs.

Such an array adds up at most four products of a sum while it passes the PEs of a column. A sum over K = 12 leaves it
three times: the first time it is written, the second and third time what is there is read, added to, and written.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model

M, N = 8, 4
SUM_B = 4
ROUND_B = M * N * SUM_B
"""Bytes of all sums once, in fp32 and in int32."""


def ran(k: int, tiles: Mapping[str, int], dataflow: str = "ws") -> Run:
    chip = load_chip("edu-4x4", [f"matrix.dataflow={dataflow}"])
    model = load_model(f"gemm?M={M},N={N},K={k}")
    return simulate(compile(model, chip, Options(dtype="fp32", values="off", pinned={"y": dict(tiles)})))


def sums_B(run: Run) -> tuple[int, int]:
    """Bytes of partial sums that the product adds to, and that it writes; by the entries of its commands alone."""
    found = {"read": 0, "write": 0}
    for command in run.program.commands:
        for entry in command.actions if command.kind == "MatMul" else ():
            if entry.component == "accumulators":
                found[entry.action] += entry.count
    return found["read"], found["write"]


def in_ledger_B(run: Run, action: str) -> int:
    return sum(row.count for row in run.ledger if (row.component, row.action) == ("accumulators", action))


@pytest.mark.parametrize("dataflow", ["ws", "is"])
@pytest.mark.parametrize(("tk", "commands"), [(4, 3), (8, 2), (12, 1)])
def test_each_pass_beyond_the_first_reads_what_it_adds_to(dataflow: str, tk: int, commands: int) -> None:
    """However the three passes are dealt to commands: two reads and three writes of every sum, and one read of the
    results when they leave.
    """
    run = ran(12, {"tm": M, "tn": N, "tk": tk}, dataflow)
    assert sum(command.kind == "MatMul" for command in run.program.commands) == commands
    assert sums_B(run) == (2 * ROUND_B, 3 * ROUND_B)
    assert in_ledger_B(run, "read") == 3 * ROUND_B
    assert in_ledger_B(run, "write") == 3 * ROUND_B


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("tiles", [{"tm": M, "tn": N}, {"tm": 4, "tn": N}, {"tm": 2, "tn": 2}])
def test_sums_of_one_pass_are_written_and_never_added_to(dataflow: str, tiles: dict[str, int]) -> None:
    run = ran(4, tiles | {"tk": 4}, dataflow)
    assert sums_B(run) == (0, ROUND_B)
    assert in_ledger_B(run, "read") == in_ledger_B(run, "write") == ROUND_B


@pytest.mark.parametrize(("tk", "again"), [(4, 2), (8, 1), (12, 0)])
def test_where_a_sum_stays_in_its_pe_only_a_new_command_reads_it_again(tk: int, again: int) -> None:
    run = ran(12, {"tm": M, "tn": N, "tk": tk}, "os")
    assert sums_B(run) == (again * ROUND_B, (again + 1) * ROUND_B)
