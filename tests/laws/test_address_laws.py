"""Laws of addresses, on random graphs, chips and mappings: every byte of every transfer has one, and it is the right one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings

from accelsim.machine.addressed import bursts
from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.commands import Command
from accelsim.program.work import Transfer
from tests.helpers.law_cases import Case, cases

LAWS = settings(max_examples=40)
EVERYTHING = 1 << 60
"""Bytes: no address wraps round."""


def transfers(case: Case) -> list[Command]:
    return [command for command in case.program.commands if isinstance(command.work, Transfer)]


def bytes_of(runs: tuple[Runs, ...]) -> list[int]:
    """Every byte that the runs name: bursts of one byte."""
    found: list[int] = bursts(runs, 1, EVERYTHING).tolist()
    return found


def the_bytes_of_the_runs_are_those_of_the_transfer_and_lie_in_its_tensor(case: Case, found: AddressMap) -> None:
    for command in transfers(case):
        runs, homes = found.runs(command), [found.span(region) for region in found.home(command)]
        assert sum(run.nbytes for run in runs) == command.work.nbytes  # type: ignore[union-attr]
        assert len(bytes_of(runs)) == command.work.nbytes  # type: ignore[union-attr]
        for run in runs:
            assert any(base <= run.base and run.end <= base + size for base, size in homes), (command, run)


def what_a_step_writes_it_writes_once(case: Case, found: AddressMap) -> None:
    """The stores of a step into one tensor are all of its bytes, none of them twice."""
    written: dict[int, list[int]] = defaultdict(list)
    sizes = {region.id: region.size_B for region in case.program.regions}
    pieces: dict[int, int] = defaultdict(int)
    for command in transfers(case):
        if command.kind == "Store":
            (region,) = found.home(command)
            pieces[region] += command.work.nbytes  # type: ignore[union-attr]
            written[region] += bytes_of(found.runs(command))
    for region, touched in written.items():
        if pieces[region] == sizes[region]:  # more chunks than bytes write some bytes twice
            base = found.span(region)[0]
            assert sorted(touched) == list(range(base, base + sizes[region]))


def stationary_tiles_that_are_loaded_once_cover_their_operand_once(case: Case, found: AddressMap) -> None:
    tiles: dict[tuple[int, int], dict[tuple[int, ...], list[int]]] = defaultdict(dict)
    for command in transfers(case):
        if command.effect.what == "load_b":
            (region,), tile = found.home(command), command.effect.tile
            assert tile is not None
            tiles[command.op, region][tile.g0, tile.n0, tile.k0] = bytes_of(found.runs(command))
    for (op, region), parts in tiles.items():
        gemm = case.program.steps[op].gemm
        assert gemm is not None
        if gemm.batch and case.program.graph.tensors[gemm.b].elements < gemm.groups * gemm.N * gemm.K:
            continue  # one that broadcasts is read again for each group
        touched = sorted(byte for part in parts.values() for byte in part)
        base, _ = found.span(region)
        assert touched == list(range(base, base + len(touched)))
        assert len(touched) >= case.program.graph.tensors[gemm.b].nbytes


def no_two_tensors_share_a_byte(case: Case, found: AddressMap) -> None:
    for memory in case.chip.memories:
        homes = {found.span(r.id) for r in case.program.regions if r.memory == memory}
        ends = np.array(sorted(homes)).reshape(-1, 2)
        assert (ends[:-1].sum(axis=1) <= ends[1:, 0]).all()
        assert not len(ends) or found.extent_B[memory] == ends[-1].sum()


@LAWS
@given(cases())
def test_every_program_keeps_the_laws(case: Case) -> None:
    """One program for all of them: to draw and compile it takes the most of the time."""
    found = AddressMap(case.program)
    the_bytes_of_the_runs_are_those_of_the_transfer_and_lie_in_its_tensor(case, found)
    what_a_step_writes_it_writes_once(case, found)
    stationary_tiles_that_are_loaded_once_cover_their_operand_once(case, found)
    no_two_tensors_share_a_byte(case, found)
    addresses_are_a_function_of_the_program(case, found)


def addresses_are_a_function_of_the_program(case: Case, one: AddressMap) -> None:
    two = AddressMap(case.program)
    moves = transfers(case)
    assert [one.runs(command) for command in moves] == [two.runs(command) for command in reversed(moves)][::-1]
