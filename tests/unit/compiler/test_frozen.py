"""Frozen graphs: chips share what the passes make of them, and it is what they make of any other graph."""

from __future__ import annotations

import pytest

from accelsim.compiler import passes
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model

MODEL = "mobilenet?width=25,resolution=32"
OFF = Options(values="off")
FAST, ROOMY = "memories.dram.memory.bandwidth=99 GB/s", "accumulators.capacity=1 MiB"
SMALL = "act_sram.capacity=48 KiB"


@pytest.mark.parametrize("chip", ["systolic-generic", "edu-4x4", "edu-two-kinds", "tpu-v1", "eyeriss", "a100-40-sxm"])
def test_passes_make_the_same_of_a_frozen_graph(chip: str) -> None:
    graph, frozen = load_model(MODEL), load_model(MODEL)
    frozen.frozen = True
    made, again = (transform(frozen, load_chip(chip), OFF) for _ in range(2))
    assert made is again and made.frozen and not frozen.copy().frozen
    assert repr(made.nodes) == repr(transform(graph, load_chip(chip), OFF).nodes)
    assert transform(graph, load_chip(chip), OFF) is not transform(graph, load_chip(chip), OFF)


def test_only_what_passes_read_makes_them_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "LAST", passes.deque(maxlen=8))
    frozen = load_model(MODEL)
    frozen.frozen = True
    first = transform(frozen, load_chip("systolic-generic"), OFF)
    assert transform(frozen, load_chip("systolic-generic", [FAST]), OFF) is first
    assert transform(frozen, load_chip("systolic-generic", [SMALL]), OFF) is first
    for sets, options in (([ROOMY], OFF), ([], Options(values="off", dtype="int8")), (["matrix.rows=8"], OFF)):
        assert transform(frozen, load_chip("systolic-generic", sets), options) is not first
    assert len(passes.LAST) == 4
