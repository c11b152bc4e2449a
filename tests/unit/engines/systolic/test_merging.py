"""Runs of alike tiles as one command: the same accesses and values in fewer commands and about the same time."""

from collections import Counter

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.systolic import merging, placing
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model


def run(monkeypatch: pytest.MonkeyPatch, graph: Graph, chip: str, options: Options, most: int) -> Run:
    monkeypatch.setattr(placing, "MOST", most)
    monkeypatch.setattr(placing, "FEW", 20)
    feeds = {
        name: np.random.default_rng(0).standard_normal(graph.tensors[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    return simulate(compile(graph, load_chip(chip), options), feeds, "exact")


def accesses(run: Run) -> Counter[tuple[str, object, str]]:
    found = Counter[tuple[str, object, str]]()
    for command in run.program.commands:
        for unit, action, tensor, count in command.actions:
            found[unit, action, tensor] += count
    return found


@pytest.mark.parametrize("order", ["mnk", "nmk", "nkm", "mkn"])
@pytest.mark.parametrize("most", [160, 600])
@pytest.mark.parametrize(
    ("chip", "dtype", "pins"),
    [
        ("systolic-generic", "fp32", {}),
        ("edu-4x4", "int8", {"a_whole_k": True}),
        ("systolic-generic", "fp32", {"reuse": False}),
    ],
)
def test_runs_of_tiles_access_and_compute_what_their_tiles_do(
    monkeypatch: pytest.MonkeyPatch, order: str, most: int, chip: str, dtype: str, pins: dict[str, object]
) -> None:
    graph = load_model("gemm?M=100,N=72,K=150")
    pinned = {"y": {"tm": 16, "tn": 16, "tk": 16, "order": order, "a_resident": False} | pins}
    if chip == "edu-4x4" and order in ("nkm", "mkn"):
        pinned["y"] |= {"tm": 8, "tn": 8}
    options = Options(dtype=dtype, pinned=pinned, repeat=False)
    tiles = run(monkeypatch, graph, chip, options, 10**9)
    runs = run(monkeypatch, graph, chip, options, most)
    assert len(runs.program.commands) <= most + 6 < len(tiles.program.commands)
    assert accesses(runs) == accesses(tiles)
    for name, values in tiles.outputs.items():
        np.testing.assert_array_equal(runs.outputs[name], values)
    assert runs.time_fs == pytest.approx(tiles.time_fs, rel=0.15)
    assert any("alike tiles are one command" in note for note in runs.program.notes)
    assert not any("alike tiles are one command" in note for note in tiles.program.notes)


def test_layers_of_one_shape_count_together_and_merge_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = {f"fc{i}": {"tm": 1, "tn": 4, "tk": 4, "a_resident": True} for i in range(1, 8)}
    options = Options(dtype="int8", pinned=pinned, repeat=False)
    graph = load_model("mlp?hidden=64,layers=7")  # fc2 to fc6 are alike: 256 tiles each
    tiles = run(monkeypatch, graph, "edu-4x4", options, 10**9)
    runs = run(monkeypatch, graph, "edu-4x4", options, 5 * 500)
    noted = [note for note in runs.program.notes if "one command" in note]
    assert [note.partition(":")[0] for note in noted] == ["fc1", "5 products of 1 x 64 x 64"]
    assert accesses(runs) == accesses(tiles)
    assert runs.time_fs == pytest.approx(tiles.time_fs, rel=0.2)


def test_a_large_product_takes_few_commands() -> None:
    options = Options(values="off", repeat=False)
    program = compile(load_model("gemm?M=8192,N=8192,K=16384"), load_chip("edu-4x4"), options)
    assert len(program.commands) < merging.MOST
    assert sum(step.macs for step in program.steps) == 8192 * 8192 * 16384
