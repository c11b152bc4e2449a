"""What reports say of levels between buffers and memories."""

from __future__ import annotations

from typing import Any

import accelsim
from accelsim.account.latency import layers, summary
from accelsim.account.roofline import rooflines
from accelsim.program.work import Transfer
from accelsim.report.table import summary_rows
from accelsim.report.words import sentences
from accelsim.report.write import layer_records


def test_a_cache_is_said_counted_and_drawn() -> None:
    run = accelsim.run("cnn", "edu-cache", values="off")
    told = summary(run)
    stats, rows = run.caches["l2"], dict(summary_rows(told))
    assert rows["l2 hits"].startswith(f"{100 * stats.hit_rate:.1f}% of {stats.hits + stats.misses:,}; ")
    assert any(f"The cache l2 hits {100 * stats.hit_rate:.1f}%" in text for text in sentences(run, layers(run), told))
    header, records = layer_records(run)
    column = header.index("l2_read_B")
    assert sum(record[column] for record in records) == told["levels"]["l2"]["read_B"]
    assert told["energy_by_category_J"]["on-chip SRAM"] > told["energy_by_component_J"]["l2"] > 0
    roof = next(each for each in rooflines(run) if each.memory == "l2")
    asked: dict[int, int] = {}
    for command in run.program.commands:
        if isinstance(command.work, Transfer):
            asked[command.op] = asked.get(command.op, 0) + command.work.nbytes
    macs = {layer.index: layer.macs for layer in layers(run)}
    for point in roof.points:
        assert point.intensity_ops_per_B / 2 == macs[point.layer] / asked[point.layer]


def test_a_level_of_buffers_is_said_and_counted() -> None:
    run = accelsim.run("cnn", "edu-three-levels", values="off")
    told: dict[str, Any] = summary(run)
    rows = dict(summary_rows(told))
    assert "global_sram traffic" in rows and "global_sram hits" not in rows
    assert not any("cache" in text for text in sentences(run, layers(run), told))
    assert set(told["traffic"]) == {"dram", "host.own_memory"} and set(told["levels"]) == {"global_sram"}
    assert sum(layer.dram_B for layer in layers(run)) == sum(
        flow["read_B"] + flow["write_B"] for flow in told["traffic"].values()
    )
    need = told["memory_needs"]["global_sram"]
    assert 0 < need["activations_B"] <= need["available_B"] == 64 * 1024
    assert run.occupancy["global_sram"]
