"""The commands link, noc and batching: tables, JSON, files, refusals; their plots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from matplotlib.image import imread

from accelsim.cli.batching import batching
from accelsim.cli.network import link, noc
from accelsim.errors import AccelsimError, SpecError, UsageError
from accelsim.report.network import channel_loads, load_latency


def call(command, *words: str) -> Result:  # type: ignore[no-untyped-def]
    return CliRunner(env={"COLUMNS": "110"}).invoke(command, list(words), catch_exceptions=True)


def failure(command, *words: str) -> AccelsimError:  # type: ignore[no-untyped-def]
    error = call(command, *words).exception
    assert isinstance(error, AccelsimError), error
    return error


def test_link_table_and_json() -> None:
    text = call(link, "pcie-gen3-x16").output
    assert text.startswith("pcie-gen3-x16: 14.21 GB/s each way for packets, at most 13.18 GB/s of it for data")
    assert "256 MiB" in text and "13 GB/s" in text
    facts = json.loads(call(link, "pcie-gen3-x16", "--size", "4 KiB", "--json").output)
    (row,) = facts["transfers"]
    assert (row["size_B"], row["write_wire_B"], row["read_wire_B"]) == (4096, 4096 + 16 * 24, 4096 + 16 * 20)
    assert row["read_alone_Bps"] == pytest.approx(4096 / row["read_s"], rel=1e-6)
    assert facts["half_rate_from_B"] == int(2e-6 * 13.18261571e9)


def test_overrides_change_the_link() -> None:
    few = json.loads(call(link, "pcie-gen4-x16", "--set", "pcie.tags=32", "--size", "1 MiB", "--json").output)
    assert few["transfers"][0]["read_Bps"] == pytest.approx(32 * 512 / 900e-9)


def test_link_files(tmp_path: Path) -> None:
    assert call(link, "nvlink-gen3", "--out", str(tmp_path / "new")).exit_code == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"figures.json", "rates.png", "rates.svg"}
    assert imread(tmp_path / "new" / "rates.png").std() > 0.05


def test_link_refusals() -> None:
    error = failure(link, "pcie-gen9", "--size", "1 MiB")
    assert isinstance(error, SpecError) and error.problems[0].nearest.startswith("pcie-gen")
    error = failure(link, "pcie-gen3-x16", "--size", "7", "--size", "0.3 B")
    assert isinstance(error, UsageError) and len(error.problems) == 2


def test_noc_table_and_files(tmp_path: Path) -> None:
    words = ("mesh-4x4", "--load", "0.1", "--load", "0.3", "--clocks", "400", "--out", str(tmp_path))
    text = call(noc, *words).output
    assert "empty network 19.50 clocks (19.5 ns), 2.50 links on average" in text
    assert "bound 1 flit per clock and node (32 GB/s each)" in text
    assert {path.name for path in tmp_path.iterdir()} == {
        "figures.json", "latency.png", "latency.svg", "channels.png", "channels.svg",
    }  # fmt: skip
    facts = json.loads((tmp_path / "figures.json").read_text())
    assert [row["load"] for row in facts["points"]] == [0.1, 0.3]
    assert facts["bound_flits"] == 1.0


@pytest.mark.parametrize(
    ("words", "nodes"),
    [(("crossbar", "5"), 5), (("bus", "3"), 3), (("ring", "5"), 5), (("torus", "3", "2"), 6), (("tree", "3", "2"), 9),
     (("fat-tree", "2", "3"), 8), (("mesh-8x8", "--traffic", "transpose"), 64)],
)  # fmt: skip
def test_every_topology_has_figures_and_pictures(words: tuple[str, ...], nodes: int, tmp_path: Path) -> None:
    result = call(noc, *words, "--load", "0.02", "--clocks", "300", "--json", "--out", str(tmp_path))
    assert result.exception is None, result.output
    assert json.loads(result.output)["nodes"] == nodes
    assert imread(tmp_path / "channels.png").std() > 0.01


def test_noc_refusals() -> None:
    assert "did you mean 'mesh-4x4'" in str(failure(noc, "mesh-4x5"))
    assert "columns and rows" in str(failure(noc, "mesh", "4"))
    assert "a topology" in str(failure(noc, "mesh-4x4", "4", "4"))
    assert "did you mean 'uniform'" in str(failure(noc, "mesh", "2", "2", "--traffic", "uniforn"))
    assert "load" in str(failure(noc, "mesh", "2", "2", "--load", "2"))


def test_a_run_without_packets_is_not_called_saturated(tmp_path: Path) -> None:
    words = ("mesh-4x4", "--load", "0.000001", "--load", "0.1", "--clocks", "100")
    text = call(noc, *words, "--out", str(tmp_path)).output
    assert "saturated" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("1e-06")]
    assert row.split()[:4] == ["1e-06", "0", "no", "packet"]
    assert "none was sent while it was measured" in text
    points = json.loads((tmp_path / "figures.json").read_text())["points"]
    assert [(point["packets"] > 0, point["latency_clocks"] is None) for point in points] == [
        (False, True),
        (True, False),
    ]


def test_a_picture_without_packets_does_not_say_that_they_do_not_get_through() -> None:
    from accelsim.network.noc.sweep import sweep
    from accelsim.spec.network import Noc
    from accelsim.spec.yaml.parts import load_part

    found = sweep(load_part("mesh-4x4", "networks", Noc), "uniform", 1, [1e-6, 0.1], clocks=100)
    assert np.isnan(found.measured[0].latency) and found.measured[0].packets == 0
    assert [
        text.get_text() for text in load_latency(found).figure().axes[0].texts if "through" in text.get_text()
    ] == []


def test_long_wires_are_not_saturated() -> None:
    words = ("mesh", "2", "2", "--set", "router.link=900", "--load", "0.01", "--clocks", "400", "--json")
    (point,) = json.loads(call(noc, *words).output)["points"]
    assert 900 < point["latency_clocks"] < 1900


def test_a_full_network_is_drawn_as_such() -> None:
    from accelsim.network.noc.sweep import sweep
    from accelsim.spec.network import Noc
    from accelsim.spec.yaml.parts import load_part

    found = sweep(load_part("mesh-4x4", "networks", Noc), "transpose", 1, [0.1, 1.0], clocks=4000)
    assert found.measured[-1].latency == float("inf")
    texts = [text.get_text() for text in load_latency(found).figure().axes[0].texts]
    assert "does not get through" in texts
    drawn = channel_loads(found).figure()
    assert "the darkest link sets the bound of 0.333" in " ".join(text.get_text() for text in drawn.axes[0].texts)


def test_batching_table_plot_and_json(tmp_path: Path) -> None:
    picture = tmp_path / "batching.png"
    text = call(batching, "cnn", "--on", "tpu-v1", "--batches", "1,8", "--plot", str(picture)).output
    assert "over the link: bytes of one sample" in text and "794 B" in text
    assert np.std(imread(picture)) > 0.05
    facts = json.loads(call(batching, "cnn", "--on", "tpu-v1", "--batches", "8, 1", "--json").output)
    assert [point["batch"] for point in facts["points"]] == [1, 8] and facts["fastest_batch"] == 8


def test_batching_refusals(tmp_path: Path) -> None:
    assert "2 problems" not in str(failure(batching, "cnn", "--on", "tpu-v1", "--batches", "1,x"))
    assert "'x' is no batch size" in str(failure(batching, "cnn", "--on", "tpu-v1", "--batches", "1,x"))
    assert "a file that ends in .png or .svg" in str(
        failure(batching, "cnn", "--on", "tpu-v1", "--plot", str(tmp_path / "a.pdf"))
    )
