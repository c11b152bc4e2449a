"""Gradients of filters, whose channels are images, through caches that hold too few of them."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.account.roofline import rooflines
from accelsim.cluster.step.asked import Asked, step
from accelsim.engines.simt.kernels import choose
from accelsim.engines.simt.panels import Product, panel_for, panels, room_B
from accelsim.errors import Infeasible
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.ops.base import Conv, Gemm
from accelsim.workload.zoo.build import Builder
from tests.helpers.simt_cases import AROUND, GPU

TILE, STEP = (64, 32), 8


def filter_gradient(samples: int, channels: int, filters: int, side: int) -> Graph:
    """Of a 3 x 3 convolution, as the rules of differentiation write it: samples for channels, images for filters."""
    b = Builder("filter-gradient")
    x, y = b.input("x", (channels, samples, side, side)), b.input("dy", (filters, samples, side, side))
    window = {"kernel_shape": [side] * 2, "strides": [1, 1], "pads": [1] * 4, "dilations": [1, 1]}
    return b.finish(b.op("Conv", [x, y], "dw", **window, group=1, a_zero_point=0, b_zero_point=0))


def images(samples: int, rows: int, filters: int, side: int = 32) -> Product:
    """The product of one: ``rows`` x 9 results of ``filters`` each."""
    conv = Conv(rows, samples, side, side, (side, side), (1, 1), (1, 1, 1, 1), (1, 1), (3, 3))
    gemm = Gemm(1, 9 * rows, filters, samples * side**2, "a", "b", conv)
    a = Tensor("a", (rows, samples, side, side), "fp16")
    return Product(gemm, "fp16", a, Tensor("b", (samples * side**2, filters), "fp16"), Tensor("y", (9 * rows, filters)))


@pytest.mark.parametrize(("chip", "dtype"), [("t4", "fp16"), ("p100-sxm2", "fp32")])
def test_it_streams_through_a_small_cache(chip: str, dtype: str) -> None:
    """Four slices of 224 x 224 pixels of 64 images each do not fit into 4 MiB."""
    run = accelsim.run(filter_gradient(8, 64, 64, 224), on=chip, dtype=dtype, values="off", edges="outside")
    (kernel,) = [each for each in run.program.steps if each.macs]
    assert kernel.macs == 8 * 64 * 64 * 9 * 224**2
    for roof in rooflines(run):
        for point in roof.points:
            assert point.achieved_ops_per_s < roof.roof(point.intensity_ops_per_B)
    run.check()


@pytest.mark.parametrize(("samples", "slices"), [(3, {0, 2048}), (1, {0, 512})])
def test_its_values_are_those_of_the_reference(samples: int, slices: set[int]) -> None:
    """Whole channels, and parts of the only one: then every panel reads its part again."""
    graph = filter_gradient(samples, 32, 160, 32)
    small = ["l2.capacity=128 KiB", "sm.multiprocessors=2"]
    run = accelsim.run(graph, on="t4", dtype="fp16", set=small, values="exact", keep=True, edges="outside")
    tiles = [command.effect.tile for command in run.program.commands if command.kind == "MatMul"]
    assert {tile.k0 for tile in tiles if tile} == slices
    assert check_run(run, graph).holds
    check(run, thorough=True)


def test_only_steps_in_flight_need_room() -> None:
    p = images(samples=4, rows=64, filters=32)
    assert panel_for(p, TILE, STEP, 8, 1 << 15) is None
    panel = panel_for(p, TILE, STEP, 8, 1 << 15, streams=True)
    assert panel is not None and panel.depth % 32**2 == 0
    assert room_B(p, panel, STEP) <= 1 << 15 < room_B(p, panel._replace(depth=32**2))


@pytest.mark.parametrize(("rows", "parts"), [(4, 1), (64, 2)])
def test_a_single_channel_is_cut_where_panels_share_it(rows: int, parts: int) -> None:
    """The next panel finds nothing of a channel that has streamed through."""
    p = images(samples=1, rows=rows, filters=32)
    panel = panel_for(p, TILE, STEP, 2, 1 << 13, streams=True)
    assert panel is not None and (panels(p.gemm, panel) > 1) == (parts > 1)
    assert panel.depth == 32**2 // parts


def test_a_cache_without_room_for_a_step_is_told() -> None:
    p = images(samples=1, rows=64, filters=32)
    with pytest.raises(Infeasible, match=r"\(tile 32x8x1\)") as found:
        choose(GPU, AROUND._replace(l2_B=100), p, "dw", "l2")
    assert found.value.needed_B == 4 * (32 + 8) * 2 + 4


def test_a_network_trains_on_gpus_with_a_small_cache() -> None:
    result = step(Asked("resnet18", "8x-t4-pcie", "dp=8", batch=64))
    assert result.check() == []
    assert 0 < result.mfu < 1
