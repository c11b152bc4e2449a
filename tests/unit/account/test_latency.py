"""Time per layer, what bounds it, the summary and the roofline."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from math import inf, isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.account import critical_path, latency, roofline, spans
from accelsim.account.array_share import array_split
from accelsim.time import Clock
from tests.helpers.synthetic_run import altered, make_chip, make_run


@settings(max_examples=25)
@given(layers=st.integers(1, 9), tiles=st.integers(1, 4), rows=st.integers(1, 900), batch=st.integers(1, 400))
def test_laws_of_time(layers: int, tiles: int, rows: int, batch: int) -> None:
    run = make_run(layers, tiles, rows, batch)
    table = latency.layers(run)
    assert sum(layer.added_fs for layer in table) == run.time_fs
    assert sum(critical_path.by_blame(run).values()) == run.time_fs
    for layer in table:
        assert 0 <= layer.added_fs <= layer.own_fs
        assert sum(layer.path.values()) == sum(layer.reasons.values()) == layer.added_fs
        assert layer.utilisation is None or 0 < layer.utilisation <= 1
        assert all(fs >= 0 for fs in layer.reasons.values())
        assert layer.bound_key in critical_path.KEYS if layer.added_fs else layer.bound_key == "hidden"


@settings(max_examples=15)
@given(layers=st.integers(1, 6), rows=st.integers(1, 900))
def test_no_layer_lies_above_its_roof(layers: int, rows: int) -> None:
    run = make_run(layers, 3, rows)
    for roof in roofline.rooflines(run):
        for point in roof.points:
            assert point.achieved_ops_per_s <= roof.roof(point.intensity_ops_per_B) * (1 + 1e-9)


def test_few_rows_are_bound_by_the_weights_and_many_by_compute() -> None:
    few, many = (latency.layers(make_run(layers=1, tiles=8, rows=rows))[0] for rows in (20, 3000))
    assert (few.bound_key, few.bound) == ("weights", "ddr3 (weights)")
    assert many.bound_key == "compute"


def test_host_and_vector_steps_say_what_bounds_them() -> None:
    table = latency.layers(make_run(layers=4))
    assert [layer.bound for layer in table if layer.engine != "matrix"] == ["vector unit", "host"]
    host = table[-1]
    assert set(host.reasons) == {"results", "host"}
    assert sum(host.reasons.values()) == host.added_fs


def test_peaks_follow_format_cores_and_clock() -> None:
    chip = make_chip()
    assert spans.peak_mac_rate(chip, "int8") == 65536 * 700e6
    assert spans.peak_mac_rate(chip, "int16") == 65536 * 700e6 / 4
    assert spans.peak_mac_rate(make_chip().with_cores(2), "int8") == 2 * 65536 * 700e6
    with pytest.raises(KeyError):
        spans.peak_mac_rate(make_chip().with_core(engines={}), "int8")


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_work_and_rates_are_those_of_all_cores(cores: int) -> None:
    """Each core has its own batch: as many MACs as inferences take, a share of the peak of all of them."""
    one = accelsim.run("cnn", "edu-4x4", values="off")
    run = accelsim.run("cnn", "edu-4x4", values="off", set=[f"cores={cores}"])
    facts, alone = latency.summary(run), latency.summary(one)
    assert facts["macs"] == facts["batch"] * alone["macs"] == cores * alone["macs"]
    assert facts["achieved_TOPS"] == pytest.approx(2e-12 * facts["macs"] / run.seconds, rel=1e-9, abs=0)
    assert facts["utilisation"] == pytest.approx(facts["achieved_TOPS"] / facts["peak_TOPS"])
    assert sum(layer.macs for layer in run.layers()) == facts["macs"]
    assert sum(layer.ops for layer in run.layers()) == cores * sum(layer.ops for layer in one.layers())
    (roof,) = roofline.rooflines(run)
    used = {layer.index: layer.utilisation for layer in run.layers()}
    for point in roof.points:
        assert point.achieved_ops_per_s / roof.peak_ops_per_s == pytest.approx(used[point.layer])
    charged = sum(row.count for row in run.ledger if row.action == "mac.int8")
    assert charged == facts["macs"]


def test_macs_of_the_host_are_none_of_the_array() -> None:
    """Products of two activations run on the host of this chip: the rate beside the peak is the array's."""
    run = accelsim.run("bert?layers=1,hidden=32,heads=2,seq=16", "tpu-v1", values="off")
    on_host = sum(step.macs for step in run.program.steps if step.engine == "host")
    facts = latency.summary(run)
    assert on_host > 0 and facts["macs"] == sum(step.macs for step in run.program.steps)
    assert facts["achieved_TOPS"] == pytest.approx(2e-12 * (facts["macs"] - on_host) / run.seconds, rel=1e-9, abs=0)
    assert facts["utilisation"] == pytest.approx(facts["achieved_TOPS"] / facts["peak_TOPS"])


def test_bandwidth_is_that_of_the_slower_of_memory_and_link() -> None:
    memories = make_chip().memories
    assert memories["weight_memory"].rate_Bps == 34e9
    assert memories["pcie_memory"].rate_Bps == 12e9


def test_stream_ends_leave_out_the_drain() -> None:
    run = make_run(layers=1)
    first = next(piece for piece in run.slices if piece.engine == "matrix")
    edges = 2 * 256 + 100
    clock = Clock(700_000_000)
    histories = list(run.histories)
    histories[first.command] = histories[first.command]._replace(a=clock.at(clock.edge(first.data) + edges))
    ends = spans.stream_ends_fs(replace(run, histories=histories))
    assert ends[first.command] == first.data + edges * 10**15 // 700_000_000


def test_summary_is_json_and_consistent() -> None:
    run = make_run(layers=4)
    facts = json.loads(json.dumps(latency.summary(run), allow_nan=False))
    assert facts["latency_s"] == run.seconds
    assert facts["throughput_per_s"] == pytest.approx(200 / run.seconds)
    assert facts["energy_J"] == pytest.approx(sum(facts["energy_by_component_J"].values()), rel=1e-9, abs=0)
    assert facts["energy_J"] == pytest.approx(sum(layer.energy_J for layer in latency.layers(run)), rel=1e-9, abs=0)
    assert facts["power_average_W"] == pytest.approx(facts["energy_J"] / run.seconds, rel=1e-9, abs=0)
    assert facts["peak_TOPS"] == pytest.approx(91.7504)
    assert facts["utilisation"] == pytest.approx(facts["achieved_TOPS"] / facts["peak_TOPS"])
    assert sum(facts["array_percent"].values()) == pytest.approx(100)
    assert sum(facts["critical_path_s"].values()) == pytest.approx(run.seconds)
    assert facts["traffic"]["weight_memory"] == {"read_B": 4 * 6 * 65536, "write_B": 0}
    assert facts["steps_on_host"] == 1


def test_array_split_is_that_of_the_tpu_paper() -> None:
    """MLP0, derived: 200 active, 256 shift, 893 stall of 1,349 cycles per tile; other waits do not count."""
    split = array_split([{"active": 200, "shift": 256, "weights": 893, "activations": 5000}])
    assert {key: round(share, 1) for key, share in split.items()} == {"active": 14.8, "shift": 19.0, "stall": 66.2}
    assert array_split([{}, {}]) == {}


def test_a_run_without_matrix_work_has_no_peak() -> None:
    run = make_run(layers=1)
    host_only = altered(run, ledger=[row for row in run.ledger if row.component != "matrix"])
    facts = latency.summary(host_only)
    assert facts["peak_TOPS"] is None
    assert facts["utilisation"] is None
    assert roofline.rooflines(host_only) == []


def test_roofline_of_the_weights_comes_first_and_has_the_knee_of_the_paper() -> None:
    roofs = roofline.rooflines(make_run())
    assert [roof.memory for roof in roofs] == ["weight_memory", "pcie_memory"]
    assert roofs[0].knee_ops_per_B / 2 == pytest.approx(1349.3, abs=0.1), "MACs per weight byte"
    assert roofs[0].points[0].intensity_ops_per_B / 2 == pytest.approx(200), "the batch, for a fully connected layer"
    assert any(point.intensity_ops_per_B == inf for point in roofs[1].points)
    assert all(isfinite(point.intensity_ops_per_B) for point in roofs[0].points)
    assert roofs[0].roof(1e9) == roofs[0].peak_ops_per_s


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [
        ([(8, 3, 4)], 8), ([(5,), (7, 2)], 7), ([()], 1), ([(9,)], 1), ([(1, 4), (8, 2)], 1), ([(0, 4), (3, 2)], 3),
    ],
)  # fmt: skip
def test_batch_is_the_first_dimension_of_the_first_input_with_two(shapes: list[tuple[int, ...]], batch: int) -> None:
    graph = make_run(layers=1).program.graph
    tensor = graph.tensors["x"]
    graph.inputs = [f"in{i}" for i in range(len(shapes))]
    for name, shape in zip(graph.inputs, shapes, strict=True):
        graph.tensors[name] = replace(tensor, name=name, shape=shape)
    assert latency.batch_size(graph) == batch


def test_own_time_is_that_of_the_engine_or_memory_that_worked_longest() -> None:
    run = make_run(layers=4, tiles=3)
    idle = replace(run.program.steps[0], name="idle")
    program = replace(run.program, steps=[*run.program.steps, idle])
    run = altered(run, program=program, step_spans=[*run.step_spans, (0, 0)])
    steps = range(len(run.program.steps))
    expected = []
    for step in steps:
        mine = [piece for piece in run.slices if piece.op == step]
        worked = Counter[str]()
        for piece in mine:
            work = run.program.commands[piece.command].work
            worked[getattr(work, "memory", piece.engine)] += piece.end - piece.data
        first, last = min((p.start for p in mine), default=0), max((p.end for p in mine), default=0)
        expected.append(min(last - first, max(worked.values(), default=0)))
    assert spans.own_fs(run) == expected and expected[-1] == 0 < min(expected[:-1])
    assert any(own < end - start for own, (start, end) in zip(expected, run.step_spans, strict=True))
