"""Tiles of a convolution that are blocks of the image: rows x columns of the output."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import Infeasible, UsageError
from accelsim.program.commands import Transfer
from accelsim.program.mapping_file import load_mappings, mapping_text
from accelsim.spec.yaml.load import load_chip
from accelsim.validate.against_reference import check_run
from accelsim.workload.graph import Graph
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


def case(graph: Graph, **pins: Any) -> Case:
    return compiled(graph, CHIP, "fp32", pinned=dict.fromkeys(["conv1", "conv2"], pins))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("tq", "tm"), [(5, 5), (4, 8), (4, 6), (3, 9), (7, 28), (16, 32)])
def test_values_are_right_whatever_the_block(batch: int, tq: int, tm: int) -> None:
    """Strips that divide the width and such that do not, tiles of whole rows and torn ones, sides, several images."""
    graph = network(batch, 7, 17, groups=2)
    blocks = case(graph, tm=tm, tq=tq, a_resident=False, y_resident=False)
    mappings = [step.mapping for step in blocks.program.steps if step.mapping is not None]
    assert {(each.tm, each.tq) for each in mappings} == {(tm, tq)}
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
    found = case(network(1, 8, 8), tq=8, a_resident=False).program.steps[0].mapping
    assert found is not None and found.tq == 0


def test_a_mapping_file_has_columns_where_there_are_strips(tmp_path: Path) -> None:
    graph, file = network(1, 8, 16), tmp_path / "m.yaml"
    program = case(graph, tm=16, tq=4, a_resident=False).program
    file.write_text(mapping_text(program))
    pinned = load_mappings(file)
    assert pinned["conv1"]["tq"] == 4
    again = compiled(graph, CHIP, "fp32", pinned=pinned).program
    assert [step.mapping for step in again.steps] == [step.mapping for step in program.steps]
    assert "tq" not in mapping_text(case(graph, tm=16).program)


def test_a_mapping_without_columns_stays_flat() -> None:
    """One that was written before there were any, or as fields in Python."""
    graph = network(1, 16, 32)
    found = case(graph, tm=64, a_resident=False).program.steps[0].mapping
    assert found is not None and found.tq == 0
    again = compiled(graph, CHIP, "fp32", pinned={"conv1": asdict(found)}).program.steps[0].mapping
    assert again == found


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
    chip = changed(changed(CHIP, "", peak={}), "engines.matrix", count=2)
    graph = network(1, 8, 16)
    pins = {"tm": 16, "tq": 8, "a_resident": False, "split": split}
    found = compiled(graph, chip, "fp32", pinned=dict.fromkeys(["conv1", "conv2"], pins))
    assert check_run(found.run("exact", keep=True), graph).holds
