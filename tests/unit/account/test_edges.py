"""Conversions at the ends of a model are lines of their own, and no layers."""

from __future__ import annotations

import accelsim
from accelsim.account.latency import lines
from accelsim.report.table import layer_table, render, summary_rows


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


def test_without_conversions_every_line_is_a_layer() -> None:
    result = accelsim.run("cnn", "tpu-v1", values="off", edges="outside")
    assert all(layer.number == index for index, layer in enumerate(lines(result.layers()), 1))
