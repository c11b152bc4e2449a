"""Laws of arrays side by side: what they compute, what they move, and that they are no slower than one."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.machine.run import Run
from accelsim.program.actions import MAC
from accelsim.program.work import Folds
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph
from tests.helpers.law_cases import Case, changed, chips, compiled, fitted, formats, lone_products, pins, products

pytestmark = pytest.mark.shipped_search

QUICK = settings(max_examples=40)
SEVERAL = (2, 3, 4)


def on_one_array(case: Case) -> Case:
    """The same tiles, all on one array."""
    chip = changed(case.chip, "engines.matrix", count=1)
    pinned = {
        step.name: asdict(step.mapping) | {"split": "none"} for step in case.program.steps if step.mapping is not None
    }
    return compiled(case.graph, chip, case.program.dtype, pinned=pinned)


def macs(run: Run) -> int:
    return sum(row.count for row in run.ledger if row.action.kind == MAC and row.action != "mac.padding")


@QUICK
@given(chips(arrays=SEVERAL), lone_products(), st.data())
def test_arrays_compute_what_one_does(chip: Chip, graph: Graph, data: st.DataObject) -> None:
    """To the last bit where each sum stays on one array; whole numbers always. ``case.run`` asserts all other laws."""
    mapping = {name: data.draw(pins(arrays=True)) for name in products(graph)}
    case = fitted(graph, chip, data.draw(st.sampled_from(formats(chip))), mapping)
    several, one = case.run("exact", keep=True), on_one_array(case).run("exact", keep=True)
    assert macs(several) == macs(one)
    splits = {step.mapping.split for step in case.program.steps if step.mapping is not None}
    for name, values in several.tensors.items():
        if "k" not in splits or case.program.dtype == "int8":
            np.testing.assert_array_equal(values, one.tensors[name], err_msg=name)
        else:
            scale = float(np.max(np.abs(one.tensors[name]), initial=0.0)) or 1.0
            np.testing.assert_allclose(values / scale, one.tensors[name] / scale, atol=1e-5, err_msg=name)


@QUICK
@given(chips(arrays=SEVERAL), lone_products())
def test_each_array_takes_its_turn(chip: Chip, graph: Graph) -> None:
    """Tiles along the axis that is split go round: no array has more than one turn more than another."""
    case = fitted(graph, chip, "fp32", {})
    (step,) = [step for step in case.program.steps if step.mapping is not None]
    assert step.gemm is not None and step.mapping is not None
    turns = {
        axis: -(-extent // tile)
        for axis, extent, tile in (
            ("m", step.gemm.M, step.mapping.tm),
            ("n", step.gemm.N, step.mapping.tn),
            ("k", step.gemm.K, step.mapping.tk),
        )
    }
    count = sum(isinstance(command.work, Folds) for command in case.program.commands)
    unit = chip.matrix
    assert unit is not None
    tiles = turns.get(step.mapping.split, 1)
    for index, queue in enumerate(unit.queues("matrix")):
        mine = sum(command.engine == queue for command in case.program.commands if isinstance(command.work, Folds))
        share = -(-(tiles - index) // unit.count) if step.mapping.split != "none" else int(index == 0)
        assert mine == count // tiles * max(0, share)


@QUICK
@given(chips(arrays=SEVERAL), lone_products())
def test_the_search_is_no_slower_than_one_array(chip: Chip, graph: Graph) -> None:
    """By more than 1 %: the choice on several arrays against that on one."""
    several = fitted(graph, chip, "fp32", {})
    one = fitted(graph, changed(several.chip, "engines.matrix", count=1), "fp32", {})
    assume(several.chip.buffers == one.chip.buffers)
    assert several.run().time_fs <= 1.01 * one.run().time_fs
