"""Runs on row-stationary arrays: closed forms to the last word and clock, values, laws, what they do and refuse."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.energy import energy_table, total_J
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.row_stationary.counts import COUNTS, counts
from accelsim.engines.row_stationary.laws import refusals
from accelsim.engines.row_stationary.mapper import candidates, choose
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.engines.row_stationary.timing import clocks
from accelsim.engines.row_stationary.viewing import geometry
from accelsim.errors import TooLarge, UsageError
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, residual_block
from tests.helpers.rs_best import best
from tests.helpers.rs_cases import problems
from tests.helpers.rs_runs import chip_of, one_layer
from tests.validation.eyeriss_jssc2017 import EYERISS

WORD_B = 2


def run_of(graph: Graph, array: Geometry = EYERISS, mapping: Mapping | None = None, **options: Any) -> Run:
    """With values, tile by tile."""
    pinned = {"conv": asdict(mapping)} if mapping else {}
    memory = options.pop("memory", "bandwidth")
    given = Options(dtype="int16", edges="outside", pinned=pinned, **options)
    program = compile(graph, chip_of(array), given)
    return simulate(program, synthetic(graph, 0), "exact", keep=True, memory_model=memory)


def words(run: Run) -> dict[str, int]:
    """Every count of the closed forms, from the ledger."""
    found: dict[tuple[str, str, str], int] = {}
    step = next(step for step in run.program.steps if step.gemm is not None)
    assert step.gemm is not None
    kinds = {step.gemm.a: "ifmap", step.gemm.b: "filter", step.node.writes[0]: "psum", "": ""}
    for row in run.ledger:
        if row.tensor in kinds:
            key = (row.component, row.action, kinds[row.tensor])
            found[key] = found.get(key, 0) + row.count
    count = {key: number // WORD_B for key, number in found.items()}
    result = {"macs": found.get(("array", "mac.int16", ""), 0)}
    for kind in ("ifmap", "filter", "psum"):
        for way in ("read", "write"):
            result[f"{kind}_pad_{way}s"] = count.get(("array", f"{kind}_register.{way}", ""), 0)
    result |= {f"noc_{kind}": count.get(("array", f"bus.{kind}", ""), 0) for kind in ("ifmap", "filter", "psum")}
    result["psum_hops"] = count.get(("array", "pe_network.hop", ""), 0)
    for kind, buffer in (("ifmap", "glb"), ("filter", "filters"), ("psum", "glb")):
        for way in ("read", "write"):
            result[f"glb_{kind}_{way}s"] = count.get((buffer, way, kind), 0)
    result["dram_ifmap_reads"] = count[("dram", "read", "ifmap")]
    result["dram_filter_reads"] = count[("dram", "read", "filter")]
    result["dram_ofmap_writes"] = count[("dram", "write", "psum")]
    return result


def formulas(conv: Conv, mapping: Mapping) -> dict[str, int]:
    """The same of the closed forms; the ledger has one row for psums on both buses, and for psums that are read."""
    closed = vars(counts(conv, mapping))
    assert set(closed) == set(COUNTS)
    closed["noc_psum"] = closed.pop("noc_psum_in") + closed.pop("noc_psum_out")
    closed["glb_psum_reads"] += closed.pop("glb_ofmap_reads")
    return closed


@settings(max_examples=25)
@given(problems(), st.integers(0, 99))
def test_runs_have_the_counts_and_clocks_of_the_closed_forms(problem, seed):
    conv, array, mapping = problem
    graph = one_layer(conv, seed)
    run = run_of(graph, array, mapping)
    assert words(run) == formulas(conv, mapping)
    busy = next(each for each in run.engines if each.engine == "array").busy
    assert busy == clocks(conv, array, mapping) * 5_000_000  # fs of a clock
    check(run, thorough=True)
    assert all(row.relative == 0 for row in check_run(run, graph).rows)


@settings(max_examples=15)
@given(problems(), st.sampled_from([2, 3, 5]))
def test_ifmaps_that_come_one_by_one_change_no_count_and_no_value(problem, images):
    """The buffer has room for the psums and the ifmaps of one pass."""
    conv, array, mapping = problem
    conv, mapping = replace(conv, N=images), replace(mapping, n=images)
    channels, rows = min(mapping.q * mapping.r, conv.C), conv.rows(mapping.e)
    held = images * (channels * rows * conv.W + mapping.m * mapping.e * conv.F)
    graph, pinned = one_layer(conv), {"conv": asdict(mapping)}
    options = Options(dtype="int16", edges="outside", pinned=pinned)
    program = compile(graph, _with_words(array, held), options)
    run = simulate(program, synthetic(graph, 0), "exact", keep=True)
    assert words(run) == formulas(conv, mapping)
    busy = next(each for each in run.engines if each.engine == "array").busy
    assert busy == clocks(conv, array, mapping) * 5_000_000
    check(run, thorough=True)
    assert all(row.relative == 0 for row in check_run(run, graph).rows)


def _with_words(array: Geometry, words: int) -> Chip:
    """The chip with a global buffer of so many words, each a bank."""
    chip = chip_of(array)
    sizes = {"capacity": WORD_B * words, "banks": words, "word": WORD_B}
    glb = chip.buffers["glb"].model_copy(update=sizes)
    return chip.with_core(memories={**chip.buffers, "glb": glb})


@settings(max_examples=40)
@given(problems(), st.sampled_from([0.0, 1.0, 8.0]))
def test_a_mapping_is_found_wherever_there_is_one(problem, clocks_per_word):
    conv, array, _ = problem
    chosen = choose(conv, array, clocks_per_word).mappings[0]
    assert refusals(conv, array, chosen) == ()


def test_few_candidates_are_close_to_the_best_of_all():
    """By clocks of the array, on layers of AlexNet and VGG-16: within 1 %."""
    for conv in (Conv(1, 64, 64, 58, 58, 3, 3), Conv(4, 512, 512, 9, 9, 3, 3), Conv(1, 64, 64, 226, 226, 3, 3),
                 Conv(1, 96, 3, 227, 227, 11, 11, U=4)):  # fmt: skip
        found, least = (
            clocks(conv, EYERISS, mapping) for mapping in (choose(conv, EYERISS, 0.0).mappings[0], best(conv, EYERISS))
        )
        assert least <= found <= 1.01 * least


@pytest.mark.parametrize("effort", ["fast", "best", 0.2])
def test_more_effort_is_never_slower(effort):
    """The array of the same layer under each effort; 'best' is the least of all legal mappings."""
    conv = Conv(1, 32, 16, 18, 18, 3, 3)
    fast, found = (choose(conv, EYERISS, 0.0, each) for each in ("fast", effort))
    assert best(conv, EYERISS) == choose(conv, EYERISS, 0.0, "best").mappings[0]
    assert clocks(conv, EYERISS, found.mappings[0]) <= clocks(conv, EYERISS, fast.mappings[0])
    assert found.compared >= fast.compared


@settings(max_examples=20)
@given(problems(), st.sets(st.sampled_from("mneqprt"), min_size=1, max_size=6))
def test_pinned_fields_are_kept(problem, names):
    """Of a mapping that is legal some fields are pinned: one with these is found, and none with them is better."""
    conv, array, mapping = problem
    pinned = {name: getattr(mapping, name) for name in names}
    found = choose(conv, array, 1.0, "fast", pinned).mappings[0]
    assert refusals(conv, array, found) == ()
    assert {name: getattr(found, name) for name in names} == pinned


def test_wide_rows_leave_room_for_few_filters():
    """As many psums as the buffer holds are one row of two filters: sets over filters cannot fill the array."""
    conv = Conv(N=1, M=64, C=1, H=1, W=20_000, R=1, S=1)
    assert any(len(chunk.m) for chunk in candidates(conv, EYERISS))
    assert choose(conv, EYERISS, 0.0).mappings[0].m <= 2


@pytest.mark.parametrize("mapping", [Mapping(4, 2, 7, 1, 2, 2, 1), Mapping(3, 1, 3, 2, 2, 1, 1)])
def test_a_step_is_refused_for_exactly_the_commands_that_it_takes(mapping: Mapping) -> None:
    graph, chip = one_layer(Conv(3, 4, 6, 9, 9, 3, 3, 1, 2)), chip_of(EYERISS)
    options = Options(dtype="int16", edges="outside", values="off", pinned={"conv": asdict(mapping)})
    program = compile(graph, chip, options)
    with limited(commands=len(program.steps)), pytest.raises(TooLarge) as caught:
        compile(graph, chip, options)
    of_step = [command for command in program.commands if program.steps[command.op].engine == "array"]
    assert f"takes {len(of_step)} commands" in str(caught.value)


def test_products_are_convolutions_of_single_pixels():
    g = Graphs()
    y = g.matmul(g.input("x", (5, 70)), g.weight("w", (70, 33)), "product")
    g.graph.outputs.append(y)
    run = run_of(g.graph)
    check(run, thorough=True)
    assert [step.engine for step in run.program.steps if step.gemm] == ["array"]
    assert all(row.relative == 0 for row in check_run(run, g.graph).rows)


def test_products_of_two_activations_and_of_batches():
    g = Graphs()
    y = g.matmul(g.input("a", (3, 6, 20)), g.input("b", (3, 20, 9)), "scores")
    g.graph.outputs.append(y)
    run = run_of(g.graph)
    check(run, thorough=True)
    assert all(row.relative == 0 for row in check_run(run, g.graph).rows)


@pytest.mark.parametrize("memory", ["ideal", "bandwidth"])
@pytest.mark.parametrize("pool", [False, True])
def test_functions_follow_a_product_on_its_way_out(pool, memory):
    """Bias, scaling, a residual and ReLU in the Store; the pooling is a step of the other unit."""
    graph = residual_block(pool=pool)
    run = run_of(graph, memory=memory)
    check(run, thorough=True)
    stores = [c for c in run.program.commands if c.kind == "Store" and c.effect.what == "epilogue"]
    assert stores and any(len(c.effect.operands) for c in stores)  # the residual
    parameters = [region for region in run.program.regions if region.name.endswith(" parameters")]
    fused = {step.name for step in run.program.steps if step.engine == "array" and step.node.epilogue}
    assert {region.name.removesuffix(" parameters") for region in parameters} & fused
    assert all(region.size_B for region in parameters)
    assert all(row.relative == 0 for row in check_run(run, graph).rows)
    assert total_J(energy_table(run)) > 0


def test_padding_is_moved_with_the_image():
    """Counts are those of the padded image; values those of the layer."""
    conv, mapping = Conv(2, 8, 6, 9, 9, 3, 3), Mapping(8, 1, 3, 4, 2, 1, 2)
    graph = one_layer(conv, pad=1)
    run = run_of(graph, mapping=mapping)
    assert words(run) == formulas(conv, mapping)
    assert all(row.relative == 0 for row in check_run(run, graph).rows)


@pytest.mark.parametrize(("dtype", "sums"), [("int8", "int32"), ("fp32", "fp32"), ("fp16", "fp32")])
def test_other_formats_on_a_smaller_array(dtype, sums):
    formats = f"array.formats={{{dtype}: {{accumulate: {sums}}}}}"
    chip = load_chip("eyeriss", ["energy=energy/scaled-28nm", formats, "array.rows=5", "peak={}"])
    graph = load_model("digits-cnn", weights="random:0")
    run = simulate(compile(graph, chip, Options(dtype=dtype)), synthetic(graph, 0), "exact", keep=True)
    check(run, thorough=True)
    assert [step.engine for step in run.program.steps if step.gemm] == ["array"] * 3
    assert all(row.holds for row in check_run(run, graph).rows)


@pytest.mark.parametrize("memory_model", ["pattern", "bank"])
def test_every_byte_has_an_address(memory_model):
    """Padding, too: bursts are those of all bytes that move."""
    chip = load_chip("eyeriss").model_copy(update={"memories": load_chip("eyeriss-hierarchy").memories})
    graph = one_layer(Conv(2, 8, 6, 9, 9, 3, 3), pad=1)
    program = compile(graph, chip, Options(dtype="int16", edges="outside", values="off"))
    check(simulate(program, memory_model=memory_model), thorough=True)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception-v1"])
def test_real_networks(name):
    """Every tensor of simulated runs equals integer arithmetic; what is no product is done by the other unit."""
    graph = load_model(name, weights="random:0")
    program = compile(graph, load_chip("eyeriss"), Options(dtype="int16"))
    run = simulate(program, synthetic(graph, 0), "exact", keep=True)
    check(run, thorough=True)
    assert {step.engine for step in program.steps} == {"array", "functions", "host"}
    assert [step.node.op for step in program.steps if step.engine == "host"] == ["Quantize", "Dequantize"]
    assert all(row.relative == 0 for row in check_run(run, graph).rows)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kernel_shape": [13, 3], "shape": (13, 3)}, "13 PEs of a chain (R x r), but 12 rows of the array"),
        ({"kernel_shape": [3, 13], "shape": (3, 13)}, "13 words of a window (q x S), but 12 words of the pad"),
        ({"dilations": [2, 2]}, "its filters are dilated"),
        ({"strides": [2, 1]}, "its strides along rows and columns differ"),
    ],
)
def test_what_the_array_refuses_goes_to_the_host(options, why):
    g = Graphs()
    shape = options.pop("shape", (3, 3))
    given = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], **options}
    x, w = g.input("x", (1, 2, 20, 20)), g.weight("w", (4, 2, *shape))
    g.graph.outputs.append(g.op("Conv", [x, w], "conv", **given, group=1, a_zero_point=0, b_zero_point=0))
    program = compile(g.graph, load_chip("eyeriss"), Options(dtype="int16"))
    step = next(step for step in program.steps if step.node.op == "Conv")
    assert step.engine == "host"
    assert why in step.note


def test_a_pinned_mapping_must_be_legal():
    graph, fields = one_layer(Conv(1, 8, 8, 9, 9, 3, 3)), asdict(Mapping(8, 1, 7, 4, 2, 1, 2))
    for pinned, why in (
        ({**fields, "w": 1}, "unknown field 'w'"),
        ({"r": 5}, "array rows: 15 PEs"),
        ({"r": 0}, "r is 0; expected a whole number from 1"),
        ({**fields, "r": 5}, "array rows: 15 PEs"),
    ):
        with pytest.raises(UsageError, match=why):
            compile(graph, load_chip("eyeriss"), Options(dtype="int16", pinned={"conv": pinned}))


def test_the_chip_is_the_array_of_the_published_figures():
    chip = load_chip("eyeriss")
    assert geometry(chip, chip.engines["array"]) == EYERISS
    assert EYERISS.glb_banks * EYERISS.glb_bank_B + EYERISS.glb_filter_B == 108 * 1024
    assert np.isclose(chip.memories["dram"].rate_Bps, 8 * 60e6)
