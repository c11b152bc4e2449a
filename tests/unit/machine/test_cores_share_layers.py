"""Cores that share a layer: values, laws, and what it gains; every axis, on products, convolutions and networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.latency import summary
from accelsim.errors import AccelsimError, UsageError
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.program.mapping import SHARES
from accelsim.result import Result, run
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


def chip(cores: int, name: str = "edu-4x4", sets: Sequence[str] = ()) -> Chip:
    return load_chip(name, [f"cores={cores}", *sets])


def product(m: int, k: int, n: int) -> Graph:
    b, rng = Builder("product"), np.random.default_rng(m * k * n)
    weights = b.constant("w", rng.standard_normal((k, n)).astype(np.float32))
    return b.finish(b.op("Relu", [b.matmul(b.input("x", (m, k)), weights, "product")], "y"))


def convolution(batch: int, channels: int, size: int, out: int, kernel: int, stride: int, groups: int) -> Graph:
    b, rng = Builder("convolution"), np.random.default_rng(channels * size)
    shape = (out * groups, channels, kernel, kernel)
    weights = b.constant("w", rng.standard_normal(shape).astype(np.float32))
    x = b.input("x", (batch, channels * groups, size, size))
    pads = [kernel // 2] * 4
    y = b.op(
        "Conv",
        [x, weights],
        "conv",
        group=groups,
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        pads=pads,
        dilations=[1, 1],
    )
    return b.finish(y)


def shared(graph: Graph, on: Chip, axis: str, **options: str) -> Result:
    layer = next(node.name for node in graph.nodes if node.op in ("MatMul", "Conv"))
    return run(graph, on, share="layer", mapping={layer: {"share": axis}}, keep=True, **options)


def axes(result: Result) -> list[str]:
    return [step.mapping.share for step in result.program.steps if step.mapping is not None]


def holds(result: Result, graph: Graph) -> None:
    check(result, thorough=True)
    assert check_run(result, graph).holds


@pytest.mark.parametrize("axis", [axis for axis in SHARES if axis not in ("none", "g")])
@pytest.mark.parametrize("memory_model", ["bandwidth", "ideal"])
def test_a_product_is_shared_by_rows_columns_or_reduction(axis: str, memory_model: str) -> None:
    graph = product(64, 64, 64)
    result = shared(graph, chip(2), axis, memory_model=memory_model)
    holds(result, graph)
    assert axes(result) == [axis]
    work = {entry.engine: entry.busy for entry in result.engines if entry.engine.endswith("matrix")}
    assert work["core0.matrix"] == pytest.approx(work["core1.matrix"], rel=0.01)


def test_cores_of_several_arrays_share_the_reduction_twice() -> None:
    graph = product(4, 512, 10)
    on = chip(3, "edu-mixed", ["matrix.count=2"])
    result = shared(graph, on, "k", dtype="fp16")
    holds(result, graph)
    assert axes(result) == ["k"]


@pytest.mark.parametrize("model", ["pattern", "bank"])
def test_dram_models_see_the_tiles_of_all_cores(model: str) -> None:
    graph = product(32, 48, 40)
    on = chip(2, sets=["memories.dram.memory=dram/edu-ddr3"])
    for axis in ("m", "k"):
        holds(shared(graph, on, axis, memory_model=model), graph)


@settings(max_examples=40)
@given(
    st.integers(2, 4), st.sampled_from(["m", "n", "k"]), st.integers(2, 40), st.integers(2, 40), st.integers(2, 40),
    st.sampled_from(["ws", "os", "is"]),
)  # fmt: skip
def test_values_and_laws_of_random_products(cores: int, axis: str, m: int, k: int, n: int, dataflow: str) -> None:
    graph = product(m, k, n)
    holds(shared(graph, chip(cores), axis, dataflow=dataflow), graph)


@settings(max_examples=40)
@given(st.data())
def test_values_and_laws_of_random_convolutions(data: st.DataObject) -> None:
    cores, axis = data.draw(st.integers(2, 3)), data.draw(st.sampled_from(["g", "m", "n", "k"]))
    batch, size, kernel = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(6, 12)),
        data.draw(st.sampled_from([1, 3])),
    )
    groups = data.draw(st.integers(2, 4)) if axis == "g" else 1
    channels, out = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 9))
    graph = convolution(batch, channels, size, out, kernel, data.draw(st.integers(1, 2)), groups)
    try:
        result = shared(graph, chip(cores), axis)
    except AccelsimError as error:  # a batch of one that no one can share
        assert "cannot share" in str(error)
    else:
        holds(result, graph)


def test_rows_of_the_only_image_are_not_cut_into_strips() -> None:
    result = shared(convolution(1, 4, 12, 4, 3, 1, 1), chip(2), "m")
    assert [step.mapping.tq for step in result.program.steps if step.mapping is not None] == [0]


@pytest.mark.parametrize("cores", [2, 4])
def test_a_large_product_is_as_many_times_faster(cores: int) -> None:
    """Where arrays bind, cores are worth their number, and utilisation counts all of them."""
    one, many = (
        run(product(1024, 1024, 1024), chip(n, "edu-mixed"), dtype="fp16", values="off", share="layer")
        for n in (1, cores)
    )
    spans = [
        max(piece.end for piece in result.slices if "matrix" in piece.engine)
        - min(piece.start for piece in result.slices if "matrix" in piece.engine)
        for result in (one, many)
    ]
    assert spans[0] / spans[1] > 0.98 * cores
    assert summary(many)["utilisation"] <= 1


@pytest.mark.parametrize("name", ["edu-mixed", "systolic-generic"])
def test_a_network_is_never_much_slower_than_on_one_core(name: str) -> None:
    graph = Builder("layers")
    x = graph.input("x", (64, 128))
    for layer in range(3):
        weights = np.random.default_rng(layer).standard_normal((128, 128)).astype(np.float32)
        x = graph.op("Relu", [graph.matmul(x, graph.constant(f"w{layer}", weights), f"fc{layer}")], f"y{layer}")
    whole = graph.finish(x)
    one = run(whole, chip(1, name), values="off")
    many = run(whole, chip(2, name), share="layer", keep=True)
    holds(many, whole)
    assert many.time_fs <= 1.02 * one.time_fs
    count = len(axes(many)) - axes(many).count("none")
    assert f"{count} of 3 products are shared by cores of the chip" in many.program.notes


def test_what_is_shared_is_asked_for_by_name() -> None:
    with pytest.raises(UsageError, match="layer"):
        run(product(4, 4, 4), chip(2), share="layers")
    with pytest.raises(AccelsimError, match="cannot share it by 'g'"):
        shared(product(4, 4, 4), chip(2), "g")


def test_a_saved_mapping_says_the_axis_and_keeps_it() -> None:
    from accelsim.program.mapping_file import mapping_text

    graph = product(64, 64, 64)
    first = shared(graph, chip(2), "k")
    assert "share: k" in mapping_text(first.program)
    layer = next(step for step in first.program.steps if step.mapping is not None)
    again = run(graph, chip(2), share="layer", mapping={layer.name: vars(layer.mapping)}, values="off")
    assert again.time_fs == first.time_fs
