"""The search for the layers that must stay wide."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.explore.accuracy import range_feeds, right_share, trained
from accelsim.explore.mixed import Choice, keep_layers, layer_macs
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import Dataset
from accelsim.workload.sources.load import load_model


@cache
def blobs() -> Dataset:
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((10, 1, 8, 8)).astype(np.float32)
    y = np.arange(240) % 10
    x = (centres[y] + 1.2 * rng.standard_normal((240, 1, 8, 8))).astype(np.float32)
    return Dataset("blobs", x[:160], y[:160], x[160:], y[160:], 10, {})


@cache
def model() -> Graph:
    return trained("digits-cnn", blobs(), 60, 0)(16)


@cache
def search(dtype: str = "int1", keep: str = "fp16", budget: float = 0.1, on: str = "edu-mixed") -> Choice:
    return keep_layers(model(), on, blobs(), dtype=dtype, keep=keep, budget=budget)


def share(layers: dict[str, str], dtype: str = "int1") -> float:
    """The same accuracy by way of a program."""
    options = Options(dtype=dtype, layers=layers, ranges_from=range_feeds(blobs(), model()))
    return right_share(blobs(), compile(model().copy(), load_chip("edu-mixed"), options).graph)


def test_the_loss_is_within_the_budget_and_no_kept_layer_is_idle() -> None:
    found = search()
    assert found.loss <= 0.1
    assert found.quantised < found.full - 0.1, "otherwise there is nothing to search"
    assert 0 < len(found.kept) <= len(layer_macs(model()))
    for layer in found.kept:
        rest = {name: "fp16" for name in found.kept if name != layer}
        assert found.full - share(rest) > 0.1


def test_scores_are_those_of_programs_with_these_layers() -> None:
    found, names = search(), list(layer_macs(model()))
    assert found.score == share(dict.fromkeys(found.kept, "fp16"))
    assert found.full == share(dict.fromkeys(names, "fp16"))
    assert found.quantised == share({})
    for row in found.rows:
        assert row.alone == share({name: "fp16" for name in names if name != row.layer})
        assert row.without == share({row.layer: "fp16"})
        assert row.kept == (row.layer in found.kept)


def test_a_generous_budget_keeps_nothing_and_none_at_all_keeps_what_it_needs() -> None:
    assert search(budget=1.0).kept == ()
    assert search(budget=1.0).score == search().quantised
    strict = search(budget=0.0)
    assert strict.loss <= 0
    assert set(strict.kept) >= set()
    assert len(strict.kept) >= len(search().kept)


def test_a_format_that_loses_nothing_keeps_nothing() -> None:
    assert search(dtype="tf32", keep="fp32", budget=0.0).kept == ()


def test_costs_are_the_macs_of_the_layers() -> None:
    graph = load_model("digits-cnn", batch=2)
    found = layer_macs(graph)
    program = compile(graph, load_chip("edu-mixed"), Options(dtype="fp16", values="off"))
    assert found == {step.name: step.macs for step in program.steps if step.macs}
    assert {row.layer: row.cost for row in search().rows} == {name: 8.0 * count for name, count in found.items()}


def test_formats_that_a_chip_lacks_are_emulated() -> None:
    found = search(dtype="int4", keep="int8", on="tpu-v1", budget=0.05)
    assert found.loss <= 0.05


@pytest.mark.parametrize(
    ("on", "dtype", "keep", "word"),
    [
        ("edu-mixed", "imt4", "fp16", "int4"),
        ("edu-mixed", "int4", "fp61", "fp16"),
        ("tpu-v1", "int4", "fp32", "tpu-v1"),
        ("haswell-e5-2699v3", "int4", "fp32", "no matrix unit"),
    ],
)
def test_what_cannot_be_is_refused_before_the_training(on: str, dtype: str, keep: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        keep_layers("digits-mlp", on, blobs(), dtype=dtype, keep=keep, steps=10**9)


def test_data_and_budget_must_make_sense() -> None:
    with pytest.raises(UsageError, match="no labels"):
        keep_layers(model(), "edu-mixed", replace(blobs(), classes=0))
    with pytest.raises(UsageError, match="budget"):
        keep_layers(model(), "edu-mixed", blobs(), budget=-0.1)
