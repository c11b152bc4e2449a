"""Runs on tiles by hand: times of supersteps, what may lie on the tiles before, what is refused, what would help."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest

import accelsim
from accelsim.account.critical_path import by_blame, by_key
from accelsim.engines.bsp.plan import TileMemory
from accelsim.engines.registry import ENGINES
from accelsim.errors import OverCapacity
from accelsim.program.roles import units
from accelsim.program.work import Stages
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.zoo.build import Builder
from tests.helpers.law_cases import RandomGraph, compiled

SMALL = ["tiles.tiles=16", "tile_memory.capacity=128 KiB", "tile_memory.parts=16"]
RESIDENT = ["tiles.weights=resident"]


def work(run: accelsim.Run) -> list[dict[str, int]]:
    return [dict(command.work.stages) for command in run.program.commands if isinstance(command.work, Stages)]


def test_one_product_by_hand() -> None:
    """16 x 16 times 16 x 16 in FP16: one block of weights, so only rows are there to part. Up to six rows take one turn
    of the six threads; four tiles of four rows exchange as long as sixteen of one row, and less in all.
    """
    run = accelsim.run("gemm?M=16,N=16,K=16", on="ipu-gc200", values="off", set=RESIDENT)
    (stages,) = work(run)
    tiles, matrix_B = 4, 16 * 16 * 2
    assert stages["sync"] == 126
    assert stages["exchange"] == matrix_B // tiles // 4 + (matrix_B - matrix_B // tiles) // 4
    assert stages["tiles"] == 17 + matrix_B // 16 + 6 * (44 + 4)
    counted = Counter[tuple[str, str]]()
    for row in run.ledger:
        counted[row.component, row.action] += row.count
    assert counted["tiles", "mac.fp16"] == 16**3 and counted["tiles", "mac.padding"] == 0
    sent_B, received_B = 2 * matrix_B, matrix_B + (tiles - 1) * matrix_B  # of B every tile has a share
    assert counted["tiles", "exchange.send"] == sent_B
    operands_B, sums_B, from_host_B, to_host_B = matrix_B + tiles * matrix_B, matrix_B, matrix_B, matrix_B
    assert counted["tile_memory", "read"] == operands_B + sent_B + to_host_B
    assert counted["tile_memory", "write"] == received_B + sums_B + from_host_B


def test_weights_come_once_or_are_there() -> None:
    loaded = accelsim.run("mlp", on="ipu-gc200", values="off")
    resident = accelsim.run("mlp", on="ipu-gc200", values="off", set=RESIDENT)
    assert work(loaded) == work(resident)
    assert resident.time_fs < loaded.time_fs / 3
    assert by_key(by_blame(resident)).get("weights", 0) == 0 < by_key(by_blame(loaded))["weights"]
    read = {row.tensor for row in resident.ledger if row.component == "host_memory" and row.action == "read"}
    assert read == {"x"}


def test_activations_that_do_not_fit_are_named_with_their_layer() -> None:
    """512 MB of A, of which a tile needs its part beside its share."""
    with pytest.raises(OverCapacity) as error:
        accelsim.run("gemm?M=4000000,N=16,K=64", on="ipu-gc200", values="off")
    (need,) = error.value.needs
    assert (need.memory, need.available_B, need.layer) == ("fullest tile", 560 * 1024, "y")
    assert need.activations_B > 2 * 4_000_000 * 64 * 2 / 1472
    assert "of activations (at y) do not fit into 560 KiB" in str(error.value)


def test_a_product_that_does_not_fit_at_once_takes_turns() -> None:
    """Twice the columns that fit: twice the supersteps, the same multiplications, the same values."""
    g = RandomGraph(1)
    graph = g.finish(g.dense(g.input("x", (64, 64)), 64, "y", relu=True))
    roomy, tight = (load_chip("ipu-gc200", [f"tiles.reserve={size} B", *SMALL]) for size in (1, 3200))
    once, turns = (compiled(graph, chip, "fp16").run("exact") for chip in (roomy, tight))
    assert len(work(turns)) > len(work(once)) and turns.time_fs > once.time_fs
    macs = [sum(row.count for row in run.ledger if row.action == "mac.fp16") for run in (once, turns)]
    assert macs == [64**3, 64**3]
    (values,), (others,) = once.outputs.values(), turns.outputs.values()
    np.testing.assert_array_equal(values, others)


@pytest.mark.parametrize(("turns", "relu"), [(1, False), (4, False), (4, True)])
def test_the_last_of_several_turns_holds_the_results_of_all_before(turns: int, relu: bool) -> None:
    """16 x 32 times 32 x 64 in FP16 on one tile: A, the sums of a turn, the results of
    the others; B is there. Results of what is fused behind take the place of sums."""
    b = Builder("turns")
    y = b.matmul(b.input("x", (16, 32)), b.weight("w", (32, 64)), "product")
    graph = b.finish(b.op("Relu", [y], "y") if relu else y)
    pinned = {node.name: {"turns": turns, "g": 1, "m": 1, "n": 1, "k": 1} for node in graph.nodes[:1]}
    with mock.patch.object(TileMemory, "check", autospec=True) as checked:
        compiled(graph, load_chip("ipu-gc200"), "fp16", pinned=pinned)
    held_B = checked.call_args.args[3]
    assert held_B.tolist() == [16 * 32 * 2 + 16 * 64 * 2]  # sums are FP16 as well


def test_constants_that_do_not_fit_are_told_before_anything_else() -> None:
    with pytest.raises(OverCapacity) as error:
        accelsim.run("mlp", on="ipu-gc200", values="off", set=["tiles.reserve=638500 B"])
    (need,) = error.value.needs
    assert (need.layer, need.activations_B, need.available_B) == ("", 0, 624 * 1024 - 638500)


def test_a_run_that_ignores_the_capacity_says_so() -> None:
    set_ = ["tiles.reserve=638500 B"]
    run = accelsim.run("mlp", on="ipu-gc200", values="off", set=set_, ignore_capacity=True)
    notes = [note for note in run.program.notes if note.startswith("capacity ignored: fullest tile: ")]
    assert len(notes) == len(set(notes)) > 1


def test_what_would_help_is_a_chip() -> None:
    chip = load_chip("ipu-gc200")
    found = list(ENGINES["bsp"].improvements(chip, units(chip)["tiles"]))
    assert len(found) == 5
    reasons = {reason.key for reason in ENGINES["bsp"].reasons} | {"weights"}
    for improvement in found:
        assert load_chip("ipu-gc200", list(improvement.sets)) != chip
        assert set(improvement.keys) <= reasons and 0 < improvement.weight <= 1


def test_what_tiles_do_not_do_is_told() -> None:
    g = RandomGraph(1)
    x = g.input("x", (3, 7, 5))
    product = g.matmul(g.weight("w", (4, 7)), x, "product")
    graph = g.finish(g.op("ArgMax", [product], "largest", axis=2, keepdims=1, select_last_index=0))
    chip = load_chip("ipu-gc200", ["tiles.functions.ArgMax=none"])
    notes = {step.name: step.note for step in compiled(graph, chip).program.steps}
    assert notes["product"] == "MatMul: its left operand is a constant, and the tiles exchange activations"
    assert notes["largest"] == "ArgMax: not a function of the tiles"
    notes = {step.name: step.note for step in compiled(graph, load_chip("ipu-gc200")).program.steps}
    assert notes["largest"] == "ArgMax: the tiles have no int64 numbers"


def test_a_vector_that_all_rows_share_is_exchanged_although_it_lies_on_the_tiles() -> None:
    """The sum of two operands like the results needs no exchange; a row that is added to each of 16 does."""
    sent_B = {}
    for shape in ((16, 64), (64,)):
        b = Builder("sum")
        first, second = (b.op("Relu", [b.input(f"x{at}", each)], f"r{at}") for at, each in enumerate(((16, 64), shape)))
        run = accelsim.run(b.finish(b.op("Add", [first, second], "y")), on="ipu-gc200", values="off")
        sent_B[shape] = work(run)[-1]["exchange"]
    assert sent_B[16, 64] == 0 < sent_B[64,]
