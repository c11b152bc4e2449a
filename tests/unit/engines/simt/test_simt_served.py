"""Kernels of serving stacks within a run: their time is that of the closed form; formats of layers, keys and values."""

from __future__ import annotations

from functools import cache

import pytest

import accelsim
from accelsim.account import critical_path
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.engines.registry import ENGINES
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.served import DECODE, LAYER, PREFILL, _seconds, row_of, work_clocks
from accelsim.errors import UsageError
from accelsim.machine.run import Run
from accelsim.program.roles import units
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.time import FS
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import is_attention
from accelsim.workload.sources.load import load_model

H100, B200, TPU = "h100-sxm", "b200-sxm", "tpu-v4"
MODEL = "llama?layers=1,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=512"
SMALL = "llama?layers=1,hidden=64,heads=2,kv_heads=1,ffn=128,vocab=64"
DECODING, PROMPT = "seq=1,past=1024", "seq=512"


@cache
def simulated(place: str, dtype: str, chip: str = H100, kv: str = "", quantiser: str = "", batch: int = 8) -> Run:
    return execute(prepare(Request(
        f"{MODEL},{place}", chip, dtype=dtype, values="off", fusion="serving", kv_dtype=kv, quantiser=quantiser,
        batch=batch,
    )))  # fmt: skip


def after(place: str, dtype: str, kv: str = "", chip: str = H100, values: str = "off") -> Graph:
    options = Options(dtype=dtype, values=values, fusion="serving", kv_dtype=kv)
    return transform(load_model(f"{SMALL},{place}"), accelsim.load_chip(chip), options)


@pytest.mark.parametrize("dtype", ("bf16", "fp8_e4m3fn", "int4xbf16"))
@pytest.mark.parametrize("place", (DECODING, PROMPT))
def test_a_kernel_of_a_run_takes_what_the_closed_form_says(place: str, dtype: str) -> None:
    run = simulated(place, dtype)
    device, spent, families = Device(run.chip, "sm"), critical_path.by_step(run), set()
    for index, step in enumerate(run.program.steps):
        found = row_of(run.program.graph, step.node)
        if found is not None:
            families.add(found.family)
            expected = sum(_seconds(device, found))
            assert sum(spent[index].values()) * FS == pytest.approx(expected, rel=0.05, abs=1e-6), step.label
    assert families == {LAYER, DECODE if place == DECODING else PREFILL}


def test_the_pieces_of_a_kernel_end_in_time() -> None:
    assert work_clocks(10e-6, 2e-6, 1e-6, 4, 1e9) == 9000
    assert work_clocks(10e-6, 9.5e-6, 1e-6, 4, 1e9) == pytest.approx(2000, abs=1)
    assert work_clocks(1e-6, 2e-6, 1e-6, 4, 1e9) == 1


@pytest.mark.parametrize("place", (DECODING, PROMPT))
def test_beside_narrow_layers_everything_has_16_bits(place: str) -> None:
    graph = after(place, "fp8_e4m3fn")
    attention = [node for node in graph.nodes if is_attention(node)]
    layers = [node for node in graph.nodes if node.format == "fp8_e4m3fn"]
    assert [node.format for node in attention] == ["fp16"] and len(layers) == 5
    assert all(graph.tensors[node.inputs[0]].dtype == "fp8_e4m3fn" for node in layers)
    sums = [node for node in graph.nodes if node.epilogue and node.epilogue[-1].op == "Add"]
    assert sums and all(graph.tensors[node.writes[0]].dtype == "fp16" for node in sums)
    assert not [node for node in graph.nodes if node.engine == "host"]


def test_a_chip_without_such_attention_computes_everything_in_the_narrow_format() -> None:
    formats = {node.format for node in after(PROMPT, "int8", chip=TPU).nodes if node.format}
    assert formats == {"int8"}


def test_narrow_keys_and_values_take_half_the_bytes_and_time_of_long_caches() -> None:
    wide, narrow = (after(DECODING, "bf16", kv) for kv in ("", "fp8"))
    for past, late in wide.states.items():
        for name in (past, late):
            assert wide.tensors[name].nbytes == 2 * narrow.tensors[name].nbytes
    assert any("keys and values" in note for note in simulated(DECODING, "bf16", kv="fp8").program.notes)
    assert simulated("seq=1,past=8192", "bf16", kv="fp8").seconds < simulated("seq=1,past=8192", "bf16").seconds


@pytest.mark.parametrize(
    ("kv", "chip", "values", "words"),
    [("fp9", H100, "off", "one of fp8_e4m3fn, fp8_e5m2, int8"), ("fp8", H100, "fast", "values off"),
     ("fp8", TPU, "off", "has no attention that reads")],
)  # fmt: skip
def test_formats_of_keys_and_values_that_cannot_be_are_refused(kv: str, chip: str, values: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        after(DECODING, "bf16", kv, chip, values)


def test_weights_alone_are_narrow_in_memory_and_multiplied_in_16_bits() -> None:
    graph = after(DECODING, "int4xbf16")
    layers = [node for node in graph.nodes if node.format and not is_attention(node)]
    assert len(layers) == 5 and all(node.format == "bf16" for node in layers)
    assert all(graph.tensors[node.inputs[1]].element_B == 0.5 for node in layers)
    times = [simulated(DECODING, dtype, batch=1).seconds for dtype in ("bf16", "int8xbf16", "int4xbf16")]
    assert times == sorted(times, reverse=True) and times[0] > 1.25 * times[-1]
    moved = [simulated(DECODING, dtype, batch=1).program for dtype in ("bf16", "int4xbf16")]
    assert moved[0].needs["hbm"].weights_B > 3.5 * moved[1].needs["hbm"].weights_B


@pytest.mark.parametrize(("name", "element_B"), [("nvfp4", 4.5 / 8), ("mxfp4", 4.25 / 8)])
def test_blocks_of_fp4_are_kept_with_their_scales(name: str, element_B: float) -> None:
    """Weights and inputs of layers, beside 16 bits of everything else; multiplied as FP4."""
    graph = after(PROMPT, name, chip=B200)
    layers = [node for node in graph.nodes if node.format == "fp4_e2m1fn"]
    assert len(layers) == 5
    assert {graph.tensors[each].element_B for node in layers for each in node.inputs[:2]} == {element_B}
    assert {node.format for node in graph.nodes if is_attention(node)} == {"fp16"}
    run = simulated(DECODING, name, chip=B200)
    found = (row_of(run.program.graph, step.node) for step in run.program.steps)
    assert {each.format for each in found if each is not None and each.family == LAYER} == {name}
    weights = sum(
        tensor.elements for tensor in run.program.graph.tensors.values() if tensor.memory_format == name
        and tensor.is_constant
    )  # fmt: skip
    embedding_B = 512 * 2048 * 2
    assert run.program.needs["hbm"].weights_B == pytest.approx(weights * element_B + embedding_B, rel=0.001)
    assert run.seconds < simulated(DECODING, "fp8", chip=B200).seconds


@pytest.mark.parametrize(
    ("chip", "values", "words"), [("b200-sxm", "fast", "values off"), (H100, "off", "does not compute in 'nvfp4'")]
)
def test_blocks_of_fp4_are_refused_with_values_and_where_no_unit_multiplies_them(
    chip: str, values: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        after(PROMPT, "nvfp4", chip=chip, values=values)


def test_a_quantising_kernel_takes_time_of_its_own() -> None:
    fused, apart = (simulated(PROMPT, "fp8_e4m3fn", quantiser=name).seconds for name in ("fused", "kernel"))
    assert apart > 1.05 * fused
    with pytest.raises(UsageError, match="quantiser"):
        simulated(PROMPT, "fp8_e4m3fn", quantiser="none")


def of_stack(place: str, kv: str = "fp8", batch: int = 8, heads: int = 8) -> Run:
    """A call of TensorRT-LLM's kernels."""
    return execute(prepare(Request(
        f"{MODEL.replace('kv_heads=8', f'kv_heads={heads}')},{place}", H100, dtype="fp8", values="off",
        fusion="serving", kv_dtype=kv, batch=batch, stack="tensorrt-llm",
    )))  # fmt: skip


def _attending_s(run: Run) -> float:
    spent = critical_path.by_step(run)
    return FS * sum(
        sum(spent[index].values()) for index, step in enumerate(run.program.steps) if is_attention(step.node)
    )


def test_lanes_read_the_keys_of_every_query_head() -> None:
    """Half the heads of keys take the same time, and as many bytes as clocks of the multiprocessors give."""
    own, shared = (_attending_s(of_stack("seq=1,past=8191", heads=heads, batch=64)) for heads in (16, 8))
    elements = 64 * 16 * 8192 * 128 * 2
    least = elements / (18 * 132 * 1.83e9)
    assert least < shared <= own < 1.6 * least


def test_a_host_that_asks_for_every_kernel_bounds_short_calls() -> None:
    short = of_stack("seq=16", batch=1)
    kernels = sum(step.node.engine != "alias" for step in short.program.steps)
    assert short.seconds == pytest.approx(20e-6 * kernels, rel=0.1)
    long = of_stack("seq=4096", batch=8)
    assert long.seconds == pytest.approx(simulated("seq=4096", "fp8", kv="fp8").seconds, rel=0.02)


def test_intervals_are_those_of_the_rows_that_kernels_take() -> None:
    run = simulated(DECODING, "bf16")
    (unit,) = (unit for unit in units(run.chip).values() if unit.type == "simt")
    model = ENGINES[unit.type].kernels(run.chip, unit)
    assert model is not None
    served = [model.served(run.program.graph, step.node) for step in run.program.steps]
    found = {kernel.family: kernel.factor for kernel in served if kernel is not None}
    constants = unit.spec.serving
    assert found == {
        LAYER: constants.layers["bf16"].intervals["all"].factor,
        DECODE: constants.decode["bf16"].intervals["all"].factor,
    }


def test_results_of_a_decoder_stay_on_the_chip() -> None:
    run = simulated(DECODING, "bf16")
    assert set(run.program.graph.outputs) <= run.program.graph.staying
