"""Register files and accumulators: the sourced points, the law between them, words about their standing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from accelsim.errors import UsageError
from accelsim.spec.scaling import scale_energy
from accelsim.sram.model import sram
from accelsim.sram.registers import accumulator, register_file


def test_the_points_themselves() -> None:
    assert register_file(1024).read_J == pytest.approx(1e-12)
    assert register_file(4).read_J == pytest.approx(0.12e-12)
    assert register_file(1).read_J == register_file(4).read_J
    assert register_file(64, word_bits=8).read_J == pytest.approx(register_file(64).read_J / 4)


def test_between_and_beyond() -> None:
    energies = [register_file(size).read_J for size in (4, 16, 64, 256, 1024, 4096)]
    ratios = [high / low for low, high in pairwise(energies)]
    assert ratios == pytest.approx([ratios[0]] * 5) and ratios[0] > 1
    assert [register_file(size).status for size in (64, 1024, 4096)] == ["guess", "recalled", "extrapolated"]


def test_ports_and_nodes() -> None:
    assert register_file(256, ports=1).read_J == register_file(256, ports=2).read_J
    assert register_file(256, ports=4).read_J == pytest.approx(1.84 * register_file(256).read_J)
    assert register_file(256, node_nm=7).read_J == pytest.approx(
        scale_energy(register_file(256).read_J, 45, 0.9, 7, 0.9)
    )


def test_problems_are_told() -> None:
    with pytest.raises(UsageError) as error:
        register_file(0, 0, 0, 3)
    assert len(error.value.problems) == 4


def test_an_accumulator_reads_and_writes() -> None:
    found = accumulator(2**16, banks=8)
    memory = sram(2**16, 32, 2, 8)
    assert found.memory == memory
    assert found.update_J == memory.read_J + memory.write_J
