"""Time per sample against batch size: parts by hand, what they say of a link, refusals."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.account.critical_path import by_blame
from accelsim.account.energy import energy_table, total_J
from accelsim.account.host_link import PARTS, busy_fs, linked, split_fs
from accelsim.errors import UsageError
from accelsim.explore.batching import batching
from accelsim.machine.run import Slice
from accelsim.spec.yaml.load import list_chips, load_chip


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
    assert first.parts_fs["link"] >= 2 * latency_fs and first.link_fs >= 2 * latency_fs
    fast = batching("cnn", "tpu-v1", [1], set=["memories.pcie_memory.link.latency=10 ns"]).points[0]
    assert first.time_fs - fast.time_fs == pytest.approx(2 * (latency_fs - 10**7), rel=0.01)


def test_parts_are_those_of_the_report(small) -> None:  # type: ignore[no-untyped-def]
    for point in small.points:
        run = accelsim.run("cnn", on="tpu-v1", batch=point.batch, values="off")
        blamed = dict.fromkeys(PARTS, 0)
        for blame, fs in by_blame(run).items():
            if blame.resource in ("pcie-gen3-x16", "pcie_memory"):
                blamed["link"] += fs
            elif blame.resource == "ddr3":
                blamed["memory"] += fs
            elif blame.resource in ("matrix", "vector"):
                blamed["compute"] += fs
            else:
                blamed["host" if blame.resource == "host" else "other"] += fs
        assert point.parts_fs == blamed


@pytest.mark.parametrize("chip", sorted(summary.name for summary in list_chips()))
def test_every_resource_has_its_part(chip: str) -> None:
    """Only ports of buffers and handing over are 'other': no memory, link or unit is forgotten."""
    run = accelsim.run("cnn" if load_chip(chip).host else "gemm?M=8,K=8,N=8", on=chip, values="off")
    rest = sum(fs for blame, fs in by_blame(run).items() if blame.kind in ("buffer_port", "hand_over"))
    assert split_fs(run)["other"] == rest


def test_a_busy_link_by_hand() -> None:
    """Of a run whose slices are replaced: transfers that overlap count once."""
    run = accelsim.run("cnn", on="tpu-v1", values="off")
    run.slices = [Slice(0, 0, 0, "", *piece) for piece in ((2, 3, 20), (0, 1, 10), (40, 41, 50), (45, 46, 48))]
    run.slices.append(Slice(1, 0, 0, "", 0, 1, 70))
    assert busy_fs(run, {0}) == 20 + 10


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="batch sizes"):
        batching("cnn", "tpu-v1", [0, 1])
    with pytest.raises(UsageError, match="batch sizes"):
        batching("cnn", "tpu-v1", [])
    assert linked(load_chip("edu-4x4")) == {}


def test_a_chip_without_a_link_has_no_transfers_and_every_run_its_latency_and_energy() -> None:
    found = batching("mlp?hidden=16", "edu-4x4", [1, 4])
    assert found.parts == ["compute", "host", "memory", "other"]
    for point, batch in zip(found.points, (1, 4), strict=True):
        run = accelsim.run("mlp?hidden=16", "edu-4x4", batch=batch, values="off")
        assert point.time_fs == run.time_fs
        assert point.energy_J == total_J(energy_table(run))
        assert point.link_B == point.link_fs == point.parts_fs["link"] == 0
        assert sum(point.parts_fs[part] for part in found.parts) == run.time_fs
