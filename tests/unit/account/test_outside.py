"""A model that only hands out constants: no step causes its time, and the table still adds up to the latency."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.account.latency import OUT_OF_STEPS, lines
from accelsim.account.spans import OUTSIDE
from accelsim.report.table import layer_table, render
from accelsim.report.text import seconds, si
from accelsim.workload.graph import Graph, Node, Tensor


def constant() -> Graph:
    """One output, a constant of 5 x 5; nothing is computed."""
    return Graph("constant", [], {"y": Tensor("y", (5, 5), data=np.ones((5, 5), np.float32))}, [], ["y"])


@pytest.mark.parametrize("chip", ["neuroncore-v2", "tpu-v1"])
def test_the_table_adds_up_to_the_latency(chip: str) -> None:
    run = accelsim.run(constant(), chip, values="off")
    (layer,) = run.layers()
    assert not run.program.steps and run.time_fs > 0
    assert (layer.name, layer.edge, layer.number) == ("input and output", OUT_OF_STEPS, 0)
    assert layer.added_fs == layer.own_fs == layer.end_fs == sum(layer.path.values()) == run.time_fs
    assert (layer.index, layer.macs, layer.ops, layer.start_fs) == (0, 0, 0, 0)
    assert layer.energy_J == pytest.approx(run.energy_J, rel=1e-12, abs=0)
    assert layer.traffic_B == {name: (flow["read_B"], flow["write_B"]) for name, flow in run.summary()["traffic"].items()
                               if flow["read_B"] or flow["write_B"]}  # fmt: skip
    assert lines(run.layers()) == [layer]
    shown = render(layer_table(run.layers(), 100), 100)
    assert "input and output" in shown
    assert shown.splitlines()[-1].split()[2:4] == seconds(run.time_fs).split()


def test_page_and_csv_have_it_too(tmp_path: Path) -> None:
    run = accelsim.run(constant(), "neuroncore-v2", values="off")
    page = run.report(tmp_path / "report").read_text(encoding="utf-8")
    assert "input and output" in page
    with (tmp_path / "report" / "layers.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert int(row["added_fs"]) == run.time_fs and row["edge"] == OUT_OF_STEPS


@pytest.mark.parametrize("model", ["bank", "pattern"])
def test_energies_add_up_where_dram_chips_draw_power_beside_their_bursts(model: str) -> None:
    """Standby and refresh belong to no layer: a line of their own, without time."""
    run = accelsim.run("cnn", "edu-4x4", values="off", memory_model=model)
    rest = lines(run.layers())[-1]
    assert (rest.name, rest.edge, rest.added_fs, rest.dram_B) == ("standby and refresh", OUT_OF_STEPS, 0, 0)
    assert rest.energy_J == pytest.approx(run.summary()["energy_outside_steps_J"], rel=1e-9, abs=0) != 0
    assert sum(layer.energy_J for layer in run.layers()) == pytest.approx(run.energy_J, rel=1e-12, abs=0)
    assert sum(layer.added_fs for layer in run.layers()) == run.time_fs
    *_, line, _, total = render(layer_table(run.layers(), 120), 120).splitlines()
    assert line.split()[:3] == ["standby", "and", "refresh"] and "hidden" not in line
    assert total.split()[-2:] == si(run.energy_J, "J").split()


def test_no_line_where_steps_cause_all_time() -> None:
    tensors = {name: Tensor(name, (64,)) for name in "xy"}
    run = accelsim.run(Graph("relu", [Node("r", "Relu", ["x"], ["y"])], tensors, ["x"], ["y"]), "edu-4x4", values="off")
    assert [layer.edge for layer in run.layers()] == [""]
    assert all(layer.index != OUTSIDE for layer in run.layers())
