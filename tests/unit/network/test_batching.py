"""Time per sample against batch size: parts by hand, what they say of a link, refusals."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.account.energy import energy_table, total_J
from accelsim.errors import UsageError
from accelsim.explore.batching import PARTS, batching, linked, split_fs
from accelsim.machine.run import Slice
from accelsim.spec.load import load_chip


@pytest.fixture(scope="module")
def small():  # type: ignore[no-untyped-def]
    return batching("cnn", "tpu-v1", [4, 1, 2, 2])


def test_points(small) -> None:  # type: ignore[no-untyped-def]
    assert [point.batch for point in small.points] == [1, 2, 4] and small.links == {"pcie_memory": "pcie"}
    for point in small.points:
        assert point.samples == point.batch and set(point.parts_fs) == set(PARTS)
        assert sum(point.parts_fs.values()) == point.time_fs
        assert sum(point.per_sample_s(part) for part in PARTS) == pytest.approx(point.seconds_per_sample)
        assert point.link_B == 794 * point.batch  # an image of 28 x 28 bytes and ten scores
    assert small.fastest.batch == 4


def test_small_transfers_pay_the_latency(small) -> None:  # type: ignore[no-untyped-def]
    """One image in and ten scores out: at least twice the latency of the link, however fast it is."""
    first = small.points[0]
    latency_fs = 2 * 10**9
    assert first.parts_fs["transfer"] + first.parts_fs["both"] >= 2 * latency_fs
    fast = batching("cnn", "tpu-v1", [1], set=["memories.pcie_memory.link.latency=10 ns"]).points[0]
    assert first.time_fs - fast.time_fs == pytest.approx(2 * (latency_fs - 10**7), rel=0.01)


def test_slices_by_hand(small) -> None:  # type: ignore[no-untyped-def]
    """Of a run whose slices are replaced: transfers from acceptance, computing from its first operand."""
    import accelsim

    run = accelsim.run("cnn", on="tpu-v1", values="off")
    kinds = {}
    for index, command in enumerate(run.program.commands):
        memory = getattr(command.work, "memory", "")
        engine = run.program.engines[command.engine]
        kinds.setdefault(memory or engine, (index, command.engine))

    def piece(kind: str, start: int, data: int, end: int) -> Slice:
        index, engine = kinds[kind]
        return Slice(index, engine, 0, "", start, data, end)

    run.slices = [
        piece("pcie_memory", 0, 5, 10), piece("matrix", 2, 8, 20), piece("ddr3", 15, 16, 30),
        piece("host", 40, 40, 50), piece("pcie_memory", 45, 46, 60),
    ]  # fmt: skip
    run.time_fs = 70
    assert split_fs(run) == {
        "transfer": 8 + 10, "both": 2, "compute": 10, "memory": 10, "waiting": 10 + 10, "host": 10,
    }  # fmt: skip


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="batch sizes"):
        batching("cnn", "tpu-v1", [0, 1])
    with pytest.raises(UsageError, match="batch sizes"):
        batching("cnn", "tpu-v1", [])
    assert linked(load_chip("edu-4x4")) == {}


def test_a_chip_without_a_link_has_no_transfers_and_every_run_its_latency_and_energy() -> None:
    found = batching("mlp?hidden=16", "edu-4x4", [1, 4])
    assert found.parts == ["compute", "host", "memory", "waiting"]
    for point, batch in zip(found.points, (1, 4), strict=True):
        run = accelsim.run("mlp?hidden=16", "edu-4x4", batch=batch, values="off")
        assert point.time_fs == run.time_fs
        assert point.energy_J == total_J(energy_table(run))
        assert point.link_B == point.parts_fs["transfer"] == point.parts_fs["both"] == 0
        assert sum(point.parts_fs[part] for part in found.parts) == run.time_fs
