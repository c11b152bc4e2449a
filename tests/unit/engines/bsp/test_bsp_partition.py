"""The search compares every partition that could be best, and takes the best of those that fit."""

from __future__ import annotations

from fractions import Fraction
from itertools import product as every

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelsim
from accelsim.engines.bsp.partition import Choice, TooSmall, candidates, choose, useful_parts
from accelsim.engines.bsp.plan import product_of
from accelsim.engines.bsp.supersteps import Partitions, Product, clocks, supersteps
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.bsp_cases import EDU, units

PRODUCTS = st.builds(
    Product, st.integers(1, 3), *(st.integers(1, 12) for _ in range(3)),
    *(st.integers(1, 4) for _ in range(4)), stays=st.booleans(),
)  # fmt: skip


def all_partitions(unit, product):
    row = unit.formats["fp32"]
    extents = (product.groups, product.M, -(-product.N // row.n), -(-product.K // row.k))
    found = [p for p in every(*(range(1, extent + 1) for extent in extents)) if np.prod(p) <= unit.tiles]
    return Partitions(*np.array(found, np.int64).T)


@given(units(), PRODUCTS)
def test_no_other_partition_is_faster(unit, product):
    """Of the candidates none; of all partitions only some with more parts of an equal largest size, whose exchange may
    take a clock less (in 12 of 2,500 draws), or up to four of a few dozen."""
    found = choose(unit, "fp32", product, 2**40)
    assert isinstance(found, Choice)
    took = clocks(unit, "fp32", product, found.partition.many())[0]
    assert took == clocks(unit, "fp32", product, candidates(unit, "fp32", product)).min()
    best = clocks(unit, "fp32", product, all_partitions(unit, product)).min()
    assert took - best <= max(4, best // 50)


@given(units(), PRODUCTS, st.integers(4, 2000))
def test_the_fullest_tile_has_room(unit, product, room_B):
    found = choose(unit, "fp32", product, room_B)
    multiply, reduce = supersteps(unit, "fp32", product, candidates(unit, "fp32", product))
    least = np.maximum(multiply.held, reduce.held).min()
    if isinstance(found, TooSmall):
        assert found.needed_B == least > room_B
    else:
        assert max(found.multiply.held, found.reduce.held) <= room_B and least <= room_B


@given(st.integers(1, 5000), st.integers(1, 300))
def test_useful_parts_give_each_size_of_the_largest_part_once(extent, most):
    counts = useful_parts(extent, most)
    sizes = [-(-extent // count) for count in counts.tolist()]
    assert counts[0] == 1 and counts[-1] <= most and sizes == sorted(set(sizes), reverse=True)
    assert set(sizes) == {-(-extent // count) for count in range(1, min(extent, most) + 1)}


@given(units(), PRODUCTS, st.integers(4, 500), st.integers(1, 500))
def test_more_room_is_never_slower(unit, product, room_B, more_B):
    tight, roomy = (choose(unit, "fp32", product, room) for room in (room_B, room_B + more_B))
    if isinstance(tight, Choice):
        assert isinstance(roomy, Choice)
        taken = [clocks(unit, "fp32", product, each.partition.many())[0] for each in (tight, roomy)]
        assert taken[1] <= taken[0]


@pytest.mark.parametrize(
    ("product", "axis"),
    [
        (Product(1, 64, 2, 2, 4, 4, 4, 4), "m"),  # one block of weights, many rows
        (Product(1, 1, 64, 2, 4, 4, 4, 4), "n"),
        (Product(1, 1, 2, 64, 4, 4, 4, 4), "k"),  # one row and one block of outputs: only the reduction is there to cut
        (Product(16, 1, 2, 2, 4, 4, 4, 4), "g"),
    ],
)
def test_the_axis_that_there_is_to_cut(product, axis):
    found = choose(EDU, "fp32", product, 4096)
    assert isinstance(found, Choice)
    parts = vars(found.partition)
    assert parts.pop(axis) > 1 and set(parts.values()) == {1}


def test_the_closed_form_of_a_partition_is_what_the_machine_takes():
    """So nothing is left to try on the machine: runs with other partitions differ by their supersteps alone."""
    graph, chip = load_model("gemm?M=48,N=40,K=96"), load_chip("ipu-gc200")
    unit = chip.engines["tiles"]
    around = set()
    for pinned in ({}, {"k": 1, "m": 48}, {"k": 3, "n": 2}, {"m": 5, "n": 2, "k": 5}):
        run = accelsim.run(graph, on=chip, values="off", mapping={"y": pinned})
        (step,) = (step for step in run.program.steps if step.mapping is not None)
        whole = product_of(run.program.graph, unit, step.node, step.gemm, "fp16")
        parts = step.mapping.many()
        own = int(clocks(unit, "fp16", whole, parts)[0])
        around.add(run.time_fs - Fraction(own * 10**15) / Fraction(chip.clock))
    assert max(around) - min(around) < 2 * 10**15 / Fraction(chip.clock)  # edges of the clock around them
