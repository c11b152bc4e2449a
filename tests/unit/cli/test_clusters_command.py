"""``accelsim clusters``: the list, one cluster, ways through it, its picture; ``accelsim spec`` for clusters."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.spec.yaml.clusters import clusters, load_cluster

pytestmark = pytest.mark.usefixtures("unpainted")
Cli = Callable[..., Result]


def test_the_list_has_every_cluster(cli: Cli, tmp_path: Path) -> None:
    rows = json.loads(cli("clusters", "--json").stdout)
    assert [row["name"] for row in rows] == clusters()
    row = next(row for row in rows if row["name"] == "dgx-h100")
    assert (row["nodes"], row["devices"], row["chips"]) == (1, 8, ["8x h100-sxm"])
    assert row["inside_Bps"] == pytest.approx(423.5e9, rel=1e-3)
    text = cli("clusters", "--csv", tmp_path / "all.csv").stdout
    assert "1 x 8" in text and "nvlink: switch" in text
    with (tmp_path / "all.csv").open(encoding="utf-8") as file:
        assert [line["name"] for line in csv.DictReader(file)] == clusters()


def test_one_cluster_is_told_with_its_wires(cli: Cli) -> None:
    text = cli("clusters", "16x-dgx-a100").stdout
    assert "16 nodes, 128 devices (128x a100-80-sxm), 17 switches and 128 cards, cut-through" in text
    assert "282 GB/s inside its node, 24.8 GB/s to other nodes; bisection 1.59 TB/s" in text
    told = json.loads(cli("clusters", "4x-edu", "--set", "chip.count=6", "--json").stdout)
    assert told["wires"] == [{"link": "link", "wires": 12, "rate_Bps": 1e8, "latency_s": 5e-7, "energy_J_per_B": 8e-11}]
    assert (told["devices"], told["vertices"], told["besides"]) == (6, 7, "1 switch")


def test_a_way_by_rank_or_label(cli: Cli) -> None:
    by_rank = json.loads(cli("clusters", "dgx1-v100", "--routes", "0", "7", "--json").stdout)
    by_label = json.loads(cli("clusters", "dgx1-v100", "--routes", "node0.gpu0", "node0.gpu7", "--json").stdout)
    assert by_rank == by_label
    assert [hop["to"] for hop in by_rank["hops"]][-1] == "node0.gpu7" and len(by_rank["hops"]) == 2
    assert "2 wires; 1 MiB alone takes 25.3 us" in cli("clusters", "dgx1-v100", "--routes", "0", "7").stdout


def test_the_picture_is_written(cli: Cli, tmp_path: Path) -> None:
    assert cli("clusters", "4x-edu", "--plot", tmp_path / "edu.svg").exit_code == 0
    assert (tmp_path / "edu.svg").read_text(encoding="utf-8").startswith("<svg")


WRONG = [
    (("clusters", "dgx-a10"), ["did you mean 'dgx-a100'"]),
    (("clusters", "4x-edu", "--routes", "9", "node0.chop1"), ["no device '9'", "did you mean 'node0.chip1'"]),
    (("clusters", "--routes", "0", "1", "--set", "nodes=2"), ["--set: it is about one cluster", "--routes: it is about"]),
    (("clusters", "4x-edu", "--set", "nides=2"), ["no field 'nides'", "did you mean 'nodes'"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(row[0][1:3]) for row in WRONG])
def test_wrong_input(cli: Cli, words: tuple[str, ...], said: list[str]) -> None:
    result = cli(*words)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert all(text in result.stderr for text in said), result.stderr


def test_spec_shows_and_checks_clusters(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "same.yaml"
    path.write_text(cli("spec", "show", "2x-dgx-a100", "--set", "infiniband.members=4").stdout, encoding="utf-8")
    assert load_cluster(path) == load_cluster("2x-dgx-a100", ["infiniband.members=4"])
    assert "dgx-a100: nothing wrong (clusters)" in cli("spec", "check", "dgx-a100").stdout
