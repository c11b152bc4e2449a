"""``accelsim collective``: sentences, tables, sweeps, routes, ASTRA-sim's conventions, bad input."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from accelsim.cluster.collectives.choice import ALGORITHMS, LIBRARY
from accelsim.cluster.collectives.figures import MOST_SWEPT, SWEPT_B
from accelsim.cluster.collectives.timing import collective
from accelsim.cluster.shapes.building import build
from accelsim.report.text import si
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.time import FS

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]
pytestmark = pytest.mark.usefixtures("unpainted")


def facts(cli: Cli, *words: str) -> dict[str, Any]:
    result = cli("collective", *words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def said(cli: Cli, *words: str) -> str:
    result = cli("collective", *words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_figures_are_those_of_the_network(cli: Cli) -> None:
    found = facts(cli, "all_reduce", "--on", "4x-edu", "--size", "64KiB", "--algorithm", "ring")
    own = collective(build(load_cluster("4x-edu")), "all_reduce", 65536, "ring")
    assert found["time_s"] == own.time_fs * FS
    assert found["alg_Bps"] == 65536 / found["time_s"]
    assert found["bus_Bps"] == found["alg_Bps"] * 1.5
    assert found["energy_J"] == pytest.approx(own.energy_J, rel=1e-9, abs=0)
    (link,) = found["links"]
    assert (link["wires"], link["most_B"], link["total_B"]) == (8, 98304, 8 * 98304)
    assert found["algorithms"] == []


def test_the_library_runs_it_where_it_states_its_constants(cli: Cli) -> None:
    found = facts(cli, "all_reduce", "--on", "dgx-a100", "--size", "1GB")
    assert found["time_from"] == LIBRARY
    assert found["protocol"] and found["library"]
    times = {row["algorithm"]: row["time_s"] for row in found["algorithms"]}
    assert times[LIBRARY] == found["time_s"]
    assert list(times.values()) == sorted(times.values())
    assert set(times) <= set(ALGORITHMS)


def test_another_library_in_a_graph_or_called_by_a_host(cli: Cli) -> None:
    words = ("all_reduce", "--on", "dgx-h100", "--size", "64KiB")
    own, graph, eager = (
        facts(cli, *words, *more) for more in ((), ("--library", "vllm"), ("--library", "vllm", "--caller", "eager"))
    )
    assert graph["time_s"] < own["time_s"] < eager["time_s"] and eager["time_s"] >= 20e-6
    assert facts(cli, *words, "--library", "nccl")["time_s"] == own["time_s"]
    assert (own["caller"], graph["caller"], eager["caller"]) == ("graph", "graph", "eager")
    assert graph["interval_s"][0] < graph["time_s"] < graph["interval_s"][1]
    text = said(cli, *words)
    assert "(90 %: " in text and "The time includes nothing of a host: it runs in a CUDA graph" in text
    assert "A host calls it by itself (eager), which takes at least" in said(
        cli, *words, "--library", "vllm", "--caller", "eager"
    )


def test_the_switch_adds_up_what_it_can(cli: Cli) -> None:
    words = ("all_reduce", "--on", "dgx-h100", "--size", "1GiB")
    half, whole = (facts(cli, *words, "--dtype", dtype) for dtype in ("fp16", "int8"))
    assert (half["algorithm"], whole["algorithm"]) == ("switch", "ring")
    assert 4.4e11 < half["bus_Bps"] < 4.8e11 and 3.4e11 < whole["bus_Bps"] < 3.6e11
    assert {"switch", "library"} <= {row["algorithm"] for row in half["algorithms"]}


def test_the_switch_is_no_choice_for_what_it_does_not_add_up(cli: Cli, refused: Refused) -> None:
    words = ("all_reduce", "--on", "dgx-h100", "--size", "64KiB", "--dtype", "int8")
    assert facts(cli, *words, "--algorithm", "auto")["algorithm"] == "direct"
    assert "switch" not in {row["algorithm"] for row in facts(cli, *words)["algorithms"]}
    assert "does not add up int8" in refused("collective", *words, "--algorithm", "switch")[0]
    assert facts(cli, *words[:-1], "bf16", "--algorithm", "auto")["algorithm"] == "switch"


def test_a_library_that_is_not_there_is_named(refused: Refused) -> None:
    lines = refused("collective", "all_reduce", "--on", "dgx-h100", "--library", "vlm", "--dtype", "fp99")
    assert any("did you mean 'vllm'" in line for line in lines) and any("fp99" in line for line in lines)
    assert "has no library" in refused("collective", "all_reduce", "--on", "4x-edu", "--library", "vllm")[0]
    words = ("all_reduce", "--on", "dgx-h100", "--algorithm", "ring", "--caller", "eager")
    assert "--algorithm ring with --library or --caller" in refused("collective", *words)[0]
    assert "what a host adds" in refused("collective", "all_reduce", "--on", "dgx-h100", "--caller", "eager")[0]


def test_the_sentence_says_the_figures(cli: Cli) -> None:
    words = ("all_reduce", "--on", "4x-edu", "--size", "64KiB", "--algorithm", "ring")
    found, text = facts(cli, *words), said(cli, *words)
    assert text.startswith(
        f"all_reduce of 65.5 kB among 4 devices of 4x-edu takes {si(found['time_s'], 's')} by ring: algorithm bandwidth "
        f"{si(found['alg_Bps'], 'B/s')}, bus bandwidth {si(found['bus_Bps'], 'B/s')}, {si(found['energy_J'], 'J')} on links."
    )
    assert "8 wires of link (such as node0.chip0 to node0.link.switch) bind. Each carries 98.3 kB" in text


def test_small_ones_are_bound_by_no_link(cli: Cli) -> None:
    text = said(cli, "all_reduce", "--on", "dgx-a100", "--size", "1KiB", "--algorithm", "ring")
    assert "No link binds: the busiest, nvlink" in text


def test_chunks_are_named(cli: Cli) -> None:
    text = said(cli, "broadcast", "--on", "4x-edu", "--size", "1MiB", "--algorithm", "chain", "--chunks", "8")
    assert "by chain in 8 chunks:" in text


def test_a_group(cli: Cli) -> None:
    found = facts(cli, "all_reduce", "--on", "dgx-a100", "--size", "1MiB", "--group", "1-2,5", "--algorithm", "ring")
    assert found["group"] == [1, 2, 5]
    assert found["ranks"] == 3


def test_routes(cli: Cli) -> None:
    found = facts(cli, "all_reduce", "--on", "4x-edu", "--algorithm", "ring", "--routes")
    assert [row["over"] for row in found["routes"]] == [["node0.link.switch"]] * 4
    text = said(cli, "all_reduce", "--on", "4x-edu", "--algorithm", "ring", "--routes")
    assert "node0.chip3 node0.chip0 node0.link.switch" in text


def test_a_sweep_has_every_algorithm_at_every_size(cli: Cli, tmp_path: Path) -> None:
    table, plot = tmp_path / "sweep.csv", tmp_path / "sweep.png"
    result = cli("collective", "all_reduce", "--on", "4x-edu", "--sweep", "--csv", table, "--plot", plot)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    names = {row["algorithm"] for row in rows}
    assert {"ring", "direct", "tree", "server"} <= names
    assert len(rows) == len(names) * len(SWEPT_B)
    assert plot.exists()
    for size in {row["size_B"] for row in rows}:
        those = [row for row in rows if row["size_B"] == size and row["algorithm"] != "library"]
        assert min(those, key=lambda row: float(row["time_s"]))["algorithm"] == "direct"
    assert "Fastest on the wires: direct at every size." in " ".join(result.stdout.split())
    assert MOST_SWEPT > 0


def test_a_sweep_of_given_sizes_by_one_algorithm(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("accelsim.cli.collective.counted", lambda items, what: told.extend(map(what, items)) or items)
    found = facts(
        cli, "all_reduce", "--on", "4x-edu", "--sweep", "--size", "1kB", "--size", "1MB", "--algorithm", "ring"
    )
    assert [(row["size_B"], row["algorithm"]) for row in found["sweep"]] == [(1000, "ring"), (10**6, "ring")]
    assert told == ["1000 B", "976.6 KiB"]  # what progress shows


def test_bus_bandwidth_rises_with_the_size(cli: Cli) -> None:
    found = facts(cli, "all_reduce", "--on", "dgx-h100", "--sweep", "--algorithm", "ring")
    rates = [row["bus_Bps"] for row in found["sweep"]]
    assert rates == sorted(rates)


@pytest.mark.parametrize(("convention", "time_ns"), [("astrasim", 27_511), ("astrasim-aware", 34_007)])
def test_by_the_conventions_of_astra_sim(cli: Cli, convention: str, time_ns: int) -> None:
    words = ("all_reduce", "--on", "dgx-a100", "--size", "1MiB", "--algorithm", "ring", "--conventions", convention)
    found = facts(cli, *words)["astrasim"]
    assert found["time_s"] == pytest.approx(time_ns * 1e-9)
    assert found["aware"] == (convention == "astrasim-aware")
    assert f"{time_ns:,} ns (Switch of 8, 263 GB/s (2^30), 750 ns, ring)" in said(cli, *words)


def test_what_astra_sim_has_not(refused: Refused) -> None:
    lines = refused("collective", "all_reduce", "--on", "dgx1-v100", "--algorithm", "ring", "--conventions", "astrasim")
    assert "a fabric of shape 'hybrid-cube-mesh'" in lines[0]
    lines = refused("collective", "broadcast", "--on", "dgx-a100", "--conventions", "astrasim")
    assert "broadcast by ASTRA-sim's conventions" in lines[0]


def test_everything_wrong_is_told_at_once(refused: Refused, tmp_path: Path) -> None:
    lines = refused(
        "collective", "allreduce", "--on", "dgx-a10", "--size", "1XB", "--group", "7-3", "--plot", tmp_path / "x.jpg"
    )
    for text in ("did you mean 'dgx-a100'", "did you mean 'all_reduce'", "'1XB'", "'7-3'", "ends in '.jpg'"):
        assert sum(text in line for line in lines) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("all_reduce", "--algorithm", "rung"), "did you mean 'ring'"),
        (("broadcast", "--algorithm", "ring"), "ring does no broadcast"),
        (("reduce_scatter", "--group", "0-2", "--algorithm", "halving_doubling"), "a power of two"),
        (("all_reduce", "--group", "0,9"), "no device 9; expected 0 to 3"),
        (("all_reduce", "--group", "1,1"), "a device twice"),
        (("all_reduce", "--size", "0 B"), "1 B or more"),
        (("all_reduce", "--size", "1", "--size", "2"), "--size: 2 sizes"),
        (("all_reduce", "--algorithm", "hierarchical"), "several nodes"),
    ],
)
def test_bad_input(refused: Refused, words: tuple[str, ...], told: str) -> None:
    kind, *others = words
    assert told in "\n".join(refused("collective", kind, "--on", "4x-edu", *others))
