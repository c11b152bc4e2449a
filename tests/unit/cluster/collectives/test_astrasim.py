"""ASTRA-sim's own figures, to the nanosecond."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelsim.errors import UsageError
from tests.validation.astrasim import Dimension, Settings, astrasim_ns

GOLDEN = Path(__file__).parents[3] / "golden" / "training" / "astrasim_golden.csv"
ROWS = [row for row in csv.DictReader(GOLDEN.read_text("utf-8").splitlines()) if row["status"] == "ok"]
ALGORITHMS = sorted({row["algorithm"] for row in ROWS})


def dimensions(row: dict[str, str]) -> Iterator[Dimension]:
    columns = ("topology", "npus", "link_bw_GBps_2p30", "link_latency_ns", "algorithm")
    for shape, npus, rate, latency, algorithm in zip(*(row[each].split("x") for each in columns), strict=True):
        yield Dimension(shape, int(npus), float(rate), float(latency), algorithm)


def settings(row: dict[str, str]) -> Settings:
    return Settings(
        int(row["endpoint_delay_ns"]), float(row["local_mem_bw_GBps"]), int(row["dataset_splits"]),
        int(row["active_chunks_per_dim"]), row["backend"] == "congestion_aware",
        row["collective_optimization"] == "baseline",
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_row_to_the_nanosecond(algorithm: str) -> None:
    rows = [row for row in ROWS if row["algorithm"] == algorithm]
    wrong = [
        (row, got)
        for row in rows
        if (got := astrasim_ns(row["collective"], int(row["comm_size_B"]), [*dimensions(row)], settings(row)))
        != int(row["ns_max"])
    ]
    assert not wrong


def test_there_are_all_of_them() -> None:
    assert len(ROWS) == 677
    assert {row["backend"] for row in ROWS} == {"congestion_aware", "congestion_unaware"}


def test_what_it_refuses_is_refused() -> None:
    ring = Dimension("Ring", 4, 50.0, 500.0, "ring")
    with pytest.raises(UsageError, match="2 dimensions aware of congestion"):
        astrasim_ns("all_reduce", 1024, [ring, ring], Settings(aware=True))
    with pytest.raises(UsageError, match="unknown shape 'Torus'"):
        astrasim_ns("all_reduce", 1024, [Dimension("Torus", 4, 50.0, 500.0, "ring")], Settings())
    with pytest.raises(UsageError, match="unknown algorithm 'tree'"):
        astrasim_ns("all_reduce", 1024, [Dimension("Ring", 4, 50.0, 500.0, "tree")], Settings())
