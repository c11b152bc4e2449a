"""Constants of a communication library come back from times that were made with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.cluster.fit import Measured, Model, Sort, calibrate, constants, group_of, read_collectives, with_constants
from accelsim.cluster.shapes.building import build
from accelsim.errors import UsageError
from accelsim.fit.validation import residuals
from accelsim.spec.yaml.clusters import load_cluster

HEADER = "op,device,n_devices,devices_per_node,bytes,time_us,time_us_min\n"


def made(ranks: tuple[int, ...] = (2, 8), each: int = 20) -> Measured:
    sizes = np.geomspace(2**12, 2**26, each).astype(np.int64)
    sorts = [Sort("all_reduce", n, n) for n in ranks for _ in sizes]
    return Measured(sorts, ["x"] * len(sorts), np.tile(sizes, len(ranks)), np.ones(len(sorts)))


def test_constants_come_back() -> None:
    cluster = load_cluster("dgx-a100")
    topology, software = build(cluster), cluster.collectives
    truth = with_constants(software, {"simple.share": 0.7, "ll128.inside": 1.5e-6})
    rows = made()
    measured = rows._replace(seconds=Model(rows, topology, truth).seconds())
    found = calibrate(measured, topology, software, [("simple.share",), ("ll128.inside",)])
    assert found.values == pytest.approx({"simple.share": 0.7, "ll128.inside": 1.5e-6}, rel=0.01)
    assert residuals(found.left_out, measured.seconds).mean < 0.01


def test_constants_are_those_that_the_block_states() -> None:
    named = constants(load_cluster("4x-a100-nvlink").collectives)
    assert "launch" in named and "simple.inside" in named and "simple.fill" not in named
    with pytest.raises(UsageError, match=r"simple.shore.*did you mean 'simple.share'"):
        calibrate(
            made((2,)), build(load_cluster("dgx-a100")), load_cluster("dgx-a100").collectives, [("simple.shore",)]
        )


def test_constants_that_rows_do_not_depend_on_stay() -> None:
    """All-reduces in a graph tell nothing of exchanges, of sums in a switch of another format, or of a host."""
    cluster = load_cluster("dgx-h100")
    library = cluster.libraries["vllm"]
    sorts = [Sort("all_reduce", 8, 8, "int8")] * 40
    rows = Measured(sorts, ["x"] * 40, np.geomspace(2**10, 2**28, 40).astype(np.int64), np.ones(40))
    rows = rows._replace(seconds=Model(rows, build(cluster), library).seconds())
    named = set(calibrate(rows, build(cluster), library).values)
    assert {"ll.base", "simple.share", "one-shot.base"} <= named
    assert not {name for name in named if name.startswith(("exchange", "gather", "nvls", "multimem", "host"))}


def test_an_eager_host_adds_its_least_time_and_a_copy() -> None:
    cluster = load_cluster("dgx-h100")
    library = cluster.libraries["vllm"]
    assert library.host is not None and library.host.copy_rate is not None
    sizes = np.array([2**10, 2**28])
    graph, eager = (
        Model(
            Measured([Sort("all_reduce", 8, 8, "bf16", by)] * 2, ["x"] * 2, sizes, np.ones(2)), build(cluster), library
        )
        for by in (False, True)
    )
    small, large = eager.seconds() - graph.seconds()
    assert eager.seconds()[0] == library.host.least and small > 0
    assert large == pytest.approx(2**28 / library.host.copy_rate)
    slower = with_constants(library, {"host.least": 1e-3})
    assert eager.seconds(slower)[0] == 1e-3
    with pytest.raises(UsageError, match=r"what a host adds to a call of NCCL 2\.29"):
        eager.seconds(cluster.collectives)


def test_a_table_is_read_with_its_least_times(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + "all_reduce,a,16,8,1024,9,8\nallreduce,b,2,2,64,3,\n", encoding="utf-8")
    rows = read_collectives(path)
    assert rows.sorts == [Sort("all_reduce", 16, 8), Sort("all_reduce", 2, 2)]
    assert rows.seconds.tolist() == pytest.approx([8e-6, 3e-6]) and rows.sorts[0].nodes == 2
    assert str(rows.sorts[0]) == "all_reduce, 16 ranks on 2 nodes"
    assert len(read_collectives(path, "b").sorts) == 1
    path.write_text("op,ranks,bytes,dtype,caller,time_us\nall_reduce,2,64,bf16,eager,20\n", encoding="utf-8")
    assert read_collectives(path).sorts == [Sort("all_reduce", 2, 2, "bf16", True)]
    assert str(read_collectives(path).sorts[0]) == "all_reduce, 2 ranks, called eagerly"


@pytest.mark.parametrize(
    "line, words",
    [
        ("all_rotate,a,2,2,64,3,", "rows.csv:2.*op 'all_rotate'"), ("all_reduce,a,2,2,x,3,", "rows.csv:2"),
        ("all_reduce,a,1,1,64,3,", "1 ranks"), ("all_reduce,a,2,2,64,,", "rows.csv:2"),
    ],
)  # fmt: skip
def test_rows_that_are_none_are_told(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + line + "\n", encoding="utf-8")
    with pytest.raises(UsageError) as told:
        read_collectives(path)
    assert all(part in str(told.value) for part in words.split(".*"))


def test_a_cluster_that_is_too_small_is_told() -> None:
    with pytest.raises(UsageError, match="no place for all_reduce, 16 ranks"):
        group_of(build(load_cluster("dgx-a100")), Sort("all_reduce", 16, 8))
