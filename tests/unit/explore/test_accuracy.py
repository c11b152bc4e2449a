"""Accuracy, latency and energy by number format: one table, on a made-up dataset that anybody can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import isnan
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import SpecError, UsageError
from accelsim.explore.accuracy import (
    PTQ,
    QAT,
    Accuracy,
    FormatResult,
    accuracy,
    labelled,
    model_B,
    range_feeds,
    right_share,
    shaped,
    trained,
)
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import Dataset
from accelsim.workload.sources.load import load_model

SHAPE = (1, 8, 8)


@cache
def blobs(samples: int = 300, noise: float = 1.3) -> Dataset:
    """Ten clouds of points, not quite apart."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, *SHAPE)).astype(np.float32)
    y = np.arange(samples) % 10
    x = (centres[y] + noise * rng.standard_normal((samples, *SHAPE))).astype(np.float32)
    cut = samples * 4 // 5
    return Dataset("blobs", x[:cut], y[:cut], x[cut:], y[cut:], 10, {})


def table(dtypes: Sequence[str], on: Sequence[Any] = ("edu-mixed",), **more: Any) -> Accuracy:
    return accuracy("digits-mlp", list(on), blobs(), dtypes=dtypes, steps=more.pop("steps", 60), **more)


@cache
def learnt() -> Graph:
    return trained("digits-mlp", blobs(), 60, 0)(4)


def test_rows_stand_in_the_order_asked_for_format_by_format() -> None:
    found = table(["fp32", "int4"], ["edu-mixed", "tpu-v1"], qat=["int4"], steps=20)
    keys = [(row.dtype, row.method, row.chip) for row in found.rows]
    assert keys == [
        (dtype, method, chip)
        for dtype, method in (("fp32", PTQ), ("int4", PTQ), ("int4", QAT))
        for chip in ("edu-mixed", "tpu-v1")
    ]
    assert (found.model, found.data, found.samples, found.batch) == ("digits-mlp", "blobs", 60, 1)
    assert "training" in found.weights


def test_fp32_is_the_baseline_and_narrower_is_never_much_better() -> None:
    found = table(["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "int1"])
    share = {row.dtype: row.accuracy for row in found.rows}
    assert share["fp32"] == found.baseline > 0.7
    for name in ("tf32", "bf16", "fp16", "fp8_e4m3fn", "int8"):
        assert abs(share[name] - found.baseline) <= 0.05
    assert share["int1"] < found.baseline - 0.1


def test_bytes_time_and_energy_of_the_array_fall_with_the_format() -> None:
    rows = {row.dtype: row for row in table(["fp32", "fp16", "int8", "int4", "int1"], steps=5).rows}
    order = [rows[name] for name in ("fp32", "fp16", "int8", "int4", "int1")]
    for value in ("model_B", "chip_J", "chip_s"):
        found = [getattr(row, value) for row in order[:2] + order[2:]]
        wide, narrow = found[:2], found[2:]
        assert wide == sorted(wide, reverse=True) and narrow == sorted(narrow, reverse=True), value
    assert rows["fp32"].host_s == rows["fp16"].host_s == 0 < rows["int8"].host_s
    assert all(row.latency_s == pytest.approx(row.chip_s + row.host_s) for row in order)
    assert all(row.energy_J == pytest.approx(row.chip_J + row.host_J, rel=1e-9, abs=0) for row in order)


def test_what_a_chip_cannot_do_is_a_row_with_a_note() -> None:
    impossible, emulated = table(["fp32", "int4"], ["tpu-v1"], steps=5).rows
    assert not impossible.known
    assert isnan(impossible.accuracy) and isnan(impossible.energy_J)
    assert "fp32" in impossible.note
    assert emulated.known and emulated.mac == "int8" and emulated.dtype == "int4"


def test_the_same_arithmetic_gives_the_same_share_whichever_chip() -> None:
    for dtype in ("int8", "int4"):
        one, two = table([dtype], ["edu-mixed", "systolic-generic"], steps=10).rows
        assert one.accuracy == two.accuracy
        assert one.latency_s != two.latency_s


def test_training_for_a_format_helps_where_rounding_hurts() -> None:
    ptq, qat = table(["int2"], qat=["int2"], steps=150).rows
    assert (ptq.method, qat.method) == (PTQ, QAT)
    assert qat.accuracy > ptq.accuracy


def test_the_same_call_gives_the_same_table() -> None:
    one, two = (table(["int4"], qat=["int4"], steps=15, seed=3) for _ in range(2))
    assert one == two
    other = table(["fp32"], steps=15, seed=4)
    assert other.baseline != one.baseline or other.rows != one.rows


def test_figures_are_per_inference_whatever_the_batch() -> None:
    one, eight = (table(["fp16"], batch=batch, steps=5).rows[0] for batch in (1, 8))
    assert one.accuracy == eight.accuracy
    assert eight.latency_s < one.latency_s and eight.energy_J < one.energy_J
    program = compile(trained("digits-mlp", blobs(), 5, 0)(8), load_chip("edu-mixed"), Options(dtype="fp16"))
    assert eight.latency_s == pytest.approx(simulate(program).seconds / 8)
    assert eight.model_B == model_B(program.graph)


def test_the_share_is_that_of_samples_counted_by_hand() -> None:
    """The last batch is filled up, and what fills it is not counted."""
    graph, data = learnt(), blobs()
    cut = replace(data, x_test=data.x_test[:7], y_test=data.y_test[:7])
    name, output = graph.inputs[0], graph.outputs[0]
    samples = shaped(graph, np.concatenate([cut.x_test, cut.x_test[:1]]))
    scores = [execute.run(graph, {name: samples[i : i + 4]})[output] for i in (0, 4)]
    right = np.concatenate(scores)[:7].argmax(axis=1) == cut.y_test
    assert right_share(cut, graph) == right.mean()


def test_data_for_ranges_are_whole_batches_of_training_samples() -> None:
    graph = learnt()
    (found,) = range_feeds(blobs(), graph).values()
    assert len(found) % 4 == 0 and 4 <= len(found) <= 256
    np.testing.assert_array_equal(found, shaped(graph, blobs().x_train[: len(found)]))


def test_options_reach_the_compiler() -> None:
    plain, clipped = (
        table(["int4"], steps=20, options=options).rows[0]
        for options in (None, Options(ranges="percentile", percentile=20.0))
    )
    assert clipped.accuracy < plain.accuracy
    sparse = table(["fp16"], steps=5, options=Options(sparsity="2:4")).rows[0]
    assert sparse.model_B < table(["fp16"], steps=5).rows[0].model_B
    mixed = table(["int8"], steps=5, options=Options(layers={"fc1": "fp16"})).rows[0]
    assert set(mixed.mac.split()) == {"fp16", "int8"}


def test_progress_rises() -> None:
    seen: list[tuple[str, float]] = []
    table(["fp32", "int8"], steps=2, progress=lambda stage, share: seen.append((stage, share)))
    assert [stage for stage, _ in seen] == ["train", f"{PTQ} fp32", f"{PTQ} int8"]
    assert [share for _, share in seen[1:]] == [0.0, 0.5]


def test_all_problems_of_a_call_come_at_once() -> None:
    data = replace(blobs(), classes=0)
    with pytest.raises((UsageError, SpecError)) as caught:
        accuracy("digits-mlp", ["edu-mixd", "haswell-e5-2699v3"], data, dtypes=["imt8"], qat=["int99"])
    text = str(caught.value)
    for word in ("edu-mixed", "no matrix unit", "'imt8'", "int8", "int99", "no labels"):
        assert word in text, word


def test_samples_of_another_size_are_refused() -> None:
    small = replace(blobs(), x_train=blobs().x_train[:, :, :7], x_test=blobs().x_test[:, :, :7])
    with pytest.raises(UsageError, match=r"\[1, 7, 8\]"):
        accuracy("digits-mlp", ["edu-mixed"], small, dtypes=["fp32"], steps=2)
    with pytest.raises(UsageError, match=r"\[1, 7, 8\]"):
        shaped(learnt(), small.x_test)


@pytest.mark.parametrize("name", ["haswell-e5-2699v3"])
def test_a_processor_has_no_formats_to_compare(name: str) -> None:
    with pytest.raises(UsageError, match="no matrix unit"):
        accuracy("digits-mlp", [name], blobs(), dtypes=["fp32"], steps=1)


def test_data_without_labels_are_refused() -> None:
    with pytest.raises(UsageError, match="no labels"):
        labelled(replace(blobs(), classes=0))


WRONG = [
    Options(ranges="medain"), Options(sparsity="5:4"), Options(layers={"fc9": "int8"}), Options(layers={"fc1": "imt8"}),
    Options(scheme="afine"),
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG)
def test_options_that_make_no_sense_are_refused_and_not_taken_for_a_missing_format(options: Options) -> None:
    with pytest.raises(UsageError):
        table(["int8"], steps=2, options=options)


def test_a_graph_keeps_its_batch_and_the_table_says_so() -> None:
    found = accuracy(learnt(), ["edu-mixed"], blobs(), dtypes=["fp32"])
    assert found.batch == 4


def test_a_model_of_ones_own_is_not_trained() -> None:
    graph = load_model("digits-mlp", weights="random:3", batch=4)
    found = accuracy(graph, ["edu-mixed"], blobs(), dtypes=["fp32"])
    assert found.baseline == found.rows[0].accuracy == right_share(blobs(), graph)


def test_a_row_that_is_known() -> None:
    assert not FormatResult("c", "int8", PTQ).known
    row = FormatResult("c", "int8", PTQ, "int8", 0.5, 3.0, 1.0, 5.0, 2.0, 10.0)
    assert row.known and (row.chip_s, row.chip_J) == (2.0, 3.0)
