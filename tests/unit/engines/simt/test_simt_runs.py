"""Networks on an A100: launches, pieces, pins, what a run says; values against a second execution."""

from __future__ import annotations

from dataclasses import asdict

import pytest

import accelsim
from accelsim.account.categories import by_category
from accelsim.account.critical_path import by_step
from accelsim.account.energy import energy_table
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.simt.writing import DISPATCH, LAUNCH, Shares
from accelsim.errors import TooLarge, UsageError
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.program.work import Cycles, Transfer
from accelsim.spec.constants import constants
from accelsim.workload.limits import limited

A100 = "a100-80-sxm"
FOLLOW_S = min(constants(accelsim.load_chip(A100))[name].value for name in ("sm.follow", "sm.launch"))


@pytest.fixture(scope="module", name="cnn")
def _cnn() -> accelsim.Run:
    return accelsim.run("cnn", on=A100, values="exact", keep=True)


def test_every_tensor_is_right(cnn: accelsim.Run) -> None:
    verdict = check_run(cnn, accelsim.load_model("cnn"))
    assert verdict.holds and len(verdict.rows) == 6
    check(cnn, thorough=True)


@pytest.mark.parametrize("dtype", ["int8", "tf32", "fp32"])
def test_other_formats_are_right(dtype: str) -> None:
    run = accelsim.run("cnn", on=A100, dtype=dtype, values="exact", keep=True)
    assert check_run(run, accelsim.load_model("cnn")).holds


def test_a_kernel_reads_nothing_before_its_launch(cnn: accelsim.Run) -> None:
    launched: dict[int, int] = {}
    for command in cnn.program.commands:
        piece = cnn.slices[command.id]
        if command.label == LAUNCH:
            launched[command.op] = piece.end
            assert piece.end - piece.start == pytest.approx(FOLLOW_S * 1e15, abs=1e6)
        elif isinstance(command.work, Transfer) and not command.work.write and command.op in launched:
            assert piece.start >= launched[command.op]
    assert sorted(launched) == list(range(6))


def test_what_stands_for_a_moment_holds_nothing() -> None:
    """Requests of the host and launches are regions that others wait for, without a byte."""
    run = accelsim.run("cnn", on=A100, values="off", fusion="eager", set=["sm.dispatch=5 us"])
    written = {use.region for command in run.program.commands if command.label in (LAUNCH, DISPATCH)
               for use in command.writes}  # fmt: skip
    assert len(written) > 6 and {run.program.regions[region].size_B for region in written} == {0}


def test_time_goes_to_what_kernels_do(cnn: accelsim.Run) -> None:
    keys = {blame.key for times in by_step(cnn).values() for blame in times}
    assert {"launch", "products", "lanes", "block_ends", "tile_padding"} <= keys
    assert "compute" not in keys and "vector" not in keys


def test_energy_is_told_by_what_it_is_for(cnn: accelsim.Run) -> None:
    found = by_category(cnn.chip, energy_table(cnn))
    assert {"MAC", "registers", "shared memory", "lanes"} <= set(found)


def test_commands_are_as_many_for_more_multiprocessors() -> None:
    run = {
        count: accelsim.run("gemm?M=2048,N=2048,K=256", on=A100, values="off", set=[f"sm.multiprocessors={count}"])
        for count in (108, 432)
    }  # fmt: skip
    assert len(run[432].program.commands) <= len(run[108].program.commands)
    assert run[432].time_fs <= run[108].time_fs


def test_clocks_of_pieces_are_those_of_the_waves() -> None:
    """512 blocks of 256 x 128 on 108 multiprocessors, one at a time: five rounds, the last of 80 blocks as hard as others."""
    run = accelsim.run(
        "gemm?M=4096,N=4096,K=4096", on=A100, values="off",
        set=["sm.softness=1", "sm.droop=0", "sm.prologue=1500", "sm.epilogue=1500"],
        mapping={"y": {"m": 256, "n": 128, "threads": 256, "splits": 1}},
    )  # fmt: skip
    pieces = [
        command for command in run.program.commands if isinstance(command.work, Cycles) and command.label != LAUNCH
    ]
    loop = 4096 * 256 * 128 / 1024 / run.chip.engines["sm"].formats["fp16"].sustained
    assert sum(command.work.clocks for command in pieces) == pytest.approx(5 * (loop + 3000), rel=1e-4)


def test_blocks_may_be_pinned() -> None:
    product = "gemm?M=512,N=512,K=512"
    run = accelsim.run(product, on=A100, values="off")
    chosen = asdict(run.program.steps[0].mapping)
    assert accelsim.run(product, on=A100, values="off", mapping={"y": chosen}).time_fs == run.time_fs
    other = accelsim.run(product, on=A100, values="off", mapping={"y": {"splits": 2 * chosen["splits"]}})
    assert asdict(other.program.steps[0].mapping)["splits"] == 2 * chosen["splits"]
    assert other.time_fs > run.time_fs
    with pytest.raises(UsageError, match="y: no tile has m 7; expected 256 x 128 of 256 threads"):
        accelsim.run(product, on=A100, values="off", mapping={"y": {"m": 7}})
    with pytest.raises(UsageError, match="y: splits 999; expected at most the 16 steps over K"):
        accelsim.run(product, on=A100, values="off", mapping={"y": {"splits": 999}})


def test_shares_add_up() -> None:
    shares = Shares(clocks=100, pieces=3, weight=7)
    assert [shares.take(weight, 1).clocks for weight in (1, 2, 4)] == [14, 29, 57]
    few = Shares(clocks=2, pieces=3, weight=7)
    assert [few.take(weight, 1).clocks for weight in (1, 2, 4)] == [1, 1, 1]


def test_pieces_are_the_products_of_a_kernel_whose_k_is_cut() -> None:
    graph, chip = accelsim.load_model("gemm?M=16384,K=16384,N=256"), accelsim.load_chip(A100)
    options = Options(values="off", edges="outside")
    program = compile(graph, chip, options)
    tiles = [command.effect.tile for command in program.commands if command.kind == "MatMul"]
    assert len({(tile.k0, tile.k1) for tile in tiles if tile is not None}) > 1
    with limited(commands=1), pytest.raises(TooLarge, match=f"y in {len(tiles)} pieces"):
        compile(graph, chip, options)
