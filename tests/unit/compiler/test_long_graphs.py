"""Compiling costs as much per node in a long graph as in a short one: calls are counted, not seconds."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.long_graphs import LONG

SHORT, FACTOR = 40, 4


def calls(graph: Graph, chip: str, dtype: str, changes: tuple[str, ...] = ()) -> int:
    loaded, profile = load_chip(chip, changes), cProfile.Profile()
    profile.runcall(compile, graph, loaded, Options(dtype=dtype, values="off"))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize(("chip", "dtype"), [("edu-mixed", "int8"), ("tpu-v1", "int8"), ("edu-mixed", "fp32")])
def test_calls_grow_with_the_nodes_and_not_faster(kind: str, chip: str, dtype: str) -> None:
    calls(LONG[kind](4), chip, dtype)  # what is made once for all
    short, long = (calls(LONG[kind](count), chip, dtype) for count in (SHORT, FACTOR * SHORT))
    assert long < 1.05 * FACTOR * short


def test_making_room_does_not_look_at_all_that_is_there() -> None:
    """What waits in a full buffer is sent away one by one: more of it there does not make each of them dearer."""
    small, large = (
        calls(LONG["waiting"](1500), "edu-4x4", "fp32", (f"act_sram.capacity={size}",)) for size in ("8 KiB", "64 KiB")
    )
    assert large < 1.1 * small


def test_a_prompt_of_a_decoder_is_lowered_for_a_few_layers_only() -> None:
    """Slots that are taken and not used name no more older regions in each layer: the state recurs."""
    params = {"layers": 6, "seq": 2048}
    program = compile(load_model("llama3-8b", params=params), load_chip("h100-sxm"), Options(values="off"))
    assert program.repeat is not None and program.repeat.times == 2
