"""Conversions at the ends of a model are lines of their own, and no layers."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.account.latency import lines
from accelsim.errors import ModelError
from accelsim.report.table import layer_table, render, summary_rows
from accelsim.report.words import sentences


def test_conversions_are_one_line_at_each_end_and_have_no_number() -> None:
    result = accelsim.run("lstm?steps=2", "tpu-v1", values="off")
    rows, shown = result.layers(), lines(result.layers())
    edges = [layer for layer in rows if layer.edge]
    assert len(edges) > 2
    assert [layer.name for layer in shown if layer.edge] == ["input conversion", "output conversion"]
    assert (shown[0].edge, shown[-1].edge) == ("input", "output")
    assert [layer.number for layer in shown[1:-1]] == list(range(1, len(rows) - len(edges) + 1))
    for figure in ("added_fs", "dram_B", "ops", "cycles"):
        assert sum(getattr(layer, figure) for layer in shown) == sum(getattr(layer, figure) for layer in rows)
    assert abs(sum(layer.energy_J for layer in shown) - result.energy_J) < 1e-12 * result.energy_J
    assert sum(layer.added_fs for layer in shown) == result.time_fs


def test_no_table_counts_conversions_as_layers() -> None:
    result = accelsim.run("cnn", "tpu-v1", values="off")
    summary = result.summary()
    assert summary["layers"] == sum(not layer.edge for layer in result.layers()) < summary["steps"]
    assert summary["layers_on_host"] < summary["steps_on_host"]
    shown = render(layer_table(result.layers(), 140), 140)
    numbers = [line.split()[0] for line in shown.splitlines() if line.split() and line.split()[0].isdigit()]
    assert numbers == [str(number) for number in range(1, summary["layers"] + 1)]
    assert f"of {summary['layers']} layers" in dict(summary_rows(summary))["on the host"]


@pytest.mark.parametrize("chip", ["tpu-v1", "edu-4x4", "systolic-generic"])
@pytest.mark.parametrize("model", ["cnn", "mlp?hidden=16", "lstm?steps=2,hidden=16,inputs=16", "gemm?M=8,N=8,K=8"])
def test_without_conversions_every_line_is_a_layer(chip: str, model: str) -> None:
    """Nothing is said of conversions that somebody else does; storing a result belongs to the layer that made it."""
    result = accelsim.run(model, chip, values="off", edges="outside", dtype="int8")
    shown = lines(result.layers())
    assert not [layer.name for layer in shown if layer.edge]
    assert all(layer.number == index for index, layer in enumerate(shown, 1))
    assert sum(layer.added_fs for layer in shown) == result.time_fs
    assert sum(layer.energy_J for layer in shown) == pytest.approx(result.energy_J, rel=1e-12, abs=0)
    apart = [layer for layer in result.layers() if layer.edge]
    assert apart and not any(layer.added_fs or layer.dram_B or layer.energy_J for layer in apart)
    assert shown[-1].dram_B > 0 or model.startswith("lstm")


def test_a_chip_without_a_host_runs_where_somebody_else_converts() -> None:
    result = accelsim.run("gemm?M=8,N=8,K=8", "dae-edu", edges="outside")
    assert result.time_fs > 0 and [layer.name for layer in lines(result.layers())] == ["y"]


def test_without_a_host_every_node_that_needs_one_is_named_and_what_would_do() -> None:
    with pytest.raises(ModelError) as found:
        accelsim.run("cnn", "dae-edu", values="off", edges="host")
    told = {problem.where: problem for problem in found.value.problems}
    assert {"x.quantize", "relu1", "pool1", "relu2", "pool2"} <= set(told)
    assert all("dae-edu has none" in problem.what for problem in told.values())
    assert "--edges outside" in told["x.quantize"].expected and "--edges" not in told["relu1"].expected


def template(tmp_path: Path) -> Path:
    """The chip that docs/add-a-chip.md begins with."""
    page = (Path(__file__).parents[3] / "docs" / "add-a-chip.md").read_text(encoding="utf-8")
    path = tmp_path / "my-chip.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    return path


def test_a_run_that_conversion_drowns_says_how_to_leave_it_out(tmp_path: Path) -> None:
    chip = template(tmp_path)
    drowned, alone = (accelsim.run("cnn", chip, values="off", **more) for more in ({}, {"edges": "outside"}))
    share = sum(layer.added_fs for layer in drowned.layers() if layer.edge) / drowned.time_fs
    said = [text for text in sentences(drowned, drowned.layers(), drowned.summary()) if "--edges outside" in text]
    assert said and f"takes {share:.1%} of the run" in said[0] and share > 0.5
    assert not any("--edges" in text for text in sentences(alone, alone.layers(), alone.summary()))
    assert alone.time_fs < (1 - share) * drowned.time_fs * 1.05


def test_the_first_chip_of_ones_own_computes_everything_itself(tmp_path: Path) -> None:
    alone = accelsim.run("cnn", template(tmp_path), values="off", edges="outside")
    assert alone.summary()["layers_on_host"] == 0
