"""Tiles of a convolution that are blocks of the image: rows x columns of the output."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.engines.systolic.mapping.shape import Buffers, Homes, Shape, Step, strips
from accelsim.errors import Infeasible, UsageError
from accelsim.explore.against_reference import check_run
from accelsim.program.mapping import Mapping
from accelsim.program.mapping_file import load_mappings, mapping_text
from accelsim.program.work import Transfer
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.ops.base import Conv, Gemm
from accelsim.workload.sources.load import load_model
from tests.helpers.law_cases import Case, RandomGraph, changed, compiled

CHIP = load_chip("edu-4x4")


def network(batch: int, height: int, width: int, groups: int = 1) -> Graph:
    """A convolution, and a second one of which the result is added to that of the first."""
    g = RandomGraph(1)
    x = g.input("x", (batch, 3, height, width))
    y = g.conv2d(x, 6, (3, 3), (1, 1), [1] * 4, 1, 1, bias=True)
    z = g.conv2d(y, 6, (3, 3), (1, 1), [1] * 4, 1, groups, bias=True)
    return g.finish(g.op("Relu", [g.op("Add", [y, z], "sum")], "relu"))


def mappings(found: Case) -> dict[str, Mapping]:
    """Those of the convolutions, by name."""
    return {step.name: step.mapping for step in found.program.steps if isinstance(step.mapping, Mapping)}


def case(graph: Graph, **pins: Any) -> Case:
    return compiled(graph, CHIP, "fp32", pinned=dict.fromkeys(["conv1", "conv2"], pins))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("tq", "tm"), [(5, 5), (4, 8), (4, 6), (3, 9), (7, 28), (16, 32)])
def test_values_are_right_whatever_the_block(batch: int, tq: int, tm: int) -> None:
    """Strips that divide the width and such that do not, tiles of whole rows and torn ones, sides, several images."""
    graph = network(batch, 7, 17, groups=2)
    blocks = case(graph, tm=tm, tq=tq, a_resident=False, y_resident=False)
    assert {(each.tm, each.tq) for each in mappings(blocks).values()} == {(tm, tq)}
    assert check_run(blocks.run("exact", keep=True), graph).holds


def loaded_B(found: Case, step: str) -> int:
    """Bytes of streamed activations of a layer."""
    return sum(
        command.work.nbytes
        for command in found.program.commands
        if command.effect.what == "load_a"
        and isinstance(command.work, Transfer)
        and found.program.steps[command.op].name == step
    )


def test_a_block_loads_what_it_reads_and_no_more() -> None:
    """3 channels of fp32; a flat tile of two rows of 32 pixels reads up to four of these, a block of 8 x 8 up to
    10 x 10 pixels: at the border of an image of 16 x 32 one row and one column fewer."""
    graph = network(1, 16, 32)
    pins = {"tm": 64, "tk": 27, "a_resident": False, "y_resident": False, "order": "mnk"}
    assert loaded_B(case(graph, **pins), "conv1") == 4 * 3 * 32 * (3 + 6 * 4 + 3)
    assert loaded_B(case(graph, **pins, tq=8), "conv1") == 4 * 3 * (9 + 9) * (9 + 10 + 10 + 9)


def test_strips_as_wide_as_the_image_are_none() -> None:
    assert mappings(case(network(1, 8, 8), tq=8, a_resident=False))["conv1"].tq == 0


def test_a_mapping_file_has_columns_where_there_are_strips(tmp_path: Path) -> None:
    graph, file = network(1, 8, 16), tmp_path / "m.yaml"
    found = case(graph, tm=16, tq=4, a_resident=False)
    file.write_text(mapping_text(found.program))
    pinned = load_mappings(file)
    assert pinned["conv1"]["tq"] == 4
    assert mappings(compiled(graph, CHIP, "fp32", pinned=pinned)) == mappings(found)
    assert "tq" not in mapping_text(case(graph, tm=16).program)


def test_a_mapping_without_columns_stays_flat() -> None:
    """One that was written before there were any, or as fields in Python."""
    graph = network(1, 16, 32)
    found = mappings(case(graph, tm=64, a_resident=False))["conv1"]
    assert found.tq == 0
    assert mappings(compiled(graph, CHIP, "fp32", pinned={"conv1": asdict(found)}))["conv1"] == found


def test_no_columns_are_whole_rows(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("conv1: {tq: 0}\n")
    assert load_mappings(file) == {"conv1": {"tq": 0}}
    file.write_text("conv1: {tq: -1}\n")
    with pytest.raises(UsageError, match="tq is '-1'") as caught:
        load_mappings(file)
    assert caught.value.problems[0].expected == "a whole number from 0 to 2,147,483,648"


def test_what_is_no_image_has_no_columns() -> None:
    with pytest.raises(Infeasible, match="y does not fit: tq 4 cuts images, and it has none"):
        compiled(load_model("gemm?M=8,N=8,K=8"), CHIP, "fp32", pinned={"y": {"tq": 4}})


def test_a_fused_pooling_needs_whole_images() -> None:
    g = RandomGraph(1)
    y = g.conv2d(g.input("x", (1, 3, 8, 8)), 4, (3, 3), (1, 1), [1] * 4, 1, 1, bias=True)
    graph = g.finish(g.pool(y, "MaxPool", 2, 2, 0))
    with pytest.raises(Infeasible, match="tq 4 cuts images, and the fused pooling needs them whole"):
        compiled(graph, CHIP, "fp32", pinned={"conv1": {"tq": 4}})


@pytest.mark.parametrize("split", ["m", "n", "k"])
def test_several_arrays_take_blocks_in_turn(split: str) -> None:
    chip = changed(changed(CHIP, "", peak={}), "matrix", count=2)
    graph = network(1, 8, 16)
    pins = {"tm": 16, "tq": 8, "a_resident": False, "split": split}
    found = compiled(graph, chip, "fp32", pinned=dict.fromkeys(["conv1", "conv2"], pins))
    assert check_run(found.run("exact", keep=True), graph).holds


def wide(height: int = 32, width: int = 256, filters: int = 8) -> Graph:
    g = RandomGraph(1)
    return g.finish(g.conv2d(g.input("x", (1, 8, height, width)), filters, (5, 5), (1, 1), [2] * 4, 1, 1, bias=True))


def searched(act_B: int, bandwidth: float, **pins: Any) -> Case:
    chip = changed(changed(CHIP, "act_sram", capacity=act_B), "memories.dram.memory", bandwidth=bandwidth)
    return compiled(wide(), chip, "int8", pinned={"conv1": pins} if pins else {})


def test_a_wide_image_through_a_small_buffer_goes_in_blocks() -> None:
    """Whole rows read 2.9 times the image, blocks 1.9 times; with a slow memory the step is done sooner too."""
    blocks, rows = searched(16 << 10, 25e6), searched(16 << 10, 25e6, tq=256)
    assert mappings(blocks)["conv1"].tq and not mappings(rows)["conv1"].tq
    image_B = 8 * 32 * 256
    assert loaded_B(blocks, "conv1") < 2 * image_B < 2.8 * image_B < loaded_B(rows, "conv1")
    assert blocks.run().time_fs < 0.8 * rows.run().time_fs
    assert check_run(blocks.run("exact", keep=True), blocks.graph).holds


def test_where_nothing_is_read_twice_whole_rows_stay() -> None:
    """The image fits, or the kernel has one row."""
    assert mappings(searched(1 << 20, 400e6))["conv1"].tq == 0
    g = RandomGraph(1)
    graph = g.finish(g.conv2d(g.input("x", (1, 8, 32, 256)), 8, (1, 5), (1, 1), [0, 2, 0, 2], 1, 1, bias=True))
    small = changed(CHIP, "act_sram", capacity=16 << 10)
    assert mappings(compiled(graph, small, "int8"))["conv1"].tq == 0


def test_blocks_fit_where_no_row_does() -> None:
    """16 sums of a row of 512 pixels take 32 KiB of 16 KiB, in tiles of 16 columns."""
    chip = changed(changed(CHIP, "", peak={}), "matrix", rows=16, cols=16)
    graph = wide(8, 512, 16)
    with pytest.raises(Infeasible, match="accumulators needs 32,768 B"):
        compiled(graph, chip, "int8", pinned={"conv1": {"a_resident": False, "tn": 16, "tq": 512}})
    found = compiled(graph, chip, "int8", pinned={"conv1": {"a_resident": False, "tn": 16}})
    assert mappings(found)["conv1"].tq and mappings(found)["conv1"].tm < 512
    assert check_run(found.run("exact", keep=True), graph).holds


def step_of(conv: Conv, rows: tuple[int, int] = (1, 1)) -> Step:
    """Return what ``strips`` reads of a step: bytes of one element and geometry."""
    chip = compiled(wide(), CHIP, "int8")
    gemm = Gemm(1, conv.batch * conv.out[0] * conv.out[1], 8, 9 * conv.channels, "", "", conv)
    assert chip.chip.matrix is not None
    shape = Shape(gemm, 2, 2, 2, 4, 1, 1, (), (), 0, True)
    return Step(chip.chip.matrix, shape, shape, Homes("m", "m", "m", True), rows, Buffers((), ()), 1, ())


def test_which_strips_are_tried() -> None:
    """Halves, in rows of 8 bytes or more; beside whole rows those that read less, the least first; none of images that
    nothing reads twice, or that a pooling needs whole."""
    step = step_of(Conv(1, 4, 32, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (32, 64)))
    assert strips(step, None, 8, None) == [32, 16, 8, 4]
    flat = Mapping("mnk", 128, 4, 4, a_resident=False)
    assert strips(step, flat, 8, None)[:2] == strips(step, flat, 8, 2) == [8, 16]
    for other in (replace(flat, tm=32 * 64), replace(flat, a_resident=True)):
        assert strips(step, other, 8, None) == []
    assert strips(replace(step, rows=(32 * 64, 32 * 64)), flat, 8, None) == []


@pytest.mark.parametrize(
    ("width", "widths"), [(1, []), (2, [1]), (3, [2, 1]), (6, [3, 2, 1]), (8, [4, 2, 1]), (9, [5, 3, 2, 1])]
)
def test_strips_go_down_to_a_column(width: int, widths: list[int]) -> None:
    step = step_of(Conv(1, 4, 8, width, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (8, width)))
    assert strips(step, None, 0, None) == widths


@pytest.mark.parametrize(("share", "batch"), [("n", 1), ("k", 1), ("g", 1), ("m", 2)])
def test_cores_share_a_layer_in_blocks(share: str, batch: int) -> None:
    graph = network(batch, 8, 16, groups=2)
    pins = {"tm": 16, "tq": 8, "a_resident": False, "share": share}
    chip = load_chip("edu-4x4", ["cores=2"])
    found = compiled(graph, chip, "fp32", pinned={"conv2": pins}, share="layer")
    assert (mappings(found)["conv2"].tq, mappings(found)["conv2"].share) == (8, share)
    assert check_run(found.run("exact", keep=True), graph).holds


def test_cores_share_no_strips_of_one_image() -> None:
    chip = load_chip("edu-4x4", ["cores=2"])
    with pytest.raises(Infeasible, match="2 cores cannot share it by 'm'"):
        compiled(network(1, 8, 16), chip, "fp32", pinned={"conv2": {"tq": 8, "share": "m"}}, share="layer")


def test_the_machine_may_decide_among_blocks(tmp_path: Path) -> None:
    """With a thorough search too, which has every width that reads less."""
    on = ["act_sram.capacity=16 KiB", "memories.dram.memory.bandwidth=25 MB/s"]
    results = [
        accelsim.run(wide(8, 128), on="edu-4x4", set=on, dtype="int8", values="off", **more)
        for more in ({}, {"tune": 4, "tune_cache": tmp_path / "tuned.json"}, {"search": "best"})
    ]
    chosen = [next(step.mapping for step in each.program.steps if step.mapping) for each in results]
    assert all(isinstance(each, Mapping) and each.tq for each in chosen)
    assert results[1].seconds <= results[0].seconds
